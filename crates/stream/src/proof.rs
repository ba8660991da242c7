//! The proof as lines, written while parts settle; and its audit, side by side with the history.
//!
//! # Format
//! ```text
//! {"margay-proof":1,"level":"strict-serializable"}
//! {"order":[1,3,2],"left":[]}                          or {"points":[["begin",1],["commit",1]],"left":[]}
//!                                                      or {"stamps":[["begin",1],["commit",1]],"left":[]}
//! {"end":{"transactions":3}}
//! ```
//! Each line settles a part. If the first line has a `horizon`, transactions no further apart may
//! change places, and the proof is of the level of strong sessions. `stamps` are points in the
//! order of timestamps, and prove the level `stamped` of the first line. `left` names transactions
//! of unknown outcome that no part has.
//!
//! `{"late":[7,["commit",2]]}` says of such a transaction that it took effect after all, in an
//! earlier part: directly after this point; in an order, after transaction 2; before all, if `null`
//! stands there. These lines are read first ([`Late::read`]).
//!
//! # Algorithm
//! For each part the history is read until all of its transactions have ended. What has ended and
//! is in no part yet is held: that is as much as the follower held. After the last line nothing
//! that committed may be left.

use std::io::{self, BufRead, Write};

use hashbrown::{HashMap, HashSet};
use margay_history::Outcome;
use margay_levels::Level;
use margay_verdict::{Budget, Question};
use serde_json::{Value as Json, json};

use crate::auditor::Unaccepted;
use crate::perhaps::Step;
use crate::stamped::{Stamped, moments};
use crate::{Auditor, Intake, Part, Settled, Transaction, Trouble};

/// How every proof begins.
const MARK: &str = "margay-proof";

/// What a proof begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The level at which parts are audited.
    pub level: Level,
    /// How far transactions may be moved against real time.
    pub horizon: Option<i64>,
    /// The level that timestamps prove.
    pub stamped: Level,
}

impl Head {
    /// What parts prove that are not ordered by timestamps.
    fn proved(self) -> Level {
        match (self.horizon, self.level) {
            (None, level) => level,
            (Some(_), Level::StrictSnapshotIsolation) => Level::StrongSessionSnapshotIsolation,
            (Some(_), _) => Level::StrongSessionSerializable,
        }
    }

    fn read(line: &Json) -> Result<Self, Trouble> {
        let level = |name| line.get(name)?.as_str()?.parse::<Level>().ok();
        let horizon = line.get("horizon").map(Json::as_i64);
        match (line.get(MARK).and_then(Json::as_u64), level("level"), horizon) {
            (
                Some(1),
                Some(level @ (Level::StrictSerializable | Level::StrictSnapshotIsolation)),
                horizon @ (None | Some(Some(_))),
            ) => {
                let stamped = line.get("stamped").and_then(Json::as_str).and_then(|name| name.parse().ok());
                Ok(Self { level, horizon: horizon.flatten(), stamped: stamped.unwrap_or(level) })
            }
            _ => Err(Trouble::Outside(
                "this is no proof of this version, of a level with real time".to_owned(),
            )),
        }
    }
}

/// Writes the first line.
///
/// # Errors
/// When `out` fails.
pub fn begin(out: &mut impl Write, head: &Head) -> io::Result<()> {
    let mut line = json!({ MARK: 1, "level": head.level.name(), "stamped": head.stamped.name() });
    if let Some(horizon) = head.horizon {
        line["horizon"] = horizon.into();
    }
    writeln!(out, "{line}")
}

/// Writes a part.
///
/// # Errors
/// When `out` fails.
pub fn write_part(out: &mut impl Write, part: &Part, left: &[u64]) -> io::Result<()> {
    let named = |points: &[(bool, u64)]| -> Vec<Json> {
        let word = |begins: bool| if begins { "begin" } else { "commit" };
        points.iter().map(|&(begins, label)| json!([word(begins), label])).collect()
    };
    let line = match part {
        Part::Late(label, after) => json!({ "late": [label, after.map(|step| named(&[step]).remove(0))] }),
        Part::Order(order) => json!({ "order": order, "left": left }),
        Part::Points(points) => json!({ "points": named(points), "left": left }),
        Part::Stamped(points) => json!({ "stamps": named(points), "left": left }),
    };
    writeln!(out, "{line}")
}

/// Writes the last line.
///
/// # Errors
/// When `out` fails.
pub fn end(out: &mut impl Write, transactions: u64) -> io::Result<()> {
    writeln!(out, "{}", json!({ "end": { "transactions": transactions } }))?;
    out.flush()
}

/// Whether a file that begins like this is a proof.
#[must_use]
pub fn is_proof(head: &[u8]) -> bool {
    let head = &head[..head.len().min(200)];
    let mark = format!("\"{MARK}\"");
    head.trim_ascii_start().starts_with(b"{") && head.windows(mark.len()).any(|part| part == mark.as_bytes())
}

