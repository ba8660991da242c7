//! A history whose reads come from the wire and whose writes come from the server's log.
//!
//! # Problem
//! What a statement wrote cannot always be told from its text: triggers, cascades, COPY, functions and
//! other programs write, too. The log has every row that was written, in the order of commits. It does
//! not say which connection wrote.
//!
//! # Algorithm
//! 1. A recorded transaction meets a commit of the log if the commit's time fits, and what is certain of
//!    its statements: so many rows of these tables, these keys, these values. A transaction that surely
//!    wrote and has one commit that fits is that commit; both are taken, and the search goes on
//!    ([`crate::meet`]).
//! 2. A transaction that met its commit keeps its reads, and gets the log's rows as writes: statement by
//!    statement if the numbers of rows fit, or if only one can have written; otherwise as one write in
//!    the place of its last writer, and reads of these tables from its first writer on are left out.
//! 3. A commit that nobody meets becomes a transaction of its own, of another session.
//! 4. A transaction that may have written and met no commit keeps the reads before its first writer.
//!    Its writes, if it committed, are such a transaction.
//! 5. The order of commits is the version order of every row.
//!
//! # Invariants
//! - What a level allows of the truth it allows of this history: a transaction that is split into one
//!   that reads and one that writes, whose intervals contain the truth, can run where the whole did.
//! - Where the schema may have changed unseen there is no such history.

use std::collections::{BTreeMap, HashMap, HashSet};

use margay_history::{
    Access, History, HistoryBuilder, Interval, NameId, ObjectId, Op, OpDetail, OpKind, Outcome, TableId,
    TxnId, Value, ValueId,
};
use margay_recover::{RawChange, text_of};
use margay_rows::SeenState;

use crate::catalog::{Catalog, Known};
use crate::log::Commit;
use crate::meet::{Fits, meet};
use crate::values::value;
use crate::writers::{Does, Writers};

/// Sessions of others have numbers from here on.
const OTHERS: u64 = 1 << 48;

/// Writes from the log, reads from the wire.
pub struct Logged {
    /// The history.
    pub history: History,
    /// Committed transactions of which something was left out.
    pub lossy: u64,
    /// Transactions that did not come over the wire, or that no recorded one could be told to be.
    pub others: u64,
    /// Whether nothing that a client saw was left out.
    pub exact: bool,
}

/// What a history is assembled from.
pub(crate) struct Sources<'s> {
    pub wire: &'s History,
    pub catalog: &'s Catalog,
    /// Commits that the first state does not have, in the order of the log.
    pub commits: &'s [&'s Commit],
    /// Whether all who wrote were recorded.
    pub alone: bool,
    /// Whether the schema is known to be the same at the end.
    pub settled: bool,
    pub begun: i64,
}

/// A row that changed: its table if that is recorded, and what the history is told.
pub(crate) struct Line {
    pub table: Option<TableId>,
    pub accesses: Vec<Access>,
}

/// Puts both together.
///
/// # Errors
/// Why that cannot be.
pub(crate) fn assemble(sources: &Sources<'_>) -> Result<Logged, String> {
    let Sources { wire, catalog, .. } = *sources;
    let writers = Writers::new(wire, catalog);
    if let Some(why) = writers.hides_schema(sources.settled) {
        return Err(why);
    }
    if !sources.settled && !sources.alone {
        return Err("others may have changed the schema".to_owned());
    }
    let rows = margay_rows::translate(wire, SeenState::Changing);
    let content = rows.as_ref().map_or(wire, |rows| &rows.history);
    let mut builder = HistoryBuilder::like(content);
    let mut tables = Tables::new(catalog, &mut builder);
    let lines: Vec<Vec<Line>> = sources
        .commits
        .iter()
        .map(|commit| commit.changes.iter().map(|change| tables.line(change, &mut builder)).collect())
        .collect();
    for commit in sources.commits {
        commit.truncated.iter().for_each(|name| tables.truncated(name, wire));
    }
    let fits =
        Fits { content, builder: &builder, writers: &writers, commits: sources.commits, lines: &lines };
    // Whoever changed the schema may have written more than was recorded of it.
    let met = meet(wire, &fits, sources.alone && sources.settled);
    let mut assembly = Assembly {
        wire,
        writers: &writers,
        lines: &lines,
        builder,
        orders: BTreeMap::new(),
        read: HashSet::new(),
        lossy: 0,
        exact: true,
    };
    let mut claimed = vec![None; lines.len()];
    for txn in wire.txns() {
        if let Some(commit) = met.of(txn) {
            claimed[commit] = Some(wire.txn_label(txn));
        }
        let certain = met.wrote_nothing(txn);
        assembly.txn(txn, met.of(txn), certain).map_err(|error| error.to_string())?;
    }
    let others = assembly.others(sources, &mut claimed).map_err(|error| error.to_string())?;
    assembly.orders(&claimed);
    let Assembly { mut builder, read, lossy, exact, .. } = assembly;
    tables.flag(&read, &mut builder);
    let history = builder.finish().map_err(|error| error.to_string())?;
    Ok(Logged { history, lossy, others, exact: exact && lossy == 0 && others == 0 })
}

