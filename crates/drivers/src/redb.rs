//! redb, a store of pairs that is part of the program: one writer at a time, beside readers with
//! snapshots.

use std::path::Path;

use redb::{Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable};
use redb::{TableDefinition, TableError, WriteTransaction};

use margay_client::{Begin, Bytes, Pair, Store, Trouble, Txn};

use crate::folder::Folder;
use crate::stores::only_reads;

/// A test compares it with the lock file.
pub(crate) const VERSION: &str = "4.4";
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("margay");

pub(crate) struct RedbStore {
    database: Database,
    _folder: Folder,
}

impl RedbStore {
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        let folder = Folder::new(path)?;
        let file = folder.path().join("margay.redb");
        let database = Database::create(file).map_err(|error| error.to_string())?;
        Ok(Self { database, _folder: folder })
    }
}

impl Store for RedbStore {
    type Txn<'a> = RedbTxn;

    fn identity(&self) -> (String, String) {
        ("redb".to_owned(), VERSION.to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE"]
    }

    fn begin(&self, how: Begin<'_>) -> Result<RedbTxn, Trouble> {
        if how.reading {
            return Ok(RedbTxn::Reading(self.database.begin_read().map_err(failed)?));
        }
        let mut open = self.database.begin_write().map_err(failed)?;
        // Nothing here outlives a crash of the machine, so nothing needs to reach its disk.
        open.set_durability(Durability::None).map_err(failed)?;
        Ok(RedbTxn::Writing(Box::new(open)))
    }
}

/// A reader does not wait for the writer.
pub(crate) enum RedbTxn {
    Reading(ReadTransaction),
    Writing(Box<WriteTransaction>),
}

impl Txn for RedbTxn {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        match self {
            RedbTxn::Reading(open) => match open.open_table(TABLE) {
                Err(TableError::TableDoesNotExist(_)) => Ok(None),
                table => get(&table.map_err(failed)?, key),
            },
            RedbTxn::Writing(open) => get(&open.open_table(TABLE).map_err(failed)?, key),
        }
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        let RedbTxn::Writing(open) = self else { return Err(only_reads()) };
        let mut table = open.open_table(TABLE).map_err(failed)?;
        let put = match value {
            Some(value) => table.insert(key, value).map(drop),
            None => table.remove(key).map(drop),
        };
        put.map_err(failed)
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        match self {
            RedbTxn::Reading(open) => match open.open_table(TABLE) {
                Err(TableError::TableDoesNotExist(_)) => Ok(Some(Vec::new())),
                table => range(&table.map_err(failed)?, from, to).map(Some),
            },
            RedbTxn::Writing(open) => range(&open.open_table(TABLE).map_err(failed)?, from, to).map(Some),
        }
    }

    fn commit(self) -> Result<(), Trouble> {
        match self {
            RedbTxn::Writing(open) => open.commit().map_err(failed),
            RedbTxn::Reading(_) => Ok(()),
        }
    }

    fn rollback(self) {
        // Dropping it rolls back too; an error then is one of the disk, and what is not committed
        // stays unseen.
        if let RedbTxn::Writing(open) = self {
            let _ = open.abort();
        }
    }
}

fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Bytes>, Trouble> {
    Ok(table.get(key).map_err(failed)?.map(|found| found.value().to_vec()))
}

fn range(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    to: &[u8],
) -> Result<Vec<Pair>, Trouble> {
    let found = table.range(from..to).map_err(failed)?;
    let pair = |pair: Result<_, redb::StorageError>| {
        let (key, value): (redb::AccessGuard<'_, &[u8]>, redb::AccessGuard<'_, &[u8]>) =
            pair.map_err(failed)?;
        Ok((key.value().to_vec(), value.value().to_vec()))
    };
    found.map(pair).collect()
}

fn failed(error: impl std::fmt::Display) -> Trouble {
    Trouble::Failed(error.to_string())
}
