//! What clients record, as a [`History`].

use margay_history::{
    Access, History, HistoryBuilder, Interval, Invalid, NameId, Names, ObjectId, OpDetail, OpKind, Table,
    TableId, ValueId, Values,
};

use super::{Action, Note, Recorded, Sink, Start};
use crate::statement::{Cell, Schema};
use crate::value::{Change, Obj, Row, Space, Value};

/// Objects with smaller numbers than this are found without hashing.
const NEAR: usize = 1 << 16;

/// Feeds a [`HistoryBuilder`].
///
/// # Cost
/// Clients that are recorded share their cores with this. What comes again and again is looked up
/// once: objects, whose numbers are small and stand close together, and the names of columns; and
/// buffers are kept.
#[derive(Default, Debug)]
pub struct BuilderSink {
    builder: HistoryBuilder,
    table: Option<TableId>,
    accesses: Vec<Access>,
    kind: Option<OpKind>,
    /// By kind and number.
    near: [Vec<Option<ObjectId>>; 3],
    columns: Option<[NameId; 2]>,
    items: Vec<ValueId>,
}

impl BuilderSink {
    /// The history so far.
    ///
    /// # Errors
    /// When what was recorded is none.
    pub fn finish(self) -> Result<History, Invalid> {
        self.builder.finish()
    }

    /// What the last operation is in the history.
    #[must_use]
    pub fn kind(&self) -> Option<OpKind> {
        self.kind
    }

    /// What the last operation touched.
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// What is built.
    pub fn builder(&mut self) -> &mut HistoryBuilder {
        &mut self.builder
    }

    /// What is built, and what the last operation touched.
    #[must_use]
    pub fn built(&self) -> (&HistoryBuilder, &[Access]) {
        (&self.builder, &self.accesses)
    }

    /// The values so far.
    pub fn values(&mut self) -> &Values {
        self.builder.values()
    }

    /// Adds a statement of a transaction, alone in its session, whose answer nobody knows.
    ///
    /// # Errors
    /// When the statement cannot stand there.
    pub fn unanswered(
        &mut self,
        label: u64,
        at: Interval,
        text: &str,
        params: &[Cell],
    ) -> Result<(), Invalid> {
        let params = self.cells(params);
        let detail = OpDetail::Sql { text, params: &params, rows: None, count: None };
        self.builder.push(label, label, Some(at), OpKind::Sql, &[], detail)
    }

