//! Findings in words: what each edge of a cycle stands on, with operations and values.

use std::collections::BTreeMap;

use margay_audit::reach::Reach;
use margay_history::{History, NameId, ObjectId, OpId, OpKind, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::{Anomaly, Level};
use margay_verdict::mechanism::Certified;
use margay_verdict::{Breach, Broken, Certificate, DeadEnd, Edge, Finding, Lemma, Reason, Stamp};

use crate::timeline::timeline;

/// Longer values are shortened in the middle.
const WIDTH: usize = 60;

/// How many lemmas of a refutation are told.
const LEMMAS: usize = 3;

/// A finding as a few lines of text: one for each edge or operation, and one that says what it is.
#[must_use]
pub fn finding(history: &History, finding: &Finding) -> String {
    lines(history, finding, None).join("\n")
}

/// The same with a line about the levels that the finding rules out.
#[must_use]
pub fn finding_with(history: &History, finding: &Finding, reach: &Reach) -> String {
    lines(history, finding, rules_out(reach)).join("\n")
}

fn lines(history: &History, finding: &Finding, rules_out: Option<String>) -> Vec<String> {
    let mut lines = certificate(history, &finding.certificate);
    lines.push(format!("This is {}: {}.", finding.anomaly, finding.anomaly.entry().summary));
    lines.extend(rules_out);
    lines.extend(known(history, finding));
    lines
}

/// What a database is known for, where a finding is that: a sentence or two.
#[must_use]
pub fn known(history: &History, finding: &Finding) -> Option<String> {
    crate::known::known(history, finding).map(|(_, told)| told)
}

/// Which levels a finding refutes.
fn rules_out(reach: &Reach) -> Option<String> {
    let weakest = reach.weakest();
    let stronger = |level: &Level| weakest.iter().any(|weaker| level.implies(*weaker));
    let all = Level::ALL.iter().filter(|level| stronger(level)).count() == reach.broken.len();
    let names = |levels: &[Level]| levels.iter().map(|level| level.name()).collect::<Vec<_>>().join(", ");
    match (reach.broken.is_empty(), all) {
        (true, _) => None,
        (false, true) => Some(format!("It rules out {}, and what is stronger.", names(&weakest))),
        (false, false) => Some(format!("It rules out {}.", names(&reach.broken))),
    }
}

/// What a certificate of `violated` says, line by line; nothing for one of `holds`.
#[must_use]
pub fn certificate(history: &History, certificate: &Certificate) -> Vec<String> {
    let teller = Teller { history };
    match certificate {
        Certificate::Operations { anomaly, ops } => teller.operations(*anomaly, ops),
        Certificate::Refutation(lemmas) => teller.refutation(lemmas),
        Certificate::Intervals(breach) => teller.breach(breach),
        Certificate::DeadEnd(end) => teller.dead_end(end),
        Certificate::Unexplained(unexplained) => unexplained.notes.clone(),
        Certificate::Invariant(invariant) => invariant.notes.clone(),
        _ => Vec::new(),
    }
}

/// Why one transaction comes before another: a sentence.
#[must_use]
pub fn edge(history: &History, edge: &Edge) -> String {
    Teller { history }.edge(edge)
}

struct Teller<'h> {
    history: &'h History,
}

