//! What is remembered of each object: its versions, who read them, and who locked it.
//!
//! # Algorithm
//! Everything of an object is kept until the *horizon*: the earliest time at which a transaction that is not judged yet can have done anything. A
//! version goes when another is later for certain and was there before the horizon; a lock when it was given up before the horizon; a
//! reader when the certifier has forgotten its transaction. An object is tidied when it is touched, so nothing is ever searched as a whole.
//!
//! A transaction of unknown outcome may install its versions at any later time. Where writers lock, the next writer's lock ends that ([`close_unknown`]). Elsewhere the
//! versions of many such transactions of one object become one that may be anything: nothing is accused because of it, and memory stays bounded.

use hashbrown::HashMap;
use margay_history::{
    Interval, ObjectId, OpId, OpKind, PredicateId, TableId, TxnId, ValueId, Values, Version,
};
use margay_verdict::mechanism::{Fact, Pattern, Saw, Searches, close_unknown};

use crate::log::{Entry, Log};
use crate::rows::Rows;

/// A lock of a transaction that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub txn: TxnId,
    pub op: OpId,
    /// By when it was taken.
    pub by: i64,
    /// Until when it was held at least.
    pub until: i64,
    /// Until when what the operation wrote stayed so at least: its own transaction may have changed it again.
    pub stayed: i64,
    /// Whether nobody else holds one.
    pub exclusive: bool,
    pub kind: OpKind,
    pub value: ValueId,
}

impl Held {
    /// What the operation made of the object, as far as it alone tells.
    pub fn made(&self, values: &Values) -> Pattern {
        Pattern::written(None, self.kind, self.value, values)
    }
}

/// The lock of a search that has ended: nobody else makes a row match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub txn: TxnId,
    pub op: OpId,
    pub by: i64,
    pub until: i64,
    pub predicate: PredicateId,
}

/// A committed transaction that has read the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub txn: TxnId,
    pub op: OpId,
    /// What it saw.
    pub saw: Saw,
    /// Which version that may have been.
    pub version: Version,
    /// By when its snapshot was taken.
    pub by: i64,
}

#[derive(Default, Debug)]
pub(crate) struct Record {
    /// How much of the logs of its table and of all tables it has seen.
    caught_up: [u64; 2],
    pub versions: Vec<(Version, Fact)>,
    pub readers: Vec<Reader>,
    pub held: Vec<Held>,
    /// How many readers were left when they were last looked through.
    left: usize,
}

/// The rows of a table that are known, and who searched it.
#[derive(Default, Debug)]
pub(crate) struct Table {
    objects: Rows,
    pub regions: Vec<Region>,
    /// Searches that a row which is not known yet may change.
    pub readers: Vec<Reader>,
    unseen: Log,
}

/// Stands for the versions of transactions of unknown outcome that are not kept one by one.
pub(crate) const FORGOTTEN: Version = Version::Of(TxnId(u32::MAX));

/// So many versions of unknown outcome of one object are kept one by one.
const UNKNOWN: usize = 8;

#[derive(Debug)]
pub(crate) struct Store {
    records: HashMap<ObjectId, Record>,
    tables: HashMap<TableId, Table>,
    /// Unseen writes that may have touched anything.
    everywhere: Log,
    absent: Record,
}

impl Default for Store {
    fn default() -> Self {
        let absent = Record::of(ValueId::NULL);
        Self { records: HashMap::new(), tables: HashMap::new(), everywhere: Log::default(), absent }
    }
}

impl Store {
    /// Sets the initial value of an object.
    pub fn initial(&mut self, object: ObjectId, value: ValueId, searches: &Searches) {
        self.record(object, searches).versions = Record::of(value).versions;
    }

    /// What is known of an object: at least one version.
    pub fn record(&mut self, object: ObjectId, searches: &Searches) -> &mut Record {
        let tables = &mut self.tables;
        self.records.entry(object).or_insert_with(|| {
            let mut record = Record::of(ValueId::NULL);
            if let Some(table) = searches.table_of(object) {
                let table = tables.entry(table).or_default();
                table.objects.push(object);
                record.readers.clone_from(&table.readers);
            }
            record
        })
    }

