//! Stores as their authors would write them, some with a mistake.

#![allow(dead_code, reason = "every test file that includes this module uses a part of it")]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use margay_client::{Begin, Bytes, Store, Trouble, Txn};

/// What a transaction has written so far.
type Writes = BTreeMap<Bytes, Option<Bytes>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A map with one lock. `holds` says whether a transaction holds it from its begin to its end; the
/// mistake is to take it for each call.
#[derive(Default)]
pub struct Map {
    holds: bool,
    map: Mutex<BTreeMap<Bytes, Bytes>>,
}

impl Map {
    pub fn held() -> Self {
        Self { holds: true, ..Self::default() }
    }
}

pub struct MapTxn<'a> {
    store: &'a Map,
    held: Option<MutexGuard<'a, BTreeMap<Bytes, Bytes>>>,
    writes: Writes,
}

impl Store for Map {
    type Txn<'a> = MapTxn<'a>;

    fn begin(&self, _how: Begin<'_>) -> Result<MapTxn<'_>, Trouble> {
        let held = self.holds.then(|| locked(&self.map));
        Ok(MapTxn { store: self, held, writes: Writes::new() })
    }
}

impl Txn for MapTxn<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        if let Some(own) = self.writes.get(key) {
            return Ok(own.clone());
        }
        Ok(match &self.held {
            Some(map) => map.get(key).cloned(),
            None => locked(&self.store.map).get(key).cloned(),
        })
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        self.writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        Ok(())
    }

    fn commit(self) -> Result<(), Trouble> {
        let mut map = self.held.unwrap_or_else(|| locked(&self.store.map));
        for (key, value) in self.writes {
            match value {
                Some(value) => _ = map.insert(key, value),
                None => _ = map.remove(&key),
            }
        }
        Ok(())
    }
}

/// Snapshots of all versions. `refuses` says whether a commit is refused that overwrites what was
/// committed since the snapshot; the mistake is to let it pass.
#[derive(Default)]
pub struct Mvcc {
    refuses: bool,
    versions: Mutex<Versions>,
}

#[derive(Default)]
struct Versions {
    last: u64,
    /// By key: what was committed when, oldest first.
    of: BTreeMap<Bytes, Vec<(u64, Option<Bytes>)>>,
}

impl Mvcc {
    pub fn refusing() -> Self {
        Self { refuses: true, ..Self::default() }
    }

    pub fn snapshot(&self) -> u64 {
        locked(&self.versions).last
    }

    pub fn read(&self, at: u64, key: &[u8]) -> Option<Bytes> {
        let versions = locked(&self.versions);
        let seen = versions.of.get(key)?.iter().rfind(|(ts, _)| *ts <= at)?;
        seen.1.clone()
    }

    pub fn install(&self, snapshot: u64, writes: Writes) -> Result<(), Trouble> {
        let mut versions = locked(&self.versions);
        let newest = |key: &Bytes| versions.of.get(key).and_then(|all| all.last()).map_or(0, |last| last.0);
        if self.refuses && writes.keys().any(|key| newest(key) > snapshot) {
            return Err(Trouble::Refused("somebody else was first".to_owned()));
        }
        versions.last += 1;
        let now = versions.last;
        for (key, value) in writes {
            versions.of.entry(key).or_default().push((now, value));
        }
        Ok(())
    }
}

pub struct MvccTxn<'a> {
    pub store: &'a Mvcc,
    pub snapshot: u64,
    pub writes: Writes,
}

impl Store for Mvcc {
    type Txn<'a> = MvccTxn<'a>;

    fn begin(&self, _how: Begin<'_>) -> Result<MvccTxn<'_>, Trouble> {
        Ok(MvccTxn { store: self, snapshot: self.snapshot(), writes: Writes::new() })
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["SNAPSHOT"]
    }
}

impl Txn for MvccTxn<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        let own = self.writes.get(key).cloned();
        Ok(own.unwrap_or_else(|| self.store.read(self.snapshot, key)))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        self.writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        Ok(())
    }

    fn commit(self) -> Result<(), Trouble> {
        self.store.install(self.snapshot, self.writes)
    }
}
