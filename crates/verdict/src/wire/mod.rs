//! Certificates as files: one JSON object, in the recorder's labels. `docs/CERTIFICATES.md`
//! describes it.
//!
//! # Invariants
//! - Reading is strict: what is unknown, missing, of a wrong type or not in the history is an error
//!   that names it.
//! - What was written reads back equal, against the same history; the fingerprint tells another
//!   history from it.

mod fingerprint;
mod invariant;
mod read;
mod sql;
mod write;

pub use fingerprint::fingerprint;
pub use read::{from_json, translation};
pub use write::to_json;

/// The version of the file format.
pub const VERSION: u64 = 1;

use margay_history::{History, ObjectId, Value, ValueId};
use serde_json::{Value as Json, json};

/// An object as in the native format: a key, or `[table, key]`; `[null, key]` for a key that is a
/// list.
fn object_json(history: &History, id: ObjectId) -> Json {
    let object = history.object(id);
    let key = value_json(history, object.key);
    match object.table {
        Some(table) => json!([history.table(table).name, key]),
        None if key.is_array() => json!([null, key]),
        None => key,
    }
}

fn value_json(history: &History, id: ValueId) -> Json {
    match history.value(id) {
        Value::Null | Value::Unknown => Json::Null,
        Value::Bool(b) => b.into(),
        Value::Int(i) => i.into(),
        Value::UInt(u) => u.into(),
        // JSON has no infinities; as keys they still have to be told apart.
        Value::Float(f) if !f.is_finite() => json!({ "number": f.to_string() }),
        Value::Float(f) => f.into(),
        Value::Text(text) => text.into(),
        Value::List(items) => items.iter().map(|&item| value_json(history, item)).collect(),
        Value::Row(columns) => {
            let column = |&(name, value)| (history.name(name).to_string(), value_json(history, value));
            Json::Object(columns.iter().map(column).collect())
        }
    }
}
