//! The conditions and assignments of a history, compiled once.

use std::borrow::Cow;
use std::fmt;

use hashbrown::HashMap;
use margay_history::{History, NameId, ObjectId, Op, OpKind, Outcome, PredicateId, TableId, Value, ValueId};
use margay_sql::{Assignments, Dialect, Predicate, Row, Shapes, SqlError, Value as SqlValue};

use crate::budget::Budget;
use crate::cell::{Cell, Effect, Field, key_column};
use crate::summaries::Summaries;

/// Something that this crate gives no meaning to: a construct, named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outside(pub String);

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The conditions and assignments of a history, and the objects of each table.
#[derive(Debug)]
pub struct Predicates<'h> {
    history: &'h History,
    conditions: Vec<Result<Predicate, Outside>>,
    sets: HashMap<&'h str, Result<Assignments, Outside>>,
    tables: Vec<Vec<ObjectId>>,
    /// Their conditions stand behind those of the history.
    summaries: Summaries,
    /// The history's column names, and those that only assignments name.
    names: HashMap<String, NameId>,
    /// By condition: its column and range, if it is just that.
    ranges: Vec<Option<(NameId, i64, i64)>>,
    budget: Budget,
}

impl<'h> Predicates<'h> {
    /// Compiles every condition and assignment.
    ///
    /// # Errors
    /// The first construct outside the fragment: SQL that has no meaning here, or a SQL statement
    /// of a transaction that may have committed and that is no [summary](crate::summaries).
    pub fn compile(history: &'h History) -> Result<Self, Outside> {
        let all = Self::lenient(history);
        match all.first_outside() {
            Some(outside) => Err(outside),
            None => Ok(all),
        }
    }

    /// Compiles what can be; the rest is an error when it is asked for.
    #[must_use]
    pub fn lenient(history: &'h History) -> Self {
        let dialect = dialect(history);
        let outside = |text: &str, error: SqlError| Outside(format!("{text:?}: {error}"));
        let (summaries, mut shapes) = (Summaries::of(history, dialect), Shapes::new(dialect));
        let own = history.predicates().iter().map(|predicate| &*predicate.text);
        let conditions: Vec<_> = own
            .chain(summaries.conditions.iter().map(|(_, text)| text.as_str()))
            .map(|text| shapes.predicate(text).map_err(|error| outside(text, error)))
            .collect();
        let mut sets = HashMap::new();
        for text in set_texts(history) {
            sets.entry(text)
                .or_insert_with(|| shapes.assignments(text).map_err(|error| outside(text, error)));
        }
        let mut tables = vec![Vec::new(); history.tables().len()];
        for object in history.objects() {
            if let Some(table) = history.object(object).table {
                tables[table.index()].push(object);
            }
        }
        let names = names(history, sets.values().flatten());
        let mut all = Self {
            history,
            conditions,
            sets,
            tables,
            summaries,
            names,
            ranges: Vec::new(),
            budget: Budget::unlimited(),
        };
        all.ranges = (0..all.count()).map(|place| all.find_range(PredicateId::at(place))).collect();
        all
    }

    /// The condition as a range of one column's integers, if it is that.
    fn find_range(&self, predicate: PredicateId) -> Option<(NameId, i64, i64)> {
        let (name, low, high) = self.condition(predicate)?.range()?;
        let is_key = self.history.table(self.table_of(predicate)).key.iter().any(|column| column == name);
        // A column that only assignments name is none of the history's.
        let shown = |id: &NameId| !is_key && id.index() < self.history.values().name_count();
        let id = self.names.get(name).copied().filter(shown)?;
        Some((id, low, high))
    }

    /// The one column that a condition is about, and the integers for which it is true, if it is
    /// just that and the column is none of the key.
    #[must_use]
    pub fn range(&self, predicate: PredicateId) -> Option<(NameId, i64, i64)> {
        self.ranges[predicate.index()]
    }

    /// Whether the condition, which is about this column alone, is true of a row with this integer
    /// in it; `None` if it is not that simple.
    #[must_use]
    pub fn in_range(&self, predicate: PredicateId, name: NameId, value: ValueId) -> Option<bool> {
        let (_, low, high) = self.range(predicate).filter(|range| range.0 == name)?;
        match self.history.value(value) {
            Value::Int(number) => Some(low <= number && number <= high),
            _ => None,
        }
    }

    fn first_outside(&self) -> Option<Outside> {
        let conditions = self.conditions.iter().find_map(|c| c.as_ref().err());
        let sets = || self.sets.values().find_map(|s| s.as_ref().err());
        conditions.or_else(sets).cloned().or_else(|| self.first_statement())
    }

