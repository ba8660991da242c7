//! Stores of keys and values: what their author implements, and what workloads make of it.
//!
//! An author implements four methods: [`Store::begin`], [`Txn::get`], [`Txn::put`] and
//! [`Txn::commit`]. [`Stored`] makes a [`Database`] of it, which every workload on registers, lists
//! and rows can drive.
//!
//! # What is stored
//! A register is one number, a row two, a list as many as it has. Appends, deletes and scans are
//! gets and puts of the same transaction: that is what applications do. Below snapshot isolation
//! somebody may come in between, so a scan of such a store is no single moment, and levels that
//! allow lost updates run no appends ([`Database::reads_to_change`]).

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Ask, Change, Cond, Connection, Database, Obj, Row, Space, Start, Trouble, Value};

/// Before every key, so that nothing else in the store is touched.
const PREFIX: &[u8; 7] = b"margay/";

/// The bytes of a key or of a value.
pub type Bytes = Vec<u8>;

/// A pair of a key and its value.
pub type Pair = (Bytes, Bytes);

/// How a transaction is begun. A store with one level needs nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin<'a> {
    /// The level, one of [`Store::levels`].
    pub level: &'a str,
    /// Whether the transaction will only read, which some stores want to know beforehand.
    pub reading: bool,
}

/// A store of keys and values that has transactions.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Mutex, MutexGuard, PoisonError};
///
/// use margay_client::{Begin, Bytes, Store, Trouble, Txn};
///
/// /// One transaction at a time.
/// #[derive(Default)]
/// struct Locked(Mutex<BTreeMap<Bytes, Bytes>>);
///
/// struct LockedTxn<'a> {
///     map: MutexGuard<'a, BTreeMap<Bytes, Bytes>>,
///     writes: BTreeMap<Bytes, Option<Bytes>>,
/// }
///
/// impl Store for Locked {
///     type Txn<'a> = LockedTxn<'a>;
///
///     fn begin(&self, _how: Begin<'_>) -> Result<LockedTxn<'_>, Trouble> {
///         let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
///         Ok(LockedTxn { map, writes: BTreeMap::new() })
///     }
/// }
///
/// impl Txn for LockedTxn<'_> {
///     fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
///         let own = self.writes.get(key).cloned();
///         Ok(own.unwrap_or_else(|| self.map.get(key).cloned()))
///     }
///
///     fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
///         self.writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
///         Ok(())
///     }
///
///     fn commit(mut self) -> Result<(), Trouble> {
///         for (key, value) in self.writes {
///             match value {
///                 Some(value) => _ = self.map.insert(key, value),
///                 None => _ = self.map.remove(&key),
///             }
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Store: Send + Sync {
    /// An open transaction. One that is dropped is rolled back.
    type Txn<'a>: Txn
    where
        Self: 'a;

    /// Begins a transaction. A client has one open transaction at most.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when there is no transaction after all.
    fn begin(&self, how: Begin<'_>) -> Result<Self::Txn<'_>, Trouble>;

    /// The name that profiles know the store by, and its version.
    fn identity(&self) -> (String, String) {
        ("store".to_owned(), "0".to_owned())
    }

    /// The levels that it can be asked for, in its own words, the default first.
    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE"]
    }
}

/// An open transaction of a [`Store`]. One that is dropped is rolled back.
///
/// After [`Trouble::Refused`] the transaction is gone: it is rolled back, and not asked again.
pub trait Txn: Sized {
    /// The value of a key, as this transaction sees it.
    ///
    /// # Errors
    /// When there is no answer.
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble>;

    /// Puts a value, or removes what there is.
    ///
    /// # Errors
    /// When the store does not take it.
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble>;

    /// Commits.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when the transaction certainly has not committed. After any other
    /// trouble its outcome is recorded as unknown.
    fn commit(self) -> Result<(), Trouble>;

