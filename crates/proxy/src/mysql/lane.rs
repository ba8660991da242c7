//! One connection's events as transactions.
//!
//! # Problem
//! As for PostgreSQL ([`crate::lane`]). Here nothing says which statement an answer belongs to but
//! its place, errors carry no status, and many statements commit what came before them.
//!
//! # Algorithm
//! The status of an answer (a transaction is open, autocommit) decides boundaries; texts decide
//! levels, chains, savepoints and which statements commit first. Where text and status contradict
//! each other, nobody knows what happened: an opaque statement stands for the transaction.
//! - InnoDB takes its snapshot at the first read, at the latest; the interval that engines assume
//!   begins at BEGIN, so that `WITH CONSISTENT SNAPSHOT` and reads that failed are in it. With
//!   autocommit off nothing says BEGIN: the interval begins with the first statement since the last
//!   transaction, recorded or not.
//! - An error ends its statement alone. A deadlock (1213) and a full table of locks (1206) end the
//!   transaction; a lock that did not come in time (1205) does if the server is set so. After an
//!   error that is not known to be one or the other the transaction is in doubt: ROLLBACK settles
//!   that, anything else leaves nothing certain.
//! - A failed statement is left out. COMMIT without an answer is of unknown outcome.
//! - Rows that are fetched with a cursor are not observed.
//!
//! # Invariants
//! As for PostgreSQL: what is recorded is what happened, or less, and an opaque statement stands
//! where less would be wrong.

use std::collections::BTreeSet;
use std::sync::Arc;

use margay_wire::mysql::{Answer, Connected, Event, kind, status};
use margay_wire::{Executed, Outcome, Prepared, Severity, Times};

use crate::level::OwnLevel;
use crate::literals::Readings;
use crate::pieces::{Grammar, without_secrets};
use crate::transaction::{Ended, Op, Outstanding, Statements, Transaction};

use super::settings::Setting;
use super::text::{Verb, makes_routine, plain, split, verb, words};

/// Errors that end the whole transaction: a deadlock, and too many locks.
const ENDS_ALL: [&str; 2] = ["1213", "1206"];

/// A lock did not come in time.
const TIMED_OUT: &str = "1205";

/// Errors that end their statement alone: duplicate keys, foreign keys, constraints, values that do
/// not fit, locks that are not waited for, and whatever is found out before a statement runs.
const ENDS_STATEMENT: [&str; 48] = [
    "1022", "1044", "1045", "1046", "1048", "1049", "1050", "1051", "1052", "1054", "1055", "1060", "1061",
    "1062", "1064", "1066", "1091", "1093", "1109", "1110", "1111", "1136", "1142", "1143", "1146", "1149",
    "1172", "1193", "1210", "1216", "1217", "1222", "1227", "1231", "1241", "1242", "1243", "1264", "1292",
    "1364", "1365", "1366", "1406", "1451", "1452", "3572", "3819", "4025",
];

/// What is read of a statement's text, once for all its executions.
#[derive(Debug)]
struct Reading {
    text: Arc<str>,
    verb: Verb,
    /// Its words and names.
    words: Vec<String>,
    /// What is recorded of it, if that says all.
    plain: Option<Arc<str>>,
}

impl Reading {
    fn new(text: &str) -> Self {
        let plain = plain(text).map(Arc::from);
        Self { text: Arc::from(text), verb: verb(text), words: words(text), plain }
    }
}

/// A transaction that has not ended.
#[derive(Debug)]
struct Open {
    explicit: bool,
    level: Option<OwnLevel>,
    read_only: bool,
    begin: Times,
    statements: Statements,
    /// Whether it may have ended already.
    doubt: bool,
    /// Whether nothing about it is certain.
    opaque: bool,
    /// Whether a statement of it has no answer.
    lost: bool,
}

/// What a connection's transactions are read by.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ground {
    /// The database that is recorded.
    pub database: String,
    /// The level of transactions that name none.
    pub level: Option<OwnLevel>,
    /// Whether a lock that did not come in time ends the transaction.
    pub timeouts_end: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Lane {
    session: u64,
    ground: Ground,
    /// The session's database now.
    current: Option<String>,
    /// The level of transactions that name none now, and of the next one alone.
    level: Option<OwnLevel>,
    next: Option<Option<OwnLevel>>,
    unicode: bool,
    counts_found: bool,
    autocommits: bool,
    /// Whether a variable was set of which nobody knows what it changes.
    unread: bool,
    known: Readings<Reading>,
    open: Option<Open>,
    /// Since when a statement that is not recorded may have opened a transaction.
    unseen: Option<i64>,
    pub outstanding: Outstanding,
    pub concerns: Vec<String>,
    /// Other databases that it may have written to.
    pub strays: BTreeSet<String>,
}

