//! Stores that run inside the program, by name.

use std::fmt;
use std::path::Path;

#[cfg(any(feature = "stores", feature = "slatedb", feature = "rocksdb"))]
use margay_client::Stored;

use crate::Database;
#[cfg(feature = "stores")]
use crate::Trouble;

/// A store that runs inside the program, if it was built with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// fjall.
    Fjall,
    /// redb.
    Redb,
    /// SurrealKV.
    Surrealkv,
    /// SlateDB.
    Slatedb,
    /// Turso.
    Turso,
    /// RocksDB.
    Rocksdb,
    /// DuckDB.
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

    /// The Cargo feature that a program has it by.
    const fn feature(self) -> &'static str {
        match self {
            Kind::Fjall | Kind::Redb | Kind::Surrealkv => "stores",
            other => other.name(),
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

/// Opens the store of this folder or file, or one in a temporary folder. A program that was built
/// without it says so.
#[allow(unused_variables, unreachable_patterns, reason = "it depends on the features what is there to open")]
pub(crate) fn open(kind: Kind, path: Option<&Path>) -> Result<Box<dyn Database>, String> {
    match kind {
        #[cfg(feature = "stores")]
        Kind::Fjall => Ok(Box::new(Stored::new(crate::fjall::FjallStore::open(path)?))),
        #[cfg(feature = "stores")]
        Kind::Redb => Ok(Box::new(Stored::new(crate::redb::RedbStore::open(path)?))),
        #[cfg(feature = "stores")]
        Kind::Surrealkv => Ok(Box::new(Stored::new(crate::surrealkv::SurrealStore::open(path)?))),
        #[cfg(feature = "slatedb")]
        Kind::Slatedb => Ok(Box::new(Stored::new(crate::slatedb::SlateStore::open(path)?))),
        #[cfg(feature = "turso")]
        Kind::Turso => Ok(Box::new(crate::turso::TursoDatabase::open(path)?)),
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb => Ok(Box::new(Stored::new(crate::rocksdb::RocksStore::open(path)?))),
        #[cfg(feature = "duckdb")]
        Kind::Duckdb => Ok(Box::new(crate::duckdb::DuckDatabase::open(path)?)),
        missing => Err(format!(
            "this program was built without {missing}: cargo install --path crates/cli --features {}",
            missing.feature()
        )),
    }
}

/// A transaction that was announced to read only is asked to write.
#[cfg(feature = "stores")]
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
        let stores: &[(&str, &str)] = &[
            #[cfg(feature = "stores")]
            ("fjall", crate::fjall::VERSION),
            #[cfg(feature = "stores")]
            ("redb", crate::redb::VERSION),
            #[cfg(feature = "stores")]
            ("surrealkv", crate::surrealkv::VERSION),
            #[cfg(feature = "slatedb")]
            ("slatedb", crate::slatedb::VERSION),
            #[cfg(feature = "turso")]
            ("turso", crate::turso::VERSION),
        ];
        for (name, version) in stores {
            assert!(locked[*name].starts_with(&format!("{version}.")), "{name} is {}", locked[*name]);
        }
    }
}