    /// The pairs from one key up to and without another, in the order of their keys; `None` where
    /// the store has no such call. Then scans get key after key.
    ///
    /// # Errors
    /// When there is no answer.
    fn range(&mut self, _from: &[u8], _to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        Ok(None)
    }

    /// Rolls back.
    fn rollback(self) {}
}

/// A transaction of one of two kinds.
#[derive(Clone, Copy, Debug)]
pub enum Either<A, B> {
    /// The first kind.
    A(A),
    /// The second kind.
    B(B),
}

impl<A: Txn, B: Txn> Txn for Either<A, B> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        match self {
            Either::A(txn) => txn.get(key),
            Either::B(txn) => txn.get(key),
        }
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        match self {
            Either::A(txn) => txn.put(key, value),
            Either::B(txn) => txn.put(key, value),
        }
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        match self {
            Either::A(txn) => txn.range(from, to),
            Either::B(txn) => txn.range(from, to),
        }
    }

    fn commit(self) -> Result<(), Trouble> {
        match self {
            Either::A(txn) => txn.commit(),
            Either::B(txn) => txn.commit(),
        }
    }

    fn rollback(self) {
        match self {
            Either::A(txn) => txn.rollback(),
            Either::B(txn) => txn.rollback(),
        }
    }
}

/// A store as a database.
///
/// Without [`Txn::range`] nobody can tell what an earlier run has left. So every run of such a
/// store has numbers of its own for its objects: a key of ours says where the next run begins.
#[derive(Debug)]
pub struct Stored<S> {
    store: S,
    /// How many keys each kind of object has, as far as a scan must know.
    keys: AtomicU32,
    /// One more than the greatest number of an object so far, which is more for lists that grew
    /// long.
    used: AtomicU32,
    /// The number of this run's first object.
    first: AtomicU32,
}

/// How many numbers a run of a store without [`Txn::range`] has.
const NUMBERS: u32 = 1 << 20;

impl<S: Store> Stored<S> {
    /// The database of a store.
    pub fn new(store: S) -> Self {
        Self { store, keys: AtomicU32::new(0), used: AtomicU32::new(0), first: AtomicU32::new(0) }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    fn prepared(&self, level: &str, initial: &[(Obj, Value)]) -> Result<(), Trouble> {
        let mut txn = self.store.begin(Begin { level, reading: false })?;
        if !self.clear_all(&mut txn)? {
            let next = [PREFIX.as_slice(), b"n", &[0; 4]].concat();
            let found =
                txn.get(&next)?.and_then(|bytes| bytes.first_chunk().copied()).map_or(0, i64::from_le_bytes);
            let first = u32::try_from(found).unwrap_or(0);
            self.first.store(first, Ordering::Relaxed);
            txn.put(&next, Some(&bytes(&[i64::from(first.wrapping_add(NUMBERS))])))?;
        }
        let first = self.first.load(Ordering::Relaxed);
        for (obj, value) in initial {
            let key = key(first, *obj);
            match value {
                Value::Int(int) => txn.put(&key, Some(&bytes(&[*int])))?,
                Value::Row(Row { v: Some(v), w: Some(w) }) => txn.put(&key, Some(&bytes(&[*v, *w])))?,
                _ => {}
            }
        }
        txn.commit()
    }

    fn cleaned_up(&self, level: &str) -> Result<(), Trouble> {
        let mut txn = self.store.begin(Begin { level, reading: false })?;
        if !self.clear_all(&mut txn)? {
            let (first, used) = (self.first.load(Ordering::Relaxed), self.used.load(Ordering::Relaxed));
            for number in 0..used.max(self.keys.load(Ordering::Relaxed)) {
                for space in [Space::Register, Space::List, Space::Row] {
                    let key = key(first, Obj::new(space, number));
                    if txn.get(&key)?.is_some() {
                        txn.put(&key, None)?;
                    }
                }
            }
        }
        txn.commit()
    }

    /// Removes everything of ours, if the store can find it.
    fn clear_all(&self, txn: &mut S::Txn<'_>) -> Result<bool, Trouble> {
        let mut end = PREFIX.to_vec();
        *end.last_mut().unwrap_or(&mut 0) += 1;
        let Some(found) = txn.range(PREFIX, &end)? else { return Ok(false) };
        found.iter().try_for_each(|(key, _)| txn.put(key, None))?;
        Ok(true)
    }
}

impl<S: Store> Database for Stored<S> {
    fn identity(&self) -> (String, String) {
        self.store.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.store.levels()
    }