/// The tables of the log.
struct Tables<'c> {
    catalog: &'c Catalog,
    /// By the name that the log has.
    known: HashMap<String, Option<(usize, TableId)>>,
    /// Tables of which the log does not tell everything.
    untold: HashSet<TableId>,
    /// Tables without a key that were written to.
    keyless: HashSet<TableId>,
    ids: Vec<TableId>,
}

impl<'c> Tables<'c> {
    fn new(catalog: &'c Catalog, builder: &mut HistoryBuilder) -> Self {
        let ids = catalog.tables.iter().map(|known| builder.table(&known.table.name)).collect();
        let (untold, keyless) = (HashSet::new(), HashSet::new());
        Self { catalog, known: HashMap::new(), untold, keyless, ids }
    }

    fn find(&mut self, name: &str) -> Option<(usize, TableId)> {
        if let Some(&known) = self.known.get(name) {
            return known;
        }
        let path = self.catalog.root(name);
        let at = self.catalog.tables.iter().position(|known| known.path == path);
        let found = at.map(|at| (at, self.ids[at]));
        self.known.insert(name.to_owned(), found);
        found
    }

    fn line(&mut self, change: &RawChange, builder: &mut HistoryBuilder) -> Line {
        let Some((at, table)) = self.find(&change.table) else {
            return Line { table: None, accesses: Vec::new() };
        };
        let known = &self.catalog.tables[at];
        let mut accesses = Vec::new();
        if known.table.key.is_empty() {
            self.keyless.insert(table);
            return Line { table: Some(table), accesses };
        }
        let key = |row: &margay_recover::Row, builder: &mut HistoryBuilder| key(known, row, builder);
        let old = change.old.as_ref().map(|row| key(row, builder));
        let new = change.new.as_ref().map(|row| key(row, builder));
        if matches!(old, Some(None)) || matches!(new, Some(None)) || (old.is_none() && new.is_none()) {
            self.untold.insert(table);
            return Line { table: Some(table), accesses };
        }
        let mut object = |key: ValueId| builder.object(Some(table), key);
        let (old, new) = (old.flatten().map(&mut object), new.flatten().map(object));
        if let Some(old) = old.filter(|old| Some(*old) != new) {
            accesses.push(Access { object: old, value: ValueId::NULL });
        }
        if let (Some(object), Some(row)) = (new, &change.new) {
            // A row with another key is another row, which has what the log leaves out from the old one.
            let left_out = old.is_some_and(|old| old != object).then_some(ValueId::UNKNOWN);
            accesses.push(Access { object, value: content(known, row, left_out, builder) });
        }
        Line { table: Some(table), accesses }
    }

    /// A table was emptied. Where the recording ends with that, nobody reads it any more.
    fn truncated(&mut self, name: &str, wire: &History) {
        let Some((_, table)) = self.find(name) else { return };
        let last = wire.txns().flat_map(|txn| wire.ops(txn)).filter_map(|op| wire.statement(op.id));
        let empties =
            |text: &str| text.trim_start().get(..8).is_some_and(|it| it.eq_ignore_ascii_case("TRUNCATE"));
        let name = &self.catalog.tables[self.ids.iter().position(|id| *id == table).unwrap_or(0)].table.name;
        let reads = |text: &str| crate::text::code(text).contains(&name.to_lowercase());
        if last.into_iter().any(|statement| reads(&statement.text) && !empties(&statement.text)) {
            self.untold.insert(table);
        }
    }

