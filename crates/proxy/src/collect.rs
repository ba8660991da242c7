//! The collector: makes a history of the transactions of all connections, on a thread that no application waits for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use margay_formats::NativeWriter;
use margay_history::{HistoryBuilder, Interval, Invalid, OpDetail, OpKind, ValueId};
use margay_runner::{Counts, Verified};
use margay_wire::{Executed, Outcome, Times};
use postgres::Client;

use crate::catalog::{Catalog, Described, describe};
use crate::initial::FirstState;
use crate::lane::{Ended, Op, Transaction};
use crate::level::OwnLevel;
use crate::mirror::Mirror;
use crate::values::value;

/// Where a recording is written while it is made.
pub type Output = Box<dyn Write + Send>;

/// A text, and the types of parameters that its client named.
type Asked = (Arc<str>, Vec<u32>);

pub(crate) struct Collector {
    pub builder: HistoryBuilder,
    catalog: Arc<Catalog>,
    /// Describes statements whose types are not known.
    client: Client,
    /// Knows the first state.
    snapshot: Option<FirstState>,
    described: HashMap<Asked, Option<Arc<Described>>>,
    lines: Option<Lines>,
    mirror: Option<Mirror>,
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
        client: Client,
        snapshot: Option<Client>,
        output: Option<Output>,
    ) -> io::Result<Self> {
        let dbms = format!("postgresql-{}", catalog.version);
        let mut collector = Self {
            builder,
            catalog,
            client,
            snapshot: snapshot.map(FirstState::new),
            described: HashMap::new(),
            lines: None,
            mirror: None,
            dbms,
            next: 1,
            counts: Counts::default(),
            levels: BTreeSet::new(),
            concerns: BTreeSet::new(),
            unobserved: BTreeMap::new(),
        };
        collector.lines = output.map(|output| Lines::new(output, &mut collector.builder)).transpose()?;
        Ok(collector)
    }

    /// Records a transaction.
    pub fn take(&mut self, transaction: Transaction) -> Result<(), String> {
        let Transaction { session, level, read_only, begin, mut ops, end, ended } = transaction;
        let Some(first) = ops.first().map(|op| op.times.before) else { return Ok(()) };
        ops.retain(|op| !self.catalog.is_about_the_system(&op.text));
        let Some(op) = ops.first_mut() else { return Ok(()) };
        // What was left out may have taken the snapshot.
        op.times.before = first;
        let label = self.next;
        self.next += 1;
        self.count(level, ended);
        self.reflect(level);
        let who = (session, label);
        let name = level.map(|level| level.name().to_ascii_lowercase().replace(' ', "-"));
        let detail = OpDetail::Begin { level: name.as_deref(), read_only, unit: None };
        self.push(who, begin, OpKind::Begin, detail)?;
        for op in &ops {
            self.statement(who, op)?;
        }
        let kind = match ended {
            Ended::Committed => OpKind::Commit,
            Ended::Aborted => OpKind::Abort,
            Ended::Unknown => OpKind::Unknown,
        };
        self.push(who, end, kind, OpDetail::None)
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
        if self.mirror.is_none() {
            self.begin_mirror(level.unwrap_or(OwnLevel::ReadCommitted));
        }
        self.mirror.iter_mut().for_each(|mirror| mirror.enter(level));
    }

    fn begin_mirror(&mut self, level: OwnLevel) {
        let looks_up = self.snapshot.is_some();
        self.mirror = Mirror::new(level, &self.catalog.version, &self.dbms, &self.builder, looks_up);
    }

    fn push(
        &mut self,
        who: (u64, u64),
        times: Times,
        kind: OpKind,
        detail: OpDetail<'_>,
    ) -> Result<(), String> {
        let at = Interval::new(times.before, times.after);
        if let Some(lines) = &mut self.lines {
            lines.op(&self.builder, who, at, kind, &detail).map_err(not_written)?;
        }
        self.builder.push(who.0, who.1, Some(at), kind, &[], detail).map_err(no_history)?;
        if let Some(mirror) = &mut self.mirror {
            mirror.push(who.1, kind, at, &mut self.builder, self.snapshot.as_mut(), &self.catalog);
        }
        Ok(())
    }

    fn statement(&mut self, who: (u64, u64), op: &Op) -> Result<(), String> {
        self.look_for_hazards(&op.text);
        let Some(executed) = &op.executed else {
            let detail = OpDetail::Sql { text: &op.text, params: &[], rows: None, count: None };
            return self.push(who, op.times, OpKind::Sql, detail);
        };
        let described = self.described(&op.text, executed);
        let params = self.params(executed, described.as_deref());
        let rows = self.rows(executed, described.as_deref());
        let count = affected(&executed.outcome);
        let detail = OpDetail::Sql { text: &op.text, params: &params, rows: rows.as_deref(), count };
        self.push(who, op.times, OpKind::Sql, detail)
    }

    /// A table whose triggers or rules may write anything is written to.
    fn look_for_hazards(&mut self, text: &str) {
        if text.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("SELECT")) {
            return;
        }
        let text = text.to_lowercase();
        let mut words =
            text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        let Some((name, why)) = words
            .find_map(|word| self.catalog.hazards.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)))
        else {
            return;
        };
        self.concerns.insert(format!("table {name} has {why}, which may write anything"));
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
        let described = describe(&mut self.client, text, types).map(Arc::new);
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
            .map(|(at, bytes)| value(self.builder.values(), kind(at), bound.format(at), bytes.as_deref()));
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
                .map(|(at, bytes)| value(self.builder.values(), kind(at)?, format(at), bytes));
            let cells = cells.collect::<Option<Vec<_>>>()?;
            found.push(self.builder.values().list(&cells));
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

    /// How many transactions the mirror followed as a whole.
    pub fn followed(&self) -> u64 {
        self.mirror.as_ref().map_or(0, Mirror::followed)
    }

    pub fn finish_mirror(&mut self) -> Option<Verified> {
        self.mirror.take().map(|mirror| mirror.finish(&mut self.builder))
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
/// A transaction is written when everything that was sent before its end has been answered: what it can have seen was
/// committed by a transaction that stands before it, or beside it.
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
        kind: OpKind,
        detail: &OpDetail<'_>,
    ) -> io::Result<()> {
        self.writer.op(builder.names(), who, Some(at), kind, &[], detail).map_err(io::Error::other)?;
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
        let lines: Vec<u8> = self.held.drain(..ready).flat_map(|lines| lines.1).collect();
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
