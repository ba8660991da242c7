//! The collector: makes a history of the transactions of all connections to a database.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use margay_formats::NativeWriter;
use margay_history::{
    Access, History, HistoryBuilder, Interval, Invalid, OpDetail, OpKind, Statement, TableId, ValueId, Values,
};
use margay_runner::{Counts, Verified};
use margay_wire::{Executed, Outcome, Times};
use postgres::Client;

use crate::assemble::Logged;
use crate::catalog::{Catalog, Described, describe};
use crate::initial::FirstState;
use crate::level::OwnLevel;
use crate::mirror::Mirror;
use crate::transaction::{Ended, OPAQUE, Op, Transaction};
use crate::values::value;
use crate::veil::{Secrecy, Veil, Veiled};

/// Where a recording is written while it is made.
pub type Output = Box<dyn Write + Send>;

/// Where the parts of a recording are written while they are made: the first, the second, …
pub type Outputs = Box<dyn FnMut(usize) -> io::Result<Option<Output>> + Send>;

/// The files of the parts that have transactions.
pub(crate) struct Files {
    pub outputs: Option<Outputs>,
    pub begun: usize,
}

impl Files {
    /// The next one and its place, if files are written.
    fn next(&mut self) -> io::Result<Option<(usize, Option<Output>)>> {
        let Some(outputs) = &mut self.outputs else { return Ok(None) };
        let output = outputs(self.begun)?;
        self.begun += 1;
        Ok(Some((self.begun - 1, output)))
    }
}

/// Margay's connections to a database: one for the first state, and one that describes statements.
pub(crate) struct Clients {
    pub snapshot: Client,
    pub describer: Client,
}

impl Clients {
    pub fn both(&mut self) -> [&mut Client; 2] {
        [&mut self.snapshot, &mut self.describer]
    }
}

/// A part of a recording: what happened in one database while its schema stayed what it was.
pub struct Part {
    /// The database.
    pub database: String,
    /// What the application did.
    pub history: History,
    /// How its transactions ended.
    pub counts: Counts,
    /// The levels of transactions that may have committed, the weakest first; `None` is one that is
    /// not known.
    pub levels: Vec<Option<OwnLevel>>,
    /// Of how many transactions something was left out for the sake of secrecy; none if statements
    /// were recorded as they were.
    pub veiled: Option<u64>,
    /// What the live verification came to.
    pub verified: Option<Verified>,
    /// How many transactions the live verification followed as a whole.
    pub followed: u64,
    /// Why more may have been written than was recorded.
    pub concerns: Vec<String>,
    /// What else was noticed.
    pub notes: Vec<String>,
    /// The same with writes from the server's log, if it could be read.
    pub logged: Option<Logged>,
    /// The place of its file, if it is written.
    pub place: Option<usize>,
}

/// So many texts are remembered, and none that is longer.
const MAX_KNOWN: usize = 4096;
const MAX_KNOWN_LENGTH: usize = 2048;

/// What is known of a text.
#[derive(Clone)]
struct Facts {
    is_about_the_system: bool,
    only_reads: bool,
    /// Why it may write anything.
    hazard: Option<Arc<str>>,
}

/// A text, and the types of parameters that its client named.
type Asked = (Arc<str>, Vec<u32>);

pub(crate) struct Collector {
    pub builder: HistoryBuilder,
    pub catalog: Arc<Catalog>,
    /// Describes statements whose types are not known, unless a later stretch needs it.
    describer: Option<Client>,
    first: FirstState,
    known: RefCell<HashMap<Arc<str>, Facts>>,
    described: HashMap<Asked, Option<Arc<Described>>>,
    lines: Option<Lines>,
    mirror: Option<Mirror>,
    /// What hides values, if they are not recorded in clear.
    veil: Option<Veil>,
    /// The place of its file.
    place: Option<usize>,
    dbms: String,
    next: u64,
    pub counts: Counts,
    /// The levels of transactions that may have committed; `None` is one that is not known.
    pub levels: BTreeSet<Option<OwnLevel>>,
    pub concerns: BTreeSet<String>,
    /// Statements by their kind of trouble.
    pub unobserved: BTreeMap<&'static str, u64>,
}

