//! The history of rows.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use margay_history::{
    Access, History, HistoryBuilder, NameId, ObjectId, Op, OpDetail, OpKind, Outcome, Statement, Table,
    TableId, TxnId, Value, ValueId, Version,
};
use margay_sql::{Assignments, Dialect, Value as SqlValue};

use crate::class::Class;
use crate::fill::{fill, literal};
use crate::shape::{Asked, Limit, Shape, Verb, key, shape};
use crate::split::Operand;

/// What a transaction sees in the course of its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// One state and its own writes, as at the serializable and snapshot levels.
    Stable,
    /// Each statement may see another.
    Changing,
}

/// A history without the statements that could be translated.
#[derive(Debug)]
pub struct Rows {
    /// The history.
    pub history: History,
    /// The first statement that is left in a transaction that may have committed.
    pub left: Option<Left>,
    /// How many predicate updates of such transactions there are, whose rows nobody saw.
    pub unseen: usize,
}

/// A statement that stays one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Its text.
    pub text: Arc<str>,
    /// Why.
    pub why: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no operation on rows: {}", self.text, self.why)
    }
}

/// Translates the statements of a history; nothing when it has none.
#[must_use]
pub fn translate(history: &History, sight: Sight) -> Option<Rows> {
    if !history.has_kind(OpKind::Sql) {
        return None;
    }
    let builder = HistoryBuilder::like(history);
    let mut translator = Translator {
        history,
        sight,
        builder,
        dialect: dialect(history),
        shapes: HashMap::new(),
        known: HashMap::new(),
        left: None,
        unseen: 0,
    };
    history.txns().try_for_each(|txn| translator.txn(txn))?;
    translator.evidence();
    let (left, unseen) = (translator.left, translator.unseen);
    translator.builder.finish().ok().map(|history| Rows { history, left, unseen })
}

/// The rules of the database that the history was recorded from.
fn dialect(history: &History) -> Dialect {
    let dbms = history.header().dbms.as_deref().unwrap_or("").to_ascii_lowercase();
    let is = |name: &str| dbms.starts_with(name);
    match () {
        () if is("mysql") || is("mariadb") => Dialect::MySql,
        () if is("sqlite") => Dialect::Sqlite,
        () if is("postgres") => Dialect::Postgres,
        () => Dialect::Generic,
    }
}

struct Translator<'h> {
    history: &'h History,
    sight: Sight,
    builder: HistoryBuilder,
    dialect: Dialect,
    shapes: HashMap<Arc<str>, Result<Arc<Shape>, String>>,
    /// What the transaction knows of rows: their columns, or that they are absent.
    known: HashMap<(usize, ObjectId), Option<HashMap<String, ValueId>>>,
    left: Option<Left>,
    unseen: usize,
}

/// What a statement becomes.
enum Became {
    Read(Vec<Access>),
    Write(Vec<Access>),
    Scan { table: TableId, condition: String, rows: Option<Vec<Access>> },
    Update { table: TableId, condition: String, set: Option<String> },
}

type Told<T> = Result<T, String>;

impl<'h> Translator<'h> {
    fn txn(&mut self, txn: TxnId) -> Option<()> {
        self.known.clear();
        let history = self.history;
        let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
        for op in history.ops(txn) {
            match history.statement(op.id) {
                Some(statement) => self.statement((session, label), txn, op, statement)?,
                None => {
                    let observed = history.scan(op.id).is_some_and(|scan| scan.observed)
                        || history.update(op.id).is_some_and(|update| update.observed);
                    // What other operations do to rows is not followed.
                    if op.kind.writes() {
                        self.known.clear();
                    }
                    let detail = history.detail(op, observed);
                    self.builder.push(session, label, op.at, op.kind, op.accesses, detail).ok()?;
                }
            }
        }
        Some(())
    }

