//! What one statement, its parameters and its answer become.

use std::collections::{HashMap, HashSet};

use margay_history::{
    Access, HistoryBuilder, NameId, ObjectId, ReadLock, Statement, Table, TableId, Value, ValueId,
};
use margay_sql::{Assignments, Dialect, Value as SqlValue};

use crate::blunt::words;
use crate::class::{Class, utc};
use crate::fill::{fill, literal};
use crate::shape::{Asked, Limit, Shape, Verb, key};
use crate::split::Operand;
use crate::translate::SeenState;

/// What a transaction knows of rows: their columns, or that they are absent.
#[derive(Clone, Default, Debug)]
pub struct KnownRows {
    pub(crate) rows: HashMap<(usize, ObjectId), Option<HashMap<String, ValueId>>>,
    /// Tables without a key that it has inserted into: rows of its own are no others'.
    pub(crate) inserted: Vec<usize>,
}

impl KnownRows {
    /// Nothing is known any more.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.inserted.clear();
    }
}

/// What a statement becomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Became {
    /// A read.
    Read {
        /// What it saw.
        accesses: Vec<Access>,
        /// How it locks what it returned.
        lock: Option<ReadLock>,
    },
    /// A write.
    Write(Vec<Access>),
    /// A scan.
    Scan {
        /// The table.
        table: TableId,
        /// The condition.
        condition: String,
        /// What it saw, if its answer tells.
        rows: Option<Vec<Access>>,
        /// How it locks what it returned.
        lock: Option<ReadLock>,
    },
    /// A predicate update.
    Update {
        /// The table.
        table: TableId,
        /// The condition.
        condition: String,
        /// The assignments; none deletes.
        set: Option<String>,
        /// Whether it is known what it wrote: then that is nothing.
        nothing: bool,
    },
}

/// Columns of a row, by their places, with what RETURNING told of them.
type Answer = Vec<(usize, ValueId)>;

pub(crate) type OrReason<T> = Result<T, String>;

/// One statement at work.
pub(crate) struct Run<'a> {
    pub tables: &'a [Table],
    /// Tables without a key of their own, whose rows are told apart by what statements ask for.
    pub keyless: &'a [bool],
    pub dialect: Dialect,
    pub sight: SeenState,
    /// Whether a write may be told of in part.
    pub partly: bool,
    /// Whether the statement has a RETURNING clause, so that its rows are those that it changed.
    pub returns: bool,
    pub known: &'a mut KnownRows,
    pub builder: &'a mut HistoryBuilder,
}

