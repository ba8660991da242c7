//! Lines become transactions.

use hashbrown::HashMap;
use margay_formats::{Stamp, StampKind, glance, stamp};
use margay_history::{Interval, OpKind, Outcome, Unit};

use crate::{Trouble, Watermark};

/// A transaction, as lines of the native format.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its label.
    pub label: u64,
    /// The label of its session.
    pub session: u64,
    /// Its number in its session.
    pub turn: u64,
    /// When its first operation was called.
    pub start: i64,
    /// When it had ended; later than everything if that is not known.
    pub end: i64,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether it has conditions on rows.
    pub searches: bool,
    /// Whether it writes.
    pub writes: bool,
    lines: Vec<u8>,
    /// Where each line ends.
    ends: Vec<u32>,
    /// The number of its first line.
    place: u64,
    /// The number of its last line.
    last: u64,
    /// Its timestamps, as far as they have come.
    pub stamps: Stamps,
}

/// What is recorded about when a transaction took effect.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamps {
    /// The snapshot timestamp.
    pub snapshot: Option<i64>,
    /// The commit timestamp.
    pub commit: Option<i64>,
    /// The place in the serialization order.
    pub serialization: Option<i64>,
}

impl Stamps {
    fn add(&mut self, Stamp { kind, ts, .. }: Stamp) {
        *match kind {
            StampKind::Snapshot => &mut self.snapshot,
            StampKind::Commit => &mut self.commit,
            StampKind::Serialization => &mut self.serialization,
        } = Some(ts);
    }
}

impl Transaction {
    /// Its lines.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.lines[start as usize..end as usize])
    }

    /// Its lines without how it ended.
    pub fn without_end(&self) -> impl Iterator<Item = &[u8]> {
        let without = usize::from(self.outcome == Outcome::Committed);
        self.lines().take(self.ends.len() - without)
    }

    /// The number of its first line.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.place
    }

    /// The number of its last line.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The same without what it saw.
    #[must_use]
    pub fn unseeing(&self) -> Self {
        let (mut lines, mut ends) = (Vec::new(), Vec::new());
        let sees = |line: &&[u8]| {
            glance(line).is_ok_and(|seen| seen.is_some_and(|s| matches!(s.kind, OpKind::Read | OpKind::Scan)))
        };
        for line in self.lines().filter(|line| !sees(line)) {
            lines.extend_from_slice(line);
            ends.push(lines.len() as u32);
        }
        Self { lines, ends, ..self.clone() }
    }

    /// The memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.lines.capacity() + size_of::<u32>() * self.ends.capacity()
    }
}

/// How much has come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Transactions, whatever became of them.
    pub transactions: u64,
    /// Operations, begins and ends among them.
    pub operations: u64,
    /// Sessions.
    pub sessions: u64,
}

/// The transactions that have not ended.
pub struct Intake {
    open: HashMap<u64, Transaction>,
    turns: HashMap<u64, u64>,
    number: u64,
    counts: Counts,
    watermark: Watermark,
    /// Timestamps that have come, by transaction.
    stamps: HashMap<u64, Stamps>,
    /// Whether any has come.
    stamped: bool,
    /// The first line that is an operation without an interval.
    untimed: Option<u64>,
}

impl Intake {
    /// Nothing has come but the header, which says what time is measured in.
    #[must_use]
    pub fn new(unit: Unit) -> Self {
        let watermark = Watermark::new(unit);
        Self {
            open: HashMap::new(),
            turns: HashMap::new(),
            number: 0,
            counts: Counts::default(),
            watermark,
            stamps: HashMap::new(),
            stamped: false,
            untimed: None,
        }
    }