    /// What is known of an object; nothing but that it was absent initially, if it was never touched.
    pub fn get(&self, object: ObjectId) -> &Record {
        self.records.get(&object).unwrap_or(&self.absent)
    }

    /// What is known of a table.
    pub fn table(&mut self, table: TableId) -> &mut Table {
        self.tables.entry(table).or_default()
    }

    /// The known rows that may match a condition.
    pub fn rows<'a>(
        &'a self,
        predicate: PredicateId,
        searches: &'a Searches,
    ) -> impl Iterator<Item = ObjectId> + 'a {
        let table = searches.searched(predicate).and_then(|table| self.tables.get(&table));
        table.into_iter().flat_map(move |table| table.objects.within(searches.span(predicate)))
    }

    /// Puts the rows of the table that a condition searches in order.
    pub fn sort_rows(&mut self, predicate: PredicateId, searches: &Searches, values: &Values) {
        if let Some(table) = searches.searched(predicate).and_then(|table| self.tables.get_mut(&table)) {
            table.objects.sort(searches, values);
        }
    }

    /// Notes a write of which nobody saw what it changed in a table; without one, anywhere.
    pub fn note(&mut self, table: Option<TableId>, entry: Entry) {
        match table {
            Some(table) => self.table(table).unseen.push(entry),
            None => self.everywhere.push(entry),
        }
    }

    /// Whether everything that was written was seen.
    pub fn saw_all(&self) -> bool {
        self.everywhere.len() == 0 && self.tables.values().all(|table| table.unseen.len() == 0)
    }

    /// Adds to an object what unseen writes may have made of it.
    pub fn catch_up(&mut self, object: ObjectId, horizon: i64, searches: &Searches, values: &Values) {
        let log =
            searches.table_of(object).and_then(|table| self.tables.get(&table)).map(|table| &table.unseen);
        let ends = [log.map_or(0, Log::len), self.everywhere.len()];
        if self.get(object).caught_up == ends {
            return;
        }
        let seen = self.get(object).caught_up;
        let mut new = log.map_or_else(Vec::new, |log| log.since(seen[0], object, searches, values));
        new.extend(self.everywhere.since(seen[1], object, searches, values));
        let record = self.record(object, searches);
        record.caught_up = ends;
        record.versions.extend(new);
        record.merge_unseen(horizon);
        record.forget_unknown();
    }

    /// How many versions, readers and locks there are.
    pub fn len(&self) -> (usize, usize, usize) {
        let of_tables = self
            .tables
            .values()
            .fold((0, 0, 0), |sum, table| (sum.0, sum.1 + table.readers.len(), sum.2 + table.regions.len()));
        self.records.values().fold(of_tables, |sum, record| {
            (sum.0 + record.versions.len(), sum.1 + record.readers.len(), sum.2 + record.held.len())
        })
    }
}

impl Record {
    fn of(initial: ValueId) -> Self {
        Self { versions: vec![(Version::Initial, Fact::initial(initial))], ..Self::default() }
    }

    /// Adds a version, and bounds those of unknown outcome.
    pub fn install(&mut self, txn: TxnId, fact: Fact) {
        self.versions.push((Version::Of(txn), fact));
        if self.versions.iter().any(|(_, fact)| !fact.certain) {
            close_unknown(&mut self.versions);
            self.forget_unknown();
        }
    }

    /// Many versions that may appear at any time become one that may be anything.
    fn forget_unknown(&mut self) {
        let open = |fact: &Fact| !fact.certain && fact.installed.after == i64::MAX;
        if self.versions.iter().filter(|(_, fact)| open(fact)).count() <= UNKNOWN {
            return;
        }
        let first =
            self.versions.iter().filter(|(_, fact)| open(fact)).map(|(_, fact)| fact.installed.before);
        let installed = Interval::new(first.min().unwrap_or(i64::MIN), i64::MAX);
        self.versions.retain(|(_, fact)| !open(fact));
        let any = Fact { installed, certain: false, pattern: Pattern::Any, ..Fact::initial(ValueId::NULL) };
        self.versions.push((FORGOTTEN, any));
    }

