//! RocksDB, a store of pairs in C++, through the library of the system.
//!
//! Its two levels are its two kinds of database: `PESSIMISTIC` locks what is written, `OPTIMISTIC`
//! holds it against the writes of others at commit. Transactions read the snapshot of their begin.

use std::path::Path;
use std::sync::OnceLock;

use rocksdb::{
    DBAccess, Direction, ErrorKind, IteratorMode, OptimisticTransactionDB, OptimisticTransactionOptions,
    Options, Transaction, TransactionDB, TransactionDBOptions, TransactionOptions, WriteOptions,
};

use margay_client::{Begin, Bytes, Either, Pair, Store, Trouble, Txn};

use crate::folder::Folder;

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
    type Txn<'a> = Either<RocksTxn<'a, OptimisticTransactionDB>, RocksTxn<'a, TransactionDB>>;

    fn identity(&self) -> (String, String) {
        ("rocksdb".to_owned(), VERSION.to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec![PESSIMISTIC, OPTIMISTIC]
    }

    fn begin(&self, how: Begin<'_>) -> Result<Self::Txn<'_>, Trouble> {
        if how.level == OPTIMISTIC {
            return Ok(Either::A(RocksTxn(self.optimistic().map_err(trouble)?.open())));
        }
        Ok(Either::B(RocksTxn(self.pessimistic().map_err(trouble)?.open())))
    }
}

/// A database that transactions are begun on.
trait Opens: Sized {
    fn open(&self) -> Transaction<'_, Self>;
}

impl Opens for OptimisticTransactionDB {
    fn open(&self) -> Transaction<'_, Self> {
        let mut options = OptimisticTransactionOptions::default();
        options.set_snapshot(true);
        self.transaction_opt(&WriteOptions::default(), &options)
    }
}

impl Opens for TransactionDB {
    fn open(&self) -> Transaction<'_, Self> {
        let mut options = TransactionOptions::default();
        options.set_snapshot(true);
        options.set_deadlock_detect(true);
        options.set_lock_timeout(PATIENCE);
        self.transaction_opt(&WriteOptions::default(), &options)
    }
}

pub(crate) struct RocksTxn<'a, D>(Transaction<'a, D>);

impl<'a, D> Txn for RocksTxn<'a, D>
where
    Transaction<'a, D>: DBAccess,
{
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        self.0.snapshot().get(key).map_err(trouble)
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        match value {
            Some(value) => self.0.put(key, value),
            None => self.0.delete(key),
        }
        .map_err(trouble)
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        let snapshot = self.0.snapshot();
        let mut pairs = Vec::new();
        for pair in snapshot.iterator(IteratorMode::From(from, Direction::Forward)) {
            let (key, value) = pair.map_err(trouble)?;
            if key.as_ref() >= to {
                break;
            }
            pairs.push((key.into_vec(), value.into_vec()));
        }
        Ok(Some(pairs))
    }

    fn commit(self) -> Result<(), Trouble> {
        self.0.commit().map_err(trouble)
    }

    fn rollback(self) {
        let _ = self.0.rollback();
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
