//! A history whose reads come from the wire and whose writes come from the server's log.
//!
//! # Problem
//! What a statement wrote cannot always be told from its text: triggers, cascades, COPY, functions
//! and other programs write, too. The log has every row that was written, in the order of commits.
//! It does not say which connection wrote.
//!
//! # Algorithm
//! 1. A recorded transaction meets a commit of the log if the commit's time fits, and what is
//!    certain of its statements: so many rows of these tables, these keys, these values. A
//!    transaction that surely wrote and has one commit that fits is that commit; both are taken,
//!    and the search goes on ([`crate::meet`]).
//! 2. A transaction that met its commit keeps its reads, and gets the log's rows as writes:
//!    statement by statement if the numbers of rows fit, or if only one can have written; otherwise
//!    as one write in the place of its last writer, and reads of these tables from its first writer
//!    on are left out.
//! 3. A commit that nobody meets becomes a transaction of its own, of another session.
//! 4. A transaction that may have written and met no commit keeps the reads before its first
//!    writer. Its writes, if it committed, are such a transaction.
//! 5. The order of commits is the version order of every row.
//!
//! # Invariants
//! - What a level allows of the truth it allows of this history: a transaction that is split into
//!   one that reads and one that writes, whose intervals contain the truth, can run where the whole
//!   did.
//! - Where the schema may have changed unseen there is no such history.

use std::collections::{BTreeMap, HashMap, HashSet};

use margay_history::{
    Access, History, HistoryBuilder, Interval, Invalid, NameId, ObjectId, Op, OpDetail, OpKind, Outcome,
    Table, TableId, TxnId, Value, ValueId,
};
use margay_recover::{RawChange, text_of};
use margay_rows::SeenState;

use crate::catalog::{Catalog, KnownTable};
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
    // It takes tables for seen that were not, so nothing but the texts of conditions comes from it.
    let asked = margay_rows::translate_partly(wire, SeenState::Changing);
    let asked = asked.as_ref().map_or(wire, |rows| &rows.history);
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
    // The objects and values of both sides, and nothing else.
    let known = builder.finish().map_err(shown)?;
    let fits =
        Fits { content, asked, known: &known, writers: &writers, commits: sources.commits, lines: &lines };
    // Whoever changed the schema may have written more than was recorded of it.
    let met = meet(wire, &fits, sources.alone && sources.settled);
    let mut assembly = Assembly {
        wire,
        writers: &writers,
        lines: &lines,
        builder: HistoryBuilder::like(&known),
        untold: tables.untold_names(),
        open: known.tables().iter().filter(|table| table.initial_unknown).map(name).collect(),
        reads_open: false,
        lossy: 0,
        exact: true,
    };
    let mut claimed = vec![None; lines.len()];
    for txn in wire.txns() {
        if let Some(commit) = met.of(txn) {
            claimed[commit] = Some(wire.txn_label(txn));
        }
        assembly.txn(txn, met.of(txn), met.wrote_nothing(txn)).map_err(shown)?;
    }
    let others = assembly.others(sources, &mut claimed).map_err(shown)?;
    assembly.orders(&claimed);
    assembly.take_tables_as_told();
    let Assembly { builder, lossy, exact, .. } = assembly;
    let history = builder.finish().map_err(shown)?;
    Ok(Logged { history, lossy, others, exact: exact && lossy == 0 && others == 0 })
}

/// A table's name as texts in lower case have it.
fn name(table: &Table) -> String {
    table.name.to_lowercase()
}

fn shown(invalid: Invalid) -> String {
    invalid.to_string()
}

/// The tables of the log.
struct Tables<'c> {
    catalog: &'c Catalog,
    /// By the name that the log has.
    known: HashMap<String, Option<(usize, TableId)>>,
    /// Tables of which the log does not tell everything, or not in terms of keys.
    untold: HashSet<TableId>,
    ids: Vec<TableId>,
}