impl Lane {
    pub fn new(session: u64, ground: Ground) -> Self {
        let level = ground.level;
        Self {
            session,
            ground,
            current: None,
            level,
            next: None,
            unicode: false,
            counts_found: false,
            autocommits: true,
            unread: false,
            known: Readings::new(Grammar::Mysql),
            open: None,
            unseen: None,
            outstanding: Outstanding::default(),
            concerns: Vec::new(),
            strays: BTreeSet::new(),
        }
    }

    /// Everything that was sent has been answered.
    pub fn rests(&mut self) {
        self.outstanding.rests(self.open.is_some() || self.unseen.is_some());
    }

    pub fn event(&mut self, event: Event) {
        match event {
            Event::Connected(connected) => self.connected(connected),
            Event::Ran(ran) => self.ran(ran.answers),
            Event::Database(name) => self.current = Some(name.to_lowercase()),
            Event::Reset(database, times) => self.reset(database, times),
            Event::Blind(_) => {}
        }
    }

    fn connected(&mut self, connected: Connected) {
        let Connected { database, unicode, counts_found, status, .. } = connected;
        self.current = database.map(|name| name.to_lowercase());
        (self.unicode, self.counts_found) = (unicode, counts_found);
        self.autocommits = status & status::AUTOCOMMIT != 0;
    }

    fn reset(&mut self, database: Option<String>, times: Times) {
        self.end(times, Ended::Aborted);
        (self.level, self.next, self.unseen, self.unread) = (self.ground.level, None, None, false);
        if database.is_some() {
            self.current = database.map(|name| name.to_lowercase());
        }
        // The character set is the server's default again.
        self.unicode = false;
    }

    /// The connection is gone.
    pub fn closed(&mut self, now: i64) {
        let times = Times { before: now, after: now };
        let certain = self.open.as_ref().is_some_and(|open| !open.opaque && (open.explicit || !open.lost));
        self.end(times, if certain { Ended::Aborted } else { Ended::Unknown });
        self.unseen = None;
    }

    /// The connection is not understood any more.
    pub fn blinded(&mut self, now: i64) {
        self.end(Times { before: now, after: now }, Ended::Unknown);
        self.unseen = None;
        self.outstanding.rests(false);
    }

    /// The results of one command. If they cannot be told apart, one opaque statement stands for
    /// all.
    fn ran(&mut self, answers: Vec<Answer>) {
        let text = answers.first().and_then(|first| first.executed.prepared.text.clone());
        let text = text.filter(|text| self.unicode || text.is_ascii());
        let pieces = match text.as_deref() {
            // The body of a routine has semicolons of its own.
            Some(text) if makes_routine(text) => vec![text],
            text => text.map(split).unwrap_or_default(),
        };
        let over = answers.last().is_some_and(|last| last.status.is_some());
        let fits = if over { pieces.len() == answers.len() } else { pieces.len() >= answers.len() };
        let lost = answers.last().is_some_and(|last| last.executed.outcome == Outcome::Lost);
        if !fits || (lost && pieces.len() > answers.len()) {
            if let Some(last) = answers.into_iter().next_back() {
                self.opaque(last.executed.times, last.status);
            }
            return;
        }
        pieces.iter().zip(answers).for_each(|(piece, answer)| self.statement(piece, answer));
    }

    fn statement(&mut self, text: &str, mut answer: Answer) {
        let reading = self.known.read(text, &mut answer.executed, Reading::new);
        let times = answer.executed.times;
        self.strays(&reading);
        match (answer.executed.outcome.clone(), answer.status) {
            (Outcome::Done(_), Some(status)) => self.succeeded(&reading, answer, status),
            (Outcome::Failed(refusal), _) if refusal.severity == Severity::Error => {
                self.failed(&reading, &refusal.code, times);
            }
            _ => self.lost(&reading, answer),
        }
    }

