//! fjall, a store of pairs that is part of the program.
//!
//! Its two levels are its two kinds of database: `OPTIMISTIC` remembers what a transaction read and
//! validates it at commit; `SINGLE WRITER` lets one writer in at a time, beside readers with
//! snapshots.

use std::path::Path;
use std::sync::OnceLock;

use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, Readable};
use fjall::{SingleWriterTxDatabase, SingleWriterTxKeyspace, SingleWriterWriteTx, Snapshot};

use margay_client::{Begin, Bytes, Either, Pair, Store, Trouble, Txn};

use crate::folder::Folder;
use crate::stores::only_reads;

/// A test compares it with the lock file.
pub(crate) const VERSION: &str = "3.1";
const OPTIMISTIC: &str = "OPTIMISTIC";
const SINGLE_WRITER: &str = "SINGLE WRITER";

/// What kind it is follows from the level that is asked for first.
pub(crate) struct FjallStore {
    optimistic: OnceLock<(OptimisticTxDatabase, OptimisticTxKeyspace)>,
    single_writer: OnceLock<(SingleWriterTxDatabase, SingleWriterTxKeyspace)>,
    folder: Folder,
}

impl FjallStore {
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        let folder = Folder::new(path)?;
        Ok(Self { optimistic: OnceLock::new(), single_writer: OnceLock::new(), folder })
    }

    fn optimistic(&self) -> Result<&(OptimisticTxDatabase, OptimisticTxKeyspace), fjall::Error> {
        if let Some(open) = self.optimistic.get() {
            return Ok(open);
        }
        let database = OptimisticTxDatabase::builder(self.folder.path()).open()?;
        let keyspace = database.keyspace("margay", KeyspaceCreateOptions::default)?;
        Ok(self.optimistic.get_or_init(|| (database, keyspace)))
    }

    fn single_writer(&self) -> Result<&(SingleWriterTxDatabase, SingleWriterTxKeyspace), fjall::Error> {
        if let Some(open) = self.single_writer.get() {
            return Ok(open);
        }
        let database = SingleWriterTxDatabase::builder(self.folder.path()).open()?;
        let keyspace = database.keyspace("margay", KeyspaceCreateOptions::default)?;
        Ok(self.single_writer.get_or_init(|| (database, keyspace)))
    }
}

impl Store for FjallStore {
    type Txn<'a> = Either<Optimistic<'a>, SingleWriter<'a>>;

    fn identity(&self) -> (String, String) {
        ("fjall".to_owned(), VERSION.to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec![OPTIMISTIC, SINGLE_WRITER]
    }

    fn begin(&self, how: Begin<'_>) -> Result<Self::Txn<'_>, Trouble> {
        if how.level == SINGLE_WRITER {
            let (database, keyspace) = self.single_writer().map_err(failed)?;
            let open = if how.reading {
                Open::Reading(database.read_tx())
            } else {
                Open::Writing(database.write_tx())
            };
            return Ok(Either::B(SingleWriter { keyspace, open }));
        }
        let (database, keyspace) = self.optimistic().map_err(failed)?;
        let open = database.write_tx().map_err(failed)?;
        Ok(Either::A(Optimistic { keyspace, open }))
    }
}

pub(crate) struct Optimistic<'a> {
    keyspace: &'a OptimisticTxKeyspace,
    open: OptimisticWriteTx,
}

impl Txn for Optimistic<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        Ok(self.open.get(self.keyspace, key).map_err(failed)?.map(|value| value.to_vec()))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        match value {
            Some(value) => self.open.insert(self.keyspace, key, value),
            None => self.open.remove(self.keyspace, key),
        }
        Ok(())
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        collected(self.open.range(self.keyspace, from..to))
    }

    fn commit(self) -> Result<(), Trouble> {
        match self.open.commit() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(conflict)) => Err(Trouble::Refused(conflict.to_string())),
            Err(error) => Err(failed(error)),
        }
    }
}

/// A reader does not wait for the writer.
enum Open<'a> {
    Reading(Snapshot),
    Writing(SingleWriterWriteTx<'a>),
}

pub(crate) struct SingleWriter<'a> {
    keyspace: &'a SingleWriterTxKeyspace,
    open: Open<'a>,
}

impl Txn for SingleWriter<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        let found = match &self.open {
            Open::Reading(open) => open.get(self.keyspace, key),
            Open::Writing(open) => open.get(self.keyspace, key),
        };
        Ok(found.map_err(failed)?.map(|value| value.to_vec()))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        let Open::Writing(open) = &mut self.open else { return Err(only_reads()) };
        match value {
            Some(value) => open.insert(self.keyspace, key, value),
            None => open.remove(self.keyspace, key),
        }
        Ok(())
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        match &self.open {
            Open::Reading(open) => collected(open.range(self.keyspace, from..to)),
            Open::Writing(open) => collected(open.range(self.keyspace, from..to)),
        }
    }

    fn commit(self) -> Result<(), Trouble> {
        match self.open {
            Open::Writing(open) => open.commit().map_err(failed),
            Open::Reading(_) => Ok(()),
        }
    }
}

fn collected(found: fjall::Iter) -> Result<Option<Vec<Pair>>, Trouble> {
    let pair = |guard: fjall::Guard| {
        let (key, value) = guard.into_inner().map_err(failed)?;
        Ok((key.to_vec(), value.to_vec()))
    };
    found.map(pair).collect::<Result<_, _>>().map(Some)
}

fn failed(error: fjall::Error) -> Trouble {
    Trouble::Failed(error.to_string())
}