impl Collector {
    pub fn new(
        builder: HistoryBuilder,
        catalog: Arc<Catalog>,
        describer: Option<Client>,
        first: FirstState,
        secrecy: &Secrecy,
    ) -> Result<Self, String> {
        let dbms = catalog.dbms.clone();
        let (veil, builder) = match secrecy.is_nothing() {
            true => (None, builder),
            false => Veil::new(secrecy.clone(), builder)
                .map(|(veil, builder)| (Some(veil), builder))
                .map_err(no_history)?,
        };
        let concerns = catalog.mysql.iter().flat_map(|rules| rules.doubts.iter().cloned()).collect();
        Ok(Self {
            builder,
            catalog,
            describer,
            first,
            known: RefCell::default(),
            described: HashMap::new(),
            lines: None,
            mirror: None,
            veil,
            place: None,
            dbms,
            next: 1,
            counts: Counts::default(),
            levels: BTreeSet::new(),
            concerns,
            unobserved: BTreeMap::new(),
        })
    }

    /// Gives the connections back, for the next stretch.
    pub fn give_back(&mut self) -> Result<Clients, String> {
        let clients = self.first.give_back().zip(self.describer.take());
        let clients = clients.map(|(snapshot, describer)| Clients { snapshot, describer });
        clients.ok_or_else(|| "Margay's connections are gone".to_owned())
    }

    /// Whether a transaction wrote nothing, whatever came of it.
    pub fn only_reads(&self, transaction: &Transaction) -> bool {
        transaction.read_only || transaction.ops.iter().all(|op| self.facts(&op.text).only_reads)
    }

    /// Records a transaction.
    pub fn take(&mut self, transaction: Transaction, files: &mut Files) -> Result<(), String> {
        let Transaction { session, level, read_only, unit, begin, mut ops, end, ended } = transaction;
        let Some(first) = ops.first().map(|op| op.times.before) else { return Ok(()) };
        ops.retain(|op| !self.facts(&op.text).is_about_the_system);
        self.catalog.mysql.iter().for_each(|rules| rules.adapt(&mut ops));
        let Some(op) = ops.first_mut() else { return Ok(()) };
        // What was left out may have taken the snapshot.
        op.times.before = first;
        if self.place.is_none()
            && let Some((place, output)) = files.next().map_err(not_written)?
        {
            self.place = Some(place);
            let lines = output.map(|output| Lines::new(output, &mut self.builder)).transpose();
            self.lines = lines.map_err(not_written)?;
        }
        let label = self.next;
        self.next += 1;
        self.count(level, ended);
        self.reflect(level);
        if ops.iter().any(|op| op.executed.is_none()) {
            self.mirror.iter_mut().for_each(Mirror::give_up);
        }
        let who = (session, label);
        let name = level.map(|level| level.name().to_ascii_lowercase().replace(' ', "-"));
        let unit =
            unit.map(|unit| self.veil.as_ref().map_or_else(|| unit.to_string(), |veil| veil.unit(&unit)));
        let detail = OpDetail::Begin { level: name.as_deref(), read_only, unit: unit.as_deref() };
        self.push(who, begin, OpKind::Begin, &[], detail)?;
        let mut earliest = i64::MAX;
        for op in &ops {
            earliest = earliest.min(op.times.before);
            let times = Times { before: op.times.before.min(earliest), ..op.times };
            if self.statement(who, op, times)? {
                earliest = i64::MAX;
            }
        }
        self.veil.iter_mut().for_each(Veil::ended);
        let kind = match ended {
            Ended::Committed => OpKind::Commit,
            Ended::Aborted => OpKind::Abort,
            Ended::Unknown => OpKind::Unknown,
        };
        self.push(who, end, kind, &[], OpDetail::None)
    }

    fn count(&mut self, level: Option<OwnLevel>, ended: Ended) {
        match ended {
            Ended::Committed => self.counts.committed += 1,
            Ended::Aborted => self.counts.aborted += 1,
            Ended::Unknown => self.counts.unknown += 1,
        }
        if ended != Ended::Aborted {
            self.levels.insert(level);
        }
    }

    fn reflect(&mut self, level: Option<OwnLevel>) {
        if self.mirror.is_none() && self.veil.is_none() {
            self.begin_mirror(level.unwrap_or(OwnLevel::weakest(&self.dbms)));
        }
        self.mirror.iter_mut().for_each(|mirror| mirror.enter(level));
    }

