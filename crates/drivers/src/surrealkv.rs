//! SurrealKV, a store of pairs that is part of the program: snapshots, and writes that are held
//! against those of others at commit.

use std::path::Path;

use surrealkv::{Error, LSMIterator, Transaction, Tree, TreeBuilder};
use tokio::runtime::{Builder, Runtime};

use margay_client::{Begin, Bytes, Pair, Store, Trouble, Txn};

use crate::folder::Folder;

/// A test compares it with the lock file.
pub(crate) const VERSION: &str = "1.2";

pub(crate) struct SurrealStore {
    tree: Tree,
    /// Commits are asynchronous, and so is what goes on behind them.
    runtime: Runtime,
    _folder: Folder,
}

impl SurrealStore {
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        let folder = Folder::new(path)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let inside = runtime.enter();
        let tree = TreeBuilder::new().with_path(folder.path().to_owned()).build();
        drop(inside);
        Ok(Self { tree: tree.map_err(|error| error.to_string())?, runtime, _folder: folder })
    }
}

impl Drop for SurrealStore {
    fn drop(&mut self) {
        // It goes anyway; an error of its end changes nothing of what clients saw.
        let _ = self.runtime.block_on(self.tree.close());
    }
}

impl Store for SurrealStore {
    type Txn<'a> = SurrealTxn<'a>;

    fn identity(&self) -> (String, String) {
        ("surrealkv".to_owned(), VERSION.to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["SNAPSHOT"]
    }

    fn begin(&self, _how: Begin<'_>) -> Result<SurrealTxn<'_>, Trouble> {
        Ok(SurrealTxn { runtime: &self.runtime, open: self.tree.begin().map_err(trouble)? })
    }
}

pub(crate) struct SurrealTxn<'a> {
    runtime: &'a Runtime,
    open: Transaction,
}

impl Txn for SurrealTxn<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        Ok(self.open.get(key).map_err(trouble)?.map(|value| value.to_vec()))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        match value {
            Some(value) => self.open.set(key, value),
            None => self.open.delete(key),
        }
        .map_err(trouble)
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        let found = || {
            let mut at = self.open.range(from, to)?;
            let mut pairs = Vec::new();
            at.seek_first()?;
            while at.valid() {
                pairs.push((at.key().user_key().to_vec(), at.value()?.to_vec()));
                at.next()?;
            }
            Ok(Some(pairs))
        };
        found().map_err(trouble)
    }

    fn commit(mut self) -> Result<(), Trouble> {
        self.runtime.block_on(self.open.commit()).map_err(trouble)
    }

    fn rollback(mut self) {
        self.open.rollback();
    }
}

fn trouble(error: Error) -> Trouble {
    match error {
        Error::TransactionWriteConflict | Error::TransactionRetry => Trouble::Refused(error.to_string()),
        other => Trouble::Failed(other.to_string()),
    }
}