impl<'a> Run<'a> {
    fn table(&self, table: usize) -> &'a Table {
        &self.tables[table]
    }

    pub fn became(&mut self, shape: &Shape, statement: &Statement) -> OrReason<Became> {
        self.returns = shape.returns();
        let params = &statement.params;
        match &shape.verb {
            Verb::Select { asked, outputs, limit, lock } => {
                let found = Found { asked, outputs, limit: limit.as_ref(), lock: *lock };
                self.select(shape.table, &found, statement)
            }
            Verb::Insert { .. } if self.keyless[shape.table] => {
                // There may be others with the same values, and others may insert the same.
                self.known.inserted.push(shape.table);
                Ok(self.something(shape.table))
            }
            Verb::Insert { rows, returning } => {
                let answers = self.answers(returning, statement, rows.len())?;
                let mut accesses = Vec::with_capacity(rows.len());
                for (row, answer) in rows.iter().zip(answers) {
                    accesses.push(self.inserted(shape.table, (row, answer.as_ref()), params)?);
                }
                Ok(Became::Write(accesses))
            }
            Verb::Update { asked, sets, text, returning } => {
                let Some(object) = self.target(shape.table, asked, statement)? else {
                    return self.predicate_update(shape.table, asked, Some(text), statement);
                };
                if let Some(missed) = self.missed(shape.table, object, statement)? {
                    return Ok(missed);
                }
                let answer = self.answers(returning, statement, 1)?.into_iter().next().flatten();
                let change = Change { sets, text, answer: answer.as_deref() };
                match self.updated(shape.table, object, &change, params)? {
                    Some(access) => Ok(Became::Write(vec![access])),
                    None => self.predicate_update(shape.table, asked, Some(text), statement),
                }
            }
            Verb::Delete { asked, .. } => {
                let Some(object) = self.target(shape.table, asked, statement)? else {
                    return self.predicate_update(shape.table, asked, None, statement);
                };
                if let Some(missed) = self.missed(shape.table, object, statement)? {
                    return Ok(missed);
                }
                self.known.rows.insert((shape.table, object), None);
                Ok(Became::Write(vec![Access { object, value: ValueId::NULL }]))
            }
        }
    }

    /// How many rows a statement changed, if it tells: by its count, or by the rows of RETURNING.
    fn changed(&self, statement: &Statement) -> Option<u64> {
        let returned = statement.rows.as_ref().filter(|_| self.returns).map(|rows| rows.len() as u64);
        statement.count.or(returned)
    }

    /// The row that an update or deletion changes, if it is one: the one whose key it names; where
    /// writes are told of in part also if it asks for more, and found it.
    fn target(&mut self, table: usize, asked: &Asked, statement: &Statement) -> OrReason<Option<ObjectId>> {
        if self.known.inserted.contains(&table) {
            return Ok(None);
        }
        let more = asked.key.is_none()
            && self.partly
            && !self.keyless[table]
            && self.changed(statement).is_some_and(|count| count > 0);
        match &asked.pinned {
            Some(pinned) if more => self.named(table, pinned, &statement.params).map(Some),
            _ if self.partly && self.changed(statement).is_none() => Ok(None),
            _ => self.point(table, asked, &statement.params),
        }
    }

    /// The row that a key names, if that is all that is asked for.
    fn point(&mut self, table: usize, asked: &Asked, params: &[ValueId]) -> OrReason<Option<ObjectId>> {
        asked.key.as_ref().map(|key| self.named(table, key, params)).transpose()
    }

    fn named(&mut self, table: usize, key: &[Operand], params: &[ValueId]) -> OrReason<ObjectId> {
        let values = key.iter().map(|operand| self.value(operand, params)).collect::<OrReason<Vec<_>>>()?;
        self.object(table, &values)
    }

    fn value(&mut self, operand: &Operand, params: &[ValueId]) -> OrReason<ValueId> {
        Ok(match operand {
            Operand::Param(at) => *params.get(*at).ok_or("a parameter is missing")?,
            Operand::Null => ValueId::NULL,
            Operand::Unknown => ValueId::UNKNOWN,
            Operand::Int(int) => self.builder.values().int(*int),
            Operand::Bool(bool) => self.builder.values().bool(*bool),
            Operand::Cast(operand, class) => {
                let value = self.value(operand, params)?;
                if let (Class::Timestamptz, Value::Text(text)) = (class, self.get(value))
                    && let Some(moment) = utc(text)
                {
                    return Ok(self.builder.values().text(&moment));
                }
                if class.keeps(self.get(value)) { value } else { ValueId::UNKNOWN }
            }
            Operand::Text(text) => self.builder.values().text(text),
        })
    }

    fn get(&mut self, value: ValueId) -> Value<'_> {
        self.builder.values().get(value)
    }

    /// The row of a key, whose values must be such that equal keys are written alike.
    fn object(&mut self, table: usize, values: &[ValueId]) -> OrReason<ObjectId> {
        let def = self.table(table);
        for (column, &value) in key(def).into_iter().zip(values) {
            let dialect = self.dialect;
            let class = Class::column(def, column, dialect);
            let value = self.get(value);
            let odd = matches!(value, Value::Text(text) if !dialect.knows_equals_of(text));
            let folded = class == Class::Padded || class == Class::Text && (dialect.ignores_case() || odd);
            if folded || matches!(value, Value::Null) || !class.keeps(value) {
                return Err(format!("a key of {} that may be written in several ways", def.name));
            }
        }
        let key = match values {
            [key] => *key,
            several => self.builder.values().list(several),
        };
        let object = self.builder.object(Some(TableId::at(table)), key);
        if self.keyless[table] {
            // Initial rows are told by their keys. One that was met before has its initial value.
            let _ = self.builder.initial(object, ValueId::UNKNOWN);
        }
        Ok(object)
    }

    fn name(&mut self, table: usize, column: usize) -> NameId {
        let name = &self.table(table).columns[column].0;
        self.builder.values().intern_name(name)
    }

    /// What RETURNING told of each of `rows` rows: columns and their values; nothing where it told
    /// nothing.
    fn answers(
        &mut self,
        returning: &Option<Vec<Option<usize>>>,
        statement: &Statement,
        rows: usize,
    ) -> OrReason<Vec<Option<Answer>>> {
        let Some(outputs) = returning else { return Ok(vec![None; rows]) };
        let Some(tuples) = self.tuples(statement, outputs.len())?.filter(|tuples| tuples.len() == rows)
        else {
            return Ok(vec![None; rows]);
        };
        let answer = |tuple: Vec<ValueId>| {
            let columns = outputs.iter().zip(tuple);
            Some(columns.filter_map(|(output, value)| Some(((*output)?, value))).collect())
        };
        Ok(tuples.into_iter().map(answer).collect())
    }

    fn inserted(
        &mut self,
        table: usize,
        (row, answer): (&[Operand], Option<&Answer>),
        params: &[ValueId],
    ) -> OrReason<Access> {
        let mut values =
            row.iter().map(|operand| self.value(operand, params)).collect::<OrReason<Vec<_>>>()?;
        for &(column, value) in answer.into_iter().flatten() {
            if values[column] == ValueId::UNKNOWN {
                values[column] = value;
            }
        }
        if !self.partly && values.contains(&ValueId::UNKNOWN) {
            return Err("a default that its answer does not tell".into());
        }
        let keys = key(self.table(table));
        let object = self.object(table, &keys.iter().map(|&column| values[column]).collect::<Vec<_>>())?;
        let given: Vec<_> =
            values.into_iter().enumerate().filter(|(column, _)| !keys.contains(column)).collect();
        self.known.rows.insert((table, object), Some(HashMap::new()));
        self.written(table, object, &given)
    }

    /// A write of these columns, which the transaction knows from now on.
    fn written(&mut self, table: usize, object: ObjectId, given: &[(usize, ValueId)]) -> OrReason<Access> {
        let mut columns = Vec::with_capacity(given.len());
        for &(column, value) in given {
            let class = Class::column(self.table(table), column, self.dialect);
            let kept = class.keeps(self.builder.values().get(value));
            if !kept && !self.partly {
                let name = &self.table(table).columns[column].0;
                return Err(format!("a value of {name} that may be stored in another form"));
            }
            columns.push((self.name(table, column), if kept { value } else { ValueId::UNKNOWN }));
        }
        if let Some(known) = self.known.rows.entry((table, object)).or_insert_with(|| Some(HashMap::new())) {
            let (tables, dialect, values) = (self.tables, self.dialect, self.builder.values());
            let learned = given.iter().map(|&(column, value)| {
                let kept = is_learned(&tables[table], column, dialect, values.get(value));
                (column_key(tables, table, column), if kept { value } else { ValueId::UNKNOWN })
            });
            known.extend(learned);
        }
        Ok(Access { object, value: self.builder.values().row(&columns) })
    }

    /// A statement that changed no row has seen that there is none. In MySQL it may also have found
    /// nothing to change. Where each statement sees another state, it may have waited for somebody
    /// who deleted the row and put another in its place: PostgreSQL finds neither then, although
    /// there was a row before and there is one after.
    fn missed(&mut self, table: usize, object: ObjectId, statement: &Statement) -> OrReason<Option<Became>> {
        match self.changed(statement) {
            Some(0) if self.dialect.is_mysql() => {
                Ok(Some(read(object, ValueId::UNKNOWN, Some(ReadLock::Exclusive))))
            }
            Some(0) if self.sight == SeenState::Changing => Ok(Some(read(object, ValueId::UNKNOWN, None))),
            Some(0) => {
                self.known.rows.insert((table, object), None);
                Ok(Some(read(object, ValueId::NULL, None)))
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
        change: &Change<'_>,
        params: &[ValueId],
    ) -> OrReason<Option<Access>> {
        let Change { sets, text, answer } = *change;
        let told = |column: usize| {
            let found = answer?.iter().find(|(told, _)| *told == column)?;
            Some(found.1)
        };
        let mut given = Vec::with_capacity(sets.len());
        for (column, operand) in sets {
            match operand {
                Some(operand) => given.push((*column, self.value(operand, params)?)),
                None if self.partly && told(*column).is_some() => {
                    given.push((*column, told(*column).unwrap_or(ValueId::UNKNOWN)));
                }
                None if self.keyless[table] => given.push((*column, ValueId::UNKNOWN)),
                None => match self.computed(table, object, sets, text, params)? {
                    Some(mut computed) => {
                        self.widen(table, object, &mut computed);
                        return self.written(table, object, &computed).map(Some);
                    }
                    None if self.partly => given.push((*column, ValueId::UNKNOWN)),
                    None => return Ok(None),
                },
            }
        }
        self.widen(table, object, &mut given);
        self.written(table, object, &given).map(Some)
    }

    /// A write of a part of a row that the transaction knows is a write of the whole.
    fn widen(&self, table: usize, object: ObjectId, given: &mut Vec<(usize, ValueId)>) {
        let usable = self.sight == SeenState::Stable && !self.keyless[table];
        let Some(Some(known)) = self.known.rows.get(&(table, object)).filter(|_| usable) else { return };
        let keys = key(self.table(table));
        let others = (0..self.table(table).columns.len())
            .filter(|column| !keys.contains(column) && !given.iter().any(|(set, _)| set == column));
        let value = |column| Some((column, *known.get(&column_key(self.tables, table, column))?));
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
    ) -> OrReason<Option<Vec<(usize, ValueId)>>> {
        let Some(Some(known)) =
            self.known.rows.get(&(table, object)).filter(|_| self.sight == SeenState::Stable)
        else {
            return Ok(None);
        };
        let values = self.builder.values();
        let Some(text) = fill(text, params, values).filter(|text| self.compares_oddly(table, text).is_none())
        else {
            return Ok(None);
        };
        let values = self.builder.values();
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
        statement: &Statement,
    ) -> OrReason<Became> {
        if self.keyless[table] {
            return Ok(self.something(table));
        }
        self.known.rows.retain(|(of, _), _| *of != table);
        let condition = self.condition(table, &asked.condition, &statement.params)?;
        let set = set.map(|set| self.filled(set, &statement.params)).transpose()?;
        let table = TableId::at(table);
        // MySQL counts rows that it changed; others that it found.
        let nothing = self.partly && statement.count == Some(0) && !self.dialect.is_mysql();
        if nothing && self.sight == SeenState::Changing {
            // It has written nothing, and what it has seen is not certain: see `missed`.
            return Ok(Became::Scan { table, condition, rows: None, lock: None });
        }
        Ok(Became::Update { table, condition, set, nothing })
    }

    pub fn filled(&mut self, text: &str, params: &[ValueId]) -> OrReason<String> {
        fill(text, params, self.builder.values()).ok_or_else(|| "a parameter that is no literal".to_owned())
    }

    /// A condition with its parameters, unless it asks about a column whose values compare in a way
    /// of their own.
    pub fn condition(&mut self, table: usize, text: &str, params: &[ValueId]) -> OrReason<String> {
        let filled = self.filled(text, params)?;
        match self.compares_oddly(table, &filled) {
            Some(column) => {
                Err(format!("a condition on {column}, whose values compare in a way of their own"))
            }
            None => Ok(filled),
        }
    }

    /// The column of such values that a text names, if it names one.
    fn compares_oddly(&self, table: usize, text: &str) -> Option<&'a str> {
        let (def, words) = (self.table(table), words(text));
        let named = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
        let odd = |column: usize| !Class::column(def, column, self.dialect).compares_plainly(text);
        let names = def.columns.iter().enumerate();
        names
            .map(|(at, (name, _))| (at, name))
            .find(|(at, name)| odd(*at) && named(name))
            .map(|(_, name)| &**name)
    }

    fn select(&mut self, table: usize, found: &Found<'_>, statement: &Statement) -> OrReason<Became> {
        let Found { asked, outputs, limit, lock } = *found;
        let rows = self.tuples(statement, outputs.len())?;
        let limit = match limit {
            // The key leaves one row at most.
            Some(limit) if asked.pinned.is_some() => {
                let most = self.value(&limit.most, &statement.params)?;
                match self.get(most) {
                    Value::Int(1..) => None,
                    _ => return Err("a LIMIT that may return nothing".into()),
                }
            }
            limit => limit,
        };
        if let (Some(object), None) = (self.point(table, asked, &statement.params)?, limit) {
            let value = match rows.as_deref() {
                None => ValueId::UNKNOWN,
                Some([]) if self.may_miss(lock) => ValueId::UNKNOWN,
                Some([]) => self.seen_absent(table, object),
                Some([row]) => self.seen(table, object, outputs, row),
                Some([row, more @ ..]) if self.keyless[table] => {
                    if more.iter().all(|other| other == row) {
                        self.seen(table, object, outputs, row)
                    } else {
                        ValueId::UNKNOWN
                    }
                }
                Some(_) => return Err("several rows of one key".into()),
            };
            return Ok(Became::Read { accesses: vec![Access { object, value }], lock });
        }
        let mut condition = self.condition(table, &asked.condition, &statement.params)?;
        if let (Some(limit), Some(rows)) = (limit, &rows) {
            self.bound(table, &mut condition, limit, outputs, rows, &statement.params)?;
        }
        let Some(rows) = rows else {
            return Ok(Became::Scan { table: TableId::at(table), condition, rows: None, lock });
        };
        let accesses =
            rows.iter().map(|row| self.scanned(table, outputs, row)).collect::<OrReason<Vec<_>>>()?;
        if self.may_miss(lock) {
            return self.locked(TableId::at(table), condition, accesses, lock);
        }
        Ok(Became::Scan { table: TableId::at(table), condition, rows: Some(accesses), lock })
    }

    /// Whether a read may miss a row that was there all the time: one that locks rows, for the reason that
    /// [`Self::missed`] gives.
    fn may_miss(&self, lock: Option<ReadLock>) -> bool {
        lock.is_some() && self.sight == SeenState::Changing && !self.dialect.is_mysql()
    }

    /// A search that locked the rows that it returned, and may have missed others.
    fn locked(
        &self,
        table: TableId,
        condition: String,
        accesses: Vec<Access>,
        lock: Option<ReadLock>,
    ) -> OrReason<Became> {
        if !self.partly {
            return Err("a locking search that may have waited and missed rows".into());
        }
        let objects: HashSet<ObjectId> = accesses.iter().map(|access| access.object).collect();
        if accesses.is_empty() || objects.len() < accesses.len() {
            return Ok(Became::Scan { table, condition, rows: None, lock });
        }
        Ok(Became::Read { accesses, lock })
    }

    /// The tuples of an answer, if it was recorded.
    fn tuples(&mut self, statement: &Statement, width: usize) -> OrReason<Option<Vec<Vec<ValueId>>>> {
        let Some(rows) = &statement.rows else { return Ok(None) };
        let tuple = |&row: &ValueId| match self.builder.values().get(row) {
            Value::List(cells) if cells.len() == width => Ok(cells.to_vec()),
            _ => Err("a row that is not as wide as its statement says".to_owned()),
        };
        rows.iter().map(tuple).collect::<OrReason<Vec<_>>>().map(Some)
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
    ) -> OrReason<()> {
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

    fn scanned(&mut self, table: usize, outputs: &[Option<usize>], row: &[ValueId]) -> OrReason<Access> {
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
        self.known.rows.insert((table, object), None);
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
            let class = Class::column(def, column, self.dialect);
            if keys.contains(&column) || !class.keeps(self.builder.values().get(value)) {
                continue;
            }
            columns.push((self.name(table, column), value));
            let known = self.known.rows.entry((table, object)).or_insert_with(|| Some(HashMap::new()));
            let learned = is_learned(def, column, self.dialect, self.builder.values().get(value));
            let value = if learned { value } else { ValueId::UNKNOWN };
            known.get_or_insert_default().insert(column_key(self.tables, table, column), value);
        }
        self.builder.values().row(&columns)
    }
}

