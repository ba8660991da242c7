//! History to text: the inverse of [`parse`](super::parse()).

use std::fmt::Write;

use margay_history::{
    Evidence, History, Interval, ObjectId, Op, OpKind, SessionId, TableId, TxnId, Value, ValueId, Version,
};

/// A history in the mini language. What the language does not have (parameters and results of SQL
/// statements, the header's names) is left out.
#[must_use]
pub fn show(history: &History) -> String {
    let show = Show { history };
    let mut segments = Vec::new();
    if history.header().skew != 0 {
        segments.push(format!("skew {}", history.header().skew));
    }
    segments.extend((0..history.tables().len()).filter_map(|t| show.table(TableId::at(t))));
    if !history.initial_values().is_empty() {
        let all = history.initial_values().iter();
        let all: Vec<_> = all.map(|&(o, v)| format!("{}={}", show.object(o), show.value(v))).collect();
        segments.push(format!("init: {}", all.join(" ")));
    }
    segments.extend(history.txns().map(|txn| show.txn(txn)));
    segments.extend(show.evidence(history.evidence()));
    segments.join(" | ")
}

struct Show<'a> {
    history: &'a History,
}

impl Show<'_> {
    fn table(&self, id: TableId) -> Option<String> {
        let table = self.history.table(id);
        if table.key.is_empty() && table.columns.is_empty() {
            return None;
        }
        let columns: Vec<_> =
            table.columns.iter().map(|(n, t)| format!("{n} {t}").trim().to_string()).collect();
        let columns = if columns.is_empty() { String::new() } else { format!("; {}", columns.join(", ")) };
        Some(format!("table {}({}{columns})", table.name, table.key.join(", ")))
    }

    fn session(&self, txn: TxnId, session: SessionId) -> String {
        let label = self.history.session_label(session);
        let alone = self.history.session_txns(session).len() == 1 && label == self.history.txn_label(txn);
        if alone { String::new() } else { format!("@s{label}") }
    }

    fn txn(&self, txn: TxnId) -> String {
        let session = self.session(txn, self.history.session_of(txn));
        let mut out = format!("{}{session}:", self.history.show_txn(txn));
        let mut last = None;
        for op in self.history.ops(txn) {
            out.push_str(&self.op(op, last));
            last = op.at;
        }
        out
    }

    fn op(&self, op: Op<'_>, last: Option<Interval>) -> String {
        let at = op.at.map_or(String::new(), |at| format!("@[{},{}]", at.before, at.after));
        match op.kind {
            OpKind::Begin => format!(" begin{at}"),
            OpKind::Commit if op.at == last => String::new(),
            OpKind::Commit | OpKind::Abort | OpKind::Unknown if op.at == last => {
                format!(" {}", op.kind.name())
            }
            OpKind::Commit | OpKind::Abort | OpKind::Unknown => format!(" {}{at}", op.kind.name()),
            OpKind::Read => format!(" r({}){at}", self.accesses(op)),
            OpKind::Write if op.accesses.iter().all(|a| a.value == ValueId::NULL) => {
                let objects: Vec<_> = op.accesses.iter().map(|a| self.object(a.object)).collect();
                format!(" d({}){at}", objects.join("; "))
            }
            OpKind::Write => format!(" w({}){at}", self.accesses(op)),
            OpKind::Append => format!(" a({}){at}", self.accesses(op)),
            OpKind::Scan | OpKind::Update => format!(" {}{at}", self.predicate(op)),
            OpKind::Sql => {
                let text = self.history.statement(op.id).map_or("", |s| &*s.text);
                format!(" sql({}){at}", quoted(text))
            }
        }
    }

    fn accesses(&self, op: Op<'_>) -> String {
        let all: Vec<_> = op
            .accesses
            .iter()
            .map(|a| format!("{},{}", self.object(a.object), self.value(a.value)))
            .collect();
        all.join("; ")
    }

    fn predicate(&self, op: Op<'_>) -> String {
        let (predicate, set, observed) = match (self.history.scan(op.id), self.history.update(op.id)) {
            (Some(scan), _) => (scan.predicate, None, scan.observed),
            (_, Some(update)) => (update.predicate, Some(update.set.as_deref()), update.observed),
            _ => return String::new(),
        };
        let predicate = self.history.predicate(predicate);
        let (table, text) = (&self.history.table(predicate.table).name, &predicate.text);
        let asked = match set {
            None => format!("scan({table}, {text})"),
            Some(None) => format!("del({table}, {text})"),
            Some(Some(set)) => format!("upd({table}, {text}, {set})"),
        };
        if !observed {
            return asked;
        }
        let row = |a: &margay_history::Access| {
            format!("{}:{}", self.key(self.history.object(a.object).key), self.value(a.value))
        };
        let rows: Vec<_> = op.accesses.iter().map(row).collect();
        format!("{asked}{{{}}}", rows.join(" "))
    }

    fn object(&self, id: ObjectId) -> String {
        let object = self.history.object(id);
        let key = self.key(object.key);
        object.table.map_or(key.clone(), |table| format!("{}/{key}", self.history.table(table).name))
    }

    fn key(&self, id: ValueId) -> String {
        let plain = |text: &str| {
            !text.is_empty()
                && text.parse::<i64>().is_err()
                && text.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c))
        };
        match self.history.value(id) {
            Value::Text(text) if plain(text) => text.to_string(),
            Value::List(items) => format!("({})", self.items(items)),
            _ => self.value(id),
        }
    }

    fn items(&self, items: &[ValueId]) -> String {
        items.iter().map(|&v| self.value(v)).collect::<Vec<_>>().join(" ")
    }

    fn value(&self, id: ValueId) -> String {
        match self.history.value(id) {
            Value::Null => "_".to_string(),
            Value::Text(text) => quoted(text),
            Value::List(items) => format!("[{}]", self.items(items)),
            Value::Row(columns) => {
                let mut out = String::from("{");
                for (i, &(name, value)) in columns.iter().enumerate() {
                    let blank = if i > 0 { " " } else { "" };
                    let _ = write!(out, "{blank}{}:{}", self.history.name(name), self.value(value));
                }
                out + "}"
            }
            _ => self.history.show_value(id),
        }
    }

    fn evidence(&self, evidence: &Evidence) -> Vec<String> {
        let mut all = Vec::new();
        for order in &evidence.version_orders {
            let versions: Vec<_> = order.versions.iter().map(|&v| self.version(v)).collect();
            all.push(format!("order {}: {}", self.object(order.object), versions.join(" ")));
        }
        for set in &evidence.version_sets {
            let (txn, op) = (self.history.txn_of(set.op), self.history.op_index(set.op));
            let pairs = set.versions.iter();
            let pairs: Vec<_> =
                pairs.map(|&(o, v)| format!("{}={}", self.object(o), self.version(v))).collect();
            all.push(format!("saw {}.{op} {}", self.history.show_txn(txn), pairs.join(" ")));
        }
        let stamps = [
            ("snapshot", &evidence.snapshots),
            ("commit", &evidence.commits),
            ("serialization", &evidence.serializations),
        ];
        for (word, column) in stamps {
            all.extend(column.iter().map(|&(txn, ts)| format!("{word} {}={ts}", self.history.show_txn(txn))));
        }
        all
    }

    fn version(&self, version: Version) -> String {
        match version {
            Version::Initial => "init".to_string(),
            Version::Of(txn) => self.history.show_txn(txn),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
