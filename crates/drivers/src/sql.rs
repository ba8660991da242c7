//! What SQL databases have in common: three tables, eight statements, and what their results mean.
//!
//! Registers and rows are rows of two tables. A list is one row with a text, `,1,2,3`, so that an append is one statement on one row.

use margay_simdb::{Ask, Change, Cond, Obj, Row, Space, Start, Value};

use crate::{Answer, Cell, Connection, Trouble};

/// The tables. Their names are such that nobody else's are touched.
pub(crate) const TABLES: [&str; 3] = ["margay_registers", "margay_lists", "margay_rows"];

/// How a database writes an upsert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Upsert {
    /// `ON CONFLICT (k) DO UPDATE`.
    OnConflict,
    /// `ON DUPLICATE KEY UPDATE`.
    OnDuplicateKey,
}

/// The statements, by their place in [`texts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Statement {
    ReadRegister,
    WriteRegister,
    ReadList,
    Append,
    ReadRow,
    WriteRow,
    DeleteRow,
    Scan,
}

/// The texts of all statements, with `?` for each parameter.
pub(crate) fn texts(upsert: Upsert) -> [String; 8] {
    let (append, write_row) = match upsert {
        Upsert::OnConflict => (
            "ON CONFLICT (k) DO UPDATE SET v = margay_lists.v || excluded.v",
            "ON CONFLICT (k) DO UPDATE SET v = excluded.v, w = excluded.w",
        ),
        Upsert::OnDuplicateKey => (
            "ON DUPLICATE KEY UPDATE v = CONCAT(v, VALUES(v))",
            "ON DUPLICATE KEY UPDATE v = VALUES(v), w = VALUES(w)",
        ),
    };
    [
        "SELECT v FROM margay_registers WHERE k = ?".to_owned(),
        "UPDATE margay_registers SET v = ? WHERE k = ?".to_owned(),
        "SELECT v FROM margay_lists WHERE k = ?".to_owned(),
        format!("INSERT INTO margay_lists (k, v) VALUES (?, ?) {append}"),
        "SELECT v, w FROM margay_rows WHERE k = ?".to_owned(),
        format!("INSERT INTO margay_rows (k, v, w) VALUES (?, ?, ?) {write_row}"),
        "DELETE FROM margay_rows WHERE k = ?".to_owned(),
        "SELECT k, v, w FROM margay_rows WHERE v >= ? AND v <= ? ORDER BY k".to_owned(),
    ]
}

/// Statements that make the tables and their initial values.
pub(crate) fn preparation(start: &Start) -> Vec<String> {
    let [registers, lists, rows] = TABLES;
    let mut all = removal();
    all.extend([
        format!("CREATE TABLE {registers} (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)"),
        format!("CREATE TABLE {lists} (k BIGINT PRIMARY KEY, v TEXT NOT NULL)"),
        format!("CREATE TABLE {rows} (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, w BIGINT NOT NULL)"),
        format!("CREATE INDEX {rows}_v ON {rows} (v)"),
    ]);
    let (mut ints, mut tuples) = (Vec::new(), Vec::new());
    for (obj, value) in &start.initial {
        match value {
            Value::Int(int) => ints.push(format!("({}, {int})", obj.key)),
            Value::Row(Row { v: Some(v), w: Some(w) }) => tuples.push(format!("({}, {v}, {w})", obj.key)),
            _ => {}
        }
    }
    all.extend(inserts(registers, &ints));
    all.extend(inserts(rows, &tuples));
    all
}

/// Many rows in few statements.
pub(crate) fn inserts(table: &str, tuples: &[String]) -> impl Iterator<Item = String> {
    tuples.chunks(200).map(move |some| format!("INSERT INTO {table} VALUES {}", some.join(", ")))
}

/// Statements that remove the tables.
pub(crate) fn removal() -> Vec<String> {
    TABLES.map(|table| format!("DROP TABLE IF EXISTS {table}")).to_vec()
}

