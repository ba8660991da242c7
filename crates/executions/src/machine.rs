//! The SQL interpreter over a history's statements, one committed state after the other.
//!
//! # Invariants
//! - State *i* of the database is the state after the *i*-th commit; taking back and forgetting
//!   keep the numbers.
//! - A transaction that was not committed leaves nothing behind.

use std::borrow::Cow;
use std::sync::Arc;

use margay_history::{History, OpId, OpKind, Outcome as Ended, TxnId};
use margay_sql::{
    Control, Database, Dialect, Key, Lock, Outcome, PredicateRead, RowRead, SqlError, Statement,
    StatementCache, TableId, Transaction, Value, Write,
};
use margay_verdict::cell::to_sql;
use margay_verdict::execution::{Initial, Pin, StatementSight};
use margay_verdict::{Budget, Outside};

use super::fits::{Difference, difference, fits};
use super::gaps::Gaps;
use super::prints::RowId;
use super::setup;

/// Versions of a transaction that is not committed carry this bit in what reads report.
const PENDING: u64 = 1 << 63;

/// A database that executes the statements of a history.
#[derive(Debug)]
pub struct Machine<'h> {
    history: &'h History,
    database: Database,
    cache: StatementCache,
    /// The stamp of state 0.
    base: u64,
    /// The earliest state that is still known.
    oldest: u32,
    gaps: Gaps,
    /// Whether a statement other than a DELETE has made a row go, such as an UPDATE of its key.
    moves: bool,
}

/// What one statement gave.
#[derive(Debug)]
pub struct StatementStep {
    /// Its result, or the error that it would have ended with.
    pub result: Result<Outcome, SqlError>,
    /// Whether that is what was observed.
    pub fits: bool,
    /// Whether the statement locks the rows that it finds, to change them.
    pub locks: bool,
    /// Whether it looks again at rows that it found and waited for, as every statement does that
    /// locks.
    pub looks_again: bool,
}

/// What the statements of one transaction read and wrote, as far as they were executed.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// The rows that were read: by key, or because they satisfied a condition.
    pub rows: Vec<RowRead>,
    /// The conditions that were asked of tables.
    pub predicates: Vec<PredicateRead>,
    /// The tables in which a key was found to be taken.
    pub taken: Vec<TableId>,
    /// The rows that were written, each once.
    pub writes: Vec<Write>,
}

impl Ran {
    /// Adds what one more statement read and wrote.
    pub fn add(&mut self, step: &StatementStep, own: &mut Vec<TableId>) {
        let Ok(outcome) = &step.result else {
            // A failed statement does not tell what it looked at.
            self.taken.append(own);
            return;
        };
        self.rows.extend(
            outcome.reads.rows.iter().filter(|read| read.stamp.is_none_or(|s| s & PENDING == 0)).cloned(),
        );
        self.predicates.extend(outcome.reads.predicates.iter().cloned());
        for write in &outcome.writes {
            let known =
                self.writes.iter_mut().find(|known| known.table == write.table && known.key == write.key);
            match known {
                Some(known) => known.follow(write),
                None => self.writes.push(write.clone()),
            }
        }
    }

    /// Adds what was looked at, and not what was written.
    pub fn look_at(&mut self, other: &Ran) {
        self.rows.extend(other.rows.iter().cloned());
        self.predicates.extend(other.predicates.iter().cloned());
        self.taken.extend(other.taken.iter().copied());
    }

    /// The rows that are other than they were.
    pub fn changes(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(|write| write.before != write.after)
    }
}

impl<'h> Machine<'h> {
    /// The database before the first transaction, with indexes as they are needed or without any.
    ///
    /// # Errors
    /// What is outside the fragment: an operation that is no SQL, a table whose columns are not
    /// declared, a type that has no meaning here.
    pub fn new(history: &'h History, indexed: bool) -> Result<Self, Outside> {
        Self::starting(history, indexed, &[])
    }