    fn statement(
        &mut self,
        (session, label): (u64, u64),
        txn: TxnId,
        op: Op<'_>,
        statement: &'h Statement,
    ) -> Option<()> {
        let became = self.shape(&statement.text).and_then(|shape| self.became(&shape, statement));
        let (kind, accesses, detail) = match &became {
            Ok(Became::Read(accesses)) => (OpKind::Read, accesses.as_slice(), OpDetail::None),
            Ok(Became::Write(accesses)) => (OpKind::Write, accesses.as_slice(), OpDetail::None),
            Ok(Became::Scan { table, condition, rows }) => {
                let detail = OpDetail::Scan { table: *table, condition, observed: rows.is_some() };
                (OpKind::Scan, rows.as_deref().unwrap_or_default(), detail)
            }
            Ok(Became::Update { table, condition, set }) => {
                self.unseen += usize::from(self.history.outcome(txn) != Outcome::Aborted);
                let set = set.as_deref();
                let detail = OpDetail::Update { table: *table, condition, set, observed: false };
                (OpKind::Update, &[][..], detail)
            }
            Err(why) => {
                self.known.clear();
                if self.left.is_none() && self.history.outcome(txn) != Outcome::Aborted {
                    self.left = Some(Left { text: Arc::clone(&statement.text), why: why.clone() });
                }
                (OpKind::Sql, &[][..], self.history.detail(op, true))
            }
        };
        self.builder.push(session, label, op.at, kind, accesses, detail).ok()
    }

    fn shape(&mut self, text: &Arc<str>) -> Told<Arc<Shape>> {
        let (tables, dialect) = (self.history.tables(), self.dialect);
        let made = self.shapes.entry(Arc::clone(text));
        made.or_insert_with(|| shape(text, tables, dialect).map(Arc::new)).clone()
    }