impl<'c> Tables<'c> {
    fn new(catalog: &'c Catalog, builder: &mut HistoryBuilder) -> Self {
        let ids: Vec<_> = catalog.tables.iter().map(|known| builder.table(&known.table.name)).collect();
        let untold = catalog.tables.iter().zip(&ids).filter(|(known, _)| known.untold);
        let untold = untold.map(|(_, id)| *id).collect();
        Self { catalog, known: HashMap::new(), untold, ids }
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
            self.untold.insert(table);
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
            // A row with another key is another row, which has what the log leaves out from the old
            // one.
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

    /// The names of tables that are not to be read, in lower case.
    fn untold_names(&self) -> Vec<String> {
        let all = self.catalog.tables.iter().zip(&self.ids);
        let untold = all.filter(|(_, id)| self.untold.contains(id));
        untold.map(|(known, _)| known.table.name.to_lowercase()).collect()
    }
}

/// The key of a row of the log, if it has one.
fn key(known: &KnownTable, row: &margay_recover::Row, builder: &mut HistoryBuilder) -> Option<ValueId> {
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
    known: &KnownTable,
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
    /// The names of tables that are not to be read.
    untold: Vec<String>,
    /// The names of tables whose first state is not known, and whether one of them is read.
    open: Vec<String>,
    reads_open: bool,
    lossy: u64,
    exact: bool,
}

type Pushed = Result<(), Invalid>;

/// Where the writes of a transaction go.
enum Place<'l> {
    /// There are none.
    None,
    /// To others: what is read from its first writer on is not kept.
    Others(usize),
    /// So many rows to each operation.
    Each(Vec<usize>, &'l [Line]),
    /// All rows to the last writer; what is read of their tables from the first on is not kept.
    Last { first: usize, last: usize, lines: &'l [Line], touched: Vec<String> },
}

impl<'s> Assembly<'s> {
    /// A recorded transaction, with its commit if it met one.
    fn txn(&mut self, txn: TxnId, commit: Option<usize>, wrote_nothing: bool) -> Pushed {
        let ops: Vec<Op<'_>> = self.wire.ops(txn).collect();
        let does: Vec<Option<Does>> = ops.iter().map(|op| self.writers.does(op)).collect();
        self.exact &= ops.iter().zip(&does).all(|(op, does)| self.is_told_whole(op, *does));
        let place = self.place(&does, commit, wrote_nothing);
        let (mut left, mut at) = (0, 0);
        for (number, (op, does)) in ops.iter().zip(&does).enumerate() {
            match does {
                None => self.push(txn, op)?,
                Some(Does::Reads) if self.keeps(&place, number, op) => self.push(txn, op)?,
                Some(Does::Reads) => left += 1,
                Some(_) => {}
            }
            match &place {
                Place::Each(counts, lines) => {
                    self.write(txn, op.at, &lines[at..at + counts[number]])?;
                    at += counts[number];
                }
                Place::Last { first, last, lines, .. } if number == *last => {
                    let before = ops[*first].at.map_or(0, |at| at.before);
                    let at = op.at.map(|at| Interval::new(before.min(at.before), at.after));
                    self.write(txn, at, lines)?;
                }
                _ => {}
            }
        }
        let split = matches!(place, Place::Others(_)) && !self.writers.is_optional(txn);
        let committed = self.wire.outcome(txn) == Outcome::Committed;
        self.lossy += u64::from(committed && (left > 0 || split));
        Ok(())
    }

    fn place(&self, does: &[Option<Does>], commit: Option<usize>, wrote_nothing: bool) -> Place<'s> {
        let writes = |does: &Option<Does>| matches!(does, Some(Does::Writes(..) | Does::May));
        let Some(first) = does.iter().position(writes).filter(|_| !wrote_nothing) else { return Place::None };
        let Some(commit) = commit else { return Place::Others(first) };
        let lines: &'s [Line] = &self.lines[commit];
        if let Some(counts) = attribution(does, lines) {
            return Place::Each(counts, lines);
        }
        let last = does.iter().rposition(writes).unwrap_or(first);
        let touched: HashSet<TableId> = lines.iter().filter_map(|line| line.table).collect();
        let touched = touched.into_iter().map(|table| name(&self.builder.tables()[table.index()]));
        Place::Last { first, last, lines, touched: touched.collect() }
    }

    /// Whether what is read stays.
    fn keeps(&self, place: &Place<'_>, number: usize, op: &Op<'_>) -> bool {
        let Some(statement) = self.wire.statement(op.id) else { return true };
        let behind = match place {
            Place::None | Place::Each(..) => false,
            Place::Others(first) => number > *first,
            Place::Last { first, touched, .. } => number > *first && names(&statement.text, touched),
        };
        !behind && !names(&statement.text, &self.untold)
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

    /// What is no write stays what it was.
    fn push(&mut self, txn: TxnId, op: &Op<'_>) -> Pushed {
        self.reads_open |= self.wire.statement(op.id).is_some_and(|it| names(&it.text, &self.open));
        let who = (self.wire.session_label(self.wire.session_of(txn)), self.wire.txn_label(txn));
        self.builder.push(who.0, who.1, op.at, op.kind, &[], self.wire.detail(*op, true))
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
    fn others(&mut self, sources: &Sources<'_>, claimed: &mut [Option<u64>]) -> Result<u64, Invalid> {
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
        let mut orders: BTreeMap<ObjectId, Vec<Option<u64>>> = BTreeMap::new();
        for (lines, writer) in self.lines.iter().zip(claimed) {
            for access in latest(lines).iter().filter(|_| writer.is_some()) {
                orders.entry(access.object).or_insert_with(|| vec![None]).push(*writer);
            }
        }
        orders.into_iter().for_each(|(object, writers)| self.builder.version_order(object, writers));
    }

    /// Triggers and cascades are no reason any more to leave tables out. If a table is read whose
    /// first state is not known, all stay what they were.
    fn take_tables_as_told(&mut self) {
        if !self.reads_open {
            self.builder.take_tables_as_seen();
        }
    }
}

/// Whether a text names one of these tables.
fn names(text: &str, tables: &[String]) -> bool {
    !tables.is_empty() && {
        let code = crate::text::code(text);
        tables.iter().any(|name| code.contains(name))
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
pub(crate) fn agrees(known: &History, written: ValueId, logged: ValueId) -> bool {
    match (known.value(written), known.value(logged)) {
        (Value::Row(written), Value::Row(logged)) => written.iter().all(|(name, cell)| {
            let other = logged.iter().find(|other| other.0 == *name).map(|other| other.1);
            other.is_none_or(|other| !differ(known.value(*cell), known.value(other)))
        }),
        (Value::Null, Value::Row(_)) | (Value::Row(_), Value::Null) => false,
        _ => true,
    }
}

/// Whether two values certainly differ. A statement may write a number, a time or a document in
/// another form than the server does.
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
