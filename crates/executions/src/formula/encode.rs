//! A history as a formula.
//!
//! Initial values that are not known are integers here, or whatever their columns can hold
//! ([`Open`]); of columns that are no integers they have no terms.

use std::cell::RefCell;

use hashbrown::HashMap;
use margay_history::{History, Object, ObjectId, OpId, TxnId, Value as RecordedValue, ValueId};
use margay_sql::{
    Answer, Cell, Key, Kind, SqlError, Statement, SymbolicRow, SymbolicWrite, TableId, Term, Terms, Type,
    Value,
};
use margay_verdict::Outside;
use margay_verdict::execution::{Initial, Reading};

use super::fits;
use super::points::{Points, Sees};
use super::rows::{Own, Rows, Seen, Version, VisibleRows};
use crate::machine::Machine;
use crate::prints::RowId;
use crate::rules::{Family, Rules};
use crate::{unknown_rows, unknowns};

/// What an initial value that the history does not know may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// An integer, in a row that is there: what an
    /// [`Execution`](margay_verdict::execution::Execution) can name.
    Integers,
    /// Whatever its column can hold, NULL included; a row of which nothing is known may not be
    /// there at all. What refutes this refutes everything.
    Anything,
}

/// The formula, and what its terms stand for.
pub struct Encoded<'h> {
    /// The history's statements.
    pub machine: Machine<'h>,
    /// The terms.
    pub terms: Terms,
    /// What has to hold whatever was observed.
    pub asserted: Vec<Term>,
    /// That a statement gave what was observed of it.
    pub observed: Vec<(OpId, Term)>,
    /// The order.
    pub points: Points<'h>,
    /// What is asked.
    pub rules: Rules,
    /// The initial values that are not known.
    pub initial: Vec<(Initial, Term)>,
    /// What each statement sees, by its place among the transactions.
    pub sights: Vec<Sighted>,
}

/// What a statement sees.
pub struct Sighted {
    /// The statement.
    pub op: OpId,
    /// The place of its transaction among the points.
    pub txn: usize,
    /// The state, if it sees one state.
    pub point: Option<Term>,
    /// Rows that are seen as of other versions.
    pub rows: Vec<(RowId, Seen)>,
    /// Rows that are seen as of the state before the transaction's commit, where that holds.
    pub again: Vec<(RowId, Term)>,
}

/// One statement, ready to be translated.
struct Line {
    op: OpId,
    statement: Statement,
    params: Vec<Value>,
}

/// One statement, translated.
struct Done {
    txn: usize,
    op: OpId,
    answer: Answer,
    point: Option<Term>,
    again: Vec<(RowId, Term)>,
}

/// Translates some transactions of a history, in which all others come later.
///
/// # Errors
/// What has no terms.
pub fn encode<'h>(
    history: &'h History,
    rules: Rules,
    txns: &[TxnId],
    open: Open,
) -> Result<Encoded<'h>, Outside> {
    let given = unknowns(history)?;
    let mut machine = Machine::starting(history, false, &given)?;
    let (mut terms, mut asserted) = (Terms::new(), Vec::new());
    let points = Points::new(history, rules, txns, &mut terms, &mut asserted);
    let lines = lines(&mut machine, &points)?;
    if lines.iter().any(|lines| may_read_unwritten(&machine, rules, lines)) {
        return Err(Outside("what MySQL reads of a row that it left as it was".to_owned()));
    }
    let (rows, initial) = prepare(&machine, &lines, (given, open), &mut terms, &mut asserted)?;
    let (observed, sights) = (Vec::new(), Vec::new());
    let encoded = Encoded { machine, terms, asserted, observed, points, rules, initial, sights };
    let mut encoder = Encoder { encoded, rows, done: Vec::new() };
    for (txn, lines) in lines.iter().enumerate() {
        encoder.transaction(txn, lines)?;
    }
    encoder.finish()
}

fn lines(machine: &mut Machine<'_>, points: &Points<'_>) -> Result<Vec<Vec<Line>>, Outside> {
    let mut all = Vec::new();
    for &txn in &points.txns {
        let mut lines = Vec::new();
        for op in machine.statements(txn)? {
            let (statement, params) = machine.bound(op)?;
            lines.push(Line { op, statement, params });
        }
        all.push(lines);
    }
    Ok(all)
}

