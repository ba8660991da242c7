//! The one switch for everything in which the databases differ.

/// Whose rules decide what a statement means: grammar, comparison of texts, arithmetic, types.
///
/// [`Dialect::of_dbms`] is the only place that decides which one a database has. `Generic` follows
/// PostgreSQL's rules with text compared by code point; it is what the native format's predicates
/// are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// No particular database.
    #[default]
    Generic,
    /// PostgreSQL. It orders only texts that the usual collations order alike.
    Postgres,
    /// CockroachDB: PostgreSQL's grammar and types. Text is compared by code point, NULL sorts
    /// first, and the quotient of two integers is a decimal, which has no value here.
    Cockroach,
    /// MySQL, MariaDB and OceanBase in strict mode, with collations that ignore case.
    MySql,
    /// TiDB: MySQL's grammar and arithmetic, with the collation `utf8mb4_bin`, which keeps case.
    TiDb,
    /// SQLite.
    Sqlite,
}

/// How the names of databases begin, with the dialect of each. An earlier row wins.
const NAMES: &[(&str, Dialect)] = &[
    ("aurora-pg", Dialect::Postgres),
    ("aurora-postgres", Dialect::Postgres),
    ("polardb-pg", Dialect::Postgres),
    ("polardb-postgres", Dialect::Postgres),
    ("postgres", Dialect::Postgres),
    ("pg-", Dialect::Postgres),
    ("alloydb", Dialect::Postgres),
    ("enterprisedb", Dialect::Postgres),
    ("yugabyte", Dialect::Postgres),
    ("cockroach", Dialect::Cockroach),
    ("crdb", Dialect::Cockroach),
    ("mysql", Dialect::MySql),
    ("mariadb", Dialect::MySql),
    ("innodb", Dialect::MySql),
    ("percona", Dialect::MySql),
    ("aurora", Dialect::MySql),
    ("polardb", Dialect::MySql),
    ("vitess", Dialect::MySql),
    // In MySQL's mode, which is what seekdb and clients of MySQL's protocol have.
    ("oceanbase", Dialect::MySql),
    ("tidb", Dialect::TiDb),
    ("sqlite", Dialect::Sqlite),
    ("libsql", Dialect::Sqlite),
    ("turso", Dialect::Sqlite),
];

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 6] = [
        Dialect::Generic,
        Dialect::Postgres,
        Dialect::Cockroach,
        Dialect::MySql,
        Dialect::TiDb,
        Dialect::Sqlite,
    ];

    /// The dialect of a database by its name, with or without a version: `postgresql-15`, `InnoDB`,
    /// `MariaDB 11.8`. A name that is not listed, or none, is [`Dialect::Generic`].
    #[must_use]
    pub fn of_dbms(name: Option<&str>) -> Self {
        let folded = name.unwrap_or_default().trim().to_lowercase().replace([' ', '_', '/'], "-");
        let of =
            |&&(start, _): &&(&str, Dialect)| folded.starts_with(start) || folded == "pg" && start == "pg-";
        NAMES.iter().find(of).map_or(Dialect::Generic, |&(_, dialect)| dialect)
    }

    /// The name in certificates and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Generic => "generic",
            Dialect::Postgres => "postgresql",
            Dialect::Cockroach => "cockroachdb",
            Dialect::MySql => "mysql",
            Dialect::TiDb => "tidb",
            Dialect::Sqlite => "sqlite",
        }
    }

    /// The dialect of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// True for MySQL's grammar, types and arithmetic.
    #[must_use]
    pub fn is_mysql(self) -> bool {
        matches!(self, Dialect::MySql | Dialect::TiDb)
    }

    /// True for PostgreSQL's grammar and names.
    #[must_use]
    pub fn is_postgres(self) -> bool {
        matches!(self, Dialect::Postgres | Dialect::Cockroach)
    }

    /// True where types are static and a boolean is no number: PostgreSQL, CockroachDB and the
    /// generic dialect.
    #[must_use]
    pub fn is_strict(self) -> bool {
        matches!(self, Dialect::Generic | Dialect::Postgres | Dialect::Cockroach)
    }

    /// True where texts that differ in case only are equal.
    #[must_use]
    pub fn ignores_case(self) -> bool {
        self == Dialect::MySql
    }

    /// True where equal texts are the same text, and all others differ.
    #[must_use]
    pub fn compares_exactly(self) -> bool {
        !self.is_mysql()
    }

    /// Whether it is certain which other texts are equal to this one. Collations of MySQL's family
    /// differ in whether trailing spaces count: `utf8mb4_bin` and `utf8mb4_general_ci` ignore them,
    /// MySQL 8's `utf8mb4_0900_ai_ci` does not. Which letters beyond ASCII are equal depends on the
    /// collation too, where it ignores case.
    #[must_use]
    pub fn knows_equals_of(self, text: &str) -> bool {
        match self {
            Dialect::MySql => text.is_ascii() && !text.ends_with(' '),
            Dialect::TiDb => !text.ends_with(' '),
            _ => true,
        }
    }

    /// Whether the order of any two texts is known. Elsewhere it depends on the collation, which is
    /// not known.
    pub(crate) fn orders_text(self) -> bool {
        matches!(self, Dialect::Generic | Dialect::Cockroach | Dialect::Sqlite)
    }

    /// True where NULL sorts before everything else in ascending order.
    pub(crate) fn nulls_first(self) -> bool {
        !matches!(self, Dialect::Generic | Dialect::Postgres)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four crates decided by themselves, and not alike: `tidb` was MySQL for one and nothing for
    /// three, and `innodb`, which profiles know, was nothing for all.
    #[test]
    fn names_of_databases_decide() {
        let cases = [
            (None, Dialect::Generic),
            (Some("simdb-innodb-rr"), Dialect::Generic),
            (Some("postgresql-15"), Dialect::Postgres),
            (Some("pg"), Dialect::Postgres),
            (Some("pg-15"), Dialect::Postgres),
            (Some("YugabyteDB 2.20"), Dialect::Postgres),
            (Some("aurora-postgresql-15.4"), Dialect::Postgres),
            (Some("cockroachdb-23.1"), Dialect::Cockroach),
            (Some("crdb"), Dialect::Cockroach),
            (Some("InnoDB"), Dialect::MySql),
            (Some("MariaDB 11.8"), Dialect::MySql),
            (Some("aurora"), Dialect::MySql),
            (Some("percona_server-8.0"), Dialect::MySql),
            (Some("tidb-7.5"), Dialect::TiDb),
            (Some("oceanbase-seekdb-1.4.0.0"), Dialect::MySql),
            (Some("sqlite-shared"), Dialect::Sqlite),
        ];
        for (name, dialect) in cases {
            assert_eq!(Dialect::of_dbms(name), dialect, "{name:?}");
        }
    }

    #[test]
    fn names_read_back() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::from_name(dialect.name()), Some(dialect));
            assert!(dialect == Dialect::Generic || Dialect::of_dbms(Some(dialect.name())) == dialect);
        }
    }
}