    fn begin_mirror(&mut self, level: OwnLevel) {
        let looks_up = self.first.looks_up();
        self.mirror = Mirror::new(level, &self.dbms, &self.builder, looks_up);
    }

    fn push(
        &mut self,
        who: (u64, u64),
        times: Times,
        kind: OpKind,
        accesses: &[Access],
        detail: OpDetail<'_>,
    ) -> Result<(), String> {
        let at = Interval::new(times.before, times.after);
        if let Some(lines) = &mut self.lines {
            lines.op(&self.builder, who, at, (kind, accesses), &detail).map_err(not_written)?;
        }
        self.builder.push(who.0, who.1, Some(at), kind, accesses, detail).map_err(no_history)?;
        if let Some(mirror) = &mut self.mirror {
            let first = Some(&mut self.first).filter(|first| first.looks_up());
            mirror.push(who.1, kind, at, &mut self.builder, first, &self.catalog);
        }
        Ok(())
    }

    /// Says whether something of it was recorded.
    fn statement(&mut self, who: (u64, u64), op: &Op, times: Times) -> Result<bool, String> {
        if let Some(hazard) = self.facts(&op.text).hazard {
            self.concerns.insert(hazard.to_string());
        }
        let Some(executed) = &op.executed else {
            let detail = OpDetail::Sql { text: &op.text, params: &[], rows: None, count: None };
            return self.push(who, times, OpKind::Sql, &[], detail).map(|()| true);
        };
        let described = self.described(&op.text, executed);
        let params = self.params(executed, described.as_deref());
        let rows = self.rows(executed, described.as_deref());
        let count = affected(&executed.outcome);
        let Some(veil) = &mut self.veil else {
            let detail = OpDetail::Sql { text: &op.text, params: &params, rows: rows.as_deref(), count };
            return self.push(who, times, OpKind::Sql, &[], detail).map(|()| true);
        };
        let (text, params, rows) = (Arc::clone(&op.text), params.into(), rows.map(Into::into));
        let veiled = veil.statement(&Statement { text, params, rows, count }, &mut self.builder);
        self.veiled(who, times, veiled)
    }

    /// Records what is left of a statement.
    fn veiled(&mut self, who: (u64, u64), times: Times, veiled: Veiled) -> Result<bool, String> {
        let sql = |text| OpDetail::Sql { text, params: &[], rows: None, count: None };
        let text;
        let (kind, accesses, detail) = match veiled {
            Veiled::Nothing => return Ok(false),
            Veiled::Read(accesses) => (OpKind::Read, accesses, OpDetail::None),
            Veiled::Write(accesses) => (OpKind::Write, accesses, OpDetail::None),
            Veiled::Changes(table) => {
                text = self.changes(table);
                (OpKind::Sql, Vec::new(), sql(&text))
            }
            Veiled::Anything => (OpKind::Sql, Vec::new(), sql(OPAQUE)),
        };
        self.push(who, times, kind, &accesses, detail).map(|()| true)
    }

    /// A statement that may have changed any rows of a table. Engines know no column of this name.
    fn changes(&self, table: TableId) -> String {
        let name = &self.builder.tables()[table.index()].name;
        let quote = if self.catalog.mysql.is_some() { "`" } else { "\"" };
        format!("UPDATE {quote}{}{quote} SET margay_not_recorded = 1", name.replace(quote, &quote.repeat(2)))
    }

    /// Where the values of statements go.
    fn values(&mut self) -> &mut Values {
        match &mut self.veil {
            Some(veil) => veil.values(),
            None => self.builder.values(),
        }
    }

    /// Something that lasts may have been done before this stretch that its schema does not tell.
    pub fn take_hidden(&mut self, now: i64, files: &mut Files) -> Result<(), String> {
        let (times, session) = (Times { before: now, after: now }, u64::MAX);
        let (ops, ended) = (vec![Op::opaque(times)], Ended::Unknown);
        let (level, read_only, unit, begin, end) = (None, false, None, times, times);
        let hidden = Transaction { session, level, read_only, unit, begin, ops, end, ended };
        self.take(hidden, files)
    }