impl Teller<'_> {
    fn refutation(&self, lemmas: &[Lemma]) -> Vec<String> {
        let mut lines = Vec::new();
        if let [only] = lemmas {
            lines.extend(only.edges.iter().map(|edge| self.edge(edge)));
            lines.push(self.circle(only));
            return lines;
        }
        lines.push(format!("Whatever the order, one of {} cycles arises.", lemmas.len()));
        for (i, lemma) in lemmas.iter().take(LEMMAS).enumerate() {
            lines.push(format!("Cycle {}:", i + 1));
            lines.extend(lemma.edges.iter().map(|edge| format!("  {}", self.edge(edge))));
        }
        if lemmas.len() > LEMMAS {
            lines.push(format!("And {} more.", lemmas.len() - LEMMAS));
        }
        lines
    }

    fn breach(&self, breach: &Breach) -> Vec<String> {
        let mut lines = Vec::new();
        match &breach.broken {
            Broken::Read { op } => {
                lines.push(self.timed(*op));
                lines.push("No point in time at which it may have read shows that.".to_owned());
            }
            Broken::Locks { object, ops } => {
                lines.extend(ops.iter().map(|&op| self.timed(op)));
                lines.extend(ops.iter().map(|&op| self.ended(self.history.txn_of(op))));
                let name = self.history.show_object(*object);
                lines.push(format!("So both held their locks of {name} at the same time."));
            }
            Broken::Updates { object, txns } => {
                for &txn in txns {
                    let started = self.history.ops(txn).find(|op| op.kind != OpKind::Begin);
                    lines.extend(started.map(|op| self.timed(op.id)));
                    lines.push(self.ended(txn));
                }
                let name = self.history.show_object(*object);
                lines.push(format!("Both wrote {name}, and neither committed before the other's snapshot."));
            }
            Broken::Dependencies(edges) => {
                lines.extend(edges.iter().map(|edge| self.edge(edge)));
                let closed = edges.first().map(|edge| edge.from) == edges.last().map(|edge| edge.to);
                lines.push(match (breach.mechanisms.points, edges.first(), edges.last()) {
                    (Some(_), Some(first), Some(last))
                        if !closed && self.is_backward(breach, first, last) =>
                    {
                        format!("But {} took place before {}.", self.txn(last.to), self.txn(first.from))
                    }
                    _ => "The certifier must not let all of them commit.".to_owned(),
                });
            }
        }
        lines.push(
            "The intervals leave no other possibility, given the mechanisms of the certificate.".to_owned(),
        );
        lines.extend(timeline(self.history, breach));
        lines
    }

    /// Whether the last transaction of a path had ended before the first one began.
    fn is_backward(&self, breach: &Breach, first: &Edge, last: &Edge) -> bool {
        let certified = matches!(breach.mechanisms.certifier, Certified::Ssi);
        let ended = |txn| self.history.end(txn);
        !certified || ended(last.to) < self.history.start(first.from)
    }

    /// An operation with its interval.
    fn timed(&self, op: OpId) -> String {
        let txn = self.txn(self.history.txn_of(op));
        let op = self.history.op(op);
        let shown = op.accesses.iter().map(|access| {
            format!("{} = {}", self.history.show_object(access.object), self.value(access.value))
        });
        let what = shown.collect::<Vec<_>>().join(", ");
        let did = format!("{txn}: {} {what}", op.kind.name());
        match op.at {
            Some(at) => format!("{} in [{}, {}].", did.trim_end(), at.before, at.after),
            None => format!("{}.", did.trim_end()),
        }
    }

    fn ended(&self, txn: TxnId) -> String {
        let end = self.history.op_range(txn).end - 1;
        self.timed(OpId(end))
    }

    fn circle(&self, lemma: &Lemma) -> String {
        let Some(first) = lemma.edges.first() else { return String::new() };
        let around = lemma.edges.iter().map(|edge| edge.to);
        let names: Vec<_> = std::iter::once(first.from).chain(around).map(|txn| self.txn(txn)).collect();
        format!("So each comes before the next: {}, which is impossible.", names.join(", "))
    }

    fn edge(&self, edge: &Edge) -> String {
        let (from, to) = (self.txn(edge.from), self.txn(edge.to));
        let because = match &edge.reason {
            Reason::Session => format!("{from} is before {to} in their session"),
            Reason::RealTime => self.real_time(edge),
            Reason::Recorded(Stamp::Serialization) => {
                format!("{from} has the earlier serialization timestamp")
            }
            Reason::Recorded(Stamp::Commit) => format!("{from} has the earlier commit timestamp"),
            Reason::Recorded(Stamp::Inside) => {
                format!("the commit timestamp of {from} is not after the snapshot of {to}")
            }
            Reason::Recorded(Stamp::Outside) => {
                format!("the snapshot of {from} is before the commit timestamp of {to}")
            }
            Reason::Read { op, object } => format!("{to} {}", self.saw_write(edge.from, *op, *object)),
            Reason::Write { object } => {
                let (first, second) = (self.changed(edge.from, *object), self.wrote(edge.to, *object));
                let shown = self.shown(edge.from, edge.to, *object).unwrap_or_default();
                format!("{from} {first} before {to} {second}{shown}")
            }
            Reason::AntiRead { op, object, version } => {
                let made = match version {
                    Version::Initial => "the initial version".to_string(),
                    Version::Of(txn) => format!("the version of {}", self.txn(*txn)),
                };
                let wrote = self.wrote(edge.to, *object);
                format!("{from} {}, {made}, and {to} {wrote} later", self.saw(*op, *object))
            }
            Reason::ReadColumn { op, object, column } => format!(
                "{to} {}, where {from} had last written column {}: it {}",
                self.saw(*op, *object),
                self.history.name(*column),
                self.wrote(edge.from, *object)
            ),
            Reason::AntiReadColumn { op, object, column, version } => format!(
                "{from} {}, whose column {} was {}, and {to} {} later",
                self.saw(*op, *object),
                self.history.name(*column),
                match version {
                    Version::Initial => "the initial one".to_string(),
                    Version::Of(txn) => format!("last written by {}", self.txn(*txn)),
                },
                self.wrote(edge.to, *object)
            ),
            Reason::Visible { op, object, path } => self.visible(edge, *op, *object, path),
        };
        format!("{from} comes before {to}: {because}.")
    }

    /// The committed read of a list that shows the order of two appends: `, as T3 read x = [1 2]`.
    fn shown(&self, from: TxnId, to: TxnId, object: ObjectId) -> Option<String> {
        let (first, second) = (self.appended(from, object), self.appended(to, object));
        if first.is_empty() || second.is_empty() {
            return None;
        }
        let txns = self.history.txns().filter(|&txn| self.history.outcome(txn) == Outcome::Committed);
        let mut reads = txns.flat_map(|txn| self.history.ops(txn)).filter(|op| op.kind == OpKind::Read);
        let shows = |value: ValueId| match self.history.value(value) {
            Value::List(items) => {
                let before = items.iter().position(|item| first.contains(item));
                let after = items.iter().rposition(|item| second.contains(item));
                matches!((before, after), (Some(before), Some(after)) if before < after)
            }
            _ => false,
        };
        let read = reads.find(|op| op.accesses.iter().any(|a| a.object == object && shows(a.value)))?;
        let reader = self.txn(self.history.txn_of(read.id));
        Some(format!(", as {reader} {}", self.saw(read.id, object)))
    }

    /// What a transaction appended to a list.
    fn appended(&self, txn: TxnId, object: ObjectId) -> Vec<ValueId> {
        let appends = self.history.ops(txn).filter(|op| op.kind == OpKind::Append);
        appends.flat_map(|op| op.accesses).filter(|a| a.object == object).map(|a| a.value).collect()
    }

    fn real_time(&self, edge: &Edge) -> String {
        let (from, to) = (self.txn(edge.from), self.txn(edge.to));
        match (self.history.end(edge.from), self.history.start(edge.to)) {
            (Some(end), Some(start)) => {
                format!(
                    "{from} had ended at {end}, before {to} began at {start} ({})",
                    self.history.header().unit.name()
                )
            }
            _ => format!("{from} had ended before {to} began"),
        }
    }

    fn visible(&self, edge: &Edge, op: OpId, object: ObjectId, path: &[Edge]) -> String {
        let reader = self.txn(self.history.txn_of(op));
        let through: Vec<_> = path.iter().skip(1).map(|edge| self.txn(edge.from)).collect();
        let through =
            if through.is_empty() { String::new() } else { format!(" through {}", through.join(", ")) };
        format!(
            "{} is visible to {reader}{through}, and yet {reader} {}, the version of {}",
            self.txn(edge.from),
            self.saw(op, object),
            self.txn(edge.to)
        )
    }

    fn txn(&self, txn: TxnId) -> String {
        self.history.show_txn(txn)
    }

    fn value(&self, value: ValueId) -> String {
        shorten(&self.history.show_value(value))
    }

    /// What an operation saw of an object: `read x = 1`.
    fn saw(&self, op: OpId, object: ObjectId) -> String {
        let (op, name) = (self.history.op(op), self.history.show_object(object));
        let seen =
            op.accesses.iter().find(|access| access.object == object).map(|access| self.value(access.value));
        match (op.kind, seen) {
            (OpKind::Scan, Some(seen)) => {
                format!("scanned {} and saw {name} = {seen}", self.condition(op.id))
            }
            (OpKind::Scan, None) => format!("scanned {} and did not see {name}", self.condition(op.id)),
            (OpKind::Update, Some(seen)) => {
                format!("updated {} and made {name} = {seen}", self.condition(op.id))
            }
            (OpKind::Update, None) => format!("updated {} and left {name} out", self.condition(op.id)),
            (_, Some(seen)) => format!("read {name} = {seen}"),
            (_, None) => format!("saw {name}"),
        }
    }

    fn condition(&self, op: OpId) -> String {
        let scan = self.history.scan(op).map(|scan| scan.predicate);
        let predicate = scan.or_else(|| self.history.update(op).map(|update| update.predicate));
        match predicate.map(|predicate| self.history.predicate(predicate)) {
            Some(p) => format!("{} where {}", self.history.table(p.table).name, shorten(&p.text)),
            None => String::new(),
        }
    }

    /// What an operation saw of an object, and whose doing that was: `read x = 1, which T1 wrote`.
    fn saw_write(&self, writer: TxnId, op: OpId, object: ObjectId) -> String {
        let (saw, wrote, by) = (self.saw(op, object), self.wrote(writer, object), self.txn(writer));
        // What was written whole is what was read: once is enough.
        let whole = wrote.strip_prefix("wrote ").is_some_and(|value| saw.ends_with(&format!("= {value}")));
        match self.last_write(writer, object) {
            _ if whole => format!("{saw}, which {by} wrote"),
            Some((OpKind::Append, _)) => format!("{saw}, to which {by} {wrote}"),
            Some((OpKind::Write, value)) if value != ValueId::NULL => format!("{saw}, of which {by} {wrote}"),
            _ => format!("{saw}, which {by} {wrote}"),
        }
    }

    /// A transaction's last write of an object.
    fn last_write(&self, txn: TxnId, object: ObjectId) -> Option<(OpKind, ValueId)> {
        let writes = self.history.ops(txn).filter(|op| op.kind.writes());
        let of_it = writes.flat_map(|op| {
            op.accesses.iter().filter(|a| a.object == object).map(move |a| (op.kind, a.value))
        });
        of_it.last()
    }

    /// The same as [`Self::wrote`], with the object: `wrote x = 1`.
    fn changed(&self, txn: TxnId, object: ObjectId) -> String {
        let name = self.history.show_object(object);
        match self.last_write(txn, object) {
            Some((OpKind::Append, value)) => format!("appended {} to {name}", self.value(value)),
            Some((OpKind::Update, value)) => format!("updated {name} to {}", self.value(value)),
            Some((_, ValueId::NULL)) => format!("deleted {name}"),
            Some((_, value)) => format!("wrote {name} = {}", self.value(value)),
            None => format!("wrote {name}"),
        }
    }

    /// What a transaction made of an object, by its last write: `wrote 1`.
    fn wrote(&self, txn: TxnId, object: ObjectId) -> String {
        match self.last_write(txn, object) {
            Some((OpKind::Append, value)) => format!("appended {}", self.value(value)),
            Some((OpKind::Update, value)) => format!("updated to {}", self.value(value)),
            Some((_, ValueId::NULL)) => "deleted".to_string(),
            Some((_, value)) => format!("wrote {}", self.value(value)),
            None => "wrote".to_string(),
        }
    }

    fn operations(&self, anomaly: Anomaly, ops: &[OpId]) -> Vec<String> {
        let mut lines: Vec<String> = ops.iter().flat_map(|&op| self.operation(op)).collect();
        if let Some(why) = self.why(anomaly, ops) {
            lines.push(why);
        }
        lines
    }

    /// What the transactions saw of the objects, one by one.
    fn dead_end(&self, end: &DeadEnd) -> Vec<String> {
        let objects: Vec<String> = end.objects.iter().map(|&o| self.history.show_object(o)).collect();
        let mut lines = Vec::new();
        for op in end.txns.iter().flat_map(|&txn| self.history.ops(txn)) {
            if op.accesses.iter().any(|access| end.objects.contains(&access.object)) {
                lines.extend(self.operation(op.id));
            }
        }
        lines.push(format!(
            "Nothing of {} is left to choose before these transactions, and no order of them within their intervals explains what they saw.",
            objects.join(", ")
        ));
        lines
    }

    fn operation(&self, id: OpId) -> Vec<String> {
        let (op, txn) = (self.history.op(id), self.txn(self.history.txn_of(id)));
        if op.accesses.is_empty() && matches!(op.kind, OpKind::Scan | OpKind::Update) {
            return vec![format!("{txn} looked at {} and saw no row.", self.condition(id))];
        }
        let tell = |access: &margay_history::Access| match op.kind {
            OpKind::Write | OpKind::Append => {
                let verb = if op.kind == OpKind::Append { "appended to" } else { "wrote" };
                format!(
                    "{txn} {verb} {}: {}.",
                    self.history.show_object(access.object),
                    self.value(access.value)
                )
            }
            _ => format!("{txn} {}.", self.saw(id, access.object)),
        };
        op.accesses.iter().map(tell).collect()
    }

    /// Who else had to do with what the first operation saw.
    fn why(&self, anomaly: Anomaly, ops: &[OpId]) -> Option<String> {
        let first = self.history.op(*ops.first()?);
        // Of what was seen, the part that its own transaction had written before is what an
        // internal anomaly is about.
        let own = |access: &&margay_history::Access| self.had_written(first.id, access);
        let internal = first.accesses.iter().find(own).filter(|_| anomaly == Anomaly::Internal);
        let access = internal.or(first.accesses.first())?;
        let name = self.history.show_object(access.object);
        let writers: Vec<String> =
            self.writers(access.object, access.value).into_iter().map(|t| self.txn(t)).collect();
        Some(match anomaly {
            Anomaly::GarbageRead => {
                let unlisted = self.history.initial(access.object) == ValueId::NULL;
                let hint = if unlisted { NOT_LISTED } else { "" };
                format!("No transaction wrote that to {name}, and it was not there initially.{hint}")
            }
            Anomaly::G1a | Anomaly::DirtyUpdate if !writers.is_empty() => {
                format!("Only {} wrote that to {name}, and aborted.", writers.join(", "))
            }
            Anomaly::G1b if !writers.is_empty() => {
                format!("{} wrote that to {name}, and then something else.", writers.join(", "))
            }
            Anomaly::ResultMismatch => self.columns_of_several(first.id, access)?,
            Anomaly::Internal => format!("Its own earlier write of {name} says otherwise."),
            Anomaly::FutureRead => "Only it wrote that, and only later.".to_string(),
            Anomaly::LostUpdate => {
                format!("No transaction wrote that to {name}; both overwrote it, so one update was lost.")
            }
            Anomaly::IncompatibleOrder => "Neither list is the beginning of the other.".to_string(),
            Anomaly::DuplicateElements => "One append took effect twice.".to_string(),
            Anomaly::Pl3CycleExists if ops.len() == 2 => {
                "Every transfer takes as much as it gives, and yet the totals of the two reads differ."
                    .to_string()
            }
            Anomaly::PlSsCycleExists => {
                format!(
                    "No order of all transactions on {name} up to this point respects real time and explains what they saw."
                )
            }
            _ => return None,
        })
    }

    /// Whether the transaction of an operation had written another value to what the operation saw.
    fn had_written(&self, op: OpId, seen: &margay_history::Access) -> bool {
        let before = self.history.ops(self.history.txn_of(op)).filter(|o| o.id < op && o.kind.writes());
        let last = before.flat_map(|o| o.accesses).rfind(|a| a.object == seen.object);
        last.is_some_and(|last| last.value != seen.value)
    }

    /// Who wrote which columns of a row, if none of them wrote all. The transaction that read the
    /// row may have written the values again later, so others are named first.
    fn columns_of_several(&self, op: OpId, seen: &margay_history::Access) -> Option<String> {
        let reader = self.history.txn_of(op);
        let Value::Row(columns) = self.history.value(seen.value) else { return None };
        let mut by: BTreeMap<TxnId, Vec<&str>> = BTreeMap::new();
        let mut parts = 0;
        for part in columns {
            let wrote = |txn: &TxnId| self.sets(*txn, seen.object, part);
            let others = self.history.txns().filter(|&txn| txn != reader);
            let Some(txn) = others.chain([reader]).find(wrote) else { continue };
            by.entry(txn).or_default().push(self.history.name(part.0));
            parts += 1;
        }
        if by.len() < 2
            || by
                .keys()
                .any(|&txn| columns.iter().filter(|part| self.sets(txn, seen.object, part)).count() >= parts)
        {
            return None;
        }
        let each =
            by.iter().map(|(&txn, columns)| format!("{} wrote its {}", self.txn(txn), columns.join(", ")));
        let row = self.history.show_object(seen.object);
        Some(format!("{}, but no version of {row} has all of them.", each.collect::<Vec<_>>().join(", ")))
    }

    /// Whether a transaction set a column of a row to this value.
    fn sets(&self, txn: TxnId, object: ObjectId, part: &(NameId, ValueId)) -> bool {
        let writes = self.history.ops(txn).filter(|op| op.kind.writes()).flat_map(|op| op.accesses);
        writes.filter(|a| a.object == object).any(|a| match self.history.value(a.value) {
            Value::Row(columns) => columns.contains(part),
            _ => false,
        })
    }

    /// The transactions that wrote this value, or appended an element of it, to the object.
    fn writers(&self, object: ObjectId, value: ValueId) -> Vec<TxnId> {
        let wrote = |txn: &TxnId| {
            self.history.ops(*txn).filter(|op| op.kind.writes()).any(|op| {
                op.accesses.iter().any(|a| a.object == object && self.contains(value, op.kind, a.value))
            })
        };
        self.history.txns().filter(wrote).take(3).collect()
    }

    fn contains(&self, seen: ValueId, kind: OpKind, written: ValueId) -> bool {
        match self.history.value(seen) {
            Value::List(items) if kind == OpKind::Append => items.last() == Some(&written),
            _ => seen == written,
        }
    }
}

/// A common mistake of people who write histories themselves.
const NOT_LISTED: &str = " (Objects that `initial` in the first line does not list begin as absent. A first line such as {\"margay\":1,\"initial\":[[\"x\",0]]} says otherwise.)";

fn shorten(text: &str) -> String {
    let length = text.chars().count();
    if length <= WIDTH {
        return text.to_string();
    }
    let head: String = text.chars().take(WIDTH / 2).collect();
    let tail: String = text.chars().skip(length - WIDTH / 3).collect();
    format!("{head}…{tail}")
}
