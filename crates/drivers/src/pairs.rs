//! What key-value stores have in common: how objects become pairs of bytes, and what statements are as calls.
//!
//! A register is one number, a row two, a list as many as it has. Appends and deletes are a get and a put of the same transaction: that is what applications
//! do, and at the levels that these stores promise (snapshot isolation or more) nobody comes in between unnoticed.

use std::path::{Path, PathBuf};

use margay_client::{Ask, Change, Cond, Obj, Row, Space, Start, Value};
use tempfile::TempDir;

use crate::{Connection, Database, Trouble};

/// Before every key, so that nothing else in the store is touched.
const PREFIX: &[u8; 7] = b"margay/";

/// The bytes of a key or of a value.
pub(crate) type Bytes = Vec<u8>;

/// A store: what is left for a driver to do.
pub(crate) trait Store: Send + Sync {
    /// The name that profiles know it by, and its version.
    fn identity(&self) -> (&'static str, &'static str);
    /// The levels that it can be asked for, the default first.
    fn levels(&self) -> Vec<&'static str>;
    /// A connection for transactions at this level.
    fn connect(&self, own_name: &str) -> Result<Box<dyn Pairs + '_>, String>;
}

/// One client's transactions on pairs of bytes.
pub(crate) trait Pairs {
    /// Begins; `reading` says that only reads will come.
    fn begin(&mut self, reading: bool) -> Result<(), Trouble>;
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble>;
    /// Puts a value, or removes what there is.
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble>;
    /// The pairs from one key up to and without another.
    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Trouble>;
    /// Commits. What trouble means then is not the store's business.
    fn commit(&mut self) -> Result<(), Trouble>;
    fn rollback(&mut self);
}

/// The open transaction, which there is unless somebody has forgotten to begin one.
pub(crate) fn begun<T>(open: Option<T>) -> Result<T, Trouble> {
    open.ok_or_else(|| Trouble::Failed("no transaction was begun for this".to_owned()))
}

/// A store as a database.
pub(crate) struct Stored<S>(pub S);

impl<S: Store> Database for Stored<S> {
    fn identity(&self) -> (String, String) {
        let (dbms, version) = self.0.identity();
        (dbms.to_owned(), version.to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        self.0.levels()
    }

    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String> {
        let mut pairs = self.0.connect(own_name)?;
        prepare(pairs.as_mut(), &start.initial).map_err(|trouble| trouble.to_string())
    }

    fn connect(&self, _client: usize, own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        Ok(Box::new(Client(self.0.connect(own_name)?)))
    }

    fn clean_up(&self) {
        if let Some(Ok(mut pairs)) = self.0.levels().first().map(|level| self.0.connect(level)) {
            let _ = prepare(pairs.as_mut(), &[]);
        }
    }
}

fn prepare(pairs: &mut dyn Pairs, initial: &[(Obj, Value)]) -> Result<(), Trouble> {
    pairs.begin(false)?;
    let mut end = PREFIX.to_vec();
    *end.last_mut().unwrap_or(&mut 0) += 1;
    for (key, _) in pairs.range(PREFIX, &end)? {
        pairs.put(&key, None)?;
    }
    for (obj, value) in initial {
        match value {
            Value::Int(int) => pairs.put(&key(*obj), Some(&bytes(&[*int])))?,
            Value::Row(Row { v: Some(v), w: Some(w) }) => pairs.put(&key(*obj), Some(&bytes(&[*v, *w])))?,
            _ => {}
        }
    }
    pairs.commit()
}

struct Client<'a>(Box<dyn Pairs + 'a>);

impl Connection for Client<'_> {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.0.begin(false)
    }

    fn begin_reading(&mut self) -> Result<(), Trouble> {
        self.0.begin(true)
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        let executed = execute(self.0.as_mut(), ask, rows);
        if matches!(executed, Err(Trouble::Refused(_))) {
            self.0.rollback();
        }
        executed
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.0.commit().map_err(Trouble::at_commit)
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.0.rollback();
        Ok(())
    }
}