    /// Notes the other databases that a statement may change.
    fn strays(&mut self, Reading { verb, words, .. }: &Reading) {
        if !matches!(verb, Verb::Sql | Verb::Schema | Verb::Commits | Verb::Uncertain) {
            return;
        }
        let own = self.ground.database.to_lowercase();
        let qualifiers = words.windows(2).filter(|pair| pair[1] == ".").map(|pair| pair[0].clone());
        let databases = matches!(words.get(1).map(String::as_str), Some("database" | "schema"));
        let databases = words.last().filter(|_| databases && words[0] != "create").cloned();
        if databases.as_ref() == Some(&own) {
            self.concerns.push(format!("database {own} was changed or dropped by one of its sessions"));
        }
        let all = qualifiers.chain(databases).chain(self.current.clone());
        self.strays.extend(all.filter(|name| *name != own));
    }

    fn succeeded(&mut self, reading: &Reading, answer: Answer, status: u16) {
        let times = answer.executed.times;
        match reading.verb.clone() {
            Verb::Begin(read_only) => {
                self.end(times, Ended::Committed);
                self.begin(true, read_only, times.before);
                return self.settle(times, status, true);
            }
            Verb::End { commits, chains } => {
                let (level, read_only) =
                    self.open.as_ref().map_or((self.level, false), |open| (open.level, open.read_only));
                self.end(times, if commits { Ended::Committed } else { Ended::Aborted });
                self.unseen = None;
                if chains {
                    self.next = Some(level);
                    self.begin(true, read_only, times.before);
                }
                return self.settle(times, status, chains);
            }
            Verb::Savepoint(name) => self.savepoint(name, times),
            Verb::Release(name) => self.release(&name),
            Verb::RollbackTo(name) => self.roll_back_to(&name),
            Verb::Set(settings) => {
                settings.into_iter().for_each(|setting| self.set(setting));
                let sets = |word: &String| word.contains("autocommit");
                if status & status::IN_TRANSACTION == 0 && reading.words.iter().any(sets) {
                    self.end(times, Ended::Committed);
                }
            }
            Verb::Use(name) => self.current = Some(name),
            Verb::Nothing => self.passed_over(times),
            Verb::Commits => {
                self.end(times, Ended::Committed);
                self.passed_over(times);
            }
            Verb::Schema => {
                self.end(times, Ended::Committed);
                let shown = without_secrets(&reading.text, Grammar::Mysql).map(Arc::from);
                let text: Arc<str> = shown.unwrap_or_else(|| Arc::clone(&reading.text));
                let op = Op { changes_schema: true, ..Op::new(text, answer.executed) };
                self.push(op, times);
                return self.settle(times, status, false);
            }
            Verb::Query | Verb::Sql => self.sql(reading, answer),
            Verb::Uncertain => return self.opaque(times, Some(status)),
        }
        let keeps = self.open.as_ref().is_some_and(|open| open.explicit);
        self.settle(times, status, keeps);
    }

    /// A query or a write.
    fn sql(&mut self, reading: &Reading, answer: Answer) {
        let (times, query) = (answer.executed.times, reading.verb == Verb::Query);
        let here = self.current.as_deref() == Some(self.ground.database.to_lowercase().as_str());
        let text = reading.plain.as_ref().filter(|_| !self.unread);
        let level = self.open.as_ref().map_or_else(|| self.next.unwrap_or(self.level), |open| open.level);
        // It may have seen what a statement wrote that failed later, or that a savepoint undid.
        if query && level.is_none_or(|level| level == OwnLevel::ReadUncommitted) {
            return self.passed_over(times);
        }
        let mentions = || {
            let name = self.ground.database.to_lowercase();
            text.is_none() || reading.words.contains(&name)
        };
        match (text, query) {
            (Some(text), _) if here => {
                let op = self.op(Arc::clone(text), &reading.words, answer);
                self.push(op, times);
            }
            // A query that is not understood is none of the history, but may have opened a
            // transaction.
            (_, true) => self.passed_over(times),
            _ if !here && !mentions() => self.passed_over(times),
            _ => {
                self.push(Op::opaque(times), times);
            }
        }
    }

    /// A statement, with a tag such as PostgreSQL has.
    fn op(&self, text: Arc<str>, words: &[String], answer: Answer) -> Op {
        let Answer { mut executed, returns, affected, changed, inserted, .. } = answer;
        let first = words.first().map(|first| first.to_uppercase()).unwrap_or_default();
        let upserts = || words.iter().any(|word| word == "duplicate");
        let count = match first.as_str() {
            "UPDATE" if self.counts_found => changed,
            "UPDATE" => Some(changed.unwrap_or(affected)),
            "INSERT" if self.counts_found && upserts() => None,
            "INSERT" | "DELETE" => Some(affected),
            _ => None,
        };
        let tag = match count {
            _ if returns => format!("SELECT {}", executed.rows.len()),
            // The place in which PostgreSQL has a number of the row.
            Some(count) if inserted > 0 => format!("{first} {inserted} {count}"),
            Some(count) => format!("{first} {count}"),
            None => first,
        };
        executed.outcome = Outcome::Done(tag);
        read_parameters(&mut executed, self.unicode);
        Op::new(text, executed)
    }

