//! The numbers that the server chooses for `AUTO_INCREMENT` columns, written into the statements
//! that were answered with them.

use crate::pieces::{Kind, Piece};

use super::text::{content_of, pieces};

/// The table of an INSERT of one row that names its columns, in lower case, and where its two lists
/// end.
fn one_row(text: &str) -> Option<(String, Vec<String>, [usize; 2])> {
    let mut at = 0;
    let mut all = Vec::new();
    for piece in pieces(text) {
        if piece.kind != Kind::Blank {
            all.push((piece, at));
        }
        at += piece.text.len();
    }
    let shown = |piece: &Piece<'_>| content_of(*piece).to_lowercase();
    let opens = all.iter().position(|(piece, _)| piece.text == "(")?;
    let head: Vec<String> = all[..opens].iter().map(|(piece, _)| shown(piece)).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let (["insert", "into", table] | ["insert", "into", _, ".", table]) = head.as_slice() else {
        return None;
    };
    let closes = opens + all[opens..].iter().position(|(piece, _)| piece.text == ")")?;
    let columns = all[opens + 1..closes].iter().map(|(piece, _)| shown(piece)).filter(|name| name != ",");
    let columns = columns.collect();
    let [values, rest @ ..] = &all[closes + 1..] else { return None };
    if !matches!(shown(&values.0).as_str(), "values" | "value") || rest.first()?.0.text != "(" {
        return None;
    }
    let mut depth = 0;
    for (place, (piece, _)) in rest.iter().enumerate() {
        depth += i32::from(piece.text == "(") - i32::from(piece.text == ")");
        if depth == 0 {
            let ends = [all[closes].1, rest[place].1];
            return (place + 1 == rest.len()).then_some(((*table).to_owned(), columns, ends));
        }
    }
    None
}

/// An INSERT of one row with the number that the server chose for a column, if it left that column
/// out. `column` is the one of a table, in lower case.
pub(crate) fn with_number<'c>(
    text: &str,
    number: u64,
    column: impl Fn(&str) -> Option<&'c str>,
) -> Option<String> {
    let (table, columns, [names, values]) = one_row(text)?;
    let column = column(&table)?;
    if columns.iter().any(|name| name.eq_ignore_ascii_case(column)) {
        return None;
    }
    let comma = if columns.is_empty() { "" } else { ", " };
    let (front, middle, rest) = (&text[..names], &text[names..values], &text[values..]);
    Some(format!("{front}{comma}`{column}`{middle}{comma}{number}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_the_server_chose_are_written_down() {
        let column = |table: &str| (table == "t").then_some("id");
        for (text, expected) in [
            (
                "INSERT INTO `T` (`a`, b) VALUES (f(1), ')')",
                Some("INSERT INTO `T` (`a`, b, `id`) VALUES (f(1), ')', 7)"),
            ),
            ("insert into shop.t (a) value (?)", Some("insert into shop.t (a, `id`) value (?, 7)")),
            ("INSERT INTO t () VALUES ()", Some("INSERT INTO t (`id`) VALUES (7)")),
            ("INSERT INTO t (ID, a) VALUES (NULL, 1)", None),
            ("INSERT INTO t (a) VALUES (1), (2)", None),
            ("INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2", None),
            ("INSERT INTO t VALUES (1)", None),
            ("INSERT IGNORE INTO t (a) VALUES (1)", None),
            ("INSERT INTO u (a) VALUES (1)", None),
            ("INSERT INTO t (a", None),
        ] {
            assert_eq!(with_number(text, 7, column).as_deref(), expected, "{text}");
        }
    }
}
