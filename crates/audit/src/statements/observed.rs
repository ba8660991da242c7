//! Executions of SQL transactions: executed, or shown not to exist by trying all.
//!
//! # Algorithm
//! An [`Execution`] is executed by the SQL interpreter, in short logs without indexes: every
//! transaction at its place in the order, every statement with its sight. The level's conditions on
//! sights are checked one by one. States that no later sight names are forgotten on the way, so
//! memory stays with the live part.
//!
//! That there is no execution ([`Unexplained`]) is audited by
//! [`exhaust`](margay_executions::exhaust()), over the named transactions, after which everything
//! else has to come; or by adding up the bounds of its clashes, and by a SAT solver that finds no
//! model left of the formula that the audit makes itself ([`formula`](margay_executions::formula)).

use hashbrown::{HashMap, HashSet};
use margay_executions::formula::{Clauses, Open, encode, row_of};
use margay_executions::{
    Answer, Constraints, Family, Machine, Part, Ran, Rules, StatementStep, exhaust, in_row_order,
    unknown_rows,
};
use margay_history::{History, OpId, Outcome, TxnId, Version};
use margay_sql::{Value, Write};
use margay_verdict::execution::{Clash, Execution, PartRow, Pin, Reading, StatementSight, Unexplained};
use margay_verdict::{Budget, Point, Question};

use super::misrun;
use crate::order::follows_version_order;
use crate::{Rejected, committed_set, points, reject};

/// Up to so many transactions an execution is executed without indexes. Beyond that the audit would
/// take many times as long as the check, where conditions do not name the key.
const PLAIN_UP_TO: usize = 1_000;

/// The most statements that are executed to find that there is no execution.
const MAX_STATEMENTS: u64 = 5_000_000;

/// The most decisions of the SAT solver to find that a formula has no model.
const DECISIONS: u64 = 50_000_000;

/// Whether the execution gives everything that was observed, and the level allows it.
pub(crate) fn holds(
    history: &History,
    question: Question,
    execution: &Execution,
    budget: &Budget,
) -> Result<(), Rejected> {
    let rules = rules(question, execution.reading)?;
    committed_set(history, execution.order.iter().copied())?;
    let recorded = Recorded::new(history, &execution.order)?;
    if execution.initial.iter().any(|cell| !unknown_rows(history).contains(&cell.object)) {
        return reject("it names an initial value that the history knows");
    }
    let sights: HashMap<OpId, &StatementSight> =
        execution.sights.iter().map(|(op, sight)| (*op, sight)).collect();
    let needed = needed(history, execution, &sights);
    let hides = hides_writers(history, rules, &execution.order);
    let constraints = Constraints::new(history, rules);
    let mut placed = constraints.placed();
    let indexes = history.txn_count() > PLAIN_UP_TO;
    let mut machine = Machine::starting(history, indexes, &execution.initial)?.within(budget);
    let mut snapshots: Vec<(u32, TxnId)> = Vec::new();
    for (here, &txn) in (0..).zip(&execution.order) {
        budget.poll()?;
        if !placed.may_follow(txn) {
            return reject(format!("{} comes before one that it has to follow", history.show_txn(txn)));
        }
        if !hides {
            machine.forget(needed[here as usize]);
        }
        let range = placed.snapshots(txn);
        let place = Place { rules, here, range, order: placed.order(), recorded: &recorded };
        snapshots.extend(run(&mut machine, txn, &sights, &place)?.map(|at| (at, txn)));
        placed.push(txn);
    }
    match rules.instants {
        true => points::in_time(history, as_points(history, &execution.order, snapshots).into_iter()),
        false => Ok(()),
    }
}

/// The begin points of snapshots, and the commit points of the order. Of begin points at one state
/// those come first that may be first.
fn as_points(history: &History, order: &[TxnId], mut snapshots: Vec<(u32, TxnId)>) -> Vec<Point> {
    snapshots.sort_by_key(|&(at, txn)| (at, history.start(txn)));
    let mut begins = snapshots.into_iter().peekable();
    let mut points = Vec::with_capacity(2 * order.len());
    for (here, &txn) in (0..).zip(order) {
        while let Some((_, begun)) = begins.next_if(|begin| begin.0 <= here) {
            points.push(Point::Begin(begun));
        }
        points.push(Point::Commit(txn));
    }
    points
}

/// Where a transaction stands.
struct Place<'a> {
    rules: Rules,
    here: u32,
    range: (u32, u32),
    order: &'a [TxnId],
    recorded: &'a Recorded,
}