    /// Tells the history of which tables the log tells everything.
    fn flag(&self, read: &HashSet<String>, builder: &mut HistoryBuilder) {
        for (known, &table) in self.catalog.tables.iter().zip(&self.ids) {
            let named = || read.iter().any(|text| text.contains(&known.table.name.to_lowercase()));
            let keyless = self.keyless.contains(&table) && named();
            let anything = known.untold || self.untold.contains(&table) || keyless;
            builder.set_written_by_anything(table, anything);
        }
    }
}

/// The key of a row of the log, if it has one.
fn key(known: &Known, row: &margay_recover::Row, builder: &mut HistoryBuilder) -> Option<ValueId> {
    let mut keys = Vec::with_capacity(known.table.key.len());
    for name in &known.table.key {
        let at = known.table.columns.iter().position(|column| column.0 == *name)?;
        let text =
            row.iter().find(|column| unquoted(&column.0) == *name).and_then(|column| text_of(&column.1))?;
        keys.push(value(builder.values(), known.kinds[at], 0, Some(text.as_bytes()))?);
    }
    match keys[..] {
        [key] => Some(key),
        _ => Some(builder.values().list(&keys)),
    }
}

/// The other columns of a row. One that is left out did not change, or is what is said.
fn content(
    known: &Known,
    row: &margay_recover::Row,
    left_out: Option<ValueId>,
    builder: &mut HistoryBuilder,
) -> ValueId {
    let mut cells: Vec<(NameId, ValueId)> = Vec::with_capacity(row.len());
    for ((name, _), &kind) in known.table.columns.iter().zip(&known.kinds) {
        if known.table.key.contains(name) {
            continue;
        }
        let cell = match row.iter().find(|column| unquoted(&column.0) == *name) {
            Some((_, margay_recover::Datum::Unchanged)) => match left_out {
                Some(value) => value,
                None => continue,
            },
            Some((_, datum)) => {
                let text = text_of(datum);
                value(builder.values(), kind, 0, text.as_deref().map(str::as_bytes))
                    .unwrap_or(ValueId::UNKNOWN)
            }
            None => ValueId::UNKNOWN,
        };
        cells.push((builder.values().intern_name(name), cell));
    }
    builder.values().row(&cells)
}

/// A name as the catalogs have it.
pub(crate) fn unquoted(name: &str) -> String {
    name.trim_matches('"').replace("\"\"", "\"")
}

struct Assembly<'s> {
    wire: &'s History,
    writers: &'s Writers<'s>,
    lines: &'s [Vec<Line>],
    builder: HistoryBuilder,
    /// The commits that wrote each object, by their places.
    orders: BTreeMap<ObjectId, Vec<usize>>,
    /// What is read, in lower case.
    read: HashSet<String>,
    lossy: u64,
    exact: bool,
}

type Pushed = Result<(), margay_history::Invalid>;

