//! Drivers that read and write keys.
//!
//! Keys and values are texts, so that any store can keep them. A key is `margay/r/0000000007`: the
//! kind of object and its number, padded, so that texts are in the order of numbers. A value is its
//! numbers with commas between them.

use std::sync::{Mutex, PoisonError};

use margay_client::{Begin, Bytes, Pair, Store, Trouble, Txn};
use serde_json::{Map, Value as Json, json};

use super::{Driver, Hello, Process, Speaks};

/// What comes before the kind in a key.
const PREFIX: usize = b"margay/".len();

/// The store of a driver.
#[derive(Debug)]
pub(super) struct Keys {
    driver: Driver,
    hello: Hello,
    /// Processes without a transaction: as many as there are clients.
    idle: Mutex<Vec<Process>>,
}

impl Keys {
    pub fn new(driver: Driver, hello: Hello, first: Process) -> Self {
        Self { driver, hello, idle: Mutex::new(vec![first]) }
    }

    fn take(&self) -> Result<Process, Trouble> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(process) => Ok(process),
            None => self.driver.start().map(|(process, _)| process).map_err(Trouble::Failed),
        }
    }

    fn give_back(&self, process: Process) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
    }
}

impl Store for Keys {
    type Txn<'a> = KeysTxn<'a>;

    fn begin(&self, how: Begin<'_>) -> Result<KeysTxn<'_>, Trouble> {
        let mut txn = KeysTxn { of: self, process: self.take()? };
        let begun = txn.ask(&json!({"op": "begin", "level": how.level, "reading": how.reading}));
        match begun {
            Ok(_) => Ok(txn),
            Err(refused @ Trouble::Refused(_)) => {
                self.give_back(txn.process);
                Err(refused)
            }
            Err(other) => Err(other),
        }
    }

    fn identity(&self) -> (String, String) {
        (self.hello.name.clone(), self.hello.version.clone())
    }

    fn levels(&self) -> Vec<&'static str> {
        self.hello.levels.iter().map(|(name, _)| *name).collect()
    }
}

/// A transaction, and the process that it runs in. One that is dropped takes its process with it.
#[derive(Debug)]
pub(super) struct KeysTxn<'a> {
    of: &'a Keys,
    process: Process,
}

impl KeysTxn<'_> {
    fn ask(&mut self, request: &Json) -> Result<Map<String, Json>, Trouble> {
        self.process.ask(&self.of.driver, request)
    }

    fn odd(&self, request: &Json, answer: &Map<String, Json>, wanted: &str) -> Trouble {
        let answer = Json::Object(answer.clone());
        let why = format!("the driver answered {request} with {answer}, where {wanted} is wanted");
        Trouble::Failed(self.of.driver.break_with(why))
    }
}

impl Txn for KeysTxn<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        let request = json!({"op": "read", "key": key_text(key)});
        let answer = self.ask(&request)?;
        match answer.get("value") {
            Some(Json::Null) => Ok(None),
            Some(Json::String(text)) if numbers(text).is_some() => Ok(numbers(text)),
            _ => Err(self.odd(&request, &answer, "the `value` that was written, or null")),
        }
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        self.ask(&json!({"op": "write", "key": key_text(key), "value": value.map(value_text)})).map(drop)
    }

    fn range(&mut self, from: &[u8], to: &[u8]) -> Result<Option<Vec<Pair>>, Trouble> {
        if self.of.hello.speaks != (Speaks::Keys { scans: true }) {
            return Ok(None);
        }
        let request = json!({"op": "scan", "from": key_text(from), "to": key_text(to)});
        let answer = self.ask(&request)?;
        let pair = |pair: &Json| {
            let key = key_bytes(pair.get(0)?.as_str()?)?;
            Some((key, numbers(pair.get(1)?.as_str()?)?))
        };
        let pairs = answer.get("pairs").and_then(Json::as_array);
        let pairs = pairs.and_then(|pairs| pairs.iter().map(pair).collect::<Option<Vec<Pair>>>());
        pairs.map(Some).ok_or_else(|| self.odd(&request, &answer, "`pairs`, a list of [key, value]"))
    }

    fn commit(mut self) -> Result<(), Trouble> {
        let committed = self.ask(&json!({"op": "commit"})).map(drop);
        if let Ok(()) | Err(Trouble::Refused(_)) = committed {
            self.of.give_back(self.process);
        }
        committed
    }

    fn rollback(mut self) {
        if self.ask(&json!({"op": "rollback"})).is_ok() {
            self.of.give_back(self.process);
        }
    }
}

fn key_text(key: &[u8]) -> String {
    match key.split_at_checked(PREFIX) {
        Some((prefix, &[kind, a, b, c, d])) => {
            let number = u32::from_be_bytes([a, b, c, d]);
            format!("{}{}/{number:010}", String::from_utf8_lossy(prefix), char::from(kind))
        }
        _ => String::from_utf8_lossy(key).into_owned(),
    }
}

fn key_bytes(text: &str) -> Option<Bytes> {
    let (start, number) = text.rsplit_once('/')?;
    Some([start.as_bytes(), &number.parse::<u32>().ok()?.to_be_bytes()].concat())
}

fn value_text(bytes: &[u8]) -> String {
    let numbers = bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes).to_string());
    numbers.collect::<Vec<_>>().join(",")
}

/// The bytes of a value, if the text is one.
fn numbers(text: &str) -> Option<Bytes> {
    let all = text.split(',').filter(|number| !number.is_empty());
    let all = all.map(|number| number.parse::<i64>().ok().map(i64::to_le_bytes));
    Some(all.collect::<Option<Vec<_>>>()?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_were_written() {
        let key = [b"margay/t".as_slice(), &300_u32.to_be_bytes()].concat();
        assert_eq!(key_text(&key), "margay/t/0000000300");
        assert_eq!(key_bytes("margay/t/0000000300"), Some(key));
        let value = [5_i64, -7].map(i64::to_le_bytes).concat();
        assert_eq!(value_text(&value), "5,-7");
        assert_eq!((numbers("5,-7"), numbers(""), numbers("x")), (Some(value), Some(Vec::new()), None));
        assert!(key_text(b"margay/") < key_text(b"margay0"));
    }
}
