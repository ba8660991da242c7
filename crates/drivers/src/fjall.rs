//! fjall, a store of pairs that is part of the program.
//!
//! Its two levels are its two kinds of database: `OPTIMISTIC` remembers what a transaction read and validates it at commit; `SINGLE WRITER` lets one writer in
//! at a time, beside readers with snapshots.

use std::path::Path;
use std::sync::OnceLock;

use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, Readable};
use fjall::{SingleWriterTxDatabase, SingleWriterTxKeyspace, SingleWriterWriteTx, Snapshot};

use crate::Trouble;
use crate::pairs::{Bytes, Folder, Pairs, Store, begun};

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
    fn identity(&self) -> (&'static str, &'static str) {
        ("fjall", VERSION)
    }

    fn levels(&self) -> Vec<&'static str> {
        vec![OPTIMISTIC, SINGLE_WRITER]
    }

    fn connect(&self, own_name: &str) -> Result<Box<dyn Pairs + '_>, String> {
        if own_name == SINGLE_WRITER {
            let (database, keyspace) = self.single_writer().map_err(|error| error.to_string())?;
            return Ok(Box::new(SingleWriter { database, keyspace, open: Open::Nothing }));
        }
        let (database, keyspace) = self.optimistic().map_err(|error| error.to_string())?;
        Ok(Box::new(Optimistic { database, keyspace, open: None }))
    }
}

struct Optimistic<'a> {
    database: &'a OptimisticTxDatabase,
    keyspace: &'a OptimisticTxKeyspace,
    open: Option<OptimisticWriteTx>,
}

impl Optimistic<'_> {
    fn open(&mut self) -> Result<&mut OptimisticWriteTx, Trouble> {
        begun(self.open.as_mut())
    }
}

impl Pairs for Optimistic<'_> {
    fn begin(&mut self, _reading: bool) -> Result<(), Trouble> {
        self.open = Some(self.database.write_tx().map_err(failed)?);
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        let keyspace = self.keyspace;
        Ok(self.open()?.get(keyspace, key).map_err(failed)?.map(|value| value.to_vec()))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        let keyspace = self.keyspace;
        let open = self.open()?;
        match value {
            Some(value) => open.insert(keyspace, key, value),
            None => open.remove(keyspace, key),
        }
        Ok(())
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Trouble> {
        let keyspace = self.keyspace;
        collected(self.open()?.range(keyspace, from..to))
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        let open = begun(self.open.take())?;
        match open.commit() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(conflict)) => Err(Trouble::Refused(conflict.to_string())),
            Err(error) => Err(failed(error)),
        }
    }

    fn rollback(&mut self) {
        self.open = None;
    }
}

/// A reader does not wait for the writer.
enum Open<'a> {
    Nothing,
    Reading(Snapshot),
    Writing(SingleWriterWriteTx<'a>),
}

struct SingleWriter<'a> {
    database: &'a SingleWriterTxDatabase,
    keyspace: &'a SingleWriterTxKeyspace,
    open: Open<'a>,
}

impl<'a> SingleWriter<'a> {
    fn writing(&mut self) -> Result<&mut SingleWriterWriteTx<'a>, Trouble> {
        match &mut self.open {
            Open::Writing(open) => Ok(open),
            _ => begun(None),
        }
    }
}

impl Pairs for SingleWriter<'_> {
    fn begin(&mut self, reading: bool) -> Result<(), Trouble> {
        self.open = match reading {
            true => Open::Reading(self.database.read_tx()),
            false => Open::Writing(self.database.write_tx()),
        };
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        let found = match &self.open {
            Open::Reading(open) => open.get(self.keyspace, key),
            Open::Writing(open) => open.get(self.keyspace, key),
            Open::Nothing => return begun(None),
        };
        Ok(found.map_err(failed)?.map(|value| value.to_vec()))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        let keyspace = self.keyspace;
        let open = self.writing()?;
        match value {
            Some(value) => open.insert(keyspace, key, value),
            None => open.remove(keyspace, key),
        }
        Ok(())
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Trouble> {
        match &self.open {
            Open::Reading(open) => collected(open.range(self.keyspace, from..to)),
            Open::Writing(open) => collected(open.range(self.keyspace, from..to)),
            Open::Nothing => begun(None),
        }
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Writing(open) => open.commit().map_err(failed),
            _ => Ok(()),
        }
    }

    fn rollback(&mut self) {
        self.open = Open::Nothing;
    }
}

fn collected(found: fjall::Iter) -> Result<Vec<(Bytes, Bytes)>, Trouble> {
    let pair = |guard: fjall::Guard| {
        let (key, value) = guard.into_inner().map_err(failed)?;
        Ok((key.to_vec(), value.to_vec()))
    };
    found.map(pair).collect()
}

fn failed(error: fjall::Error) -> Trouble {
    Trouble::Failed(error.to_string())
}