/// What an audit found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audited {
    /// The history holds at this level.
    Accepted {
        /// The level.
        level: Level,
        /// How many transactions are in the order.
        transactions: u64,
    },
    /// The proof proves nothing, and why.
    Rejected(String),
}

/// The transactions that took effect in parts which had been settled without them.
#[derive(Default)]
pub struct Late {
    /// By the step after which they did.
    after: HashMap<Step, Vec<u64>>,
    /// Before all.
    first: Vec<u64>,
    all: HashSet<u64>,
}

impl Late {
    /// Reads a proof, but these lines only.
    ///
    /// # Errors
    /// When it is ill-formed or cannot be read.
    pub fn read(proof: impl BufRead) -> Result<Self, Trouble> {
        let (mut late, mut lines) = (Self::default(), Lines::new(proof));
        while let Some(line) = lines.next()? {
            if line.starts_with(b"{\"late\"") {
                let line: Json = serde_json::from_slice(line).map_err(ill_formed)?;
                late.add(&line["late"]).ok_or_else(|| ill(&line))?;
            }
        }
        Ok(late)
    }

    fn add(&mut self, line: &Json) -> Option<()> {
        let label = line.get(0)?.as_u64()?;
        match line.get(1)? {
            Json::Null => self.first.push(label),
            step => self.after.entry(point(step)?).or_default().push(label),
        }
        self.all.insert(label).then_some(())
    }

    /// A part with those that took effect in it.
    fn put_in(&mut self, part: Part) -> Part {
        let mut part = part.with(&self.after);
        if part.len() > 0 {
            std::mem::take(&mut self.first)
                .into_iter()
                .for_each(|label| part.extend(Part::Late(label, None)));
        }
        part
    }
}

/// Audits a proof against a history. Both are read once; who took effect late is read before.
///
/// # Errors
/// When one of them is ill-formed or cannot be read, or the budget ends.
pub fn audit(
    history: impl BufRead,
    proof: impl BufRead,
    mut late: Late,
    budget: &Budget,
) -> Result<Audited, Trouble> {
    let mut history = Lines::new(history);
    let mut proof = Lines::new(proof);
    let head = Head::read(&proof.json()?.unwrap_or_default())?;
    let header = history.next()?.unwrap_or_default().to_vec();
    let mut auditor = Auditor::new(head.level, &header)?;
    if let Some(horizon) = head.horizon {
        auditor = auditor.within(horizon)?;
    }
    let stamped = Stamped::new(Question::new(head.stamped), Settled::new(&header)?);
    let intake = Intake::new(auditor.settled().unit());
    let mut side = Side { auditor, stamped, history, intake, held: HashMap::new() };
    loop {
        budget.poll().map_err(|limit| Trouble::Outside(limit.to_string()))?;
        let Some(line) = proof.json()? else { return rejected("the proof has no end") };
        if let Some(end) = line.get("end") {
            let said = end.get("transactions").and_then(Json::as_u64);
            return side.end(head, said);
        }
        if let Some(said) = line.get("late") {
            let known = said.get(0).and_then(Json::as_u64).is_some_and(|label| late.all.contains(&label));
            if known {
                continue;
            }
            return rejected("it took effect late, and that was not read first: give a file");
        }
        let (part, mut left) = read_part(&line)?;
        left.retain(|label| !late.all.contains(label));
        let part = late.put_in(part);
        match side.part(&part, &left, budget) {
            Ok(()) => {}
            Err(Unaccepted::Rejected(why)) => return Ok(Audited::Rejected(why)),
            Err(Unaccepted::Trouble(trouble)) => return Err(trouble),
        }
    }
}

fn rejected(why: &str) -> Result<Audited, Trouble> {
    Ok(Audited::Rejected(why.to_owned()))
}

struct Side<R> {
    auditor: Auditor,
    stamped: Stamped,
    history: Lines<R>,
    intake: Intake,
    /// Ended, and in no part yet.
    held: HashMap<u64, Transaction>,
}

impl<R: BufRead> Side<R> {
    fn part(&mut self, part: &Part, left: &[u64], budget: &Budget) -> Result<(), Unaccepted> {
        match part {
            Part::Stamped(points) => self.points(points, budget)?,
            _ => self.order(part, budget)?,
        }
        for &label in left {
            if self.find(label)?.outcome == Outcome::Committed {
                return Err(Unaccepted::Rejected(format!("transaction {label} committed and is left out")));
            }
        }
        Ok(())
    }

    fn order(&mut self, part: &Part, budget: &Budget) -> Result<(), Unaccepted> {
        let mut txns = Vec::new();
        for label in part.labels() {
            txns.push(self.find(label)?);
        }
        let named: Vec<&Transaction> = txns.iter().collect();
        if named.is_empty() {
            return Ok(());
        }
        if self.intake.is_stamped() {
            return Err(Unaccepted::Rejected("the order does not allow for timestamps".to_owned()));
        }
        self.auditor.part(&named, part, budget)
    }

