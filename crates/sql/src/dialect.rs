//! The one switch for everything in which the databases differ.

use sqlparser::dialect as parser;

/// Whose rules decide what a statement means.
///
/// `Generic` follows PostgreSQL's rules with text compared by code point; it is what the native format's
/// predicates are written in. `Postgres` orders only texts that its usual collations order alike, `MySql` has the
/// collation `utf8mb4_general_ci` and strict mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// No particular database.
    #[default]
    Generic,
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

impl Dialect {
    /// The grammar that belongs to the dialect.
    pub(crate) fn grammar(self) -> &'static dyn parser::Dialect {
        match self {
            Dialect::Generic => &parser::GenericDialect {},
            Dialect::Postgres => &parser::PostgreSqlDialect {},
            Dialect::MySql => &parser::MySqlDialect {},
            Dialect::Sqlite => &parser::SQLiteDialect {},
        }
    }

    /// True where types are static and a boolean is no number: PostgreSQL and the generic dialect.
    pub(crate) fn is_strict(self) -> bool {
        matches!(self, Dialect::Generic | Dialect::Postgres)
    }

    /// True where NULL sorts before everything else in ascending order.
    pub(crate) fn nulls_first(self) -> bool {
        !self.is_strict()
    }
}
