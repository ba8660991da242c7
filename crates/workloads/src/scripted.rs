//! Interleavings that are written down: who says what, in which order.

use margay_client::{Answer, Cell, ColumnType, Schema, TableDef};

/// An interleaving, and the tables that it begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// The tables with their rows.
    pub schema: Schema,
    /// Who says what, in this order.
    pub lines: Vec<Line>,
}

impl From<Vec<Line>> for Script {
    /// On the table of all interleavings that are written down here.
    fn from(lines: Vec<Line>) -> Self {
        Self { schema: schema(), lines }
    }
}

/// A line of an interleaving.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Whose it is: 1 for the first transaction.
    pub session: u32,
    /// What it does.
    pub act: Act,
}

/// What a line does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Executes a statement.
    Sql(String, Vec<Cell>),
    /// Commits.
    Commit,
    /// Rolls back.
    Rollback,
}

/// What came of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// A statement was answered.
    Answer(Answer),
    /// The transaction ended as it wanted to.
    Ended,
    /// The database refused it, and the transaction is gone.
    Refused(String),
    /// Its transaction was gone before.
    Skipped,
}

/// What came of the lines of an interleaving, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Played {
    /// The lines.
    pub lines: Vec<Line>,
    /// What came of each.
    pub said: Vec<Said>,
}

impl Played {
    /// Whether a transaction committed.
    #[must_use]
    pub fn committed(&self, session: u32) -> bool {
        let commit = self.lines.iter().position(|line| line.session == session && line.act == Act::Commit);
        commit.is_some_and(|at| self.said[at] == Said::Ended)
    }

    /// Whether all of these committed.
    #[must_use]
    pub fn all_committed(&self, sessions: &[u32]) -> bool {
        sessions.iter().all(|&session| self.committed(session))
    }

    /// The rows of `(id, value)` that a line showed; none if it was not answered.
    #[must_use]
    pub fn rows(&self, line: usize) -> Vec<(i64, i64)> {
        let Said::Answer(answer) = &self.said[line] else { return Vec::new() };
        answer.rows().filter_map(|row| Some((row.first()?.int()?, row.get(1)?.int()?))).collect()
    }

    /// Whether a line showed this row.
    #[must_use]
    pub fn shows(&self, line: usize, id: i64, value: i64) -> bool {
        self.rows(line).contains(&(id, value))
    }

    /// How many rows a line says it changed.
    #[must_use]
    pub fn changed(&self, line: usize) -> Option<u64> {
        match &self.said[line] {
            Said::Answer(answer) => Some(answer.count),
            _ => None,
        }
    }
}

/// The table of all interleavings: two rows, (1, 10) and (2, 20).
#[must_use]
pub fn schema() -> Schema {
    let columns = &[("id", ColumnType::Int), ("value", ColumnType::Int)];
    let table = TableDef { name: "margay_test", key: 1, columns, indexes: &[] };
    let row = |id: i64| (0, vec![Cell::Int(id), Cell::Int(10 * id)]);
    Schema { tables: vec![table], rows: vec![row(1), row(2)] }
}

/// Lines out of pairs of a session and a text; `commit` and `rollback` end.
pub(crate) fn lines(texts: &[(u32, &str)]) -> Vec<Line> {
    let act = |text: &str| match text {
        "commit" => Act::Commit,
        "rollback" => Act::Rollback,
        sql => Act::Sql(sql.to_owned(), Vec::new()),
    };
    texts.iter().map(|&(session, text)| Line { session, act: act(text) }).collect()
}

/// Lines out of the short notation: `W1x=11` writes 11 to x, `R1x` reads x, `P1=20` reads the rows
/// whose value is 20, `C1` commits, `A1` rolls back; the digit is the transaction, and x and y are
/// the rows 1 and 2.
///
/// # Panics
/// When the notation is not what it says; the notations are constants.
pub(crate) fn notation(text: &str) -> Vec<Line> {
    text.split_whitespace().map(|word| token(word).expect("a word of the notation")).collect()
}

fn token(word: &str) -> Option<Line> {
    let session = word.get(1..2)?.parse().ok()?;
    let id = || {
        Some(Cell::Int(match word.get(2..3)? {
            "x" => 1,
            "y" => 2,
            _ => return None,
        }))
    };
    let value = || word.split_once('=')?.1.parse().ok().map(Cell::Int);
    let sql = |text: &str, params| Act::Sql(text.to_owned(), params);
    let act = match word.get(..1)? {
        "W" => sql("UPDATE margay_test SET value = $1 WHERE id = $2", vec![value()?, id()?]),
        "R" => sql("SELECT id, value FROM margay_test WHERE id = $1", vec![id()?]),
        "P" => sql("SELECT id, value FROM margay_test WHERE value = $1", vec![value()?]),
        "C" => Act::Commit,
        "A" => Act::Rollback,
        _ => return None,
    };
    Some(Line { session, act })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_is_read() {
        let lines = notation("W1x=11 P2=20 C1 A2");
        assert_eq!(lines.iter().map(|line| line.session).collect::<Vec<_>>(), [1, 2, 1, 2]);
        let Act::Sql(text, params) = &lines[0].act else { panic!("a statement") };
        assert!(text.starts_with("UPDATE") && *params == [Cell::Int(11), Cell::Int(1)]);
        assert_eq!(
            lines[2..].iter().map(|line| &line.act).collect::<Vec<_>>(),
            [&Act::Commit, &Act::Rollback]
        );
        assert_eq!([token("X1"), token("W1z=1"), token("R"), token("W1x")], [None, None, None, None]);
    }
}
