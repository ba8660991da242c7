//! SlateDB, a store of pairs on an object store: here the local file system, or memory.
//!
//! Its two levels are its own: `SNAPSHOT` holds writes against those of others at commit,
//! `SERIALIZABLE SNAPSHOT` reads too.

use std::path::Path;
use std::sync::Arc;

use slatedb::config::Settings;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use slatedb::{Db, DbTransaction, Error, ErrorKind, IsolationLevel};
use tokio::runtime::{Builder, Runtime};

use margay_client::{Begin, Bytes, Pair, Store, Trouble, Txn};

/// A test compares it with the lock file.
pub(crate) const VERSION: &str = "0.18";
const SERIALIZABLE: &str = "SERIALIZABLE SNAPSHOT";

pub(crate) struct SlateStore {
    db: Db,
    runtime: Runtime,
}

impl SlateStore {
    /// Opens the store of this folder; without one, a store in memory.
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let objects: Arc<dyn ObjectStore> = match path {
            None => Arc::new(InMemory::new()),
            Some(path) => {
                std::fs::create_dir_all(path).map_err(|error| error.to_string())?;
                Arc::new(LocalFileSystem::new_with_prefix(path).map_err(|error| error.to_string())?)
            }
        };
        let settings = Settings::default();
        let db = runtime.block_on(Db::builder("margay", objects).with_settings(settings).build());
        Ok(Self { db: db.map_err(|error| error.to_string())?, runtime })
    }
}

impl Drop for SlateStore {
    fn drop(&mut self) {
        // It goes anyway; an error of its end changes nothing of what clients saw.
        let _ = self.runtime.block_on(self.db.close());
    }
}

impl Store for SlateStore {
    type Txn<'a> = SlateTxn<'a>;

    fn identity(&self) -> (String, String) {
        ("slatedb".to_owned(), VERSION.to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec![SERIALIZABLE, "SNAPSHOT"]
    }

    fn begin(&self, how: Begin<'_>) -> Result<SlateTxn<'_>, Trouble> {
        let level = match how.level {
            SERIALIZABLE => IsolationLevel::SerializableSnapshot,
            _ => IsolationLevel::Snapshot,
        };
        Ok(SlateTxn { runtime: &self.runtime, open: self.db.begin(level).map_err(trouble)? })
    }
}

pub(crate) struct SlateTxn<'a> {
    runtime: &'a Runtime,
    open: DbTransaction,
}

impl Txn for SlateTxn<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        let found = self.runtime.block_on(self.open.get(key)).map_err(trouble)?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        match value {
            Some(value) => self.open.put(key, value),
            None => self.open.delete(key),
        }
        .map_err(trouble)
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        let found = async {
            let mut at = self.open.scan(from.to_vec()..to.to_vec()).await?;
            let mut pairs = Vec::new();
            while let Some(pair) = at.next().await? {
                pairs.push((pair.key.to_vec(), pair.value.to_vec()));
            }
            Ok(Some(pairs))
        };
        self.runtime.block_on(found).map_err(trouble)
    }

    fn commit(self) -> Result<(), Trouble> {
        // Nothing here outlives a crash, so nobody waits for the handle that tells when the object
        // store has it.
        self.runtime.block_on(self.open.commit()).map(drop).map_err(trouble)
    }

    fn rollback(self) {
        self.open.rollback();
    }
}

fn trouble(error: Error) -> Trouble {
    match error.kind() {
        ErrorKind::Transaction => Trouble::Refused(error.to_string()),
        _ => Trouble::Failed(error.to_string()),
    }
}