impl Assembly<'_> {
    /// A recorded transaction, with its commit if it met one.
    fn txn(&mut self, txn: TxnId, commit: Option<usize>, wrote_nothing: bool) -> Pushed {
        let ops: Vec<Op<'_>> = self.wire.ops(txn).collect();
        let does: Vec<Option<Does>> = ops.iter().map(|op| self.writers.does(op)).collect();
        let writes = |does: &Option<Does>| matches!(does, Some(Does::Writes(..) | Does::May));
        let Some(first) = does.iter().position(writes) else {
            return self.push_reads(txn, &ops, &does, ops.len(), &HashSet::new()).map(drop);
        };
        let committed = self.wire.outcome(txn) == Outcome::Committed;
        let last = does.iter().rposition(writes).unwrap_or(first);
        self.exact &= ops.iter().zip(&does).all(|(op, does)| self.is_told_whole(op, *does));
        let Some(commit) = commit else {
            let until = if wrote_nothing { ops.len() } else { first };
            let left = self.push_reads(txn, &ops, &does, until, &HashSet::new())?;
            self.lossy +=
                u64::from(committed && !wrote_nothing && (left > 0 || !self.writers.is_optional(txn)));
            return Ok(());
        };
        let lines = &self.lines[commit];
        match attribution(&does, lines) {
            Some(counts) => {
                let mut at = 0;
                for ((op, does), count) in ops.iter().zip(&does).zip(counts) {
                    self.read(txn, op, does)?;
                    self.write(txn, op.at, &lines[at..at + count])?;
                    at += count;
                }
                Ok(())
            }
            None => {
                let touched: HashSet<TableId> = lines.iter().filter_map(|line| line.table).collect();
                let mut left = 0;
                for (place, (op, does)) in ops.iter().zip(&does).enumerate() {
                    if place > first && self.is_touched(op, &touched) {
                        left += 1;
                    } else {
                        self.read(txn, op, does)?;
                    }
                    if place == last {
                        let before = ops[first].at.map_or(0, |at| at.before);
                        let at = op.at.map(|at| Interval::new(before.min(at.before), at.after));
                        self.write(txn, at, lines)?;
                    }
                }
                self.lossy += u64::from(left > 0);
                Ok(())
            }
        }
    }

    /// Whether the rows of the log are all that a client can have seen of a statement.
    fn is_told_whole(&self, op: &Op<'_>, does: Option<Does>) -> bool {
        let Some(statement) = self.wire.statement(op.id) else { return true };
        let word = statement.text.trim_start().get(..6).unwrap_or_default().to_lowercase();
        match does {
            Some(Does::Writes(..)) => {
                statement.rows.is_none() && (word == "insert" || word.starts_with("copy"))
            }
            Some(Does::May | Does::Nothing) => false,
            _ => true,
        }
    }

    /// Reads up to a place, and the end; how many were left out.
    fn push_reads(
        &mut self,
        txn: TxnId,
        ops: &[Op<'_>],
        does: &[Option<Does>],
        until: usize,
        touched: &HashSet<TableId>,
    ) -> Result<usize, margay_history::Invalid> {
        let mut left = 0;
        for (place, (op, does)) in ops.iter().zip(does).enumerate() {
            if place >= until && op.kind == OpKind::Sql && *does == Some(Does::Reads)
                || self.is_touched(op, touched)
            {
                left += 1;
            } else {
                self.read(txn, op, does)?;
            }
        }
        Ok(left)
    }

    fn is_touched(&self, op: &Op<'_>, touched: &HashSet<TableId>) -> bool {
        let Some(statement) = self.wire.statement(op.id).filter(|_| !touched.is_empty()) else {
            return false;
        };
        let code = crate::text::code(&statement.text);
        let name = |table: &TableId| self.builder.tables()[table.index()].name.to_lowercase();
        touched.iter().any(|table| code.contains(&name(table)))
    }

    /// What is no write stays what it was.
    fn read(&mut self, txn: TxnId, op: &Op<'_>, does: &Option<Does>) -> Pushed {
        if matches!(does, Some(Does::Writes(..) | Does::May | Does::Nothing)) {
            return Ok(());
        }
        if let Some(statement) = self.wire.statement(op.id) {
            let code = crate::text::code(&statement.text);
            if !self.read.contains(&code) {
                self.read.insert(code);
            }
        }
        let who = (self.wire.session_label(self.wire.session_of(txn)), self.wire.txn_label(txn));
        let detail = self.wire.detail(*op, true);
        self.builder.push(who.0, who.1, op.at, op.kind, &[], detail)
    }

    fn write(&mut self, txn: TxnId, at: Option<Interval>, lines: &[Line]) -> Pushed {
        let accesses = latest(lines);
        if accesses.is_empty() {
            return Ok(());
        }
        let who = (self.wire.session_label(self.wire.session_of(txn)), self.wire.txn_label(txn));
        self.builder.push(who.0, who.1, at, OpKind::Write, &accesses, OpDetail::None)
    }

    /// Commits that nobody met; how many there are.
    fn others(
        &mut self,
        sources: &Sources<'_>,
        claimed: &mut [Option<u64>],
    ) -> Result<u64, margay_history::Invalid> {
        let mut label = self.wire.txns().map(|txn| self.wire.txn_label(txn)).max().unwrap_or(0);
        let mut others = 0;
        for (place, commit) in sources.commits.iter().enumerate() {
            let accesses = latest(&self.lines[place]);
            if claimed[place].is_some() || accesses.is_empty() {
                continue;
            }
            (label, others) = (label + 1, others + 1);
            let before = commit.at[0].min(sources.begun);
            let at = Some(Interval::new(before, commit.seen.max(before)));
            let begin = OpDetail::Begin { level: None, read_only: false, unit: None };
            let session = OTHERS + others;
            self.builder.push(session, label, at, OpKind::Begin, &[], begin)?;
            self.builder.push(session, label, at, OpKind::Write, &accesses, OpDetail::None)?;
            self.builder.push(session, label, at, OpKind::Commit, &[], OpDetail::None)?;
            claimed[place] = Some(label);
        }
        Ok(others)
    }

    /// The order of commits is the version order of every row.
    fn orders(&mut self, claimed: &[Option<u64>]) {
        for (place, lines) in self.lines.iter().enumerate() {
            for access in latest(lines) {
                self.orders.entry(access.object).or_default().push(place);
            }
        }
        for (object, places) in std::mem::take(&mut self.orders) {
            let writers = places.iter().filter_map(|&place| claimed[place]).map(Some);
            self.builder.version_order(object, [None].into_iter().chain(writers).collect());
        }
    }
}