    fn points(&mut self, points: &[(bool, u64)], budget: &Budget) -> Result<(), Unaccepted> {
        for &(begins, label) in points {
            if !begins {
                self.stamped.commit(label)?;
                continue;
            }
            let mut txn = self.find(label)?;
            txn.stamps = self.intake.stamps(label);
            while moments(self.stamped.question(), &txn) == Ok(None) && self.read()? {
                txn.stamps = self.intake.stamps(label);
            }
            self.intake.forget_stamps(label);
            self.stamped.begin(txn, budget)?;
        }
        Ok(())
    }

    /// Reads a line; false at the end.
    fn read(&mut self) -> Result<bool, Trouble> {
        let ended = match self.history.next()? {
            Some(line) => self.intake.line(line)?.into_iter().collect(),
            None => self.intake.finish(),
        };
        let more = !(ended.is_empty() && self.history.is_over);
        self.hold(ended);
        Ok(more)
    }

    /// A transaction that was in no part. Reads the history until it has ended.
    fn find(&mut self, label: u64) -> Result<Transaction, Unaccepted> {
        while !self.held.contains_key(&label) {
            if !self.read()? {
                let why = format!("transaction {label} is not in the history, or in the order twice");
                return Err(Unaccepted::Rejected(why));
            }
        }
        self.held.remove(&label).ok_or_else(|| Unaccepted::Rejected(String::new()))
    }

    fn hold(&mut self, ended: Vec<Transaction>) {
        let may_occur = ended.into_iter().filter(|txn| txn.outcome != Outcome::Aborted);
        self.held.extend(may_occur.map(|txn| (txn.label, txn)));
    }

    fn end(mut self, head: Head, said: Option<u64>) -> Result<Audited, Trouble> {
        while let Some(line) = self.history.next()? {
            let ended = self.intake.line(line)?;
            self.hold(ended.into_iter().collect());
        }
        let by_stamps = self.intake.is_stamped();
        if by_stamps && self.auditor.transactions() > 0 {
            return rejected("the order does not allow for timestamps");
        }
        if self.stamped.open() > 0 {
            return rejected("the proof ends before every transaction that begins has committed");
        }
        let transactions = self.auditor.transactions() + self.stamped.transactions();
        let level = if by_stamps { head.stamped } else { head.proved() };
        let missing = self.held.values().filter(|txn| txn.outcome == Outcome::Committed);
        if let Some(label) = missing.map(|txn| txn.label).min() {
            return rejected(&format!("transaction {label} committed and is missing"));
        }
        if said != Some(transactions) {
            return rejected(&format!("the proof ends with another number than {transactions} transactions"));
        }
        Ok(Audited::Accepted { level, transactions })
    }
}

fn ill(line: &Json) -> Trouble {
    Trouble::Outside(format!("a line of the proof is ill-formed: {line:.80}"))
}

fn ill_formed(error: serde_json::Error) -> Trouble {
    Trouble::Outside(format!("a line of the proof is no JSON: {error}"))
}

fn point(json: &Json) -> Option<Step> {
    match (json.get(0)?.as_str()?, json.get(1)?.as_u64()?) {
        ("begin", label) => Some((true, label)),
        ("commit", label) => Some((false, label)),
        _ => None,
    }
}

fn read_part(line: &Json) -> Result<(Part, Vec<u64>), Trouble> {
    let labels = |json: &Json| -> Option<Vec<u64>> { json.as_array()?.iter().map(Json::as_u64).collect() };
    let order = line.get("order").and_then(labels).map(Part::Order);
    let points = |name| line.get(name)?.as_array()?.iter().map(point).collect::<Option<_>>();
    let stamped = || points("stamps").map(Part::Stamped);
    let part =
        order.or_else(|| points("points").map(Part::Points)).or_else(stamped).ok_or_else(|| ill(line))?;
    let left = line.get("left").and_then(labels).ok_or_else(|| ill(line))?;
    Ok((part, left))
}

/// Lines, one at a time.
struct Lines<R> {
    input: R,
    line: Vec<u8>,
    is_over: bool,
}

impl<R: BufRead> Lines<R> {
    fn new(input: R) -> Self {
        Self { input, line: Vec::new(), is_over: false }
    }

    fn next(&mut self) -> Result<Option<&[u8]>, Trouble> {
        self.line.clear();
        let read = self.input.read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| Trouble::Outside(format!("it cannot be read: {error}")))?;
        self.is_over = read == 0;
        Ok((read > 0).then_some(&self.line))
    }

    fn json(&mut self) -> Result<Option<Json>, Trouble> {
        let Some(line) = self.next()? else { return Ok(None) };
        serde_json::from_slice(line).map(Some).map_err(ill_formed)
    }
}