/// A connection that understands SQL: what is left for a driver to do.
pub(crate) trait Session {
    /// What follows belongs to the transaction that the recording calls so.
    fn enter(&mut self, _label: u64) {}
    /// What follows belongs to the transaction's next operation.
    fn step(&mut self) {}
    fn begin(&mut self) -> Result<(), Trouble>;
    /// Runs a statement with results; each of them is pushed as a row of cells.
    fn query(&mut self, which: Statement, parameters: &[Cell]) -> Result<Vec<Vec<Cell>>, Trouble>;
    /// Runs a statement without results; answers how many rows it touched.
    fn change(&mut self, which: Statement, parameters: &[Cell]) -> Result<u64, Trouble>;
    /// Runs any statement.
    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble>;
    /// Whether an UPDATE can tell the rows it found.
    fn has_returning(&self) -> bool {
        true
    }
    /// As [`Connection::deletes_read`].
    fn deletes_read(&self) -> bool {
        true
    }
    fn commit(&mut self) -> Result<(), Trouble>;
    fn rollback(&mut self) -> Result<(), Trouble>;
}

/// A connection over a session.
pub(crate) struct Sql<S>(pub S);

impl<S: Session> Sql<S> {
    /// Whatever a statement's error leaves of its transaction, nothing shall come of it.
    fn gone<T>(&mut self, executed: Result<T, Trouble>) -> Result<T, Trouble> {
        match executed {
            Err(Trouble::Refused(why)) => self.0.rollback().and(Err(Trouble::Refused(why))),
            other => other,
        }
    }
}

impl<S: Session> Connection for Sql<S> {
    fn enter(&mut self, label: u64) {
        self.0.enter(label);
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        self.0.begin()
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        self.0.step();
        let executed = execute(&mut self.0, ask, rows);
        self.gone(executed)
    }

    fn deletes_read(&self) -> bool {
        self.0.deletes_read()
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        let executed = self.0.sql(text, params);
        self.gone(executed)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.0.commit()
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.0.rollback()
    }
}

fn execute(session: &mut impl Session, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
    match ask {
        Ask::Read(obj) => rows.push((obj, read(session, obj)?)),
        Ask::Write(obj, change) => {
            let touched = write(session, obj, change)?;
            match change {
                Change::Delete if touched == 0 => rows.push((obj, Value::Absent)),
                _ if touched == 0 => return Err(Trouble::Failed(format!("no row for {obj:?}"))),
                _ => {}
            }
        }
        Ask::Scan(cond) => {
            for cells in session.query(Statement::Scan, &[Cell::Int(cond.low), Cell::Int(cond.high)])? {
                let [Cell::Int(k), Cell::Int(v), Cell::Int(w)] = cells[..] else { return unexpected(&cells) };
                rows.push((Obj::new(Space::Row, k as u32), row(v, w)));
            }
        }
        Ask::Update(cond, set) => update(session, cond, set, rows)?,
        Ask::Aggregate(_) => {
            return Err(Trouble::Failed("aggregates have no statement yet".to_owned()));
        }
    }
    Ok(())
}

/// Changes the rows that match, and says what became of each.
fn update(
    session: &mut impl Session,
    cond: Cond,
    set: Option<i64>,
    rows: &mut Vec<(Obj, Value)>,
) -> Result<(), Trouble> {
    let range = [Cell::Int(cond.low), Cell::Int(cond.high)];
    let found = match (session.has_returning(), set) {
        (false, _) => return update_one_by_one(session, &range, set, rows),
        (true, Some(v)) => {
            let [low, high] = range;
            session.sql(
                "UPDATE margay_rows SET v = $1 WHERE v >= $2 AND v <= $3 RETURNING k, v, w",
                &[Cell::Int(v), low, high],
            )?
        }
        (true, None) => {
            session.sql("DELETE FROM margay_rows WHERE v >= $1 AND v <= $2 RETURNING k, v, w", &range)?
        }
    };
    for cells in found.rows() {
        rows.push(changed(cells, set)?);
    }
    Ok(())
}

