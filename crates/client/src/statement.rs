//! What SQL programs say and hear: tables, parameters, answers.
//!
//! Simulated databases do not understand SQL; these are the words in which a client's statements
//! are recorded ([`crate::Action::Sql`]).

/// A parameter of a statement, or a cell of its answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Cell {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A text; also what is neither whole number nor NULL, as the database writes it.
    Text(String),
}

impl From<i64> for Cell {
    fn from(int: i64) -> Self {
        Cell::Int(int)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl Cell {
    /// The whole number, if it is one.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Cell::Int(int) => Some(*int),
            _ => None,
        }
    }
}

/// What a database answers to a statement.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Answer {
    /// How many columns the result has; 0 for a statement without result.
    pub columns: usize,
    /// The result's cells, row by row.
    pub cells: Vec<Cell>,
    /// How many rows were affected, by a statement without result.
    pub count: u64,
}

impl Answer {
    /// The rows of the result.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[Cell]> {
        self.cells.chunks(self.columns.max(1))
    }

    /// Whether it is a result without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The whole number at this place of the first row, if there is one.
    #[must_use]
    pub fn int(&self, column: usize) -> Option<i64> {
        self.cells.get(column)?.int()
    }
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// Whole numbers.
    Int,
    /// Texts of up to so many characters.
    Text(u16),
    /// Decimals of so many digits, so many of them behind the point.
    Decimal(u8, u8),
}

impl std::fmt::Display for ColumnType {
    /// As all databases of the drivers write it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ColumnType::Int => f.write_str("bigint"),
            ColumnType::Text(most) => write!(f, "varchar({most})"),
            ColumnType::Decimal(digits, scale) => write!(f, "decimal({digits},{scale})"),
        }
    }
}

/// A table of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDef {
    /// Its name.
    pub name: &'static str,
    /// How many of its columns, from the first on, are its key.
    pub key: usize,
    /// Its columns.
    pub columns: &'static [(&'static str, ColumnType)],
    /// Columns that have an index each, besides the key.
    pub indexes: &'static [&'static str],
}

/// The tables of a program and the rows they begin with.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Schema {
    /// The tables.
    pub tables: Vec<TableDef>,
    /// The rows: the number of the table, and a cell for each of its columns.
    pub rows: Vec<(usize, Vec<Cell>)>,
}

/// A statement and its answer, as recorded.
#[derive(Clone, Copy, Debug)]
pub struct Executed<'a> {
    /// The text, with `$1`, `$2`, … for parameters.
    pub text: &'a str,
    /// The parameters.
    pub params: &'a [Cell],
    /// How many columns the result has; 0 for a statement without result.
    pub columns: usize,
    /// The result's cells, row by row.
    pub cells: &'a [Cell],
    /// How many rows were affected, by a statement without result.
    pub count: u64,
}

impl<'a> Executed<'a> {
    /// The rows of the result, if the statement has one.
    pub fn rows(&self) -> Option<impl ExactSizeIterator<Item = &'a [Cell]> + use<'a>> {
        (self.columns > 0).then(|| self.cells.chunks(self.columns))
    }

    /// How many rows it affected, if that is what it answers.
    #[must_use]
    pub fn affected(&self) -> Option<u64> {
        (self.columns == 0).then_some(self.count)
    }
}
