//! Stores that run inside the program, by name.

use std::fmt;
use std::path::Path;

use margay_client::Stored;

use crate::fjall::FjallStore;
use crate::redb::RedbStore;
use crate::surrealkv::SurrealStore;
use crate::{Database, Trouble};

/// A store that is part of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// fjall.
    Fjall,
    /// redb.
    Redb,
    /// SurrealKV.
    Surrealkv,
    /// SlateDB, if the program was built with it.
    Slatedb,
    /// Turso, if the program was built with it.
    Turso,
    /// RocksDB, if the program was built with it.
    Rocksdb,
    /// DuckDB, if the program was built with it.
    Duckdb,
}

impl Kind {
    /// Every store.
    pub const ALL: [Kind; 7] =
        [Kind::Fjall, Kind::Redb, Kind::Surrealkv, Kind::Slatedb, Kind::Turso, Kind::Rocksdb, Kind::Duckdb];

    /// Its name in a target.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Fjall => "fjall",
            Kind::Redb => "redb",
            Kind::Surrealkv => "surrealkv",
            Kind::Slatedb => "slatedb",
            Kind::Turso => "turso",
            Kind::Rocksdb => "rocksdb",
            Kind::Duckdb => "duckdb",
        }
    }

    /// The store of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A database that is there only in programs that were built with a feature; the others say so.
macro_rules! optional {
    ($feature:literal, $database:expr) => {{
        #[cfg(feature = $feature)]
        {
            Box::new($database)
        }
        #[cfg(not(feature = $feature))]
        return Err(concat!(
            "this program was built without ",
            $feature,
            ": cargo install --path crates/cli --features ",
            $feature
        )
        .to_owned());
    }};
}

/// Opens the store of this folder or file, or one in a temporary folder.
pub(crate) fn open(kind: Kind, path: Option<&Path>) -> Result<Box<dyn Database>, String> {
    Ok(match kind {
        Kind::Fjall => Box::new(Stored::new(FjallStore::open(path)?)),
        Kind::Redb => Box::new(Stored::new(RedbStore::open(path)?)),
        Kind::Surrealkv => Box::new(Stored::new(SurrealStore::open(path)?)),
        Kind::Slatedb => optional!("slatedb", Stored::new(crate::slatedb::SlateStore::open(path)?)),
        Kind::Turso => optional!("turso", crate::turso::TursoDatabase::open(path)?),
        Kind::Rocksdb => optional!("rocksdb", Stored::new(crate::rocksdb::RocksStore::open(path)?)),
        Kind::Duckdb => optional!("duckdb", crate::duckdb::DuckDatabase::open(path)?),
    })
}

/// A transaction that was announced to read only is asked to write.
pub(crate) fn only_reads() -> Trouble {
    Trouble::Failed("a transaction that only reads cannot write".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    /// The version that the lock file names, by package.
    fn locked() -> HashMap<String, String> {
        let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
        let lock = std::fs::read_to_string(lock).expect("the lock file");
        let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
        let lines: Vec<&str> = lock.lines().collect();
        let packages = lines.windows(2).filter(|pair| pair[0].starts_with("name = "));
        packages.map(|pair| (quoted(pair[0]), quoted(pair[1]))).collect()
    }

    #[test]
    fn stores_tell_their_versions() {
        let locked = locked();
        for (name, version) in [
            ("fjall", crate::fjall::VERSION),
            ("redb", crate::redb::VERSION),
            ("surrealkv", crate::surrealkv::VERSION),
            #[cfg(feature = "slatedb")]
            ("slatedb", crate::slatedb::VERSION),
            #[cfg(feature = "turso")]
            ("turso", crate::turso::VERSION),
        ] {
            assert!(locked[name].starts_with(&format!("{version}.")), "{name} is {}", locked[name]);
        }
    }
}
