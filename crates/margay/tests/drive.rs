//! A store of one's own under the workloads: four methods, and what is wrong with it is told with
//! the smallest case that shows it.
#![cfg(feature = "run")]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use margay::Level;
use margay::drive::{Begin, Bytes, Database, Options, Store, Stored, Trouble, Txn, verify};

/// Locks every call, but not the transaction.
#[derive(Default)]
struct ForgottenLock(Mutex<BTreeMap<Bytes, Bytes>>);

impl ForgottenLock {
    fn map(&self) -> MutexGuard<'_, BTreeMap<Bytes, Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Unlocked<'a>(&'a ForgottenLock);

impl Store for ForgottenLock {
    type Txn<'a> = Unlocked<'a>;

    fn begin(&self, _how: Begin<'_>) -> Result<Unlocked<'_>, Trouble> {
        Ok(Unlocked(self))
    }
}

impl Txn for Unlocked<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        Ok(self.0.map().get(key).cloned())
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        match value {
            Some(value) => _ = self.0.map().insert(key.to_vec(), value.to_vec()),
            None => _ = self.0.map().remove(key),
        }
        Ok(())
    }

    fn commit(self) -> Result<(), Trouble> {
        Ok(())
    }
}

#[test]
fn a_store_without_isolation_is_caught_with_its_smallest_case() {
    let open =
        || -> Result<Box<dyn Database>, String> { Ok(Box::new(Stored::new(ForgottenLock::default()))) };
    let workload = "increment".parse().expect("a workload");
    let account = verify(open, workload, &Options::default(), Level::Serializable);
    let account = account.expect_err("updates get lost");
    assert!(account.starts_with("violated: "), "{account}");
    assert!(account.contains("smallest case: workload increment, seed "), "{account}");
}