/// Where each transaction of an execution stands, for what evidence says of versions.
struct Recorded {
    places: Vec<Option<usize>>,
}

impl Recorded {
    /// The order has the versions that evidence names in their order.
    fn new(history: &History, order: &[TxnId]) -> Result<Self, Rejected> {
        let mut places = vec![None; history.txn_count()];
        order.iter().enumerate().for_each(|(place, txn)| places[txn.index()] = Some(place));
        let follows = |order| follows_version_order(history, order, |txn| places[txn.index()]);
        history.evidence().version_orders.iter().try_for_each(follows)?;
        Ok(Self { places })
    }

    /// A statement with this sight sees the versions that evidence says it saw. A version that
    /// leaves its row as it was is none.
    fn look(
        &self,
        machine: &Machine<'_>,
        op: OpId,
        sight: &StatementSight,
        ran: &Ran,
    ) -> Result<(), Rejected> {
        let history = machine.history();
        let Some(set) = history.evidence().version_set(op) else { return Ok(()) };
        for &(object, version) in &set.versions {
            let own = version == Version::Of(history.txn_of(op));
            let Some((table, key)) = row_of(machine, object) else {
                return reject(format!("{} is no row of a table", history.show_object(object)));
            };
            let wrote = ran.writes.iter().any(|write| write.table == table && *write.key == *key);
            if own != wrote || !wrote && !self.sees(machine, table, &key, version, sight) {
                return reject(format!(
                    "{} saw another version of {} than the recorded one",
                    history.show_txn(history.txn_of(op)),
                    history.show_object(object)
                ));
            }
        }
        Ok(())
    }

    fn sees(
        &self,
        machine: &Machine<'_>,
        table: margay_sql::TableId,
        key: &[Value],
        version: Version,
        sight: &StatementSight,
    ) -> bool {
        let state = match version {
            Version::Initial => Some(0),
            Version::Of(txn) => self.places[txn.index()].and_then(|place| u32::try_from(place + 1).ok()),
        };
        let name = &machine.database().schema(table).name;
        let pin = sight.pins.iter().find(|pin| pin.table == *name && *pin.key == *key);
        let (Some(state), at) = (state, pin.map_or(sight.at, |pin| pin.at)) else { return false };
        if pin.is_some_and(|pin| pin.missed) {
            return false;
        }
        let versions = machine.database().versions(table, key);
        let place = |stamp: u64| machine.position_of(stamp);
        let then = versions.iter().rev().find(|v| place(v.0) <= state).and_then(|v| v.1.as_ref());
        let mut since = versions.iter().filter(|v| place(v.0) > state && place(v.0) <= at);
        state <= at && since.all(|v| v.1.as_ref() == then)
    }
}

fn rules(question: Question, reading: Reading) -> Result<Rules, Rejected> {
    match Rules::of(question, reading) {
        Some(rules) => Ok(rules),
        None => reject(format!("{} is not defined by executions", question.level.name())),
    }
}

/// Whether a transaction without a commit timestamp may stand between two writers of a row that
/// have one: then the earlier of them must not be forgotten.
fn hides_writers(history: &History, rules: Rules, order: &[TxnId]) -> bool {
    let evidence = history.evidence();
    rules.family == Family::Serial
        && !evidence.commits.is_empty()
        && order.iter().any(|&txn| evidence.commit(txn).is_none())
}

/// For each place in the order the earliest state that is seen there or later.
fn needed(history: &History, execution: &Execution, sights: &HashMap<OpId, &StatementSight>) -> Vec<u32> {
    let mut needed = vec![0; execution.order.len()];
    let mut least = u32::MAX;
    for (here, &txn) in execution.order.iter().enumerate().rev() {
        least = least.min(u32::try_from(here).unwrap_or(u32::MAX));
        for sight in history.op_range(txn).filter_map(|op| sights.get(&OpId(op))) {
            let pins = sight.pins.iter().map(|pin| pin.at);
            least = pins.chain([sight.at, least]).min().unwrap_or(0);
        }
        needed[here] = least;
    }
    needed
}

