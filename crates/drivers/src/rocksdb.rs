//! RocksDB, a store of pairs in C++, through the library of the system.
//!
//! Its two levels are its two kinds of database: `PESSIMISTIC` locks what is written, `OPTIMISTIC` holds it against the writes of others at commit. Transactions read the
//! snapshot of their begin.

use std::path::Path;
use std::sync::OnceLock;

use rocksdb::{
    DBAccess, Direction, ErrorKind, IteratorMode, OptimisticTransactionDB, OptimisticTransactionOptions,
    Options, Transaction, TransactionDB, TransactionDBOptions, TransactionOptions, WriteOptions,
};

use crate::Trouble;
use crate::pairs::{Bytes, Folder, Pairs, Store, begun};

/// The versions of the library that the crate fits; which one it is, the library does not tell.
pub(crate) const VERSION: &str = "7";
const OPTIMISTIC: &str = "OPTIMISTIC";
const PESSIMISTIC: &str = "PESSIMISTIC";
/// How long a writer waits for another, in milliseconds.
const PATIENCE: i64 = 250;

/// What kind it is follows from the level that is asked for first.
pub(crate) struct RocksStore {
    optimistic: OnceLock<OptimisticTransactionDB>,
    pessimistic: OnceLock<TransactionDB>,
    folder: Folder,
}

impl RocksStore {
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        Ok(Self { optimistic: OnceLock::new(), pessimistic: OnceLock::new(), folder: Folder::new(path)? })
    }

    fn options() -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options
    }

    fn optimistic(&self) -> Result<&OptimisticTransactionDB, rocksdb::Error> {
        if let Some(open) = self.optimistic.get() {
            return Ok(open);
        }
        let open = OptimisticTransactionDB::open(&Self::options(), self.folder.path())?;
        Ok(self.optimistic.get_or_init(|| open))
    }

    fn pessimistic(&self) -> Result<&TransactionDB, rocksdb::Error> {
        if let Some(open) = self.pessimistic.get() {
            return Ok(open);
        }
        let open =
            TransactionDB::open(&Self::options(), &TransactionDBOptions::default(), self.folder.path())?;
        Ok(self.pessimistic.get_or_init(|| open))
    }
}

impl Store for RocksStore {
    fn identity(&self) -> (&'static str, &'static str) {
        ("rocksdb", VERSION)
    }

    fn levels(&self) -> Vec<&'static str> {
        vec![PESSIMISTIC, OPTIMISTIC]
    }

    fn connect(&self, own_name: &str) -> Result<Box<dyn Pairs + '_>, String> {
        if own_name == OPTIMISTIC {
            let database = self.optimistic().map_err(|error| error.to_string())?;
            return Ok(Box::new(RocksPairs { database, open: None }));
        }
        let database = self.pessimistic().map_err(|error| error.to_string())?;
        Ok(Box::new(RocksPairs { database, open: None }))
    }
}

/// A database that transactions are begun on.
trait Begin: Sized {
    fn begin(&self) -> Transaction<'_, Self>;
}

impl Begin for OptimisticTransactionDB {
    fn begin(&self) -> Transaction<'_, Self> {
        let mut options = OptimisticTransactionOptions::default();
        options.set_snapshot(true);
        self.transaction_opt(&WriteOptions::default(), &options)
    }
}

impl Begin for TransactionDB {
    fn begin(&self) -> Transaction<'_, Self> {
        let mut options = TransactionOptions::default();
        options.set_snapshot(true);
        options.set_deadlock_detect(true);
        options.set_lock_timeout(PATIENCE);
        self.transaction_opt(&WriteOptions::default(), &options)
    }
}

struct RocksPairs<'a, D> {
    database: &'a D,
    open: Option<Transaction<'a, D>>,
}

impl<'a, D> RocksPairs<'a, D> {
    fn open(&self) -> Result<&Transaction<'a, D>, Trouble> {
        begun(self.open.as_ref())
    }
}

impl<'a, D: Begin> Pairs for RocksPairs<'a, D>
where
    Transaction<'a, D>: DBAccess,
{
    fn begin(&mut self, _reading: bool) -> Result<(), Trouble> {
        self.open = Some(self.database.begin());
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        self.open()?.snapshot().get(key).map_err(trouble)
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        let open = self.open()?;
        match value {
            Some(value) => open.put(key, value),
            None => open.delete(key),
        }
        .map_err(trouble)
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Trouble> {
        let open = self.open()?;
        let snapshot = open.snapshot();
        let mut pairs = Vec::new();
        for pair in snapshot.iterator(IteratorMode::From(from, Direction::Forward)) {
            let (key, value) = pair.map_err(trouble)?;
            if key.as_ref() >= to {
                break;
            }
            pairs.push((key.into_vec(), value.into_vec()));
        }
        Ok(pairs)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        let Some(open) = self.open.take() else { return Ok(()) };
        open.commit().map_err(trouble)
    }

    fn rollback(&mut self) {
        if let Some(open) = self.open.take() {
            let _ = open.rollback();
        }
    }
}

fn trouble(error: rocksdb::Error) -> Trouble {
    match error.kind() {
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain | ErrorKind::Aborted => {
            Trouble::Refused(error.to_string())
        }
        _ => Trouble::Failed(error.to_string()),
    }
}