/// Locks the rows that match, then changes each: what matches later was not there when the update found its rows.
fn update_one_by_one(
    session: &mut impl Session,
    range: &[Cell],
    set: Option<i64>,
    rows: &mut Vec<(Obj, Value)>,
) -> Result<(), Trouble> {
    let found = session.sql("SELECT k, v, w FROM margay_rows WHERE v >= $1 AND v <= $2 FOR UPDATE", range)?;
    for cells in found.rows() {
        match set {
            Some(v) => session
                .sql("UPDATE margay_rows SET v = $1 WHERE k = $2", &[Cell::Int(v), cells[0].clone()])?,
            None => session.sql("DELETE FROM margay_rows WHERE k = $1", &cells[..1])?,
        };
        rows.push(changed(cells, set)?);
    }
    Ok(())
}

/// What an update made of a row that it found.
fn changed(cells: &[Cell], set: Option<i64>) -> Result<(Obj, Value), Trouble> {
    let &[Cell::Int(k), Cell::Int(_), Cell::Int(w)] = cells else { return unexpected(cells) };
    Ok((Obj::new(Space::Row, k as u32), set.map_or(Value::Absent, |v| row(v, w))))
}

fn read(session: &mut impl Session, obj: Obj) -> Result<Value, Trouble> {
    let statement = match obj.space {
        Space::Register => Statement::ReadRegister,
        Space::List => Statement::ReadList,
        Space::Row => Statement::ReadRow,
    };
    let found = session.query(statement, &[key(obj)])?;
    let Some(cells) = found.first() else { return Ok(Value::Absent) };
    match cells.as_slice() {
        [Cell::Int(v), Cell::Int(w)] => Ok(row(*v, *w)),
        [Cell::Int(v)] => Ok(Value::Int(*v)),
        [Cell::Text(text)] => list(text).map(Value::List).map_or_else(|| unexpected(cells), Ok),
        _ => unexpected(cells),
    }
}

fn write(session: &mut impl Session, obj: Obj, change: Change) -> Result<u64, Trouble> {
    match change {
        Change::Put(value) => session.change(Statement::WriteRegister, &[Cell::Int(value), key(obj)]),
        Change::Append(item) => {
            session.change(Statement::Append, &[key(obj), Cell::Text(format!(",{item}"))])
        }
        Change::Merge(Row { v: Some(v), w: Some(w) }) => {
            session.change(Statement::WriteRow, &[key(obj), Cell::Int(v), Cell::Int(w)])
        }
        Change::Merge(_) => Err(Trouble::Failed("writes of single columns have no statement yet".to_owned())),
        Change::Delete => session.change(Statement::DeleteRow, &[key(obj)]),
    }
}

fn key(obj: Obj) -> Cell {
    Cell::Int(i64::from(obj.key))
}

fn row(v: i64, w: i64) -> Value {
    Value::Row(Row { v: Some(v), w: Some(w) })
}

fn list(text: &str) -> Option<std::sync::Arc<[i64]>> {
    text.split(',').skip(1).map(|item| item.parse().ok()).collect()
}

fn unexpected<T>(cells: &[Cell]) -> Result<T, Trouble> {
    Err(Trouble::Failed(format!("the database answered with {cells:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_texts() {
        assert_eq!(list(",1,22").as_deref(), Some(&[1, 22][..]));
        assert_eq!(list("").as_deref(), Some(&[][..]));
        assert_eq!(list(",1,x"), None);
    }

    #[test]
    fn every_statement_has_its_text() {
        for upsert in [Upsert::OnConflict, Upsert::OnDuplicateKey] {
            let texts = texts(upsert);
            assert!(texts[Statement::Append as usize].contains("margay_lists"));
            assert!(texts[Statement::DeleteRow as usize].starts_with("DELETE"));
            assert!(texts[Statement::Scan as usize].contains("ORDER BY"));
        }
    }
}