    /// What is known of a text. Most are executed again and again.
    fn facts(&self, text: &Arc<str>) -> Facts {
        if let Some(known) = self.known.borrow().get(text) {
            return known.clone();
        }
        let facts = Facts {
            is_about_the_system: self.catalog.is_about_the_system(text),
            only_reads: self.catalog.only_reads(text),
            hazard: self.hazard(text),
        };
        let mut known = self.known.borrow_mut();
        if known.len() == MAX_KNOWN {
            known.clear();
        }
        if text.len() <= MAX_KNOWN_LENGTH {
            known.insert(Arc::clone(text), facts.clone());
        }
        facts
    }

    /// A table whose triggers or rules may write anything is written to.
    fn hazard(&self, text: &str) -> Option<Arc<str>> {
        if text.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("SELECT")) {
            return None;
        }
        let text = text.to_lowercase();
        let mut words =
            text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        let named =
            |word: &str| self.catalog.hazards.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        let (name, why) = words.find_map(named)?;
        Some(format!("table {name} has {why}, which may write anything").into())
    }

    /// The types that the wire did not tell.
    fn described(&mut self, text: &Arc<str>, executed: &Executed) -> Option<Arc<Described>> {
        let values = executed.bound.as_ref().and_then(|bound| bound.values.as_ref()).map_or(0, Vec::len);
        let types = &executed.prepared.types;
        let untyped = (0..values).any(|at| types.get(at).copied().unwrap_or(0) == 0);
        let returns = executed.columns.is_none() && !executed.rows.is_empty();
        if !untyped && !returns {
            return None;
        }
        let key = (Arc::clone(text), types.clone());
        if let Some(known) = self.described.get(&key) {
            return known.clone();
        }
        let described = describe(self.describer.as_mut()?, text, types).map(Arc::new);
        if self.described.len() < 10_000 {
            self.described.insert(key, described.clone());
        }
        described
    }

    /// The parameters; none if one of them is not known.
    fn params(&mut self, executed: &Executed, described: Option<&Described>) -> Vec<ValueId> {
        let Some(bound) = &executed.bound else { return Vec::new() };
        let Some(values) = &bound.values else { return Vec::new() };
        let kind = |at: usize| {
            let told = executed.prepared.types.get(at).copied().filter(|&kind| kind != 0);
            told.or_else(|| described?.parameters.get(at).copied()).unwrap_or(0)
        };
        let all = values
            .iter()
            .enumerate()
            .map(|(at, bytes)| value(self.values(), kind(at), bound.format(at), bytes.as_deref()));
        let all = all.collect::<Option<Vec<_>>>();
        if all.is_none() {
            *self.unobserved.entry("a parameter that cannot be read").or_default() += 1;
        }
        all.unwrap_or_default()
    }

    /// The rows, each a list; none if they were not all seen, or cannot be read.
    fn rows(&mut self, executed: &Executed, described: Option<&Described>) -> Option<Vec<ValueId>> {
        let returns = matches!(&executed.outcome, Outcome::Done(tag) if tag.starts_with("SELECT"));
        if !executed.complete || (executed.rows.is_empty() && !returns) {
            if executed.rows.too_many() {
                *self.unobserved.entry("a result that is too large").or_default() += 1;
            }
            return None;
        }
        let kind = |at: usize| match &executed.columns {
            Some(columns) => columns.get(at).map(|column| column.kind),
            None => described?.columns.get(at).copied(),
        };
        let format = |at: usize| executed.bound.as_ref().map_or(0, |bound| bound.result(at));
        let mut found = Vec::with_capacity(executed.rows.len());
        for row in executed.rows.iter() {
            let cells = row?
                .into_iter()
                .enumerate()
                .map(|(at, bytes)| value(self.values(), kind(at)?, format(at), bytes));
            let cells = cells.collect::<Option<Vec<_>>>()?;
            found.push(self.values().list(&cells));
        }
        Some(found)
    }

    /// Everything that began before `until` has been taken; every answer before `answered` has.
    pub fn advance(&mut self, until: i64, answered: i64) -> Result<(), String> {
        if let Some(mirror) = &mut self.mirror {
            mirror.advance(until, &mut self.builder);
        }
        self.lines.as_mut().map_or(Ok(()), |lines| lines.pass(answered)).map_err(not_written)
    }

    /// Committed transactions that were verified so far, and violations.
    pub fn verified(&self) -> (u64, u64) {
        let verified = self.mirror.as_ref().map(Mirror::verified);
        verified.map_or((0, 0), |verified| (verified.transactions, verified.violations))
    }

    /// All has come.
    pub fn finish(mut self, database: &str) -> Result<Part, String> {
        if let Some(lines) = &mut self.lines {
            lines.pass(i64::MAX).map_err(not_written)?;
        }
        let followed = self.mirror.as_ref().map_or(0, Mirror::followed);
        let verified = self.mirror.take().map(|mirror| mirror.finish(&mut self.builder));
        if let [Some(level)] = self.levels.iter().copied().collect::<Vec<_>>()[..] {
            self.builder.header().level = Some(level.name().to_ascii_lowercase().replace(' ', "-"));
        }
        Ok(Part {
            database: database.to_owned(),
            history: self.builder.finish().map_err(no_history)?,
            counts: self.counts,
            levels: self.levels.into_iter().collect(),
            veiled: self.veil.map(|veil| veil.lossy),
            verified,
            followed,
            concerns: self.concerns.into_iter().collect(),
            notes: self.unobserved.iter().map(|(what, times)| format!("{times} times {what}")).collect(),
            logged: None,
            place: self.place,
        })
    }
}

