//! Texts of statements: one for all databases, which differ little in what programs say.
//!
//! A text has parameters `$1`, `$2`, …, which may come in any order and more than once. PostgreSQL
//! takes it as it is.

use crate::{Cell, Schema, TableDef};

/// A text as a database understands it, and the numbers of the parameters that it wants, from 0 on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translated {
    /// The text.
    pub text: String,
    /// The numbers of the parameters, in the order of their places.
    pub params: Vec<usize>,
}

/// The text with each parameter as `place` writes it, given its number from 1 on.
#[must_use]
pub fn translate(text: &str, place: impl Fn(usize) -> String) -> Translated {
    let (mut out, mut params) = (String::with_capacity(text.len()), Vec::new());
    let mut parts = text.split('$');
    out += parts.next().unwrap_or_default();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        match part[..digits].parse::<usize>() {
            Ok(number) if number > 0 => {
                params.push(number - 1);
                out += &place(number);
                out += &part[digits..];
            }
            _ => {
                out.push('$');
                out += part;
            }
        }
    }
    Translated { text: out, params }
}

/// Statements that make the tables of a program, with their rows.
#[must_use]
pub fn creation(schema: &Schema) -> Vec<String> {
    let mut all = removal(schema);
    all.extend(schema.tables.iter().flat_map(create));
    for (at, def) in schema.tables.iter().enumerate() {
        let rows = schema.rows.iter().filter(|(table, _)| *table == at).map(|(_, row)| tuple(row));
        let rows: Vec<String> = rows.collect();
        all.extend(
            rows.chunks(200).map(|rows| format!("INSERT INTO {} VALUES {}", def.name, rows.join(", "))),
        );
    }
    all
}

fn create(def: &TableDef) -> Vec<String> {
    let mut parts: Vec<String> = def.columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    let key: Vec<&str> = def.columns.iter().take(def.key).map(|(name, _)| *name).collect();
    parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
    let table = format!("CREATE TABLE {} ({})", def.name, parts.join(", "));
    let index = |column: &&str| format!("CREATE INDEX {0}_{column} ON {0} ({column})", def.name);
    [table].into_iter().chain(def.indexes.iter().map(index)).collect()
}

fn tuple(row: &[Cell]) -> String {
    format!("({})", row.iter().map(literal).collect::<Vec<_>>().join(", "))
}

/// A cell as a statement writes it.
#[must_use]
pub fn literal(cell: &Cell) -> String {
    match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Int(int) => int.to_string(),
        Cell::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

/// Statements that remove the tables of a program.
#[must_use]
pub fn removal(schema: &Schema) -> Vec<String> {
    schema.tables.iter().map(|def| format!("DROP TABLE IF EXISTS {}", def.name)).collect()
}

/// A number that a database wrote as text, if it is whole: sums are decimals in some databases.
#[must_use]
pub fn number(text: &str) -> Cell {
    let whole = text
        .split_once('.')
        .map_or(text, |(whole, rest)| if rest.bytes().all(|digit| digit == b'0') { whole } else { text });
    whole.parse().map_or_else(|_| Cell::Text(text.to_owned()), Cell::Int)
}

#[cfg(test)]
mod tests {
    use crate::ColumnType;

    use super::*;

    #[test]
    fn parameters_are_translated() {
        let text = "UPDATE t SET a = $2, b = $1 WHERE k = $2 AND c = '$'";
        let questions = translate(text, |_| "?".to_owned());
        assert_eq!(questions.text, "UPDATE t SET a = ?, b = ? WHERE k = ? AND c = '$'");
        assert_eq!(questions.params, [1, 0, 1]);
        assert_eq!(translate(text, |n| format!("${n}")).text, text);
        assert_eq!(translate("SELECT 1", |_| String::new()).text, "SELECT 1");
    }

    #[test]
    fn numbers_are_whole_or_texts() {
        assert_eq!([number("12"), number("-3.00")], [Cell::Int(12), Cell::Int(-3)]);
        assert_eq!([number("1.50"), number("x")], [Cell::from("1.50"), Cell::from("x")]);
    }

    #[test]
    fn tables_are_created_with_their_rows() {
        let columns = &[("a", ColumnType::Int), ("b", ColumnType::Text(9))];
        let def = TableDef { name: "t", key: 1, columns, indexes: &["b"] };
        let schema = Schema { tables: vec![def], rows: vec![(0, vec![1.into(), "x'y".into()])] };
        let texts = creation(&schema);
        assert_eq!(texts[1], "CREATE TABLE t (a bigint, b varchar(9), PRIMARY KEY (a))");
        assert_eq!(texts[2..], ["CREATE INDEX t_b ON t (b)", "INSERT INTO t VALUES (1, 'x''y')"]);
    }
}