    fn reads_to_change(&self) -> bool {
        true
    }

    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String> {
        let keys = start.initial.iter().map(|(obj, _)| obj.key + 1).max().unwrap_or(0);
        self.keys.fetch_max(keys, Ordering::Relaxed);
        self.prepared(own_name, &start.initial).map_err(|trouble| trouble.to_string())
    }

    fn connect(&self, _client: usize, own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        Ok(Box::new(Client { of: self, level: own_name.to_owned(), open: None }))
    }

    fn clean_up(&self) {
        if let Some(level) = self.store.levels().first() {
            let _ = self.cleaned_up(level);
        }
    }
}

struct Client<'a, S: Store> {
    of: &'a Stored<S>,
    level: String,
    open: Option<S::Txn<'a>>,
}

impl<S: Store> Client<'_, S> {
    fn start(&mut self, reading: bool) -> Result<(), Trouble> {
        self.open = None;
        self.open = Some(self.of.store.begin(Begin { level: &self.level, reading })?);
        Ok(())
    }
}

impl<S: Store> Connection for Client<'_, S> {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.start(false)
    }

    fn begin_reading(&mut self) -> Result<(), Trouble> {
        self.start(true)
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        let (first, keys) = (self.of.first.load(Ordering::Relaxed), self.of.keys.load(Ordering::Relaxed));
        if let Ask::Write(obj, _) = ask {
            self.of.used.fetch_max(obj.key + 1, Ordering::Relaxed);
        }
        let open = self.open.as_mut().ok_or_else(not_begun)?;
        let executed = execute(open, (first, keys), ask, rows);
        if let (Err(_), Some(open)) = (&executed, self.open.take_if(|_| executed.is_err())) {
            open.rollback();
        }
        executed
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.open.take().ok_or_else(not_begun)?.commit().map_err(Trouble::at_commit)
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        if let Some(open) = self.open.take() {
            open.rollback();
        }
        Ok(())
    }
}

fn not_begun() -> Trouble {
    Trouble::Failed("no transaction was begun for this".to_owned())
}

/// Does what a client asks, where objects have numbers from the first of these on, and so many
/// keys.
fn execute(
    txn: &mut impl Txn,
    (first, keys): (u32, u32),
    ask: Ask,
    rows: &mut Vec<(Obj, Value)>,
) -> Result<(), Trouble> {
    match ask {
        Ask::Read(obj) => {
            let found = txn.get(&key(first, obj))?;
            rows.push((obj, found.map_or(Ok(Value::Absent), |bytes| value(obj.space, &bytes))?));
        }
        Ask::Write(obj, change) => write(txn, (first, obj), change, rows)?,
        Ask::Scan(cond) => rows.extend(matching(txn, (first, keys), cond)?),
        Ask::Update(cond, set) => {
            for (obj, found) in matching(txn, (first, keys), cond)? {
                let change = set.map_or(Change::Delete, |v| Change::Merge(Row { v: Some(v), w: None }));
                write(txn, (first, obj), change, &mut Vec::new())?;
                let v = set.map(|v| merged(&found, Row { v: Some(v), w: None }));
                rows.push((obj, v.map_or(Value::Absent, Value::Row)));
            }
        }
        Ask::Aggregate(_) => return Err(Trouble::Failed("stores of pairs do not aggregate".to_owned())),
    }
    Ok(())
}