/// The number of rows that a statement changed, by its command tag.
fn affected(outcome: &Outcome) -> Option<u64> {
    let Outcome::Done(tag) = outcome else { return None };
    let changes = ["INSERT", "UPDATE", "DELETE", "MERGE", "COPY"];
    let mut words = tag.split(' ');
    let changed = words.next().is_some_and(|first| changes.contains(&first));
    changed.then(|| words.next_back()?.parse().ok()).flatten()
}

/// The file that grows while the application runs. Every beginning of it tells the truth.
///
/// # Invariants
/// A transaction is written when everything that was sent before its end has been answered: what it
/// can have seen was committed by a transaction that stands before it, or beside it.
struct Lines {
    out: Output,
    writer: NativeWriter<Vec<u8>>,
    /// Lines of a transaction, with the time when it ended.
    held: Vec<(i64, Vec<u8>)>,
    current: Vec<u8>,
}

impl Lines {
    fn new(mut out: Output, builder: &mut HistoryBuilder) -> io::Result<Self> {
        let mut writer = NativeWriter::new(Vec::new());
        let header = builder.header().clone();
        let mut initial: Vec<_> =
            builder.initial_values().map(|access| (access.object, access.value)).collect();
        initial.sort_unstable();
        writer.header(builder.names(), &header, &initial).map_err(|(_, beyond)| io::Error::other(beyond))?;
        writer.end_line()?;
        out.write_all(&writer.take())?;
        out.flush()?;
        Ok(Self { out, writer, held: Vec::new(), current: Vec::new() })
    }

    fn op(
        &mut self,
        builder: &HistoryBuilder,
        who: (u64, u64),
        at: Interval,
        (kind, accesses): (OpKind, &[Access]),
        detail: &OpDetail<'_>,
    ) -> io::Result<()> {
        self.writer.op(builder.names(), who, Some(at), kind, accesses, detail).map_err(io::Error::other)?;
        self.writer.end_line()?;
        self.current.append(&mut self.writer.take());
        if kind.outcome().is_some() {
            self.held.push((at.after, std::mem::take(&mut self.current)));
        }
        Ok(())
    }

    fn pass(&mut self, until: i64) -> io::Result<()> {
        self.held.sort_by_key(|lines| lines.0);
        let ready = self.held.partition_point(|lines| lines.0 < until);
        if ready == 0 {
            return Ok(());
        }
        let mut lines = Vec::new();
        self.held.drain(..ready).for_each(|(_, held)| lines.extend_from_slice(&held));
        self.out.write_all(&lines)?;
        self.out.flush()
    }
}

fn no_history(error: Invalid) -> String {
    format!("the recording is no history: {error}")
}

fn not_written(error: io::Error) -> String {
    format!("the recording cannot be written: {error}")
}