    fn table(&self, table: usize) -> &'h Table {
        &self.history.tables()[table]
    }

    fn became(&mut self, shape: &Shape, statement: &Statement) -> Told<Became> {
        let params = &statement.params;
        match &shape.verb {
            Verb::Select { asked, outputs, limit } => {
                self.select(shape.table, asked, outputs, limit.as_ref(), statement)
            }
            Verb::Insert(rows) => {
                let accesses = rows.iter().map(|row| self.inserted(shape.table, row, params));
                let accesses = accesses.collect::<Told<Vec<_>>>()?;
                Ok(Became::Write(accesses))
            }
            Verb::Update { asked, sets, text } => {
                let Some(object) = self.point(shape.table, asked, params)? else {
                    return self.predicate_update(shape.table, asked, Some(text), params);
                };
                if let Some(missed) = self.missed(shape.table, object, statement)? {
                    return Ok(missed);
                }
                match self.updated(shape.table, object, (sets, text), params)? {
                    Some(access) => Ok(Became::Write(vec![access])),
                    None => self.predicate_update(shape.table, asked, Some(text), params),
                }
            }
            Verb::Delete(asked) => {
                let Some(object) = self.point(shape.table, asked, params)? else {
                    return self.predicate_update(shape.table, asked, None, params);
                };
                if let Some(missed) = self.missed(shape.table, object, statement)? {
                    return Ok(missed);
                }
                self.known.insert((shape.table, object), None);
                Ok(Became::Write(vec![Access { object, value: ValueId::NULL }]))
            }
        }
    }

    /// The row that a key names, if that is all that is asked for.
    fn point(&mut self, table: usize, asked: &Asked, params: &[ValueId]) -> Told<Option<ObjectId>> {
        let Some(operands) = &asked.key else { return Ok(None) };
        let values = operands.iter().map(|operand| self.value(operand, params)).collect::<Told<Vec<_>>>()?;
        self.object(table, &values).map(Some)
    }

    fn value(&mut self, operand: &Operand, params: &[ValueId]) -> Told<ValueId> {
        Ok(match operand {
            Operand::Param(at) => *params.get(*at).ok_or("a parameter is missing")?,
            Operand::Null => ValueId::NULL,
            Operand::Int(int) => self.builder.values().int(*int),
            Operand::Text(text) => self.builder.values().text(text),
        })
    }

    fn get(&mut self, value: ValueId) -> Value<'_> {
        self.builder.values().get(value)
    }

    /// The row of a key, whose values must be such that equal keys are written alike.
    fn object(&mut self, table: usize, values: &[ValueId]) -> Told<ObjectId> {
        let def = self.table(table);
        for (column, &value) in key(def).into_iter().zip(values) {
            let class = Class::column(def, column);
            let folded = class == Class::Text && self.dialect == Dialect::MySql;
            let value = self.get(value);
            if folded || matches!(value, Value::Null) || !class.keeps(value) {
                return Err(format!("a key of {} that may be written in several ways", def.name));
            }
        }
        let key = match values {
            [key] => *key,
            several => self.builder.values().list(several),
        };
        Ok(self.builder.object(Some(TableId::at(table)), key))
    }

    fn name(&mut self, table: usize, column: usize) -> NameId {
        let name = &self.table(table).columns[column].0;
        self.builder.values().intern_name(name)
    }

    fn inserted(&mut self, table: usize, row: &[Operand], params: &[ValueId]) -> Told<Access> {
        let values = row.iter().map(|operand| self.value(operand, params)).collect::<Told<Vec<_>>>()?;
        let keys = key(self.table(table));
        let object = self.object(table, &keys.iter().map(|&column| values[column]).collect::<Vec<_>>())?;
        let given: Vec<_> =
            values.into_iter().enumerate().filter(|(column, _)| !keys.contains(column)).collect();
        self.known.insert((table, object), Some(HashMap::new()));
        self.written(table, object, &given)
    }

    /// A write of these columns, which the transaction knows from now on.
    fn written(&mut self, table: usize, object: ObjectId, given: &[(usize, ValueId)]) -> Told<Access> {
        let mut columns = Vec::with_capacity(given.len());
        for &(column, value) in given {
            if !Class::column(self.table(table), column).keeps(self.builder.values().get(value)) {
                let name = &self.table(table).columns[column].0;
                return Err(format!("a value of {name} that may be stored in another form"));
            }
            columns.push((self.name(table, column), value));
        }
        if let Some(known) = self.known.entry((table, object)).or_insert_with(|| Some(HashMap::new())) {
            let names = given.iter().map(|&(column, value)| (column_key(self.history, table, column), value));
            known.extend(names);
        }
        Ok(Access { object, value: self.builder.values().row(&columns) })
    }

    /// A statement that changed no row has seen that there is none; in MySQL it may also have found nothing to change.
    fn missed(&mut self, table: usize, object: ObjectId, statement: &Statement) -> Told<Option<Became>> {
        match statement.count {
            Some(0) if self.dialect == Dialect::MySql => {
                Ok(Some(Became::Read(vec![Access { object, value: ValueId::UNKNOWN }])))
            }
            Some(0) => {
                self.known.insert((table, object), None);
                Ok(Some(Became::Read(vec![Access { object, value: ValueId::NULL }])))
            }
            Some(_) => Ok(None),
            None => Err("it is not known whether it found its row".into()),
        }
    }

    /// What an update by key writes; nothing when that depends on what is not known.
    fn updated(
        &mut self,
        table: usize,
        object: ObjectId,
        (sets, text): (&[(usize, Option<Operand>)], &str),
        params: &[ValueId],
    ) -> Told<Option<Access>> {
        let mut given = Vec::with_capacity(sets.len());
        for (column, operand) in sets {
            match operand {
                Some(operand) => given.push((*column, self.value(operand, params)?)),
                None => match self.computed(table, object, sets, text, params)? {
                    Some(mut computed) => {
                        self.widen(table, object, &mut computed);
                        return self.written(table, object, &computed).map(Some);
                    }
                    None => return Ok(None),
                },
            }
        }
        self.widen(table, object, &mut given);
        self.written(table, object, &given).map(Some)
    }

    /// A write of a part of a row that the transaction knows is a write of the whole.
    fn widen(&self, table: usize, object: ObjectId, given: &mut Vec<(usize, ValueId)>) {
        let Some(Some(known)) = self.known.get(&(table, object)).filter(|_| self.sight == Sight::Stable)
        else {
            return;
        };
        let keys = key(self.table(table));
        let others = (0..self.table(table).columns.len())
            .filter(|column| !keys.contains(column) && !given.iter().any(|(set, _)| set == column));
        let value = |column| Some((column, *known.get(&column_key(self.history, table, column))?));
        if let Some(others) = others.map(value).collect::<Option<Vec<_>>>() {
            given.extend(others);
        }
    }

    fn computed(
        &mut self,
        table: usize,
        object: ObjectId,
        sets: &[(usize, Option<Operand>)],
        text: &str,
        params: &[ValueId],
    ) -> Told<Option<Vec<(usize, ValueId)>>> {
        let Some(Some(known)) = self.known.get(&(table, object)).filter(|_| self.sight == Sight::Stable)
        else {
            return Ok(None);
        };
        let values = self.builder.values();
        let Some(text) = fill(text, params, values) else { return Ok(None) };
        let row: HashMap<&str, SqlValue> = known
            .iter()
            .filter_map(|(name, &value)| Some((name.as_str(), as_sql(values.get(value))?)))
            .collect();
        let assignments = Assignments::parse(&text, self.dialect).map_err(|error| error.to_string())?;
        let Ok(new) = assignments.apply(&row) else { return Ok(None) };
        let mut computed = Vec::with_capacity(new.len());
        for ((column, _), (_, value)) in sets.iter().zip(new) {
            let value = match value {
                SqlValue::Null => ValueId::NULL,
                SqlValue::Int(int) => self.builder.values().int(int),
                SqlValue::Text(text) => self.builder.values().text(&text),
                _ => return Err(format!("what {} is set to", self.table(table).columns[*column].0)),
            };
            computed.push((*column, value));
        }
        Ok(Some(computed))
    }

    fn predicate_update(
        &mut self,
        table: usize,
        asked: &Asked,
        set: Option<&String>,
        params: &[ValueId],
    ) -> Told<Became> {
        self.known.retain(|(of, _), _| *of != table);
        let condition = self.filled(&asked.condition, params)?;
        let set = set.map(|set| self.filled(set, params)).transpose()?;
        Ok(Became::Update { table: TableId::at(table), condition, set })
    }

    fn filled(&mut self, text: &str, params: &[ValueId]) -> Told<String> {
        fill(text, params, self.builder.values()).ok_or_else(|| "a parameter that is no literal".to_owned())
    }

    fn select(
        &mut self,
        table: usize,
        asked: &Asked,
        outputs: &[Option<usize>],
        limit: Option<&Limit>,
        statement: &Statement,
    ) -> Told<Became> {
        let rows = self.tuples(statement, outputs.len())?;
        if let (Some(object), None) = (self.point(table, asked, &statement.params)?, limit) {
            let value = match rows.as_deref() {
                None => ValueId::UNKNOWN,
                Some([]) => self.seen_absent(table, object),
                Some([row]) => self.seen(table, object, outputs, row),
                Some(_) => return Err("several rows of one key".into()),
            };
            return Ok(Became::Read(vec![Access { object, value }]));
        }
        let mut condition = self.filled(&asked.condition, &statement.params)?;
        if let (Some(limit), Some(rows)) = (limit, &rows) {
            self.bound(table, &mut condition, limit, outputs, rows, &statement.params)?;
        }
        let Some(rows) = rows else {
            return Ok(Became::Scan { table: TableId::at(table), condition, rows: None });
        };
        let accesses = rows.iter().map(|row| self.scanned(table, outputs, row)).collect::<Told<Vec<_>>>()?;
        Ok(Became::Scan { table: TableId::at(table), condition, rows: Some(accesses) })
    }

    /// The tuples of an answer, if it was recorded.
    fn tuples(&mut self, statement: &Statement, width: usize) -> Told<Option<Vec<Vec<ValueId>>>> {
        let Some(rows) = &statement.rows else { return Ok(None) };
        let tuple = |&row: &ValueId| match self.history.value(row) {
            Value::List(cells) if cells.len() == width => Ok(cells.to_vec()),
            _ => Err("a row that is not as wide as its statement says".to_owned()),
        };
        rows.iter().map(tuple).collect::<Told<Vec<_>>>().map(Some)
    }

    /// An answer as long as the limit is all there is up to its last row.
    fn bound(
        &mut self,
        table: usize,
        condition: &mut String,
        limit: &Limit,
        outputs: &[Option<usize>],
        rows: &[Vec<ValueId>],
        params: &[ValueId],
    ) -> Told<()> {
        let most = self.value(&limit.most, params)?;
        let Value::Int(most) = self.get(most) else { return Err("a LIMIT that is no number".into()) };
        if (rows.len() as i64) < most {
            return Ok(());
        }
        let shown = outputs.iter().position(|output| *output == Some(limit.by));
        let last = rows.last().zip(shown).map(|(row, at)| row[at]);
        let last = last.ok_or("a LIMIT whose order is not shown")?;
        let last = literal(self.get(last)).ok_or("a LIMIT whose order is not shown")?;
        let column = &self.table(table).columns[limit.by].0;
        let sign = if limit.descending { ">=" } else { "<=" };
        *condition = format!("({condition}) AND {column} {sign} {last}");
        Ok(())
    }

    fn scanned(&mut self, table: usize, outputs: &[Option<usize>], row: &[ValueId]) -> Told<Access> {
        let cell = |column: usize| {
            let shown = outputs.iter().position(|output| *output == Some(column));
            shown.map(|at| row[at]).ok_or("a scan that does not show the keys of its rows")
        };
        let key = key(self.table(table)).into_iter().map(cell).collect::<Result<Vec<_>, _>>()?;
        let object = self.object(table, &key)?;
        let value = self.seen(table, object, outputs, row);
        Ok(Access { object, value })
    }

    fn seen_absent(&mut self, table: usize, object: ObjectId) -> ValueId {
        self.known.insert((table, object), None);
        ValueId::NULL
    }

    /// What a row of an answer shows: the columns whose values are written in one way only.
    fn seen(
        &mut self,
        table: usize,
        object: ObjectId,
        outputs: &[Option<usize>],
        row: &[ValueId],
    ) -> ValueId {
        let (def, keys) = (self.table(table), key(self.table(table)));
        let mut columns = Vec::with_capacity(row.len());
        for (column, &value) in
            outputs.iter().zip(row).filter_map(|(output, value)| Some(((*output)?, value)))
        {
            if keys.contains(&column) || !Class::column(def, column).keeps(self.builder.values().get(value)) {
                continue;
            }
            columns.push((self.name(table, column), value));
            let known = self.known.entry((table, object)).or_insert_with(|| Some(HashMap::new()));
            known.get_or_insert_default().insert(column_key(self.history, table, column), value);
        }
        self.builder.values().row(&columns)
    }

    fn evidence(&mut self) {
        let history = self.history;
        let label = |txn: TxnId| history.txn_label(txn);
        let version = |version: Version| match version {
            Version::Initial => None,
            Version::Of(txn) => Some(label(txn)),
        };
        let (evidence, builder) = (history.evidence(), &mut self.builder);
        for order in &evidence.version_orders {
            builder.version_order(order.object, order.versions.iter().map(|&v| version(v)).collect());
        }
        for set in &evidence.version_sets {
            let versions = set.versions.iter().map(|&(object, v)| (object, version(v))).collect();
            builder.version_set(label(history.txn_of(set.op)), history.op_index(set.op), versions);
        }
        evidence.snapshots.iter().for_each(|&(txn, ts)| builder.snapshot(label(txn), ts));
        evidence.commits.iter().for_each(|&(txn, ts)| builder.commit(label(txn), ts));
        evidence.serializations.iter().for_each(|&(txn, ts)| builder.serialization(label(txn), ts));
    }
}

/// The name under which a column's value is known.
fn column_key(history: &History, table: usize, column: usize) -> String {
    history.tables()[table].columns[column].0.to_ascii_lowercase()
}

fn as_sql(value: Value<'_>) -> Option<SqlValue> {
    match value {
        Value::Null => Some(SqlValue::Null),
        Value::Int(int) => Some(SqlValue::Int(int)),
        Value::Text(text) => Some(SqlValue::text(text)),
        _ => None,
    }
}