/// Executes one transaction. Answers its snapshot, if it has one.
fn run(
    machine: &mut Machine<'_>,
    txn: TxnId,
    sights: &HashMap<OpId, &StatementSight>,
    place: &Place<'_>,
) -> Result<Option<u32>, Rejected> {
    let history = machine.history();
    let latest = StatementSight::state(place.here);
    let mut transaction = machine.begin();
    let (mut ran, mut snapshot) = (Ran::default(), None);
    for op in machine.statements(txn)? {
        let sight = sights.get(&op).copied().unwrap_or(&latest);
        let step = machine.step(&mut transaction, op, sight)?;
        let told = |what: &str| {
            reject(format!("operation {} of {}: {what}", history.op_index(op), history.show_txn(txn)))
        };
        place.recorded.look(machine, op, sight, &ran)?;
        if !step.fits {
            return told("the statement gives something else than what was observed");
        }
        if sight.at > place.here || sight.pins.iter().any(|pin| pin.at > place.here) {
            return told("it sees a state that comes later");
        }
        let whole = sight.pins.is_empty();
        let gaps = sight.pins.iter().filter(|pin| pin.missed).all(|pin| machine.is_gap(pin));
        let allowed = match place.rules.family {
            Family::Serial => *sight == latest,
            Family::Snapshot => whole && *snapshot.get_or_insert(sight.at) == sight.at,
            Family::Repeatable => {
                sight.at == place.here
                    && items_are_latest(machine, &step, place.here)
                    && !sight.pins.iter().any(|pin| pin.missed)
            }
            Family::Committed(Reading::Item) => gaps,
            Family::Committed(Reading::Statement) => {
                let before = Before { txn, op, sights, latest: &latest };
                sees_one_state(machine, &before, sight, &step, place.here)?
            }
        };
        if !allowed {
            return told("the level does not allow what it sees");
        }
        ran.add(&step, &mut Vec::new());
    }
    if let (Family::Snapshot, Some(at)) = (place.rules.family, snapshot) {
        let conflict = |write: &Write| {
            machine.last_writer(write.table, &write.key, place.here).is_some_and(|(state, _)| state > at)
        };
        if at < place.range.0 || at > place.range.1 {
            return reject(format!("the snapshot of {} is not one that it may take", history.show_txn(txn)));
        }
        if ran.changes().any(conflict) {
            return reject(format!(
                "{} writes a row that was written after its snapshot",
                history.show_txn(txn)
            ));
        }
    }
    if !in_row_order(history, place.rules, machine, place.order, txn, &ran.writes) {
        return reject(format!(
            "{} writes a row that has a version with a later timestamp",
            history.show_txn(txn)
        ));
    }
    machine.commit(transaction, &ran, place.rules.skips());
    Ok(snapshot)
}

/// A statement, and what those of its transaction before it saw.
struct Before<'a> {
    txn: TxnId,
    op: OpId,
    sights: &'a HashMap<OpId, &'a StatementSight>,
    latest: &'a StatementSight,
}

/// Whether a statement sees one committed state, and writes the newest versions. One that locks
/// rows looks again at those that it found in that state: each is as of the state before its
/// transaction's commit, or gone if it ended meanwhile; what it only reads on the way need not be
/// looked at again.
fn sees_one_state(
    machine: &mut Machine<'_>,
    before: &Before<'_>,
    sight: &StatementSight,
    step: &StatementStep,
    here: u32,
) -> Result<bool, Rejected> {
    let Ok(outcome) = &step.result else { return Ok(false) };
    let name = |machine: &Machine<'_>, table| machine.database().schema(table).name.clone();
    let is_of = |pin: &Pin, table: &str, key: &[Value]| pin.table == *table && *pin.key == *key;
    for write in &outcome.writes {
        let table = name(machine, write.table);
        let newest = machine.last_writer(write.table, &write.key, here).is_none_or(|(at, _)| at <= sight.at);
        let again = |pin: &Pin| pin.at == here && !pin.missed && is_of(pin, &table, &write.key);
        if !newest && !sight.pins.iter().any(again) {
            return Ok(false);
        }
    }
    if sight.pins.is_empty() {
        return Ok(true);
    }
    let found = in_whole_state(machine, before, sight.at)?;
    let Ok(first) = &found.result else { return Ok(false) };
    let mut looked_at = 0;
    for read in first.reads.rows.iter().filter(|read| read.present) {
        let newer = machine.last_writer(read.table, &read.key, here).is_some_and(|(at, _)| at > sight.at);
        let table = name(machine, read.table);
        let pins: Vec<&Pin> = sight.pins.iter().filter(|pin| is_of(pin, &table, &read.key)).collect();
        let only_read =
            !first.writes.is_empty() && first.writes.iter().all(|write| write.table != read.table);
        let end = machine.end_of(read.table, &read.key, sight.at, here);
        let allowed = match pins.as_slice() {
            [] => !newer || only_read,
            [pin] => **pin == machine.pin(read.table, &read.key, here) || end.as_ref() == Some(*pin),
            _ => false,
        };
        if !allowed {
            return Ok(false);
        }
        looked_at += pins.len();
    }
    Ok(found.looks_again && sight.at < here && looked_at == sight.pins.len())
}

