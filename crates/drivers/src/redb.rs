//! redb, a store of pairs that is part of the program: one writer at a time, beside readers with snapshots.

use std::path::Path;

use redb::{Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable};
use redb::{TableDefinition, TableError, WriteTransaction};

use crate::Trouble;
use crate::pairs::{Bytes, Folder, Pairs, Store, begun};

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
    fn identity(&self) -> (&'static str, &'static str) {
        ("redb", VERSION)
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE"]
    }

    fn connect(&self, _own_name: &str) -> Result<Box<dyn Pairs + '_>, String> {
        Ok(Box::new(RedbPairs { database: &self.database, open: Open::Nothing }))
    }
}

/// A reader does not wait for the writer.
enum Open {
    Nothing,
    Reading(ReadTransaction),
    Writing(Box<WriteTransaction>),
}

struct RedbPairs<'a> {
    database: &'a Database,
    open: Open,
}

impl RedbPairs<'_> {
    fn writing(&self) -> Result<&WriteTransaction, Trouble> {
        match &self.open {
            Open::Writing(open) => Ok(open),
            _ => begun(None),
        }
    }
}

impl Pairs for RedbPairs<'_> {
    fn begin(&mut self, reading: bool) -> Result<(), Trouble> {
        self.open = if reading {
            Open::Reading(self.database.begin_read().map_err(failed)?)
        } else {
            let mut open = self.database.begin_write().map_err(failed)?;
            // Nothing here outlives a crash of the machine, so nothing needs to reach its disk.
            open.set_durability(Durability::None).map_err(failed)?;
            Open::Writing(Box::new(open))
        };
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        match &self.open {
            Open::Reading(open) => match open.open_table(TABLE) {
                Err(TableError::TableDoesNotExist(_)) => Ok(None),
                table => get(&table.map_err(failed)?, key),
            },
            Open::Writing(open) => get(&open.open_table(TABLE).map_err(failed)?, key),
            Open::Nothing => begun(None),
        }
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        let mut table = self.writing()?.open_table(TABLE).map_err(failed)?;
        let put = match value {
            Some(value) => table.insert(key, value).map(drop),
            None => table.remove(key).map(drop),
        };
        put.map_err(failed)
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Trouble> {
        match &self.open {
            Open::Reading(open) => match open.open_table(TABLE) {
                Err(TableError::TableDoesNotExist(_)) => Ok(Vec::new()),
                table => range(&table.map_err(failed)?, from, to),
            },
            Open::Writing(open) => range(&open.open_table(TABLE).map_err(failed)?, from, to),
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
        // Dropping it rolls back too; an error then is one of the disk, and what is not committed stays unseen.
        if let Open::Writing(open) = std::mem::replace(&mut self.open, Open::Nothing) {
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
) -> Result<Vec<(Bytes, Bytes)>, Trouble> {
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
