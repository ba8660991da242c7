//! Objects and values as people read them: close to the native format's JSON, without its quotes
//! where they only disturb.

use std::fmt::Write;

use crate::history::History;
use crate::ids::{ObjectId, TxnId, ValueId};
use crate::value::Value;

impl History {
    /// An object for people: `x`, `accounts/1`, `t/(1, 2)`; and `key 7`, for a bare number beside
    /// values would read like one of them.
    #[must_use]
    pub fn show_object(&self, id: ObjectId) -> String {
        let object = self.object(id);
        let mut out = String::new();
        match object.table {
            Some(table) => drop(write!(out, "{}/", self.table(table).name)),
            None if !matches!(self.value(object.key), Value::Text(_)) => out.push_str("key "),
            None => {}
        }
        match self.value(object.key) {
            Value::Text(text) => out.push_str(text),
            Value::List(items) => self.write_items(&mut out, ['(', ')'], items),
            _ => self.write_value(&mut out, object.key),
        }
        out
    }

    /// A value for people: `7`, `"a"`, `[1 2]`, `{balance: 100}`, `absent`, `?`.
    #[must_use]
    pub fn show_value(&self, id: ValueId) -> String {
        let mut out = String::new();
        self.write_value(&mut out, id);
        out
    }

    /// A transaction for people: `T7`, by its label.
    #[must_use]
    pub fn show_txn(&self, txn: TxnId) -> String {
        format!("T{}", self.txn_label(txn))
    }

    fn write_value(&self, out: &mut String, id: ValueId) {
        let _ = match self.value(id) {
            Value::Null => write!(out, "absent"),
            Value::Unknown => write!(out, "?"),
            Value::Bool(b) => write!(out, "{b}"),
            Value::Int(i) => write!(out, "{i}"),
            Value::UInt(u) => write!(out, "{u}"),
            Value::Float(f) => write!(out, "{f:?}"),
            Value::Text(text) => write!(out, "{text:?}"),
            Value::List(items) => {
                self.write_items(out, ['[', ']'], items);
                Ok(())
            }
            Value::Row(columns) => {
                out.push('{');
                for (i, &(name, value)) in columns.iter().enumerate() {
                    let _ = write!(out, "{}{}: ", if i > 0 { ", " } else { "" }, self.name(name));
                    self.write_value(out, value);
                }
                out.push('}');
                Ok(())
            }
        };
    }

    fn write_items(&self, out: &mut String, [open, close]: [char; 2], items: &[ValueId]) {
        out.push(open);
        for (i, &item) in items.iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            self.write_value(out, item);
        }
        out.push(close);
    }
}