/// Whether a transaction may leave a row as it is, so that nothing is written, and then see another
/// version of it.
fn may_read_unwritten(machine: &Machine<'_>, rules: Rules, lines: &[Line]) -> bool {
    let same_rows = matches!(rules.family, Family::Serial | Family::Snapshot);
    let (Some((_, before)), true) = (lines.split_last(), machine.database().dialect().is_mysql()) else {
        return false;
    };
    !same_rows && before.iter().any(|line| line.statement.is_write() && !line.statement.is_delete())
}

/// The rows that there are or may come to be, and the unknowns among their initial values.
fn prepare(
    machine: &Machine<'_>,
    lines: &[Vec<Line>],
    (given, open): (Vec<Initial>, Open),
    terms: &mut Terms,
    asserted: &mut Vec<Term>,
) -> Result<(Rows, Vec<(Initial, Term)>), Outside> {
    let database = machine.database();
    let dialect = database.dialect();
    let mut rows = Rows::default();
    for (_, table) in database.tables() {
        let kinds = database.schema(table).columns.iter().map(|c| Kind::of(c.data_type, dialect)).collect();
        rows.kinds.insert(table, kinds);
        for key in database.keys(table) {
            let versions = database.versions(table, &key);
            let record = versions.last().and_then(|(_, row)| row.clone());
            let row = database.symbolic_row(table, record.as_deref(), terms);
            let row = row.map_err(|error| Outside(format!("an initial row: {error}")))?;
            rows.initial.insert((table, key.clone()), row);
            rows.keys.entry(table).or_default().push(key);
        }
    }
    let initial = given.into_iter().map(|cell| unknown(machine, cell, open, &mut rows, terms, asserted));
    let initial = initial.collect::<Result<_, _>>()?;
    if open == Open::Anything {
        may_be_absent(machine, &mut rows, terms);
    }
    writers(machine, lines, &mut rows)?;
    Ok((rows, initial))
}

/// Rows of which nothing is known need not be there.
fn may_be_absent(machine: &Machine<'_>, rows: &mut Rows, terms: &mut Terms) {
    let history = machine.history();
    let nothing =
        |object: &ObjectId| matches!(history.value(history.initial(*object)), RecordedValue::Unknown);
    for object in unknown_rows(history).into_iter().filter(nothing) {
        if let Some(row) = row_of(machine, object).and_then(|id| rows.initial.get_mut(&id)) {
            row.present = terms.choice();
        }
    }
}

/// The row that an object is, as the database has it.
#[must_use]
pub fn row_of(machine: &Machine<'_>, object: ObjectId) -> Option<RowId> {
    let (history, database) = (machine.history(), machine.database());
    let Object { table, key } = history.object(object);
    let table = database.table(&history.table(table?).name)?;
    let part = |&id: &ValueId| Some(margay_verdict::cell::to_sql(history, id)?.group_key(database.dialect()));
    let key: Option<Vec<Value>> = match history.value(key) {
        RecordedValue::List(parts) => parts.iter().map(part).collect(),
        _ => part(&key).map(|part| vec![part]),
    };
    Some((table, Key::from(key?)))
}

/// An initial integer that is not known.
fn unknown(
    machine: &Machine<'_>,
    cell: Initial,
    open: Open,
    rows: &mut Rows,
    terms: &mut Terms,
    asserted: &mut Vec<Term>,
) -> Result<(Initial, Term), Outside> {
    let missing = || Outside(format!("an unknown initial value of the column {}", cell.column));
    let (table, key) = row_of(machine, cell.object).ok_or_else(missing)?;
    let columns = &machine.database().schema(table).columns;
    let column = columns.iter().position(|column| column.name == cell.column).ok_or_else(missing)?;
    let Type::Int(bits) = columns[column].data_type else { return Err(missing()) };
    let null = match open == Open::Anything && !columns[column].not_null {
        true => terms.choice(),
        false => Term::FALSE,
    };
    let row = rows.initial.get_mut(&(table, key)).ok_or_else(missing)?;
    let value = terms.unknown();
    row.cells[column] = Cell { null, value, kind: Kind::Int };
    // How wide an integer is depends on a database that the header may not name.
    let bits = if open == Open::Anything { 64 } else { bits };
    let half = 1i128 << (bits.clamp(1, 64) - 1);
    let (low, high) = (terms.int(-half), terms.int(half - 1));
    let in_range = [terms.at_most(low, value), terms.at_most(value, high)];
    asserted.extend(in_range);
    Ok((cell, value))
}