    fn failed(&mut self, Reading { verb, words, .. }: &Reading, code: &str, times: Times) {
        self.passed_over(times);
        if matches!(verb, Verb::Set(_)) {
            (self.level, self.next) = (None, self.next.map(|_| None));
        }
        if ENDS_ALL.contains(&code) || (code == TIMED_OUT && self.ground.timeouts_end) {
            self.end(times, Ended::Aborted);
            self.unseen = None;
            return;
        }
        let alone = ENDS_STATEMENT.contains(&code) || code == TIMED_OUT;
        match verb {
            // The syntax is read before anything is committed; whatever else fails may fail behind
            // that.
            Verb::Begin(_) | Verb::Commits | Verb::Schema | Verb::End { .. } if code != "1064" => {
                let aborts = matches!(verb, Verb::End { commits: false, .. });
                self.end(times, if aborts { Ended::Aborted } else { Ended::Unknown });
            }
            // What is no SQL did nothing, unless it called something that was.
            Verb::Uncertain if code == "1064" && !calls(words) => {}
            Verb::Uncertain => self.opaque(times, None),
            Verb::Query | Verb::Sql if !alone => self.open.iter_mut().for_each(|open| open.doubt = true),
            _ => {}
        }
    }

    /// Nobody knows whether the statement ran.
    fn lost(&mut self, reading: &Reading, answer: Answer) {
        let times = answer.executed.times;
        match reading.verb {
            Verb::End { commits, .. } => {
                self.end(times, if commits { Ended::Unknown } else { Ended::Aborted })
            }
            Verb::Begin(_) | Verb::Commits | Verb::Set(_) => self.end(times, Ended::Unknown),
            Verb::Schema => {
                self.end(times, Ended::Unknown);
                let op = Op::new(Arc::clone(&reading.text), Executed { complete: false, ..answer.executed });
                self.push(Op { changes_schema: true, ..op }, times);
            }
            Verb::Query | Verb::Sql => {
                self.sql(reading, answer);
                if let Some(op) = self.open.as_mut().and_then(|open| open.statements.ops.last_mut())
                    && op.times == times
                    && let Some(executed) = &mut op.executed
                {
                    (executed.complete, executed.outcome) = (false, Outcome::Lost);
                }
            }
            Verb::Uncertain => self.opaque(times, None),
            _ => {}
        }
        self.open.iter_mut().for_each(|open| open.lost = true);
    }

    /// Something that may have done anything, commits included.
    fn opaque(&mut self, times: Times, status: Option<u16>) {
        self.push(Op::opaque(times), times);
        self.open.iter_mut().for_each(|open| open.opaque = true);
        let Some(status) = status else { return };
        if status & status::IN_TRANSACTION == 0 {
            self.end(times, Ended::Unknown);
        } else {
            self.open.iter_mut().for_each(|open| open.explicit = true);
        }
        self.autocommits = status & status::AUTOCOMMIT != 0;
    }

    /// Something that is no part of the history. It may have opened a transaction, or used up a
    /// level.
    fn passed_over(&mut self, times: Times) {
        if self.open.is_none() {
            if !self.autocommits {
                self.unseen.get_or_insert(times.before);
            }
            if self.next.is_some_and(|next| next != self.level) {
                self.next = Some(None);
            }
        }
    }

    fn begin(&mut self, explicit: bool, read_only: bool, before: i64) {
        let level = self.next.take().unwrap_or(self.level);
        let before = self.unseen.take().filter(|_| !explicit).unwrap_or(before).min(before);
        let begin = Times { before, after: before };
        let (doubt, opaque, lost) = (false, false, false);
        let statements = Statements::default();
        self.open = Some(Open { explicit, level, read_only, begin, statements, doubt, opaque, lost });
    }