    fn first_statement(&self) -> Option<Outside> {
        if !self.history.has_kind(OpKind::Sql) {
            return None;
        }
        let live = self.history.txns().filter(|&t| self.history.outcome(t) != Outcome::Aborted);
        let op = live
            .flat_map(|t| self.history.ops(t))
            .find(|op| op.kind == OpKind::Sql && self.summary(op.id).is_none())?;
        Some(statement_outside(self.history, &op))
    }

    /// The same, for work within a budget: whoever evaluates in a loop polls
    /// [`Predicates::budget`].
    #[must_use]
    pub fn within(mut self, budget: &Budget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// The budget of the work that uses this; unlimited unless [`Predicates::within`] was called.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The history.
    #[must_use]
    pub fn history(&self) -> &'h History {
        self.history
    }

    /// The objects of a table.
    #[must_use]
    pub fn table(&self, table: TableId) -> &[ObjectId] {
        &self.tables[table.index()]
    }

    /// The objects among which a predicate chooses.
    #[must_use]
    pub fn domain(&self, predicate: PredicateId) -> &[ObjectId] {
        self.table(self.table_of(predicate))
    }

    /// How many predicates there are: those of the history, and the conditions of its summaries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.conditions.len()
    }

    /// The table that a predicate is about.
    #[must_use]
    pub fn table_of(&self, predicate: PredicateId) -> TableId {
        let own = self.history.predicates();
        match own.get(predicate.index()) {
            Some(predicate) => predicate.table,
            None => self.summaries.conditions[predicate.index() - own.len()].0,
        }
    }

    pub(crate) fn summaries(&self) -> &Summaries {
        &self.summaries
    }

    /// A column of a cell as SQL sees it.
    pub(crate) fn column_of(&self, object: ObjectId, cell: &Cell, name: &str) -> Result<SqlValue, Outside> {
        let row = CellRow { all: self, object, cell };
        let found = row.column(name).or_else(|| row.column(&name.to_ascii_lowercase()));
        found.map(Cow::into_owned).ok_or_else(|| Outside(format!("the column {name}")))
    }

    /// Whether the cell of `object` is there and the condition is true of it.
    ///
    /// # Errors
    /// When the condition is outside the fragment, or has no value on this cell.
    pub fn matches(&self, predicate: PredicateId, object: ObjectId, cell: &Cell) -> Result<bool, Outside> {
        if cell.is_absent() {
            return Ok(false);
        }
        if let Some((name, ..)) = self.range(predicate)
            && self.history.object(object).table == Some(self.table_of(predicate))
            && let Some(Field::Value(value)) = cell.column(self.history, name)
            && let Some(answer) = self.in_range(predicate, name, value)
        {
            return Ok(answer);
        }
        self.holds(predicate, &CellRow { all: self, object, cell })
    }

    /// Whether the condition is true of a row.
    ///
    /// # Errors
    /// When the condition is outside the fragment, or has no value on this row.
    pub fn holds(&self, predicate: PredicateId, row: &impl Row) -> Result<bool, Outside> {
        let condition = self.conditions[predicate.index()].as_ref().map_err(Clone::clone)?;
        condition.matches(row).map_err(|error| Outside(format!("{:?}: {error}", condition.text())))
    }

    /// The compiled condition of a predicate, unless it is outside the fragment.
    #[must_use]
    pub fn condition(&self, predicate: PredicateId) -> Option<&Predicate> {
        self.conditions[predicate.index()].as_ref().ok()
    }

    /// What an update does to a cell that its condition matched: `set` applied, or a delete.
    ///
    /// # Errors
    /// When the assignments are outside the fragment, or have no value on this cell.
    pub fn assign(&self, set: Option<&str>, object: ObjectId, cell: &Cell) -> Result<Effect, Outside> {
        let Some(text) = set else { return Ok(Effect::Put(ValueId::NULL)) };
        let assignments = self.assignments(text)?;
        let row = CellRow { all: self, object, cell };
        let new = assignments.apply(&row).map_err(|error| Outside(format!("{text:?}: {error}")))?;
        if !cell.is_row(self.history)
            && let [(VALUE, made)] = new.as_slice()
        {
            return Ok(Effect::Make(made.clone()));
        }
        Ok(Effect::Set(
            new.into_iter().map(|(name, value)| (self.target(name), Field::Made(value))).collect(),
        ))
    }

    /// The compiled assignments of an update.
    ///
    /// # Errors
    /// When they are outside the fragment.
    pub fn assignments(&self, text: &str) -> Result<&Assignments, Outside> {
        match self.sets.get(text) {
            Some(found) => found.as_ref().map_err(Clone::clone),
            None => Err(Outside(format!("{text:?}"))),
        }
    }

    /// The column that an assignment's target is: as written, or in lower case, as SQL folds it.
    #[must_use]
    pub fn target(&self, name: &str) -> NameId {
        self.names.get(name).copied().unwrap_or(NameId(u32::MAX))
    }

    /// The history's column of this name, as written or in lower case, as SQL folds it.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<NameId> {
        let found = self.names.get(name).or_else(|| self.names.get(&name.to_ascii_lowercase())).copied();
        found.filter(|id| id.index() < self.history.values().name_count())
    }

    /// Looks a column up as SQL does: a name that the history has only in lower case is left to the
    /// second question, in lower case.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Lookup {
        match self.names.get(name) {
            Some(&id) => Lookup::Column(id),
            None if self.names.contains_key(&name.to_ascii_lowercase()) => Lookup::AskAgain,
            None => Lookup::Nowhere,
        }
    }
}

