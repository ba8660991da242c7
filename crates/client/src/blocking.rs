//! Asynchronous stores and sessions, for clients that wait for each call.
//!
//! [`Blocking`] makes a [`Store`] of an [`AsyncStore`], and a [`SqlStore`] of an [`AsyncSqlStore`].
//! All clients share one tokio runtime of several threads, so that tasks which the store has
//! spawned go on while no client waits; each future is polled on its client's own thread.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::sql::{Session, SqlStore, Upsert};
use crate::store::{Begin, Bytes, Pair, Store, Txn};
use crate::{Answer, Cell, Trouble};

/// As [`Store`], asynchronously. Its methods may be written as `async fn`.
pub trait AsyncStore: Send + Sync {
    /// An open transaction. One that is dropped is rolled back.
    type Txn<'a>: AsyncTxn
    where
        Self: 'a;

    /// As [`Store::begin`].
    fn begin(&self, how: Begin<'_>) -> impl Future<Output = Result<Self::Txn<'_>, Trouble>>;

    /// As [`Store::identity`].
    fn identity(&self) -> (String, String) {
        ("store".to_owned(), "0".to_owned())
    }

    /// As [`Store::levels`].
    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE"]
    }
}

/// As [`Txn`], asynchronously. Its methods may be written as `async fn`.
pub trait AsyncTxn: Sized {
    /// As [`Txn::get`].
    fn get(&mut self, key: &[u8]) -> impl Future<Output = Result<Option<Bytes>, Trouble>>;

    /// As [`Txn::put`].
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> impl Future<Output = Result<(), Trouble>>;

    /// As [`Txn::commit`].
    fn commit(self) -> impl Future<Output = Result<(), Trouble>>;

    /// As [`Txn::range`].
    fn range(
        &mut self,
        _from: &[u8],
        _to: &[u8],
    ) -> impl Future<Output = Result<Option<Vec<Pair>>, Trouble>> {
        async { Ok(None) }
    }

    /// As [`Txn::rollback`].
    fn rollback(self) -> impl Future<Output = ()> {
        async move { drop(self) }
    }
}

/// As [`SqlStore`], asynchronously.
pub trait AsyncSqlStore: Send + Sync {
    /// One client's session.
    type Session<'a>: AsyncSession
    where
        Self: 'a;

    /// As [`SqlStore::connect`].
    fn connect(&self, level: &str) -> impl Future<Output = Result<Self::Session<'_>, String>>;

    /// As [`SqlStore::identity`].
    fn identity(&self) -> (String, String) {
        ("database".to_owned(), "0".to_owned())
    }

    /// As [`SqlStore::levels`].
    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE"]
    }

    /// As [`SqlStore::upsert`].
    fn upsert(&self) -> Upsert {
        Upsert::OnConflict
    }
}

/// As [`Session`], asynchronously: its four methods. Its methods may be written as `async fn`.
pub trait AsyncSession {
    /// As [`Session::begin`].
    fn begin(&mut self) -> impl Future<Output = Result<(), Trouble>>;

    /// As [`Session::sql`].
    fn sql(&mut self, text: &str, params: &[Cell]) -> impl Future<Output = Result<Answer, Trouble>>;

    /// As [`Session::commit`].
    fn commit(&mut self) -> impl Future<Output = Result<(), Trouble>>;

    /// As [`Session::rollback`].
    fn rollback(&mut self) -> impl Future<Output = Result<(), Trouble>>;

    /// As [`Session::has_returning`].
    fn has_returning(&self) -> bool {
        true
    }
}

/// An asynchronous store or session whose callers wait.
#[derive(Debug)]
pub struct Blocking<T, R = Runtime> {
    inner: T,
    runtime: R,
}

impl<T> Blocking<T> {
    /// Waits on a runtime of its own, with timers and as many threads as the machine has cores.
    ///
    /// # Errors
    /// When the system has no threads for it.
    pub fn new(store: T) -> io::Result<Self> {
        Ok(Self::on(store, Builder::new_multi_thread().enable_all().build()?))
    }

    /// Waits on this runtime, for a store that was opened on it.
    pub fn on(store: T, runtime: Runtime) -> Self {
        Self { inner: store, runtime }
    }
}

impl<S: AsyncStore> Store for Blocking<S> {
    type Txn<'a>
        = Blocking<S::Txn<'a>, &'a Runtime>
    where
        S: 'a;

    fn begin(&self, how: Begin<'_>) -> Result<Self::Txn<'_>, Trouble> {
        let runtime = &self.runtime;
        Ok(Blocking { inner: runtime.block_on(self.inner.begin(how))?, runtime })
    }

    fn identity(&self) -> (String, String) {
        self.inner.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.inner.levels()
    }
}

impl<T: AsyncTxn> Txn for Blocking<T, &Runtime> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        self.runtime.block_on(self.inner.get(key))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        self.runtime.block_on(self.inner.put(key, value))
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        self.runtime.block_on(self.inner.range(from, to))
    }

    fn commit(self) -> Result<(), Trouble> {
        self.runtime.block_on(self.inner.commit())
    }

    fn rollback(self) {
        self.runtime.block_on(self.inner.rollback());
    }
}

impl<S: AsyncSqlStore> SqlStore for Blocking<S> {
    type Session<'a>
        = Blocking<S::Session<'a>, &'a Runtime>
    where
        S: 'a;

    fn connect(&self, level: &str) -> Result<Self::Session<'_>, String> {
        let runtime = &self.runtime;
        Ok(Blocking { inner: runtime.block_on(self.inner.connect(level))?, runtime })
    }

    fn identity(&self) -> (String, String) {
        self.inner.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.inner.levels()
    }

    fn upsert(&self) -> Upsert {
        self.inner.upsert()
    }
}

impl<S: AsyncSession> Session for Blocking<S, &Runtime> {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.runtime.block_on(self.inner.begin())
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        self.runtime.block_on(self.inner.sql(text, params))
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.runtime.block_on(self.inner.commit())
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.runtime.block_on(self.inner.rollback())
    }

    fn has_returning(&self) -> bool {
        self.inner.has_returning()
    }
}