/// Who may write which rows.
fn writers(machine: &Machine<'_>, lines: &[Vec<Line>], rows: &mut Rows) -> Result<(), Outside> {
    let database = machine.database();
    let mut targets: Vec<(usize, TableId, Option<Key>, &Statement)> = Vec::new();
    for (txn, lines) in lines.iter().enumerate() {
        for line in lines {
            let found = database.targets(&line.statement, &line.params);
            let found = found.map_err(|error| machine.outside(line.op, &error))?;
            targets.extend(found.into_iter().map(|(table, key)| (txn, table, key, &line.statement)));
        }
    }
    for (_, table, key, _) in &targets {
        let keys = rows.keys.entry(*table).or_default();
        if let Some(key) = key.as_ref().filter(|key| !keys.contains(key)) {
            keys.push(key.clone());
        }
    }
    for (txn, table, key, statement) in targets {
        let keys = key.map_or_else(|| rows.keys.get(&table).cloned().unwrap_or_default(), |key| vec![key]);
        for id in keys.into_iter().map(|key| (table, key)) {
            if statement.is_delete() {
                rows.note_deleter(id.clone(), txn);
            } else if statement.is_insert() {
                rows.note_inserter(&id, txn);
            }
            rows.note_writer(id, txn);
        }
    }
    Ok(())
}

/// How a statement sees a committed row.
type Committed<'a> = &'a mut dyn FnMut(
    &mut Rows,
    &Points<'_>,
    &mut Terms,
    &mut Vec<Term>,
    &RowId,
) -> Result<SymbolicRow, SqlError>;

struct Encoder<'h> {
    encoded: Encoded<'h>,
    rows: Rows,
    done: Vec<Done>,
}

/// What a transaction has done so far.
#[derive(Default)]
struct Course {
    own: HashMap<RowId, Own>,
    /// The snapshot, and what it has of rows.
    snapshot: Option<Term>,
    seen: HashMap<RowId, Seen>,
}