    /// The same, with these integers where initial values are not known.
    ///
    /// # Errors
    /// As above.
    pub fn starting(history: &'h History, indexed: bool, given: &[Initial]) -> Result<Self, Outside> {
        let kinds = [OpKind::Read, OpKind::Write, OpKind::Append, OpKind::Scan, OpKind::Update];
        if let Some(kind) = kinds.into_iter().find(|&kind| history.has_kind(kind)) {
            return Err(Outside(format!("the operation `{}` beside SQL statements", kind.name())));
        }
        let mut database = setup::initial(history, given)?;
        database.keep_window(indexed);
        let base = database.clock();
        Ok(Self {
            history,
            database,
            cache: StatementCache::new(),
            base,
            oldest: 0,
            gaps: Gaps::default(),
            moves: false,
        })
    }

    /// The same, with statements that end with the budget: as outside the fragment, which whoever
    /// polls the budget knows better.
    #[must_use]
    pub fn within(mut self, budget: &Budget) -> Self {
        self.limit(budget);
        self
    }

    /// From now on statements end with the budget.
    pub fn limit(&mut self, budget: &Budget) {
        let budget = budget.clone();
        self.database.stop_when(move || budget.poll().is_err());
    }

    /// The history.
    #[must_use]
    pub fn history(&self) -> &'h History {
        self.history
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// How many transactions are committed.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position_of(self.database.clock())
    }

    /// The state that a stamp of the database belongs to.
    #[must_use]
    pub fn position_of(&self, stamp: u64) -> u32 {
        u32::try_from(stamp.saturating_sub(self.base)).unwrap_or(u32::MAX)
    }

    fn stamp(&self, position: u32) -> u64 {
        self.base + u64::from(position)
    }

    /// The statements of a transaction that read or write rows.
    ///
    /// # Errors
    /// When one goes back to a savepoint, or is none of SQL's.
    pub fn statements(&mut self, txn: TxnId) -> Result<Vec<OpId>, Outside> {
        let mut statements = Vec::new();
        for op in self.history.ops(txn).filter(|op| op.kind == OpKind::Sql) {
            let text = self.text(op.id);
            if setup::is_definition(text) {
                continue;
            }
            match text.as_bytes().first().map(u8::to_ascii_lowercase) {
                // What may be transaction control; the usual statements begin otherwise.
                Some(b's' | b'u' | b'i' | b'd') if !is_set(text) => statements.push(op.id),
                _ => match self.control(op.id)? {
                    true => {}
                    false => statements.push(op.id),
                },
            }
        }
        Ok(statements)
    }

    fn text(&self, op: OpId) -> &'h str {
        self.history.statement(op).map_or("", |statement| &*statement.text)
    }

    /// Whether a statement only controls its transaction.
    fn control(&mut self, op: OpId) -> Result<bool, Outside> {
        let text = self.text(op);
        let (text, _) = positional(text, Vec::new(), self.database.dialect());
        let statement = match self.cache.bind(&self.database, &text, &[]) {
            Ok((statement, _)) => statement,
            Err(error) => return Err(self.outside(op, &error)),
        };
        match statement.control() {
            None => Ok(false),
            Some(Control::RollbackTo(_) | Control::Rollback(_)) => {
                Err(Outside(format!("{text:?} inside of a transaction that went on")))
            }
            Some(_) => Ok(true),
        }
    }

    /// That a statement is outside the fragment, and why.
    #[must_use]
    pub fn outside(&self, op: OpId, error: &SqlError) -> Outside {
        let txn = self.history.show_txn(self.history.txn_of(op));
        Outside(format!("{:?} of {txn}: {error}", self.text(op)))
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> Transaction {
        self.database.begin()
    }

    /// A statement, and the values to execute it with.
    ///
    /// # Errors
    /// When it is outside the fragment.
    pub fn bound(&mut self, op: OpId) -> Result<(Statement, Vec<Value>), Outside> {
        let Some(seen) = self.history.statement(op) else {
            return Err(Outside("an operation without SQL".into()));
        };
        let to_sql =
            |&id| to_sql(self.history, id).ok_or_else(|| Outside("a parameter that is no scalar".into()));
        let given: Vec<Value> = seen.params.iter().map(to_sql).collect::<Result<_, _>>()?;
        let (text, given) = positional(&seen.text, given, self.database.dialect());
        match self.cache.bind(&self.database, &text, &given) {
            Ok((statement, params)) => Ok((statement, params.to_vec())),
            Err(error) => Err(self.outside(op, &error)),
        }
    }

    /// Executes a statement with this sight.
    ///
    /// # Errors
    /// When it is outside the fragment.
    pub fn step(
        &mut self,
        transaction: &mut Transaction,
        op: OpId,
        sight: &StatementSight,
    ) -> Result<StatementStep, Outside> {
        let (statement, params) = self.bound(op)?;
        let Some(seen) = self.history.statement(op) else {
            return Err(Outside("an operation without SQL".into()));
        };
        transaction.snapshot = self.stamp(sight.at);
        for pin in &sight.pins {
            match self.database.table(&pin.table) {
                Some(table) if pin.missed => self.database.hide(table, &pin.key),
                Some(table) => self.database.pin(table, &pin.key, self.base + u64::from(pin.at)),
                None => {}
            }
        }
        let result = self.database.execute(transaction, &statement, &params);
        if !sight.pins.is_empty() {
            self.database.unpin();
        }
        let writes = statement.is_write();
        let dialect = self.database.dialect();
        match result {
            Ok(outcome) => {
                let how = (writes && statement.columns().is_empty(), !sight.pins.is_empty());
                let fits = fits(self.history, seen, &outcome, how, dialect);
                let locks = writes || outcome.reads.lock == Some(Lock::Update);
                let looks_again = writes || outcome.reads.lock.is_some();
                let gone = outcome.writes.iter().any(|write| write.after.is_none());
                self.moves |= gone && !statement.is_delete();
                Ok(StatementStep { result: Ok(outcome), fits, locks, looks_again })
            }
            Err(error) if fails(&error) && self.is_noticed(op) => {
                Ok(StatementStep { result: Err(error), fits: false, locks: writes, looks_again: writes })
            }
            Err(error) => Err(self.outside(op, &error)),
        }
    }

    /// What is wrong about what a statement gave; nothing where it failed.
    pub(crate) fn difference(&self, op: OpId, step: &StatementStep) -> Option<Difference> {
        let outcome = step.result.as_ref().ok()?;
        self.history.statement(op).map(|seen| difference(self.history, seen, outcome))
    }

    /// How many rows are wrong about what a statement gave; without a number where it failed.
    #[must_use]
    pub fn wrong_rows(&self, op: OpId, step: &StatementStep) -> u64 {
        self.difference(op, step).map_or(u64::MAX, |difference| difference.amount())
    }

    /// Whether an error of the statement would have ended its transaction, or would show in what
    /// was observed.
    #[must_use]
    pub fn is_noticed(&self, op: OpId) -> bool {
        let strict = self.database.dialect().is_strict();
        strict || self.history.statement(op).is_some_and(|s| s.rows.is_some() || s.count.is_some())
    }

    /// Commits. With `skip`, rows that are as the transaction found them are not written.
    pub fn commit(&mut self, mut transaction: Transaction, ran: &Ran, skip: bool) {
        if skip {
            for write in ran.writes.iter().filter(|write| write.before == write.after) {
                self.database.withdraw(&mut transaction, write.table, &write.key);
            }
        }
        self.database.commit(transaction);
        let state = self.position();
        for write in ran.writes.iter().filter(|write| write.replaced) {
            self.gaps.note(state, (write.table, write.key.clone()));
        }
    }

    /// Commits what a transaction wrote when it was executed here before.
    pub fn commit_again(&mut self, ran: &Ran) {
        let mut transaction = self.begin();
        self.database.rewrite(&mut transaction, &ran.writes);
        self.commit(transaction, ran, false);
    }

    /// The rows that the transaction which made a state wrote.
    #[must_use]
    pub fn written_by(&self, state: u32) -> Vec<RowId> {
        self.database.written_at(self.stamp(state))
    }

    /// Drops a transaction.
    pub fn drop(&mut self, transaction: Transaction) {
        self.database.rollback(transaction);
    }

    /// Undoes every commit after state `position`.
    pub fn take_back(&mut self, position: u32) {
        self.database.take_back(self.stamp(position));
        self.gaps.take_back(position);
    }

    /// Forgets what only states before `position` have.
    pub fn forget(&mut self, position: u32) {
        self.oldest = self.oldest.max(position);
        self.database.forget(self.stamp(position));
        self.gaps.forget(position);
    }

    /// The earliest state that is still known.
    #[must_use]
    pub fn oldest(&self) -> u32 {
        self.oldest
    }

    /// The last state that wrote a table, as far as it is remembered.
    #[must_use]
    pub fn last_write(&self, table: TableId) -> Option<u32> {
        self.database.last_write(table, self.database.clock()).map(|stamp| self.position_of(stamp))
    }

    /// The last state at or before `at` that wrote a row, with what it is there; state 0 for what
    /// was there initially.
    #[must_use]
    pub fn last_writer(&self, table: TableId, key: &[Value], at: u32) -> Option<(u32, bool)> {
        let (stamp, present) = self.database.last_version(table, key, self.stamp(at))?;
        Some((self.position_of(stamp), present))
    }

    /// The latest state before `at` in which something that was read is different.
    ///
    /// # Errors
    /// When a condition has no value on a row.
    pub fn earlier(&self, ran: &Ran, at: u32) -> Result<Option<u32>, Outside> {
        let rows =
            ran.rows.iter().filter_map(|read| read.stamp).filter(|&stamp| stamp <= self.stamp(at)).max();
        let mut last = rows.map_or(0, |stamp| self.position_of(stamp));
        for predicate in &ran.predicates {
            // What came before another change makes no difference.
            let changed = self.database.last_change(predicate, self.stamp(last), self.stamp(at));
            let changed = changed.map_err(|error| Outside(format!("a condition: {error}")))?;
            last = last.max(changed.map_or(0, |stamp| self.position_of(stamp)));
        }
        for &table in &ran.taken {
            let changed = self.database.last_write(table, self.stamp(at));
            last = last.max(changed.map_or(0, |stamp| self.position_of(stamp)));
        }
        Ok(last.checked_sub(1))
    }

    /// All tables of the database.
    #[must_use]
    pub fn all_tables(&self) -> Vec<TableId> {
        self.database.tables().map(|(_, id)| id).collect()
    }

    /// The states in which a row's version differs from the one before, up to `at`, latest first;
    /// the earliest known one always among them.
    #[must_use]
    pub fn states_of(&self, table: TableId, key: &Key, at: u32) -> Vec<u32> {
        let versions = self.database.versions(table, key);
        let known = versions.iter().map(|(stamp, _)| self.position_of(*stamp).max(self.oldest));
        let mut states: Vec<u32> =
            [self.oldest].into_iter().chain(known).filter(|&state| state <= at).collect();
        states.dedup();
        states.reverse();
        states
    }

    /// The states up to `at` that wrote a row, latest first, as far as they are remembered.
    pub fn writers_of(&self, table: TableId, key: &Key, at: u32) -> impl Iterator<Item = u32> {
        let versions = self.database.versions(table, key);
        let states: Vec<u32> = versions.iter().map(|(stamp, _)| self.position_of(*stamp)).collect();
        states.into_iter().rev().filter(move |&state| state <= at)
    }

    /// A pin.
    #[must_use]
    pub fn pin(&self, table: TableId, key: &Key, at: u32) -> Pin {
        Pin { table: self.database.schema(table).name.clone(), key: key.to_vec(), at, missed: false }
    }

    /// A pin that lets a row be missed: the latest state up to `at` that deleted it and inserted it
    /// again has it neither as it was nor as it is.
    #[must_use]
    pub fn gap(&self, table: TableId, key: &Key, at: u32) -> Option<Pin> {
        let state = self.gaps.last(&(table, key.clone()), at)?;
        Some(Pin { missed: true, ..self.pin(table, key, state) })
    }

    /// Whether a pin that lets a row be missed does so rightly.
    #[must_use]
    pub fn is_gap(&self, pin: &Pin) -> bool {
        let table = self.database.table(&pin.table);
        table.is_some_and(|table| self.gaps.has(&(table, pin.key.clone().into()), pin.at))
    }

    /// A pin to a row's end after state `since` and up to `at`, if it ended there, whether it came
    /// back or not.
    #[must_use]
    pub fn end_of(&self, table: TableId, key: &Key, since: u32, at: u32) -> Option<Pin> {
        let between = |state: u32| since < state && state <= at;
        let versions = self.database.versions(table, key);
        let mut gone =
            versions.iter().filter(|(_, row)| row.is_none()).map(|(stamp, _)| self.position_of(*stamp));
        let end = gone.find(|&state| between(state)).map(|state| self.pin(table, key, state));
        end.or_else(|| self.gap(table, key, at).filter(|pin| between(pin.at)))
    }

    /// Whether a row may have gone on under another key, as far as statements were executed.
    #[must_use]
    pub fn moves_rows(&self) -> bool {
        self.moves
    }

    /// The rows of a table that, at some state up to `at`, satisfy a condition.
    ///
    /// # Errors
    /// When the condition has no value on a row.
    pub fn ever_found(&self, read: &PredicateRead, at: u32) -> Result<Vec<Key>, Outside> {
        let mut found = Vec::new();
        for key in self.database.keys(read.table) {
            let versions = self.database.versions(read.table, &key);
            let upto = versions.iter().filter(|(stamp, _)| self.position_of(*stamp) <= at);
            for record in upto.filter_map(|(_, row)| row.as_ref()) {
                if read.matches(record).map_err(|error| Outside(format!("a condition: {error}")))? {
                    found.push(key.clone());
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The transactions that may have committed.
    #[must_use]
    pub fn live(history: &History) -> Arc<[TxnId]> {
        history.txns().filter(|&txn| history.outcome(txn) != Ended::Aborted).collect()
    }
}

/// Histories number their parameters whatever the database; MySQL's own marks have no numbers, so
/// that each stands for the next value.
fn positional(text: &str, given: Vec<Value>, dialect: Dialect) -> (Cow<'_, str>, Vec<Value>) {
    if !dialect.is_mysql() || !text.contains('$') {
        return (Cow::Borrowed(text), given);
    }
    let (mut out, mut values) = (String::with_capacity(text.len()), Vec::with_capacity(given.len()));
    let (mut quote, mut rest) = (None, text);
    while let Some(next) = rest.chars().next() {
        let digits = rest[next.len_utf8()..].bytes().take_while(u8::is_ascii_digit).count();
        if quote.is_none() && next == '$' && digits > 0 {
            let number = rest[1..=digits].parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            values.extend(number.and_then(|at| given.get(at)).cloned());
            out.push('?');
            rest = &rest[1 + digits..];
            continue;
        }
        match quote {
            Some(open) if open == next => quote = None,
            None if matches!(next, '\'' | '"' | '`') => quote = Some(next),
            _ => {}
        }
        out.push(next);
        rest = &rest[next.len_utf8()..];
    }
    (Cow::Owned(out), values)
}

fn is_set(text: &str) -> bool {
    let start = |word: &str| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    start("set") || start("savepoint") || start("start")
}

/// Whether an error is one that the database reports too, rather than something that has no meaning
/// here.
fn fails(error: &SqlError) -> bool {
    match error {
        SqlError::Overflow(_)
        | SqlError::DivisionByZero
        | SqlError::Constraint(_)
        | SqlError::SubqueryRows => true,
        SqlError::Procedure(message) => !message.contains("executed more than"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_parameters_become_marks() {
        let given = || vec![Value::Int(1), Value::Int(2)];
        let (text, values) =
            positional("UPDATE t SET a = $2, b = '$1' WHERE k = $1 OR k = $2", given(), Dialect::MySql);
        assert_eq!(text, "UPDATE t SET a = ?, b = '$1' WHERE k = ? OR k = ?");
        assert_eq!(values, [Value::Int(2), Value::Int(1), Value::Int(2)]);
        let (text, values) = positional("SELECT $1", given(), Dialect::Postgres);
        assert_eq!((&*text, values), ("SELECT $1", given()));
    }
}