    /// The next line after the header. Answers the transaction that it ends.
    ///
    /// # Errors
    /// When it is ill-formed, or cannot be followed.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Transaction>, Trouble> {
        self.number += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let place = self.number + 1;
        let outside = |what: &str| Trouble::Outside(format!("{what} (line {place})"));
        let Some(seen) = glance(line).map_err(|error| error.at_line(place))? else {
            let stamp = stamp(line).map_err(|error| error.at_line(place))?;
            let stamp = stamp.ok_or_else(|| outside("evidence of versions is not followed"))?;
            self.stamped = true;
            self.stamps.entry(stamp.txn).or_default().add(stamp);
            return Ok(None);
        };
        if seen.at.is_none() {
            self.untimed.get_or_insert(place);
        }
        // Without times, lines are in the order in which they came.
        let line_time = i64::try_from(place).unwrap_or(i64::MAX);
        let at = seen.at.unwrap_or(Interval { before: line_time, after: line_time });
        if seen.kind == OpKind::Sql {
            return Err(outside("SQL statements are not followed"));
        }
        self.counts.operations += 1;
        self.watermark.answered(seen.session, at.after);
        let (turns, counts) = (&mut self.turns, &mut self.counts);
        let txn = self.open.entry(seen.txn).or_insert_with(|| {
            let turn = turns.entry(seen.session).or_default();
            counts.transactions += 1;
            counts.sessions += u64::from(*turn == 0);
            *turn += 1;
            Transaction {
                label: seen.txn,
                session: seen.session,
                turn: *turn,
                start: at.before,
                end: i64::MAX,
                outcome: Outcome::Unknown,
                searches: false,
                writes: false,
                lines: Vec::new(),
                ends: Vec::new(),
                place,
                last: place,
                stamps: Stamps::default(),
            }
        });
        txn.last = place;
        txn.lines.extend_from_slice(line);
        txn.ends
            .push(u32::try_from(txn.lines.len()).map_err(|_| outside("a transaction of more than 4 GB"))?);
        txn.searches |= matches!(seen.kind, OpKind::Scan | OpKind::Update);
        txn.writes |= seen.kind.writes();
        let Some(outcome) = seen.kind.outcome() else { return Ok(None) };
        txn.outcome = outcome;
        if outcome != Outcome::Unknown {
            txn.end = at.after;
        }
        let ended = self.open.remove(&seen.txn);
        Ok(ended.map(|mut txn| {
            txn.lines.shrink_to_fit();
            txn.ends.shrink_to_fit();
            txn
        }))
    }

    /// When the earliest transaction that has not ended began.
    #[must_use]
    pub fn earliest(&self) -> i64 {
        self.open.values().map(|txn| txn.start).min().unwrap_or(i64::MAX)
    }

    /// The first line of those that have not ended.
    #[must_use]
    pub fn earliest_line(&self) -> u64 {
        self.open.values().map(Transaction::place).min().unwrap_or(u64::MAX)
    }

    /// Whether timestamps have come.
    #[must_use]
    pub fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// The first line that is an operation without an interval.
    #[must_use]
    pub fn untimed(&self) -> Option<u64> {
        self.untimed
    }

    /// The timestamps of a transaction, as far as they have come.
    #[must_use]
    pub fn stamps(&self, label: u64) -> Stamps {
        self.stamps.get(&label).copied().unwrap_or_default()
    }

    /// The timestamps of a transaction are not asked for any more.
    pub fn forget_stamps(&mut self, label: u64) {
        self.stamps.remove(&label);
    }

    /// Until when everything seems to have come, where nobody says.
    pub fn reached(&mut self) -> i64 {
        self.watermark.reached()
    }

    /// How much has come.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many transactions have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The memory that they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let stamps = self.stamps.len() * (size_of::<u64>() + size_of::<Stamps>());
        self.open.values().map(Transaction::bytes).sum::<usize>() + stamps
    }

    /// All has come: what has not ended never will, as far as can be seen.
    pub fn finish(&mut self) -> Vec<Transaction> {
        // A history has an end of each.
        self.counts.operations += self.open.len() as u64;
        self.open.drain().map(|(_, txn)| txn).collect()
    }
}
