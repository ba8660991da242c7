//! Values, objects and accesses of a line.

use margay_history::{Access, HistoryBuilder, NameId, ObjectId, ValueId};

use super::json::{DEPTH, Fault, Json, Number};

/// Reads values into a builder. The vectors are stacks that nested values share, so that reading
/// makes no garbage.
#[derive(Default)]
pub(super) struct ValueReader {
    pub builder: HistoryBuilder,
    /// Items of the lists that are being read.
    pub items: Vec<ValueId>,
    columns: Vec<(NameId, ValueId)>,
    /// Accesses of the operation that is being read.
    pub accesses: Vec<Access>,
}

impl ValueReader {
    /// Reads a value.
    pub fn value(&mut self, json: &mut Json<'_>) -> Result<ValueId, Fault> {
        self.nested(json, 0)
    }

    fn nested(&mut self, json: &mut Json<'_>, depth: usize) -> Result<ValueId, Fault> {
        if depth > DEPTH {
            return json.fault("this nests too deeply");
        }
        match json.peek() {
            Some(b'-' | b'0'..=b'9') => {
                let number = json.number("a number")?;
                Ok(self.number(number))
            }
            Some(b'"') => {
                let text = json.text("a text")?;
                Ok(self.builder.values().text(&text))
            }
            Some(b'[') => self.list(json, depth),
            Some(b'{') => self.row(json, depth),
            _ if json.word("null") => Ok(ValueId::NULL),
            _ if json.word("true") => Ok(ValueId::TRUE),
            _ if json.word("false") => Ok(ValueId::FALSE),
            _ => json.unexpected("a value"),
        }
    }

    fn number(&mut self, number: Number) -> ValueId {
        let values = self.builder.values();
        match number {
            Number::Int(int) => values.int(int),
            Number::UInt(uint) => values.uint(uint),
            Number::Float(float) => values.float(float),
        }
    }

    fn list(&mut self, json: &mut Json<'_>, depth: usize) -> Result<ValueId, Fault> {
        let base = self.items.len();
        json.list("a list", |json| {
            let item = self.nested(json, depth + 1)?;
            self.items.push(item);
            Ok(())
        })?;
        let id = self.builder.values().list(&self.items[base..]);
        self.items.truncate(base);
        Ok(id)
    }

    fn row(&mut self, json: &mut Json<'_>, depth: usize) -> Result<ValueId, Fault> {
        let (base, at) = (self.columns.len(), json.place());
        json.object("a row", |json, name, _| {
            let value = self.nested(json, depth + 1)?;
            let name = self.builder.values().intern_name(name);
            self.columns.push((name, value));
            Ok(())
        })?;
        let columns = &mut self.columns[base..];
        columns.sort_unstable_by_key(|&(name, _)| name);
        if let Some(twice) = columns.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let name = self.builder.values().name(twice[0].0);
            return Err(Fault::new(at, format!("column {name:?} occurs twice in this row")));
        }
        let id = self.builder.values().row(&self.columns[base..]);
        self.columns.truncate(base);
        Ok(id)
    }

    /// Reads an object: a scalar key, or `[table, key]`.
    pub fn object(&mut self, json: &mut Json<'_>) -> Result<ObjectId, Fault> {
        const OBJECT: &str = "an object: a key, or [table, key]";
        match json.peek() {
            Some(b'"' | b'-' | b'0'..=b'9' | b't' | b'f') => {
                let key = self.value(json)?;
                Ok(self.builder.object(None, key))
            }
            Some(b'[') => self.row_object(json),
            _ => json.unexpected(OBJECT),
        }
    }

    /// Reads `[table, key]`; the table `null` is none, for keys of a key-value store that are
    /// lists.
    fn row_object(&mut self, json: &mut Json<'_>) -> Result<ObjectId, Fault> {
        let (start, mut table, mut key) = (json.place(), None, None);
        let mut count = 0;
        json.list("[table, key]", |json| {
            count += 1;
            match count {
                1 if json.word("null") => {}
                1 => {
                    let name = json.text("a table's name, for an object is a key or [table, key]")?;
                    table = Some(self.builder.table(&name));
                }
                2 => key = Some(self.key(json)?),
                _ => return json.fault("an object is a key or [table, key]: too many items"),
            }
            Ok(())
        })?;
        let key =
            key.ok_or_else(|| Fault::new(start, "an object is a key or [table, key]: too few items"))?;
        Ok(self.builder.object(table, key))
    }

    fn key(&mut self, json: &mut Json<'_>) -> Result<ValueId, Fault> {
        match json.peek() {
            Some(b'{' | b'n') => json.unexpected("a key: a scalar, or a list for a key of several columns"),
            _ => self.value(json),
        }
    }

    /// Reads `[object, value]`, or `[object]` for a value that is not known.
    pub fn pair(&mut self, json: &mut Json<'_>) -> Result<Access, Fault> {
        let (start, mut object, mut value) = (json.place(), None, ValueId::UNKNOWN);
        let mut count = 0;
        json.list("a pair of object and value, such as [\"x\",1]", |json| {
            count += 1;
            match count {
                1 => object = Some(self.object(json)?),
                2 => value = self.value(json)?,
                _ => return json.fault("a pair is [object, value]: too many items"),
            }
            Ok(())
        })?;
        let object = object.ok_or_else(|| Fault::new(start, "a pair is [object, value]: it is empty"))?;
        Ok(Access { object, value })
    }

    /// Reads a list of pairs into `accesses`.
    pub fn pairs(&mut self, json: &mut Json<'_>) -> Result<(), Fault> {
        json.list("a list of pairs, such as [[\"x\",1]]", |json| {
            let access = self.pair(json)?;
            self.accesses.push(access);
            Ok(())
        })
    }
}
