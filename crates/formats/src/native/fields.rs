//! The fields of a line, and which of them go together.

use margay_history::OpKind;

use super::json::Fault;
use crate::suggest::nearest;

macro_rules! fields {
    ($($name:literal $field:ident)*) => {
        /// A field of an operation's or an evidence's line.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Field { $($field),* }

        impl Field {
            const ALL: &[Field] = &[$(Field::$field),*];

            pub fn named(name: &str) -> Option<Field> {
                match name {
                    $($name => Some(Field::$field),)*
                    _ => None,
                }
            }

            pub fn name(self) -> &'static str {
                match self {
                    $(Field::$field => $name,)*
                }
            }
        }
    };
}

fields! {
    "session" Session
    "txn" Txn
    "at" At
    "begin" Begin
    "read" Read
    "write" Write
    "append" Append
    "scan" Scan
    "update" Update
    "sql" Sql
    "commit" Commit
    "abort" Abort
    "unknown" Unknown
    "level" Level
    "read-only" ReadOnly
    "unit" Unit
    "params" Params
    "rows" Rows
    "count" Count
    "evidence" Evidence
    "object" Object
    "txns" Txns
    "op" Op
    "ts" Ts
}

impl Field {
    const COUNT: usize = Self::ALL.len();

    /// The operation that the field stands for.
    pub fn op_kind(self) -> Option<OpKind> {
        Some(match self {
            Field::Begin => OpKind::Begin,
            Field::Read => OpKind::Read,
            Field::Write => OpKind::Write,
            Field::Append => OpKind::Append,
            Field::Scan => OpKind::Scan,
            Field::Update => OpKind::Update,
            Field::Sql => OpKind::Sql,
            Field::Commit => OpKind::Commit,
            Field::Abort => OpKind::Abort,
            Field::Unknown => OpKind::Unknown,
            _ => return None,
        })
    }
}

/// The fields of one line: which there are, where, and the plain ones' values.
#[derive(Default)]
pub(super) struct Fields {
    seen: u32,
    keys: [u32; Field::COUNT],
    values: [u32; Field::COUNT],
    pub kind: Option<(OpKind, Field)>,
}

/// Which fields a line may have beside the ones that it must have.
pub(super) struct Shape {
    pub what: &'static str,
    pub required: &'static [Field],
    pub optional: &'static [Field],
}

impl Fields {
    /// Notes a field whose key stands at `key`.
    pub fn add(&mut self, name: &str, key: usize) -> Result<Field, Fault> {
        let Some(field) = Field::named(name) else { return Err(unknown_field(name, key)) };
        if self.has(field) {
            return Err(Fault::new(key, format!("field {name:?} occurs twice")));
        }
        self.seen |= 1 << field as u32;
        self.keys[field as usize] = key as u32;
        Ok(field)
    }

    /// Notes that the line is an operation of the field's kind.
    pub fn set_kind(&mut self, kind: OpKind, field: Field) -> Result<(), Fault> {
        match self.kind.replace((kind, field)) {
            None => Ok(()),
            Some((first, _)) => Err(Fault::new(
                self.key(field),
                format!("two operations on one line: {} and {}", first.name(), kind.name()),
            )),
        }
    }

    /// Notes where a field's value stands, to read it later.
    pub fn set_value(&mut self, field: Field, at: usize) {
        self.values[field as usize] = at as u32;
    }

    pub fn has(&self, field: Field) -> bool {
        self.seen & (1 << field as u32) != 0
    }

    /// Where the field's key stands.
    pub fn key(&self, field: Field) -> usize {
        self.keys[field as usize] as usize
    }

    /// Where the field's value stands, if it is there.
    pub fn value(&self, field: Field) -> Option<usize> {
        self.has(field).then(|| self.values[field as usize] as usize)
    }

    /// Whether all required fields are there, and no others than the optional ones.
    pub fn check(&self, shape: &Shape) -> Result<(), Fault> {
        let bits = |fields: &[Field]| fields.iter().fold(0, |bits, &field| bits | 1 << field as u32);
        let required = bits(shape.required);
        if self.seen & required == required && self.seen & !(required | bits(shape.optional)) == 0 {
            return Ok(());
        }
        if let Some(missing) = shape.required.iter().find(|&&field| !self.has(field)) {
            return Err(Fault::new(0, format!("{} needs the field {:?}", shape.what, missing.name())));
        }
        let known = |field: &Field| shape.required.contains(field) || shape.optional.contains(field);
        let extra = Field::ALL.iter().find(|&field| self.has(*field) && !known(field));
        extra.map_or(Ok(()), |&extra| {
            let what = format!("field {:?} does not belong to {}", extra.name(), shape.what);
            Err(Fault::new(self.key(extra), what))
        })
    }
}

fn unknown_field(name: &str, at: usize) -> Fault {
    if name == "margay" {
        return Fault::new(at, "a second header; a file has one, on its first line");
    }
    Fault::new(at, unknown("field", name, Field::ALL.iter().map(|field| field.name())))
}

/// "unknown field …", with the name that may have been meant.
pub(super) fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let shown: String = name.chars().take(40).collect();
    match nearest(name, known) {
        Some(near) => format!("unknown {what} {shown:?}; did you mean {near:?}?"),
        None => format!("unknown {what} {shown:?}"),
    }
}
