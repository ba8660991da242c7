//! Recordings without values in clear, and without texts of statements.
//!
//! # Problem
//! A recording holds what an application reads and writes. Some of that must not be kept.
//!
//! # Algorithm
//! 1. Each statement is translated into reads and writes of rows as it comes ([`margay_rows`]). Its
//!    text is dropped.
//! 2. With `--hash-values`, every value becomes a keyed hash, keys of rows included. The key is
//!    random, and gone when the recording ends. With `--redact`, a column is unknown.
//!
//! # Invariants
//! - Hashing renames values: equal values have equal hashes, and others differ. So a level allows
//!   what is recorded exactly if it allows the same in clear.
//! - What is left out besides are reads: conditions of searches, and in MySQL locking reads, which
//!   see newer versions. A transaction that loses something is counted in [`Veil::lossy`].
//! - A write that is not understood stays as a write of unknown rows of its table, or of anything.
//! - Nothing in clear leaves this module: translation has a builder of its own.

use std::fs::File;
use std::io::Read;

use margay_history::{
    Access, HistoryBuilder, Invalid, NameId, Object, Statement, Table, TableId, Value, ValueId, Values,
};
use margay_rows::{Became, Effect, KnownRows, SeenState, Translator, effect};
use sha2::{Digest, Sha256};

/// What is not recorded in clear.
#[derive(Clone, Default, Debug)]
pub struct Secrecy {
    /// The key of the hashes, if values are hashed.
    key: Option<[u8; 32]>,
    /// Columns that are not recorded: names of tables with names of columns.
    redacted: Vec<(String, String)>,
}

impl Secrecy {
    /// With a new key.
    ///
    /// # Errors
    /// When the system gives no random bytes, or a name is no `TABLE.COLUMN`.
    pub fn new(hashes: bool, redacted: &[String]) -> Result<Self, String> {
        let key = hashes.then(random).transpose()?;
        let column = |name: &String| {
            let parts =
                name.rsplit_once('.').filter(|(table, column)| !table.is_empty() && !column.is_empty());
            let (table, column) = parts.ok_or_else(|| format!("{name} is no TABLE.COLUMN"))?;
            Ok((table.to_owned(), column.to_owned()))
        };
        Ok(Self { key, redacted: redacted.iter().map(column).collect::<Result<_, String>>()? })
    }

    /// Whether everything may be recorded in clear.
    pub(crate) fn is_nothing(&self) -> bool {
        self.key.is_none() && self.redacted.is_empty()
    }

    /// The columns of a table that are not recorded.
    fn redacted<'t>(&self, table: &'t Table) -> impl Iterator<Item = &'t String> {
        let names = |column: &&String| {
            let named = |(of, name): &(String, String)| {
                of.eq_ignore_ascii_case(&table.name) && name.eq_ignore_ascii_case(column)
            };
            self.redacted.iter().any(named)
        };
        table.columns.iter().map(|(name, _)| name).filter(names)
    }

    /// The redacted columns that none of these tables has, of those that are of one of them.
    pub(crate) fn missing(&self, tables: &[Table]) -> Option<String> {
        let known = |table: &&Table, of: &str| table.name.eq_ignore_ascii_case(of);
        self.redacted.iter().find_map(|(of, name)| {
            let table = tables.iter().find(|table| known(table, of))?;
            let has = table.columns.iter().any(|(column, _)| column.eq_ignore_ascii_case(name));
            (!has).then(|| format!("table {of} has no column {name}, which --redact names"))
        })
    }

    /// The name of a unit.
    pub(crate) fn unit(&self, unit: &str) -> String {
        self.key.map_or_else(|| unit.to_owned(), |key| hash(&key, b't', unit.as_bytes()))
    }
}

fn random() -> Result<[u8; 32], String> {
    let mut key = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut key))
        .map_err(|error| format!("no random key for hashes: {error}"))?;
    Ok(key)
}