    /// Ends such a transaction.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn end(&mut self, label: u64, at: Interval, kind: OpKind) -> Result<(), Invalid> {
        self.builder.push(label, label, Some(at), kind, &[], OpDetail::None)
    }

    /// An object and its value, as the history knows them.
    pub fn access(&mut self, obj: Obj, value: &Value) -> Access {
        Access { object: self.object(obj), value: self.value(value, obj.space == Space::List) }
    }

    /// What an action is in a history, for `then` to do something with.
    pub(super) fn translate<R>(
        &mut self,
        action: Action<'_>,
        then: impl FnOnce(&mut HistoryBuilder, OpKind, &[Access], OpDetail<'_>) -> R,
    ) -> R {
        self.accesses.clear();
        let (text, set, params, tuples);
        let (kind, detail) = match action {
            Action::Begin => (OpKind::Begin, OpDetail::None),
            Action::Read(obj, value) => {
                let value = self.value(value, obj.space == Space::List);
                let object = self.object(obj);
                self.accesses.push(Access { object, value });
                (OpKind::Read, OpDetail::None)
            }
            Action::Write(obj, change) => {
                let access = Access { object: self.object(obj), value: self.written(change) };
                self.accesses.push(access);
                let append = matches!(change, Change::Append(_));
                (if append { OpKind::Append } else { OpKind::Write }, OpDetail::None)
            }
            Action::Scan(cond, rows) => {
                self.rows(rows);
                text = cond.to_string();
                (OpKind::Scan, OpDetail::Scan { table: self.table(), condition: &text, observed: true })
            }
            Action::Update(cond, to, rows) => {
                self.rows(rows);
                (text, set) = (cond.to_string(), to.map(|v| format!("v = {v}")));
                let (table, set) = (self.table(), set.as_deref());
                (OpKind::Update, OpDetail::Update { table, condition: &text, set, observed: true })
            }
            Action::Aggregate(cond, count, sum) => {
                text = format!("SELECT COUNT(*), SUM(v) FROM t WHERE {cond}");
                let values = self.builder.values();
                let tuple = [values.uint(count), sum.map_or(ValueId::NULL, |sum| values.int(sum))];
                tuples = vec![values.list(&tuple)];
                (OpKind::Sql, OpDetail::Sql { text: &text, params: &[], rows: Some(&tuples), count: None })
            }
            Action::Sql(executed) => {
                params = self.cells(executed.params);
                let rows = executed.rows().map(|rows| rows.map(|row| self.tuple(row)).collect());
                let (seen, count) = (rows.is_some(), executed.affected());
                tuples = rows.unwrap_or_default();
                let rows = seen.then_some(&*tuples);
                (OpKind::Sql, OpDetail::Sql { text: executed.text, params: &params, rows, count })
            }
            Action::Commit => (OpKind::Commit, OpDetail::None),
            Action::Abort => (OpKind::Abort, OpDetail::None),
            Action::Unknown => (OpKind::Unknown, OpDetail::None),
        };
        self.kind = Some(kind);
        then(&mut self.builder, kind, &self.accesses, detail)
    }

    /// One that knows the same tables, and nothing else.
    pub(super) fn renewed(&self) -> Result<Self, Invalid> {
        let mut renewed = Self { table: self.table, ..Self::default() };
        for table in self.builder.tables() {
            renewed.builder.declare_table(table.clone())?;
        }
        Ok(renewed)
    }

    /// What the ids so far stand for.
    #[must_use]
    pub fn names(&self) -> Names<'_> {
        self.builder.names()
    }

    fn table(&mut self) -> TableId {
        *self.table.get_or_insert_with(|| self.builder.table("t"))
    }

    pub(super) fn object(&mut self, obj: Obj) -> ObjectId {
        let (kind, at) = (obj.space as usize, obj.key as usize);
        if let Some(&Some(object)) = self.near[kind].get(at) {
            return object;
        }
        let object = self.far_object(obj);
        if at < NEAR {
            let near = &mut self.near[kind];
            near.resize(near.len().max(at + 1), None);
            near[at] = Some(object);
        }
        object
    }

    fn far_object(&mut self, obj: Obj) -> ObjectId {
        let table = (obj.space == Space::Row).then(|| self.table());
        let key = match obj.space {
            Space::List => self.builder.values().text(&format!("l{}", obj.key)),
            Space::Register | Space::Row => self.builder.values().int(i64::from(obj.key)),
        };
        self.builder.object(table, key)
    }

    fn value(&mut self, value: &Value, list: bool) -> ValueId {
        let values = self.builder.values();
        match value {
            Value::Absent if list => values.list(&[]),
            Value::Absent => ValueId::NULL,
            Value::Int(int) => values.int(*int),
            Value::List(items) => {
                self.items.clear();
                self.items.extend(items.iter().map(|&item| values.int(item)));
                values.list(&self.items)
            }
            Value::Row(row) => self.row(*row, true),
        }
    }

    /// A row; NULL columns are named only where they were seen.
    fn row(&mut self, row: Row, seen: bool) -> ValueId {
        let values = self.builder.values();
        let [v, w] = *self.columns.get_or_insert_with(|| ["v", "w"].map(|name| values.intern_name(name)));
        let mut column =
            |name, value: Option<i64>| (name, value.map_or(ValueId::NULL, |int| values.int(int)));
        let both = [column(v, row.v), column(w, row.w)];
        match (row.v.is_some() || seen, row.w.is_some() || seen) {
            (true, true) => values.row(&both),
            (true, false) => values.row(&both[..1]),
            (false, true) => values.row(&both[1..]),
            (false, false) => values.row(&[]),
        }
    }

    fn written(&mut self, change: Change) -> ValueId {
        match change {
            Change::Put(int) | Change::Append(int) => self.builder.values().int(int),
            Change::Merge(row) => self.row(row, false),
            Change::Delete => ValueId::NULL,
        }
    }

    fn rows(&mut self, rows: &[(Obj, Value)]) {
        for (obj, value) in rows {
            let access = Access { object: self.object(*obj), value: self.value(value, false) };
            self.accesses.push(access);
        }
    }

    fn cell(&mut self, cell: &Cell) -> ValueId {
        match cell {
            Cell::Null => ValueId::NULL,
            Cell::Int(int) => self.builder.values().int(*int),
            Cell::Text(text) => self.builder.values().text(text),
        }
    }

    fn cells(&mut self, cells: &[Cell]) -> Vec<ValueId> {
        cells.iter().map(|cell| self.cell(cell)).collect()
    }

    fn tuple(&mut self, cells: &[Cell]) -> ValueId {
        let cells = self.cells(cells);
        self.builder.values().list(&cells)
    }

    /// Declares the tables of a program and gives them their rows.
    fn schema(&mut self, schema: &Schema) -> Result<(), Invalid> {
        for def in &schema.tables {
            let key = def.columns.iter().take(def.key).map(|(name, _)| (*name).to_owned());
            let columns = def.columns.iter().map(|(name, kind)| ((*name).to_owned(), kind.to_string()));
            let (key, columns) = (key.collect(), columns.collect());
            self.builder.declare_table(Table {
                name: def.name.to_owned(),
                key,
                columns,
                ..Table::default()
            })?;
        }
        schema.rows.iter().try_for_each(|(table, row)| self.schema_row(schema, *table, row))
    }

    fn schema_row(&mut self, schema: &Schema, table: usize, row: &[Cell]) -> Result<(), Invalid> {
        let def = &schema.tables[table];
        let (key, rest) = row.split_at(def.key);
        let key = match self.cells(key)[..] {
            [key] => key,
            ref several => self.builder.values().list(several),
        };
        let named = def.columns[def.key..].iter().zip(rest);
        let columns: Vec<_> = named
            .map(|((name, _), cell)| (self.builder.values().intern_name(name), self.cell(cell)))
            .collect();
        let value = self.builder.values().row(&columns);
        let table = self.builder.table(def.name);
        let object = self.builder.object(Some(table), key);
        self.builder.initial(object, value)
    }
}