fn execute(pairs: &mut dyn Pairs, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
    match ask {
        Ask::Read(obj) => {
            let found = pairs.get(&key(obj))?;
            rows.push((obj, found.map_or(Ok(Value::Absent), |bytes| value(obj.space, &bytes))?));
        }
        Ask::Write(obj, change) => write(pairs, obj, change, rows)?,
        Ask::Scan(cond) => rows.extend(matching(pairs, cond)?),
        Ask::Update(cond, set) => {
            for (obj, found) in matching(pairs, cond)? {
                let change = set.map_or(Change::Delete, |v| Change::Merge(Row { v: Some(v), w: None }));
                write(pairs, obj, change, &mut Vec::new())?;
                let v = set.map(|v| merged(&found, Row { v: Some(v), w: None }));
                rows.push((obj, v.map_or(Value::Absent, Value::Row)));
            }
        }
        Ask::Aggregate(_) => return Err(Trouble::Failed("stores of pairs do not aggregate".to_owned())),
    }
    Ok(())
}

fn write(
    pairs: &mut dyn Pairs,
    obj: Obj,
    change: Change,
    rows: &mut Vec<(Obj, Value)>,
) -> Result<(), Trouble> {
    let key = key(obj);
    match change {
        Change::Put(value) => pairs.put(&key, Some(&bytes(&[value]))),
        Change::Append(item) => {
            let mut list = pairs.get(&key)?.unwrap_or_default();
            list.extend(item.to_le_bytes());
            pairs.put(&key, Some(&list))
        }
        Change::Merge(Row { v: Some(v), w: Some(w) }) => pairs.put(&key, Some(&bytes(&[v, w]))),
        Change::Merge(row) => {
            let found = pairs.get(&key)?;
            let found = found.map_or(Ok(Value::Absent), |bytes| value(obj.space, &bytes))?;
            match merged(&found, row) {
                Row { v: Some(v), w: Some(w) } => pairs.put(&key, Some(&bytes(&[v, w]))),
                _ => Err(Trouble::Failed("a row of one column".to_owned())),
            }
        }
        Change::Delete if pairs.get(&key)?.is_none() => {
            rows.push((obj, Value::Absent));
            Ok(())
        }
        Change::Delete => pairs.put(&key, None),
    }
}

fn merged(found: &Value, new: Row) -> Row {
    match found {
        Value::Row(old) => Row { v: new.v.or(old.v), w: new.w.or(old.w) },
        _ => new,
    }
}

/// The rows that match a condition. All rows are read: these stores know no other columns than the key.
fn matching(pairs: &mut dyn Pairs, cond: Cond) -> Result<Vec<(Obj, Value)>, Trouble> {
    let first = Obj::new(Space::Row, 0);
    let last = Obj::new(Space::Row, u32::MAX);
    let mut found = Vec::new();
    for (key, bytes) in pairs.range(&key(first), &key(last))? {
        let value = value(Space::Row, &bytes)?;
        if let Value::Row(Row { v: Some(v), .. }) = value
            && (cond.low..=cond.high).contains(&v)
        {
            let number = key.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            found.push((Obj::new(Space::Row, number), value));
        }
    }
    Ok(found)
}

/// Objects of one kind stand together, in the order of their numbers.
fn key(obj: Obj) -> Bytes {
    let kind = match obj.space {
        Space::Register => b'r',
        Space::List => b'l',
        Space::Row => b't',
    };
    [PREFIX.as_slice(), &[kind], &obj.key.to_be_bytes()].concat()
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

/// Where a store keeps its files: a given folder, or a temporary one that goes with it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _temporary: Option<TempDir>,
}

impl Folder {
    pub fn new(path: Option<&Path>) -> Result<Self, String> {
        if let Some(path) = path {
            std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
            return Ok(Self { path: path.to_owned(), _temporary: None });
        }
        let temporary =
            TempDir::with_prefix("margay-").map_err(|error| format!("no temporary folder: {error}"))?;
        Ok(Self { path: temporary.path().to_owned(), _temporary: Some(temporary) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The given file, or one of this name in a temporary folder.
    #[cfg(any(feature = "turso", feature = "duckdb"))]
    pub fn or_file(path: Option<&Path>, name: &str) -> Result<(Option<Self>, PathBuf), String> {
        if let Some(path) = path {
            return Ok((None, path.to_owned()));
        }
        let folder = Self::new(None)?;
        let file = folder.path.join(name);
        Ok((Some(folder), file))
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
        let [a, b] = [1, 256].map(|number| key(Obj::new(Space::Row, number)));
        assert!(a < b && !a.starts_with(&key(Obj::new(Space::List, 1))));
    }
}