    /// Many old versions that may have been there become one that may be anything.
    fn merge_unseen(&mut self, horizon: i64) {
        let old = |fact: &Fact| !fact.certain && fact.installed.after < horizon;
        let all = || self.versions.iter().filter(|(_, fact)| old(fact)).map(|(_, fact)| fact.installed);
        if all().count() <= UNKNOWN {
            return;
        }
        let first = all().map(|at| at.before).min().unwrap_or(i64::MIN);
        let installed = Interval::new(first, all().map(|at| at.after).max().unwrap_or(horizon));
        self.versions.retain(|(_, fact)| !old(fact));
        let any = Fact { installed, certain: false, pattern: Pattern::Any, ..Fact::initial(ValueId::NULL) };
        self.versions.push((FORGOTTEN, any));
    }

    /// Forgets what nobody can touch any more. A partial row hides only what it determines itself.
    pub fn tidy(&mut self, horizon: i64, values: &Values, is_live: impl Fn(TxnId) -> bool) {
        if !self.held.is_empty() {
            self.held.retain(|lock| lock.until >= horizon);
        }
        self.tidy_readers(is_live);
        if self.versions.iter().any(|(_, fact)| fact.gone < horizon) {
            self.versions.retain(|(_, fact)| fact.gone >= horizon);
        }
        let hides = |fact: &Fact| fact.certain && fact.installed.after < horizon;
        let mut place = 0;
        while self.versions.len() > 1 && place < self.versions.len() {
            let (version, fact) = &self.versions[place];
            let hidden = |(other, later): &(Version, Fact)| {
                other != version
                    && hides(later)
                    && fact.before(later)
                    && later.pattern.covers(&fact.pattern, values)
            };
            match self.versions.iter().any(hidden) {
                true => _ = self.versions.remove(place),
                false => place += 1,
            }
        }
    }

    /// Forgets the readers that are forgotten elsewhere, when there are twice as many as the last time: so each is looked at only a few times.
    pub fn tidy_readers(&mut self, is_live: impl Fn(TxnId) -> bool) {
        if self.readers.len() > 2 * self.left + 4 {
            self.readers.retain(|reader| is_live(reader.txn));
            self.left = self.readers.len();
        }
    }

    /// The versions without those of `me`.
    pub fn others(&self, me: TxnId) -> impl Iterator<Item = &(Version, Fact)> {
        self.versions.iter().filter(move |(version, _)| *version != Version::Of(me))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(before: i64, after: i64, certain: bool, locked: Option<i64>) -> Fact {
        let installed = Interval::new(before, after);
        let pattern = Pattern::Value(ValueId(7));
        Fact { installed, certain, locked, pattern, ..Fact::initial(ValueId::NULL) }
    }

    #[test]
    fn a_later_lock_ends_what_nobody_heard_of() {
        let mut record = Record::of(ValueId::NULL);
        record.install(TxnId(1), fact(20, i64::MAX, false, Some(10)));
        record.install(TxnId(2), fact(50, 60, true, Some(40)));
        assert_eq!(record.versions[1].1.installed, Interval::new(20, 40));
        record.tidy(100, &Values::default(), |_| false);
        assert_eq!(record.versions.len(), 1, "the committed version hides the others");
    }

    #[test]
    fn without_locks_many_unknown_versions_become_one() {
        let mut record = Record::of(ValueId::NULL);
        for txn in 0..1_000 {
            let time = i64::from(txn) * 10;
            record.install(TxnId(txn), fact(time, i64::MAX, false, None));
            record.install(TxnId(10_000 + txn), fact(time + 1, time + 2, true, None));
            record.tidy(time, &Values::default(), |_| false);
            assert!(record.versions.len() <= UNKNOWN + 4, "{}", record.versions.len());
        }
        assert!(record.versions.iter().any(|(version, fact)| *version == FORGOTTEN && !fact.certain));
    }
}