impl Encoder<'_> {
    fn transaction(&mut self, txn: usize, lines: &[Line]) -> Result<(), Outside> {
        let mut course = Course::default();
        let Encoded { terms, asserted, points, rules, .. } = &mut self.encoded;
        if rules.family == Family::Snapshot {
            course.snapshot = Some(points.snapshot(txn, terms, asserted));
        }
        for line in lines {
            let translated = match self.encoded.rules.family {
                Family::Serial | Family::Snapshot => self.on_one_state(txn, line, &mut course),
                Family::Repeatable | Family::Committed(Reading::Item) => {
                    self.on_versions(txn, line, &mut course)
                }
                Family::Committed(Reading::Statement) => self.on_own_state(txn, line, &mut course),
            };
            let done = translated.map_err(|error| self.encoded.machine.outside(line.op, &error))?;
            self.take(txn, line.op, &done.answer, &mut course)?;
            self.done.push(done);
        }
        self.leave(txn, course).map_err(|error| Outside(format!("a row: {error}")))
    }

    /// Executes a statement over rows that `committed` gives.
    fn execute(
        &mut self,
        line: &Line,
        own: &HashMap<RowId, Own>,
        committed: Committed<'_>,
    ) -> Result<Answer, SqlError> {
        let Encoded { machine, terms, asserted, points, .. } = &mut self.encoded;
        let keys = self.rows.keys.clone();
        let rows = RefCell::new((&mut self.rows, asserted));
        let mut see = |terms: &mut Terms, id: &RowId| {
            let (rows, asserted) = &mut *rows.borrow_mut();
            committed(rows, points, terms, asserted, id)
        };
        let mut view = VisibleRows { keys: &keys, own, committed: &mut see, failed: None };
        let answer = machine.database().symbolic(&line.statement, &line.params, &mut view, terms);
        match view.failed.take() {
            Some(error) => Err(error),
            None => answer,
        }
    }

    /// All statements of the transaction see one state: the one before its commit, or its snapshot.
    fn on_one_state(&mut self, txn: usize, line: &Line, course: &mut Course) -> Result<Done, SqlError> {
        let point = course.snapshot;
        let sees = point.map_or(Sees::Here, Sees::UpTo);
        let seen = &mut course.seen;
        let answer = self.execute(line, &course.own, &mut |rows, points, terms, _, id| {
            if !seen.contains_key(id) {
                seen.insert(id.clone(), rows.latest(points, (txn, sees), id, terms)?);
            }
            Ok(seen[id].row.clone())
        })?;
        Ok(Done { txn, op: line.op, answer, point, again: Vec::new() })
    }

    /// Every row as of some version of its own.
    fn on_versions(&mut self, txn: usize, line: &Line, course: &mut Course) -> Result<Done, SqlError> {
        let mut seen: HashMap<RowId, Seen> = HashMap::new();
        let gaps = self.encoded.rules.family != Family::Repeatable;
        let answer = self.execute(line, &course.own, &mut |rows, points, terms, asserted, id| {
            if !seen.contains_key(id) {
                let any = rows.any(points, txn, id, terms, asserted)?;
                let any = if gaps { rows.or_missed(points, txn, id, any, (terms, asserted))? } else { any };
                seen.insert(id.clone(), any);
            }
            Ok(seen[id].row.clone())
        })?;
        if self.encoded.rules.family == Family::Repeatable {
            self.assert_latest(txn, &answer, &seen, course);
        }
        let rows = seen.into_iter().collect();
        self.encoded.sights.push(Sighted { op: line.op, txn, point: None, rows, again: Vec::new() });
        Ok(Done { txn, op: line.op, answer, point: None, again: Vec::new() })
    }

    /// Rows that are read are the latest ones, or the transaction's own.
    fn assert_latest(&mut self, txn: usize, answer: &Answer, seen: &HashMap<RowId, Seen>, course: &Course) {
        let Encoded { terms, asserted, points, .. } = &mut self.encoded;
        for (table, key, read) in &answer.reads {
            let id = (*table, key.clone());
            let Some(seen) = seen.get(&id) else { continue };
            let own = course.own.get(&id).map_or(Term::FALSE, |own| own.written);
            let fine = terms.or(&[seen.is_latest, own]);
            let read = terms.and(&[points.included[txn], *read]);
            asserted.push(terms.implies(read, fine));
        }
    }

    /// Each statement sees a state of its own; a locking one may look again at the rows that it
    /// found.
    fn on_own_state(&mut self, txn: usize, line: &Line, course: &mut Course) -> Result<Done, SqlError> {
        let Encoded { terms, asserted, points, .. } = &mut self.encoded;
        let point = points.state(txn, terms, asserted);
        let again = terms.choice();
        let first = self.execute(line, &course.own, &mut |rows, points, terms, _, id| {
            Ok(rows.latest(points, (txn, Sees::UpTo(point)), id, terms)?.row)
        })?;
        if !first.locks {
            self.encoded.sights.push(Sighted {
                op: line.op,
                txn,
                point: Some(point),
                rows: Vec::new(),
                again: Vec::new(),
            });
            return Ok(Done { txn, op: line.op, answer: first, point: Some(point), again: Vec::new() });
        }
        let terms = &mut self.encoded.terms;
        let mut found: HashMap<RowId, Term> = HashMap::new();
        for (table, key, read) in &first.reads {
            // What is only read on the way need not be looked at again.
            let only_read =
                !first.writes.is_empty() && first.writes.iter().all(|write| write.table != *table);
            let looks = if only_read { terms.choice() } else { Term::TRUE };
            let both = terms.and(&[again, *read, looks]);
            let known = found.entry((*table, key.clone())).or_insert(Term::FALSE);
            *known = terms.or(&[*known, both]);
        }
        let answer = self.execute(line, &course.own, &mut |rows, points, terms, _, id| {
            let then = rows.latest(points, (txn, Sees::UpTo(point)), id, terms)?.row;
            let Some(&looks) = found.get(id) else { return Ok(then) };
            let mut now = rows.latest(points, (txn, Sees::Here), id, terms)?.row;
            // A row that somebody deleted meanwhile is not found again, whether it came back or
            // not.
            let ended = rows.ended_after(points, txn, id, point, terms);
            if ended != Term::FALSE {
                let gone = terms.choice();
                let gone = terms.and(&[gone, ended]);
                let absent = SymbolicRow::absent(now.cells.len(), terms);
                now = SymbolicRow::either(gone, &absent, &now, terms)?;
            }
            SymbolicRow::either(looks, &now, &then, terms)
        })?;
        let again: Vec<(RowId, Term)> = found.into_iter().collect();
        let sighted =
            Sighted { op: line.op, txn, point: Some(point), rows: Vec::new(), again: again.clone() };
        self.encoded.sights.push(sighted);
        Ok(Done { txn, op: line.op, answer, point: Some(point), again })
    }

    /// Adds a statement's writes to its transaction's own.
    fn take(&mut self, txn: usize, op: OpId, answer: &Answer, course: &mut Course) -> Result<(), Outside> {
        let Encoded { machine, terms, asserted, points, .. } = &mut self.encoded;
        if answer.fails != Term::FALSE && !machine.is_noticed(op) {
            let error = SqlError::unsupported("a statement that may have failed unnoticed");
            return Err(machine.outside(op, &error));
        }
        let fine = terms.not(answer.fails);
        asserted.push(terms.implies(points.included[txn], fine));
        for SymbolicWrite { table, key, when, after } in &answer.writes {
            let id = (*table, key.clone());
            let own = match course.own.get(&id) {
                None => Own { written: *when, row: after.clone() },
                Some(own) => Own {
                    written: terms.or(&[own.written, *when]),
                    row: SymbolicRow::either(*when, after, &own.row, terms)
                        .map_err(|error| machine.outside(op, &error))?,
                },
            };
            course.own.insert(id, own);
        }
        Ok(())
    }

    /// Notes what a transaction leaves behind.
    fn leave(&mut self, txn: usize, mut course: Course) -> Result<(), SqlError> {
        let ids = self.rows.written_by(&[txn]);
        let Encoded { terms, asserted, points, .. } = &mut self.encoded;
        for id in ids {
            let version = match course.own.get(&id) {
                None => Version { writes: Term::FALSE, row: self.rows.initially(&id, terms) },
                Some(own) => Version { writes: own.written, row: own.row.clone() },
            };
            let version = match course.snapshot {
                None => version,
                // A write that leaves a row as the snapshot has it is none.
                Some(point) => {
                    if !course.seen.contains_key(&id) {
                        let seen = self.rows.latest(points, (txn, Sees::UpTo(point)), &id, terms)?;
                        course.seen.insert(id.clone(), seen);
                    }
                    let same = SymbolicRow::same(&version.row, &course.seen[&id].row, terms);
                    let other = terms.not(same);
                    Version { writes: terms.and(&[version.writes, other]), row: version.row }
                }
            };
            self.rows.settle(txn, id, version, terms, asserted);
        }
        if let Some(point) = course.snapshot {
            let (op, rows) = (OpId(0), Vec::new());
            self.encoded.sights.push(Sighted { op, txn, point: Some(point), rows, again: Vec::new() });
        }
        Ok(())
    }

    /// No transaction changes a row that another wrote after its snapshot.
    fn assert_no_conflict(&mut self) {
        let Encoded { terms, asserted, points, sights, .. } = &mut self.encoded;
        for sighted in sights.iter() {
            let (txn, Some(point)) = (sighted.txn, sighted.point) else { continue };
            for id in self.rows.written_by(&[txn]) {
                let writes = self.rows.version(txn, &id, terms).writes;
                if writes != Term::FALSE {
                    let newest = self.rows.is_newest(points, txn, &id, point, terms);
                    let writes = terms.and(&[points.included[txn], writes]);
                    asserted.push(terms.implies(writes, newest));
                }
            }
        }
    }

    /// A statement on a state of its own writes only rows that are the newest, or that it looked at
    /// again.
    fn assert_newest(&mut self) {
        let Encoded { terms, asserted, points, .. } = &mut self.encoded;
        for done in &self.done {
            let Some(point) = done.point else { continue };
            for write in &done.answer.writes {
                let id = (write.table, write.key.clone());
                let again =
                    done.again.iter().find(|(known, _)| *known == id).map_or(Term::FALSE, |(_, when)| *when);
                let newest = self.rows.is_newest(points, done.txn, &id, point, terms);
                let fine = terms.or(&[again, newest]);
                let writes = terms.and(&[points.included[done.txn], write.when]);
                asserted.push(terms.implies(writes, fine));
            }
        }
    }

    /// Commit timestamps order the writers of one row at the serializable levels.
    fn assert_row_order(&mut self) {
        let Encoded { terms, asserted, points, .. } = &mut self.encoded;
        for (a, b) in points.ordered_writers() {
            for id in self.rows.written_by(&[a, b]) {
                let (first, second) =
                    (self.rows.version(a, &id, terms).writes, self.rows.version(b, &id, terms).writes);
                let write = terms.and(&[points.included[a], points.included[b], first, second]);
                let ordered = points.less(a, b, terms);
                asserted.push(terms.implies(write, ordered));
            }
        }
    }
}

impl<'h> Encoder<'h> {
    /// What can be said when everything is translated.
    fn finish(mut self) -> Result<Encoded<'h>, Outside> {
        match self.encoded.rules.family {
            Family::Snapshot => self.assert_no_conflict(),
            Family::Committed(Reading::Statement) => self.assert_newest(),
            _ => {}
        }
        self.assert_row_order();
        let Encoded { machine, terms, observed, points, .. } = &mut self.encoded;
        for done in &self.done {
            let fits = fits::fits(machine, done.op, &done.answer, terms)?;
            observed.push((done.op, terms.implies(points.included[done.txn], fits)));
        }
        Ok(self.encoded)
    }
}