/// What a statement gives on one whole state, after those before it.
fn in_whole_state(
    machine: &mut Machine<'_>,
    before: &Before<'_>,
    at: u32,
) -> Result<StatementStep, Rejected> {
    let mut transaction = machine.begin();
    for op in machine.statements(before.txn)?.into_iter().take_while(|&op| op != before.op) {
        let sight = before.sights.get(&op).copied().unwrap_or(before.latest);
        machine.step(&mut transaction, op, sight)?;
    }
    let step = machine.step(&mut transaction, before.op, &StatementSight::state(at))?;
    machine.drop(transaction);
    Ok(step)
}

/// Whether the rows that a statement read are the latest ones, or its transaction's own.
fn items_are_latest(machine: &Machine<'_>, step: &StatementStep, here: u32) -> bool {
    let rows = step.result.iter().flat_map(|outcome| &outcome.reads.rows).filter(|read| read.present);
    let mut rows = rows.filter_map(|read| Some((read, read.stamp.filter(|stamp| stamp >> 63 == 0)?)));
    rows.all(|(read, stamp)| {
        let latest = machine.last_writer(read.table, &read.key, here).map_or(0, |(state, _)| state);
        machine.position_of(stamp) >= latest
    })
}

/// Whether nothing explains what was observed.
pub(crate) fn violated(
    history: &History,
    question: Question,
    certificate: &Unexplained,
    budget: &Budget,
) -> Result<(), Rejected> {
    if let Some(rows) = &certificate.rows {
        return violated_in_part(history, question, (certificate, rows), budget);
    }
    // Who refutes more possibilities than evidence about versions leaves refutes those.
    let rules = rules(question, certificate.reading)?;
    if let Some(clashes) = &certificate.clashes {
        return contradicted(history, rules, (&certificate.txns, clashes), budget);
    }
    if !unknown_rows(history).is_empty() {
        return reject("initial values that are not known cannot all be tried");
    }
    if !certificate.lemmas.is_empty() {
        return misrun::refuted(history, rules, &certificate.lemmas, budget);
    }
    come_first(history, rules, &certificate.txns)?;
    match exhaust(history, rules, Some(&certificate.txns), MAX_STATEMENTS, budget)? {
        Answer::Refuted => Ok(()),
        Answer::Explained => reject("there is an execution that gives what was observed"),
        Answer::TooMany => {
            reject(format!("there are more possibilities than {MAX_STATEMENTS} statements can try"))
        }
    }
}

/// Whether nothing explains what was observed of some rows, about which nobody else has a say.
fn violated_in_part(
    history: &History,
    question: Question,
    (certificate, rows): (&Unexplained, &[PartRow]),
    budget: &Budget,
) -> Result<(), Rejected> {
    let Some(part) = Part::named(history, rows)? else {
        return reject("whoever can write the named rows can touch others");
    };
    match part.translate(true, certificate) {
        Some(inner) => violated(&part.history, question, &Unexplained { rows: None, ..inner }, budget),
        None => reject("it names operations that are not about the named rows"),
    }
}

/// Whether each of these is named once, may have committed, and everything else has to come later.
fn come_first(history: &History, rules: Rules, txns: &[TxnId]) -> Result<(), Rejected> {
    match Constraints::new(history, rules).closes(txns) {
        true => Ok(()),
        false => reject("the named transactions need not all come before the others"),
    }
}

/// Whether the clashes are some, and leave no model of the formula in which initial values that are
/// not known may be anything.
fn contradicted(
    history: &History,
    rules: Rules,
    (txns, clashes): (&[TxnId], &[Clash]),
    budget: &Budget,
) -> Result<(), Rejected> {
    come_first(history, rules, txns)?;
    let mut named = HashSet::new();
    let may_run = |txn: &TxnId| {
        txn.index() < history.txn_count() && history.outcome(*txn) != Outcome::Aborted && named.insert(*txn)
    };
    if !txns.iter().all(may_run) {
        return reject("a formula over transactions that occur twice, or that did not commit");
    }
    let encoded = encode(history, rules, txns, Open::Anything)?;
    let mut clauses = Clauses::new(&encoded, DECISIONS, budget)?;
    if !clashes.iter().all(|clash| clauses.forbid(clash)) {
        return reject("bounds that do not clash");
    }
    match clauses.solve() {
        Some(false) => Ok(()),
        Some(true) => reject("the clashes leave a model of the formula"),
        None => reject("the formula has more cases than can be tried"),
    }
}