    /// Compares what was understood with the status behind a statement. `keeps`: a transaction
    /// should be open.
    fn settle(&mut self, times: Times, status: u16, keeps: bool) {
        let is_open = status & status::IN_TRANSACTION != 0;
        self.autocommits = status & status::AUTOCOMMIT != 0;
        match (&mut self.open, is_open) {
            (Some(open), true) => open.opaque |= !keeps && self.autocommits,
            (Some(open), false) => {
                open.opaque |= keeps;
                let before = open.statements.ops.last().map_or(open.begin.before, |op| op.times.before);
                let ended = if open.opaque { Ended::Unknown } else { Ended::Committed };
                self.end(Times { before, after: times.after }, ended);
            }
            // With autocommit off, whatever is not recorded may have opened one.
            (None, true) if !self.autocommits => drop(self.unseen.get_or_insert(times.before)),
            (None, true) => {
                self.begin(true, false, times.before);
                self.open.iter_mut().for_each(|open| (open.opaque, open.level) = (true, None));
            }
            (None, false) => self.unseen = None,
        }
    }

    fn savepoint(&mut self, name: String, times: Times) {
        if self.open.is_none() && !self.autocommits {
            self.begin(false, false, times.before);
        }
        if let Some(open) = &mut self.open {
            open.statements.savepoint(name, true);
        }
    }

    fn release(&mut self, name: &str) {
        self.open.iter_mut().for_each(|open| open.statements.release(name));
    }

    fn roll_back_to(&mut self, name: &str) {
        self.open.iter_mut().for_each(|open| open.opaque |= !open.statements.roll_back_to(name));
    }

    fn set(&mut self, setting: Setting) {
        match setting {
            Setting::NextLevel(level) => self.next = Some(level),
            Setting::Level(level) => (self.level, self.next) = (level, None),
            Setting::Unicode(unicode) => self.unicode = unicode,
            Setting::Harmless => {}
            Setting::Unknown(_) => self.unread = true,
            Setting::Global(name) => {
                self.concerns.push(format!("a session set the variable {name} for all sessions"));
            }
        }
    }

    fn push(&mut self, op: Op, times: Times) {
        if self.open.is_none() {
            self.begin(false, false, times.before);
        }
        let Some(open) = &mut self.open else { return };
        // A statement behind one that may have ended the transaction: what came before may be
        // undone or not.
        open.opaque |= open.doubt;
        open.opaque |= !open.statements.push(op);
    }

    fn end(&mut self, end: Times, ended: Ended) {
        let Some(open) = self.open.take() else { return };
        let Open { level, read_only, begin, statements, doubt, opaque, .. } = open;
        let mut ops = statements.ops;
        let certain = ended == Ended::Aborted || !(doubt || opaque);
        if !certain {
            // Whatever it was, it was not before its first statement.
            let before = ops.first().map_or(begin.before, |op| op.times.before);
            let changes_schema = ops.iter().any(|op| op.changes_schema);
            ops = vec![Op { changes_schema, ..Op::opaque(Times { before, after: end.after }) }];
        }
        if ops.is_empty() {
            return;
        }
        let ended = if certain { ended } else { Ended::Unknown };
        let (session, unit) = (self.session, None);
        self.outstanding.ended(Transaction { session, level, read_only, unit, begin, ops, end, ended });
    }
}

/// Whether a statement runs others.
fn calls(words: &[String]) -> bool {
    let runs = ["call", "execute", "begin", "do", "/*!"];
    words.first().is_none_or(|first| runs.contains(&first.as_str()))
}

/// Clients send numbers as doubles (mysql2), and texts in their own character set.
fn read_parameters(executed: &mut Executed, unicode: bool) {
    let Some(bound) = &mut executed.bound else { return };
    let Some(values) = &bound.values else { return };
    if !unicode && values.iter().flatten().any(|value| !value.is_ascii()) {
        Arc::make_mut(bound).values = None;
        return;
    }
    let is_whole = |value: &Option<Vec<u8>>| {
        let text = value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
        text.is_some_and(|text| text.parse::<i64>().is_ok_and(|number| number.unsigned_abs() < 1 << 53))
    };
    let Prepared { text, types } = executed.prepared.as_ref();
    let types = types.iter().zip(values).map(|(&of, value)| match kind::of(of) {
        kind::DOUBLE if is_whole(value) => kind::KNOWN | u32::from(kind::LONGLONG),
        _ => of,
    });
    let types = types.collect();
    executed.prepared = Arc::new(Prepared { text: text.clone(), types });
}

#[cfg(test)]
mod tests;