/// What an update sets.
struct Change<'a> {
    sets: &'a [(usize, Option<Operand>)],
    text: &'a str,
    /// What RETURNING told of the row, as it became.
    answer: Option<&'a [(usize, ValueId)]>,
}

/// What a query asks for.
struct Found<'a> {
    asked: &'a Asked,
    outputs: &'a [Option<usize>],
    limit: Option<&'a Limit>,
    lock: Option<ReadLock>,
}

fn read(object: ObjectId, value: ValueId, lock: Option<ReadLock>) -> Became {
    Became::Read { accesses: vec![Access { object, value }], lock }
}

/// Whether a transaction that read or wrote a value knows what the column holds from then on: not
/// if it may be stored in another form, or changed by something that is not recorded.
fn is_learned(table: &Table, column: usize, dialect: Dialect, value: Value<'_>) -> bool {
    let unseen = table.written_by_anything || table.columns_by_anything.contains(&table.columns[column].0);
    !unseen && Class::column(table, column, dialect).keeps(value)
}

/// The name under which a column's value is known.
fn column_key(tables: &[Table], table: usize, column: usize) -> String {
    tables[table].columns[column].0.to_ascii_lowercase()
}

fn as_sql(value: Value<'_>) -> Option<SqlValue> {
    match value {
        Value::Null => Some(SqlValue::Null),
        Value::Int(int) => Some(SqlValue::Int(int)),
        Value::Text(text) => Some(SqlValue::text(text)),
        _ => None,
    }
}