/// Half of a keyed SHA-256: whoever has no key cannot try values out.
fn hash(key: &[u8; 32], kind: u8, bytes: &[u8]) -> String {
    let digest = Sha256::new().chain_update(key).chain_update([kind]).chain_update(bytes).finalize();
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What becomes of a statement.
pub(crate) enum Veiled {
    /// Nothing of it is recorded.
    Nothing,
    Read(Vec<Access>),
    Write(Vec<Access>),
    /// It may have written any rows of this table.
    Changes(TableId),
    /// It may have done anything.
    Anything,
}

/// Translates statements, and hides their values.
pub(crate) struct Veil {
    secrecy: Secrecy,
    translator: Translator,
    known: KnownRows,
    /// Everything in clear.
    clear: HistoryBuilder,
    /// Tables of which nothing can be recorded: their rows have no names, or secret ones.
    nameless: Vec<bool>,
    /// Whether something of the transaction was left out, and of how many something was.
    loses: bool,
    pub lossy: u64,
}

impl Veil {
    /// Hides what a builder has of the first state. Returns the builder of the recording.
    ///
    /// # Errors
    /// When the tables cannot be declared.
    pub fn new(secrecy: Secrecy, mut clear: HistoryBuilder) -> Result<(Self, HistoryBuilder), Invalid> {
        let dbms = clear.header().dbms.clone();
        let translator = Translator::new(clear.tables(), dbms.as_deref(), SeenState::Changing).partly();
        let mut builder = HistoryBuilder::new();
        builder.header().clone_from(clear.header());
        let mut nameless = Vec::new();
        for table in clear.tables() {
            let secret: Vec<String> = secrecy.redacted(table).cloned().collect();
            let hidden = table.key.is_empty() || table.key.iter().any(|column| secret.contains(column));
            let mut shown = table.clone();
            if secrecy.key.is_some() {
                shown.columns.iter_mut().for_each(|(_, kind)| "hashed".clone_into(kind));
            }
            shown.columns_by_anything.extend(secret.into_iter().filter(|it| !table.key.contains(it)));
            shown.columns_by_anything.sort_unstable();
            shown.columns_by_anything.dedup();
            shown.initial_unknown |= hidden;
            shown.written_by_anything |= hidden && !table.key.is_empty();
            builder.declare_table(shown)?;
            nameless.push(hidden);
        }
        let known = KnownRows::default();
        let veil = Self { secrecy, translator, known, clear, nameless, loses: false, lossy: 0 };
        let initial: Vec<Access> = veil.clear.initial_values().collect();
        for access in initial {
            if let Some(access) = veil.access(access, &mut builder) {
                builder.initial(access.object, access.value)?;
            }
        }
        Ok((veil, builder))
    }

    /// Where values in clear are.
    pub fn values(&mut self) -> &mut Values {
        self.clear.values()
    }

    /// The name of a unit.
    pub fn unit(&self, unit: &str) -> String {
        self.secrecy.unit(unit)
    }

    /// A transaction has ended.
    pub fn ended(&mut self) {
        self.known.clear();
        self.lossy += u64::from(std::mem::take(&mut self.loses));
    }

    /// What becomes of a statement, whose values are in clear.
    pub fn statement(&mut self, statement: &Statement, builder: &mut HistoryBuilder) -> Veiled {
        let became = self.translator.statement(&mut self.known, statement, &mut self.clear);
        let newer = self.translator.dialect().is_mysql();
        match became {
            Ok(Became::Write(accesses)) => self.written(&accesses, builder),
            Ok(Became::Update { table, nothing: false, .. }) => Veiled::Changes(table),
            Ok(Became::Read { lock: Some(_), .. }) if newer => self.nothing(),
            Ok(Became::Read { accesses, .. }) => self.read(&accesses, builder),
            // What a search did not find cannot be told without its condition.
            Ok(Became::Scan { rows, lock, .. }) => {
                self.loses = true;
                let rows = rows.filter(|_| lock.is_none() || !newer);
                self.read(&rows.unwrap_or_default(), builder)
            }
            Ok(Became::Update { .. }) => self.nothing(),
            Err(_) => self.not_understood(&statement.text),
        }
    }

    fn nothing(&mut self) -> Veiled {
        self.loses = true;
        Veiled::Nothing
    }

    fn not_understood(&mut self, text: &str) -> Veiled {
        match effect(text, self.clear.tables(), self.translator.dialect()) {
            Effect::Nothing => self.nothing(),
            Effect::Writes(table) => Veiled::Changes(TableId::at(table)),
            Effect::Anything => Veiled::Anything,
        }
    }

    fn written(&self, accesses: &[Access], builder: &mut HistoryBuilder) -> Veiled {
        let table = |access: &Access| self.clear.object_of(access.object).table;
        let shown = accesses.iter().map(|access| self.access(*access, builder)).collect::<Option<Vec<_>>>();
        match (shown, accesses.first().and_then(table)) {
            (Some(shown), _) => Veiled::Write(shown),
            (None, Some(table)) => Veiled::Changes(table),
            (None, None) => Veiled::Anything,
        }
    }

    fn read(&mut self, accesses: &[Access], builder: &mut HistoryBuilder) -> Veiled {
        let seen = accesses.iter().filter(|access| access.value != ValueId::UNKNOWN);
        let shown: Vec<Access> = seen.filter_map(|access| self.access(*access, builder)).collect();
        self.loses |= shown.len() < accesses.len();
        if shown.is_empty() { self.nothing() } else { Veiled::Read(shown) }
    }

    /// An access as it is recorded; none if its row has no name.
    fn access(&self, access: Access, builder: &mut HistoryBuilder) -> Option<Access> {
        let Object { table, key } = self.clear.object_of(access.object);
        let table = table.filter(|table| !self.nameless[table.index()])?;
        let key = self.hidden(key, builder);
        let object = builder.object(Some(table), key);
        Some(Access { object, value: self.content(table, access.value, builder) })
    }

    /// A row without its redacted columns.
    fn content(&self, table: TableId, value: ValueId, builder: &mut HistoryBuilder) -> ValueId {
        let names = self.clear.names();
        let Value::Row(columns) = names.value(value) else { return self.hidden(value, builder) };
        let secret: Vec<&String> = self.secrecy.redacted(&self.clear.tables()[table.index()]).collect();
        let mut shown: Vec<(NameId, ValueId)> = Vec::with_capacity(columns.len());
        for &(name, value) in columns {
            let name = names.name(name);
            if secret.iter().all(|secret| *secret != name) {
                let value = self.hidden(value, builder);
                shown.push((builder.values().intern_name(name), value));
            }
        }
        builder.values().row(&shown)
    }

    /// A value as it is recorded.
    fn hidden(&self, value: ValueId, builder: &mut HistoryBuilder) -> ValueId {
        let clear = self.clear.names().value(value);
        if let Value::List(items) = clear {
            let items: Vec<ValueId> = items.iter().map(|item| self.hidden(*item, builder)).collect();
            return builder.values().list(&items);
        }
        let shown = builder.values();
        let Some(key) = &self.secrecy.key else {
            return match clear {
                Value::Null => ValueId::NULL,
                Value::Bool(value) => shown.bool(value),
                Value::Int(value) => shown.int(value),
                Value::UInt(value) => shown.uint(value),
                Value::Float(value) => shown.float(value),
                Value::Text(text) => shown.text(text),
                Value::Unknown | Value::List(_) | Value::Row(_) => ValueId::UNKNOWN,
            };
        };
        let (kind, bytes): (u8, &[u8]) = match clear {
            Value::Null => return ValueId::NULL,
            Value::Unknown | Value::List(_) | Value::Row(_) => return ValueId::UNKNOWN,
            Value::Bool(value) => (b'b', &[u8::from(value)]),
            Value::Int(value) => (b'i', &value.to_le_bytes()),
            Value::UInt(value) => (b'u', &value.to_le_bytes()),
            Value::Float(value) => (b'f', &value.to_bits().to_le_bytes()),
            Value::Text(text) => (b't', text.as_bytes()),
        };
        shown.text(&hash(key, kind, bytes))
    }
}
