//! Logs of SQL statements, built by hand or by the simulator.

use margay_history::{History, HistoryBuilder, Interval, OpDetail, OpKind, Table, ValueId};
use margay_sql::Value;

/// What a client saw of a statement.
#[derive(Clone, Debug)]
pub enum Seen {
    Nothing,
    Rows(Vec<Vec<Value>>),
    Count(u64),
}

pub struct Log {
    pub builder: HistoryBuilder,
}

/// A table: its name, its key, its columns with their types.
pub type Shape<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, &'a str)]);

impl Log {
    pub fn new(tables: &[Shape<'_>]) -> Self {
        let mut builder = HistoryBuilder::new();
        for (name, key, columns) in tables {
            let key = key.iter().map(ToString::to_string).collect();
            let columns = columns.iter().map(|(name, of)| (name.to_string(), of.to_string())).collect();
            builder
                .declare_table(Table { name: name.to_string(), key, columns, ..Table::default() })
                .unwrap();
        }
        Log { builder }
    }

    /// A key-value table `t` of integers with these rows.
    pub fn register(rows: &[(i64, i64)]) -> Self {
        let mut log = Log::new(&[("t", &["k"], &[("k", "int"), ("v", "int")])]);
        for (k, v) in rows {
            log.row("t", &[Value::Int(*k)], &[("v", Value::Int(*v))]);
        }
        log
    }

    fn value(&mut self, value: &Value) -> ValueId {
        let values = self.builder.values();
        match value {
            Value::Null => ValueId::NULL,
            Value::Bool(b) => values.bool(*b),
            Value::Int(i) => values.int(*i),
            Value::Float(f) => values.float(*f),
            Value::Text(text) => values.text(text),
            Value::Decimal(number) => values.text(&number.to_string()),
            other => values.text(other.to_string().trim_matches(|c: char| c != '\'').trim_matches('\'')),
        }
    }

    pub fn row(&mut self, table: &str, key: &[Value], columns: &[(&str, Value)]) {
        let key: Vec<ValueId> = key.iter().map(|value| self.value(value)).collect();
        let key = match key.as_slice() {
            [one] => *one,
            many => self.builder.values().list(many),
        };
        let mut cells = Vec::new();
        for (name, value) in columns {
            let value = self.value(value);
            cells.push((self.builder.values().intern_name(name), value));
        }
        let row = self.builder.values().row(&cells);
        let table = self.builder.table(table);
        let object = self.builder.object(Some(table), key);
        self.builder.initial(object, row).unwrap();
    }

    pub fn op(&mut self, session: u64, txn: u64, at: Option<(i64, i64)>, kind: OpKind) {
        let at = at.map(|(before, after)| Interval { before, after });
        self.builder.push(session, txn, at, kind, &[], OpDetail::None).unwrap();
    }

    pub fn sql(
        &mut self,
        session: u64,
        txn: u64,
        at: Option<(i64, i64)>,
        text: &str,
        params: &[Value],
        seen: &Seen,
    ) {
        let params: Vec<ValueId> = params.iter().map(|value| self.value(value)).collect();
        let rows: Option<Vec<ValueId>> = match seen {
            Seen::Rows(rows) => Some(
                rows.iter()
                    .map(|row| {
                        let cells: Vec<ValueId> = row.iter().map(|cell| self.value(cell)).collect();
                        self.builder.values().list(&cells)
                    })
                    .collect(),
            ),
            _ => None,
        };
        let count = match seen {
            Seen::Count(count) => Some(*count),
            _ => None,
        };
        let at = at.map(|(before, after)| Interval { before, after });
        let detail = OpDetail::Sql { text, params: &params, rows: rows.as_deref(), count };
        self.builder.push(session, txn, at, OpKind::Sql, &[], detail).unwrap();
    }

    /// Statements of one transaction on integers, without times: `(text, observed rows)`.
    pub fn txn(&mut self, session: u64, txn: u64, statements: &[(&str, Option<&[&[i64]]>)], end: OpKind) {
        for (text, rows) in statements {
            let seen = match rows {
                None => Seen::Nothing,
                Some(rows) => {
                    Seen::Rows(rows.iter().map(|row| row.iter().copied().map(Value::Int).collect()).collect())
                }
            };
            self.sql(session, txn, None, text, &[], &seen);
        }
        self.op(session, txn, None, end);
    }

    pub fn finish(self) -> History {
        self.builder.finish().unwrap()
    }
}