/// Where a column name leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// To this column.
    Column(NameId),
    /// To a column whose name is in lower case.
    AskAgain,
    /// To no column.
    Nowhere,
}

/// The column of values that are no rows.
const VALUE: &str = "value";

/// A cell as SQL sees it.
struct CellRow<'a, 'h> {
    all: &'a Predicates<'h>,
    object: ObjectId,
    cell: &'a Cell,
}

impl Row for CellRow<'_, '_> {
    fn column(&self, name: &str) -> Option<Cow<'_, SqlValue>> {
        let history = self.all.history;
        if let Some(key) = key_column(history, self.object, name) {
            return Field::Value(key).to_sql(history).map(|v| Cow::Owned(v.into_owned()));
        }
        match self.cell {
            Cell::Made(value) if name == VALUE => return Some(Cow::Borrowed(value)),
            Cell::Value(id) if name == VALUE && !self.cell.is_row(history) => {
                return crate::cell::to_sql(history, *id).map(Cow::Owned);
            }
            _ => {}
        }
        match self.all.resolve(name) {
            Lookup::Column(id) => match self.cell.column(history, id) {
                Some(field) => field.to_sql(history).map(|v| Cow::Owned(v.into_owned())),
                None => Some(Cow::Owned(SqlValue::Null)),
            },
            Lookup::AskAgain => None,
            // A column of the key, which rows need not have, may be written otherwise: the second
            // question finds it.
            Lookup::Nowhere if name.contains(|letter: char| letter.is_ascii_uppercase()) => None,
            Lookup::Nowhere => Some(Cow::Owned(SqlValue::Null)),
        }
    }
}

/// The rules of the database that the history was recorded from.
#[must_use]
pub fn dialect(history: &History) -> Dialect {
    Dialect::of_dbms(history.header().dbms.as_deref())
}

fn set_texts(history: &History) -> impl Iterator<Item = &str> {
    let updates = history.has_kind(OpKind::Update);
    let ops = history.txns().filter(move |_| updates).flat_map(|txn| history.ops(txn));
    ops.filter_map(|op| history.update(op.id)).filter_map(|update| update.set.as_deref())
}

/// Every column name with its id. A target that the history knows only in lower case is that
/// column; one that it does not know at all gets an id beyond the history's.
fn names<'a>(history: &History, sets: impl Iterator<Item = &'a Assignments>) -> HashMap<String, NameId> {
    let count = history.values().name_count();
    let mut names: HashMap<String, NameId> =
        (0..count).map(NameId::at).map(|id| (history.name(id).to_string(), id)).collect();
    let mut next = count;
    for target in sets.flat_map(Assignments::targets) {
        if names.contains_key(target) {
            continue;
        }
        let folded = names.get(&target.to_ascii_lowercase()).copied();
        let id = folded.unwrap_or_else(|| {
            next += 1;
            NameId::at(next - 1)
        });
        names.insert(target.to_string(), id);
    }
    names
}

/// That a SQL statement has no meaning here.
#[must_use]
pub fn statement_outside(history: &History, op: &Op<'_>) -> Outside {
    let text = history.statement(op.id).map_or("", |statement| &*statement.text);
    let txn = history.show_txn(history.txn_of(op.id));
    Outside(format!("the SQL statement {text:?} of {txn}"))
}