impl Sink for BuilderSink {
    type Error = Invalid;

    fn start(&mut self, start: &Start) -> Result<(), Invalid> {
        let header = self.builder.header();
        header.skew = start.skew;
        header.dbms = Some(start.dbms.clone());
        header.level = Some(start.level.clone());
        if start.table {
            let column = |name: &str| (name.to_string(), "int".to_string());
            let columns = ["k", "v", "w"].map(column).to_vec();
            let table =
                Table { name: "t".to_string(), key: vec!["k".to_string()], columns, ..Table::default() };
            self.table = Some(self.builder.declare_table(table)?);
        }
        for (obj, value) in &start.initial {
            let (object, value) = (self.object(*obj), self.value(value, false));
            self.builder.initial(object, value)?;
        }
        self.schema(&start.schema)
    }

    fn op(&mut self, op: Recorded<'_>) -> Result<(), Invalid> {
        let at = Some(Interval::new(op.before, op.after));
        self.translate(op.action, |builder, kind, accesses, detail| {
            builder.push(op.session, op.txn, at, kind, accesses, detail)
        })
    }

    fn note(&mut self, note: Note<'_>) -> Result<(), Invalid> {
        let label = |txn: u64| (txn != 0).then_some(txn);
        match note {
            Note::VersionOrder(obj, txns) => {
                let object = self.object(obj);
                self.builder.version_order(object, txns.map(label).to_vec());
            }
            Note::VersionSet(txn, op, versions) => {
                let versions = versions.iter().map(|&(obj, writer)| (self.object(obj), label(writer)));
                let versions = versions.collect();
                self.builder.version_set(txn, op, versions);
            }
            Note::Snapshot(txn, ts) => self.builder.snapshot(txn, ts),
            Note::Commit(txn, ts) => self.builder.commit(txn, ts),
            Note::Serialization(txn, ts) => self.builder.serialization(txn, ts),
        }
        Ok(())
    }
}