/// How many lines each operation wrote, if that can be told.
fn attribution(does: &[Option<Does>], lines: &[Line]) -> Option<Vec<usize>> {
    let may: Vec<usize> =
        (0..does.len()).filter(|&at| matches!(does[at], Some(Does::Writes(..) | Does::May))).collect();
    let mut counts = vec![0; does.len()];
    if let [only] = may[..] {
        counts[only] = lines.len();
        return Some(counts);
    }
    let mut rest = lines;
    for at in may {
        let Some(Does::Writes(table, count)) = does[at] else { return None };
        let count = usize::try_from(count).ok()?;
        let (own, others) = rest.split_at_checked(count)?;
        if own.iter().any(|line| line.table != Some(table)) {
            return None;
        }
        (counts[at], rest) = (count, others);
    }
    rest.is_empty().then_some(counts)
}

/// What became of each row in the end.
pub(crate) fn latest(lines: &[Line]) -> Vec<Access> {
    let mut places: HashMap<ObjectId, usize> = HashMap::new();
    let mut accesses: Vec<Access> = Vec::new();
    for access in lines.iter().flat_map(|line| &line.accesses) {
        match places.get(&access.object) {
            Some(&place) => accesses[place] = *access,
            None => {
                places.insert(access.object, accesses.len());
                accesses.push(*access);
            }
        }
    }
    accesses
}

/// Whether a row of the log may be what a statement made: no column differs for certain.
pub(crate) fn agrees(builder: &HistoryBuilder, written: ValueId, logged: ValueId) -> bool {
    let values = builder.values_so_far();
    match (values.get(written), values.get(logged)) {
        (Value::Row(written), Value::Row(logged)) => written.iter().all(|(name, cell)| {
            let other = logged.iter().find(|other| other.0 == *name).map(|other| other.1);
            other.is_none_or(|other| !differ(values.get(*cell), values.get(other)))
        }),
        (Value::Null, Value::Row(_)) | (Value::Row(_), Value::Null) => false,
        _ => true,
    }
}

/// Whether two values certainly differ. A statement may write a number, a time or a document in another
/// form than the server does.
fn differ(written: Value<'_>, logged: Value<'_>) -> bool {
    match (written, logged) {
        (Value::Int(one), Value::Int(other)) => one != other,
        (Value::Bool(one), Value::Bool(other)) => one != other,
        (Value::Text(one), Value::Text(other)) => {
            let is_word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
            is_word(one) && is_word(other) && !one.trim_end().eq_ignore_ascii_case(other.trim_end())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