fn write(
    txn: &mut impl Txn,
    (first, obj): (u32, Obj),
    change: Change,
    rows: &mut Vec<(Obj, Value)>,
) -> Result<(), Trouble> {
    let key = key(first, obj);
    match change {
        Change::Put(value) => txn.put(&key, Some(&bytes(&[value]))),
        Change::Append(item) => {
            let mut list = txn.get(&key)?.unwrap_or_default();
            list.extend(item.to_le_bytes());
            txn.put(&key, Some(&list))
        }
        Change::Merge(Row { v: Some(v), w: Some(w) }) => txn.put(&key, Some(&bytes(&[v, w]))),
        Change::Merge(row) => {
            let found = txn.get(&key)?;
            let found = found.map_or(Ok(Value::Absent), |bytes| value(obj.space, &bytes))?;
            match merged(&found, row) {
                Row { v: Some(v), w: Some(w) } => txn.put(&key, Some(&bytes(&[v, w]))),
                _ => Err(Trouble::Failed("a row of one column".to_owned())),
            }
        }
        Change::Delete if txn.get(&key)?.is_none() => {
            rows.push((obj, Value::Absent));
            Ok(())
        }
        Change::Delete => txn.put(&key, None),
    }
}

fn merged(found: &Value, new: Row) -> Row {
    match found {
        Value::Row(old) => Row { v: new.v.or(old.v), w: new.w.or(old.w) },
        _ => new,
    }
}

/// The rows that match a condition. All rows are read: a store knows no other columns than the key.
fn matching(txn: &mut impl Txn, (first, keys): (u32, u32), cond: Cond) -> Result<Vec<(Obj, Value)>, Trouble> {
    let [low, high] = [0, u32::MAX].map(|number| key(0, Obj::new(Space::Row, number)));
    let mut found = Vec::new();
    match txn.range(&low, &high)? {
        Some(pairs) => {
            for (key, bytes) in pairs {
                let number = key.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                found.push((Obj::new(Space::Row, number), value(Space::Row, &bytes)?));
            }
        }
        None => {
            for obj in (0..keys).map(|number| Obj::new(Space::Row, number)) {
                if let Some(bytes) = txn.get(&key(first, obj))? {
                    found.push((obj, value(Space::Row, &bytes)?));
                }
            }
        }
    }
    found.retain(|(_, value)| cond.matches(value));
    Ok(found)
}

/// Objects of one kind stand together, in the order of their numbers.
fn key(first: u32, obj: Obj) -> Bytes {
    let kind = match obj.space {
        Space::Register => b'r',
        Space::List => b'l',
        Space::Row => b't',
    };
    [PREFIX.as_slice(), &[kind], &first.wrapping_add(obj.key).to_be_bytes()].concat()
}

fn bytes(numbers: &[i64]) -> Bytes {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn value(space: Space, bytes: &[u8]) -> Result<Value, Trouble> {
    let (numbers, rest) = bytes.as_chunks();
    let numbers: Vec<i64> = numbers.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
    match (space, numbers.as_slice(), rest) {
        (Space::Register, [int], []) => Ok(Value::Int(*int)),
        (Space::Row, [v, w], []) => Ok(Value::Row(Row { v: Some(*v), w: Some(*w) })),
        (Space::List, list, []) => Ok(Value::List(list.into())),
        _ => Err(Trouble::Failed(format!("the store answered with {bytes:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let row = Value::Row(Row { v: Some(3), w: Some(-1) });
        assert_eq!(value(Space::Row, &bytes(&[3, -1])), Ok(row));
        assert_eq!(value(Space::Register, &bytes(&[i64::MIN])), Ok(Value::Int(i64::MIN)));
        assert_eq!(value(Space::List, &[]), Ok(Value::List([].into())));
        assert!(value(Space::Register, &[1, 2]).is_err());
    }

    #[test]
    fn rows_stand_between_the_first_and_the_last() {
        let [a, b] = [1, 256].map(|number| key(0, Obj::new(Space::Row, number)));
        assert!(a < b && !a.starts_with(&key(0, Obj::new(Space::List, 1))));
    }
}
