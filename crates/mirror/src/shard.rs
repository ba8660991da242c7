//! The objects of one shard, and what transactions do to them.
//!
//! # Problem
//! Locks, versions and readers of one object have nothing to do with those of another. So objects
//! can be shared out among threads; what comes of it must not depend on how many there are.
//!
//! # Algorithm
//! Transactions come in windows: all that have ended, in the order in which they did
//! ([`Shard::admit`]), and all that are to be judged, in their order ([`Shard::answer`],
//! [`Shard::conclude`]). Every shard goes through the whole window and does what concerns its own
//! objects. What it finds carries its place in the window, by which the findings of all shards are
//! brought together again.
//!
//! What belongs to a table is in every shard: its own rows, and all searches, locks on what was
//! searched and writes that nobody saw. So a search meets the rows of each shard there.
//!
//! # Invariants
//! A shard changes nothing but its own records, and looks at nothing that changes meanwhile
//! ([`Fixed`]).
//!
//! # Differs from the paper
//! The paper gives each partition of the data a verifier of its own. Reads of one snapshot tell of
//! each other whatever they read, and cycles go through many objects: open reads of several shards
//! are brought together by transactions between `answer` and `conclude`, and one certifier comes
//! behind all of them.
//!
//! # Cost
//! Each shard looks at the object of every access of the window.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use margay_history::{ObjectId, TableId, TxnId, Value, ValueId, Values, Version};
use margay_mechanisms::{Fact, Saw, Searches, World, Written};
use margay_verdict::mechanism::{Certified, Mechanisms, ReadView};
use margay_verdict::{Broken, Edge, Reason};

use crate::index::Index;
use crate::judge::{Answer, Explained, Joined, Judge, Spot};
use crate::log::Log;
use crate::record::{MarkedEdge, Reader, Record};
use crate::searched::Searched;
use crate::statistics::Dependencies;
use crate::table::{Table, Tables, deletions};
use crate::txn::{Ended, Txn};

/// What stays as it is while shards are at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed<'a> {
    pub mechanisms: &'a Mechanisms,
    pub world: World<'a>,
    /// Whatever is not judged yet began at this time or later.
    pub horizon: i64,
    /// How many transactions had been judged before the window.
    pub judged: u64,
    /// The certifier has forgotten so many of the first transactions that were judged, or more:
    /// nothing need be remembered of them.
    pub forgotten: u64,
    /// How far the stream has come.
    pub now: i64,
}

/// A violation, with its place in the window: the transaction, what of it, where, and of which
/// object.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Alarm {
    pub place: (usize, Of, usize, ObjectId),
    pub txns: [TxnId; 2],
    pub broken: Broken,
}

/// What of a transaction meets others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Of {
    Lock,
    Search,
    Write,
}

/// What came of a window's locks and versions.
#[derive(Default, Debug)]
pub(crate) struct Met {
    pub alarms: Vec<Alarm>,
    /// How many versions there are of one object, at most.
    pub most: usize,
}

/// The dependencies that the order of versions makes certain.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ordered {
    /// Two that wrote one object although the second had to be refused.
    pub alarms: Vec<Alarm>,
    /// With their places in the window: the transaction, and which of its writes.
    pub edges: Vec<((usize, usize), MarkedEdge)>,
    pub ww: Dependencies,
    pub rw: Dependencies,
}

/// Which objects are in a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    place: u32,
    count: u32,
}

impl Share {
    pub fn owns(self, object: ObjectId) -> bool {
        place(object, self.count) == self.place
    }

    /// Whether there is no other shard.
    pub fn is_all(self) -> bool {
        self.count == 1
    }

    pub fn is_first(self) -> bool {
        self.place == 0
    }
}

/// Which of so many shards an object is in.
pub(crate) fn place(object: ObjectId, count: u32) -> u32 {
    if count == 1 { 0 } else { object.0 % count }
}

#[derive(Debug)]
pub(crate) struct Shard {
    pub share: Share,
    records: HashMap<ObjectId, Record>,
    absent: Record,
    /// Rows that the tables have not been told of.
    new: Vec<ObjectId>,
    /// Rows by what versions make of columns that searches compare.
    indices: Vec<(TableId, String, Index)>,
    /// Of each table: this shard's rows, all searches, and all writes that nobody saw.
    pub tables: Tables,
    /// Unseen writes that may have touched anything.
    pub everywhere: Log,
}

impl Shard {
    /// One of so many.
    pub fn new(place: u32, count: u32) -> Self {
        Self {
            share: Share { place, count },
            records: HashMap::new(),
            absent: Record::of(ValueId::NULL),
            new: Vec::new(),
            indices: Vec::new(),
            tables: Tables::new(),
            everywhere: Log::default(),
        }
    }

    /// What is known of an object; nothing but that it was absent initially, if it was never
    /// touched.
    pub fn get(&self, object: ObjectId) -> &Record {
        self.records.get(&object).unwrap_or(&self.absent)
    }

    /// What is known of a table.
    pub fn table(&mut self, table: TableId) -> &mut Table {
        self.tables.entry(table).or_default()
    }

    /// Tells the tables of the rows that came since the last time, in their order.
    pub fn enroll(&mut self, searches: &Searches) {
        let mut new = std::mem::take(&mut self.new);
        new.sort_unstable();
        for &object in &new {
            if let Some(table) = searches.table_of(object) {
                self.table(table).objects.push(object);
            }
        }
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    pub fn into_records(self) -> impl Iterator<Item = (ObjectId, Record)> {
        self.records.into_iter()
    }

    /// What is known of an object: at least one version.
    pub fn record(&mut self, object: ObjectId, searches: &Searches) -> &mut Record {
        record(&mut self.records, &mut self.new, object, searches)
    }

    /// Makes an index of a column of a table, if there is none.
    pub fn index(&mut self, (table, column): (TableId, &str), searches: &Searches, values: &Values) {
        if self.indices.iter().any(|(of, name, _)| *of == table && name == column) {
            return;
        }
        let of_table =
            self.records.keys().copied().filter(|object| searches.table_of(*object) == Some(table));
        let index = indexed(of_table, column, &self.records, searches, values);
        self.indices.push((table, column.to_owned(), index));
    }

    /// The rows of a table of which a version may have a column in a range, as far as there is an
    /// index. An index may name rows whose version is forgotten: which ones depends on when it was
    /// made, so they are left out.
    pub fn within(
        &self,
        (table, column): (TableId, &str),
        (low, high): (i64, i64),
        World { values, searches }: World<'_>,
    ) -> Vec<ObjectId> {
        let index = self.indices.iter().find(|(of, name, _)| *of == table && name == column);
        let inside = |(_, fact): &(Version, Fact)| match searches
            .column(column, &fact.pattern, values)
            .map(|value| values.get(value))
        {
            Some(Value::Int(int)) => low <= int && int <= high,
            Some(Value::Null | Value::Unknown) | None => false,
            Some(_) => true,
        };
        let rows = index.into_iter().flat_map(|(_, _, index)| index.within((low, high)));
        let mut rows: Vec<ObjectId> = rows.collect();
        rows.sort_unstable();
        rows.dedup();
        rows.retain(|object| self.get(*object).versions.iter().any(inside));
        rows
    }

    /// How many entries the indices have.
    pub fn indexed(&self) -> usize {
        self.indices.iter().map(|(_, _, index)| index.len()).sum()
    }

    pub fn drop_indices(&mut self) {
        self.indices.clear();
    }

    /// Puts what versions that `counts` made of an object into the indices.
    fn list(
        &mut self,
        object: ObjectId,
        counts: impl Fn(Version) -> bool,
        World { values, searches }: World<'_>,
    ) {
        let Some(table) = searches.table_of(object).filter(|_| !self.indices.is_empty()) else { return };
        let Some(record) = self.records.get(&object) else { return };
        for (_, column, index) in self.indices.iter_mut().filter(|(of, ..)| *of == table) {
            for (_, fact) in record.versions.iter().filter(|(version, _)| counts(*version)) {
                if let Some(value) = searches.column(column, &fact.pattern, values) {
                    index.insert(object, value, values);
                }
            }
            if index.is_stale() {
                *index = indexed(index.objects(), column, &self.records, searches, values);
            }
        }
    }

    /// The locks and versions of transactions that have ended meet those of others.
    pub fn admit(&mut self, window: &[Ended], fixed: Fixed<'_>) -> Met {
        let mut met = Met::default();
        for ended in window.iter().filter(|ended| ended.is_seen(fixed.mechanisms)) {
            self.note_unseen(ended, fixed);
        }
        for (number, ended) in window.iter().enumerate() {
            self.hold(number, ended, fixed, &mut met.alarms);
            if ended.is_seen(fixed.mechanisms) {
                self.install(ended, fixed, &mut met);
            }
        }
        self.enroll(fixed.world.searches);
        self.hold_regions(window, fixed, &mut met.alarms);
        met
    }

    /// The versions of a transaction meet those of others.
    fn install(&mut self, ended: &Txn, fixed: Fixed<'_>, met: &mut Met) {
        let Fixed { mechanisms, world: World { values, searches }, horizon, forgotten, .. } = fixed;
        for (object, written) in ended.writes.iter() {
            if !self.share.owns(*object) {
                continue;
            }
            let Self { records, new, tables, everywhere, .. } = self;
            let record = record(records, new, *object, searches);
            made(written, ended, mechanisms, values, |mut fact| {
                // Who came before it is known when it is judged.
                if mechanisms.skips_unchanged {
                    (fact.unchanged, fact.snapshot) = (true, None);
                }
                refuse(&mut fact, record, (*object, ended), (tables, everywhere, fixed.world));
                record.install(ended.id, fact, horizon);
            });
            record.tidy(horizon, values, forgotten);
            met.most = met.most.max(record.versions.len());
            self.list(*object, |version| version == Version::Of(ended.id), fixed.world);
        }
    }

    /// Transactions are to be judged: which of their versions may have left an object as it was is
    /// known now.
    fn find_unchanged(&mut self, window: &[Ended], fixed: Fixed<'_>) {
        for ended in window {
            for (object, written) in ended.writes.iter() {
                if !self.share.owns(*object) {
                    continue;
                }
                let Self { records, new, tables, everywhere, .. } = self;
                let record = record(records, new, *object, fixed.world.searches);
                made(written, ended, fixed.mechanisms, fixed.world.values, |mut fact| {
                    let is_mine = |version: &Version| *version == Version::Of(ended.id);
                    let others = record.versions.iter().filter(|(version, _)| !is_mine(version));
                    let others: Vec<&Fact> = others.map(|(_, other)| other).collect();
                    fact.may_change_nothing(&others, fixed.world.values);
                    refuse(&mut fact, record, (*object, ended), (tables, everywhere, fixed.world));
                    let mine = record.versions.iter_mut().find(|(version, _)| is_mine(version));
                    if let Some((_, mine)) = mine {
                        (mine.unchanged, mine.snapshot) = (fact.unchanged, fact.snapshot);
                    }
                });
            }
        }
    }

    /// Transactions are to be judged: what this shard's objects alone tell of their reads.
    pub fn answer(&mut self, window: &[Ended], fixed: Fixed<'_>) -> Vec<Answer> {
        self.catch_up_with(window, fixed);
        if fixed.mechanisms.skips_unchanged {
            self.find_unchanged(window, fixed);
        }
        window.iter().map(|ended| Judge { shard: self, fixed }.answer(ended)).collect()
    }

    /// Transactions are judged: their reads are remembered, and their versions put in order. What
    /// reads of several shards tell together is `joined`.
    pub fn conclude(
        &mut self,
        window: &[Ended],
        answers: Vec<Answer>,
        joined: &[Joined],
        fixed: Fixed<'_>,
    ) -> (Vec<Explained>, Ordered) {
        let (mut all, mut searched) = (Vec::with_capacity(window.len()), Vec::new());
        for (number, (ended, mut answer)) in window.iter().zip(answers).enumerate() {
            if let Some(joined) = joined.get(number) {
                Judge { shard: self, fixed }.conclude_shared(ended, &mut answer, joined);
            }
            let number = fixed.judged + number as u64;
            searched.extend(answer.searched.into_iter().map(|searched| Searched { number, ..searched }));
            all.push(answer.explained);
        }
        self.enroll(fixed.world.searches);
        self.remember_searches(searched, fixed);
        let mut ordered = Ordered::default();
        for (number, (ended, explained)) in window.iter().zip(&mut all).enumerate() {
            if fixed.mechanisms.certifier != Certified::Committed {
                self.remember(&explained.readers, fixed.judged + number as u64, fixed);
            }
            explained.readers.clear();
            for (place, (object, _)) in ended.writes.iter().enumerate() {
                if self.share.owns(*object) {
                    let first = ordered.edges.len();
                    self.order((number, place), ended, *object, fixed, &mut ordered);
                    self.mark(*object, &mut ordered.edges[first..], fixed);
                }
            }
        }
        self.enroll(fixed.world.searches);
        (all, ordered)
    }

    /// Rows may still come to match what was searched.
    fn remember_searches(&mut self, all: Vec<Searched>, fixed: Fixed<'_>) {
        for searched in all {
            if let Some(table) = fixed.world.searches.searched(searched.predicate) {
                self.table(table).searchers.push(searched, fixed.world, fixed.forgotten);
            }
        }
    }

    /// Later versions may overwrite what was read.
    fn remember(&mut self, readers: &[(Spot, ObjectId, Reader)], number: u64, fixed: Fixed<'_>) {
        for (_, object, reader) in readers {
            if self.share.owns(*object) {
                let record = self.record(*object, fixed.world.searches);
                record.tidy_readers(fixed.forgotten);
                record.readers.push(Reader { number, ..*reader });
            }
        }
    }

    /// Decides which anti-dependencies on new versions of an object are direct. Unseen writes may
    /// have come between.
    fn mark(&mut self, object: ObjectId, edges: &mut [((usize, usize), MarkedEdge)], fixed: Fixed<'_>) {
        let mut open = edges.iter_mut().map(|(_, marked)| marked).filter(|marked| marked.direct).peekable();
        if fixed.mechanisms.certifier != Certified::Ssi || open.peek().is_none() {
            return;
        }
        self.catch_up(object, fixed);
        let record = self.get(object);
        for MarkedEdge { edge, direct } in open {
            let Reason::AntiRead { version, .. } = edge.reason else { continue };
            *direct = record.is_direct(version, edge.to, fixed.now);
        }
    }

    /// Adds to an object what unseen writes may have made of it.
    pub fn catch_up(&mut self, object: ObjectId, Fixed { horizon, world, .. }: Fixed<'_>) {
        let World { values, searches } = world;
        let log = searches.table_of(object).and_then(|table| self.tables.get(&table)).map(|t| &t.unseen);
        let ends = [log.map_or(0, Log::len), self.everywhere.len()];
        let seen = self.get(object).caught_up;
        if seen == ends {
            return;
        }
        let mut new = log.map_or_else(Vec::new, |log| log.since(seen[0], object, searches, values));
        new.extend(self.everywhere.since(seen[1], object, searches, values));
        let listed = !new.is_empty();
        self.record(object, searches).catch_up(new, ends, horizon, values);
        if listed {
            self.list(object, |_| true, world);
        }
    }

    /// Orders a transaction's version of an object among the others, and after those who read
    /// before it. Only neighbours depend on each other: the others do so by way of these.
    fn order(
        &self,
        place: (usize, usize),
        ended: &Txn,
        object: ObjectId,
        fixed: Fixed<'_>,
        ordered: &mut Ordered,
    ) {
        let (record, txn) = (self.get(object), ended.id);
        let versions = record.left(fixed.mechanisms.view);
        let certain = |(version, fact): &&(Version, Fact)| *version == Version::Of(txn) && fact.changes();
        let Some((_, mine)) = versions.iter().find(certain) else { return };
        let mut refused = None;
        let mut depend = |from, to, reason, direct| {
            ordered.edges.push((place, MarkedEdge { edge: Edge { from, to, reason }, direct }));
        };
        let is_other = |(version, other): &&(Version, Fact)| *version != Version::Of(txn) && other.changes();
        let others = || versions.iter().filter(is_other);
        let facts = || others().map(|(_, other)| other);
        let previous = facts().filter(|other| other.before(mine)).max_by_key(|other| other.installed.before);
        let next = facts().filter(|other| mine.before(other)).min_by_key(|other| other.installed.after);
        // The nearest version comes between most others and this one, so it is asked first.
        let follows = |a: &Fact, c: &Fact, nearest: Option<&Fact>| {
            let between = |b: &Fact| a.before(b) && b.before(c);
            !nearest.is_some_and(between) && !facts().any(between)
        };
        for (version, other) in others() {
            let Version::Of(other_txn) = *version else { continue };
            if clash(mine, other) && (other.installed.after, other_txn) < (ended.answered, txn) {
                refused.get_or_insert(other_txn);
            }
            let (later, earlier) = (mine.before(other), other.before(mine));
            let by_time = mine.installed.after < other.installed.before
                || other.installed.after < mine.installed.before;
            ordered.ww.count(later || earlier, by_time);
            // Who is judged later looks for this one then.
            let judged = other.installed.after <= ended.answered;
            if later && judged && follows(mine, other, next) {
                depend(txn, other_txn, Reason::Write { object }, false);
            }
            if earlier && follows(other, mine, previous) {
                depend(other_txn, txn, Reason::Write { object }, false);
            }
        }
        if let Some(other) = refused {
            let txns = [other, txn];
            let broken = Broken::Updates { object, txns };
            ordered.alarms.push(Alarm { place: (place.0, Of::Write, place.1, object), txns, broken });
        }
        let changes = |saw: Saw, fact: &Fact| saw.is_changed_by(object, &fact.pattern, fixed.world);
        let live = |r: &&Reader| r.txn != txn && r.number >= fixed.forgotten;
        for &Reader { txn: from, op, version, saw, by, sole, .. } in record.readers.iter().filter(live) {
            // Explaining knew of the others already, but perhaps not yet whether they are direct.
            let late = mine.installed.before > by;
            let known = || fixed.mechanisms.certifier == Certified::Ssi && sole;
            if !(late || (known() && record.is_direct(version, txn, fixed.now))) || !changes(saw, mine) {
                continue;
            }
            ordered.rw.certain += u64::from(late);
            if !previous.is_some_and(|previous| previous.installed.before > by && changes(saw, previous)) {
                depend(from, txn, Reason::AntiRead { op, object, version }, sole);
            }
        }
        self.order_searches(place, ended, object, (mine, previous), fixed, ordered);
    }

    /// A version comes after the searches that it would have changed.
    fn order_searches(
        &self,
        place: (usize, usize),
        ended: &Txn,
        object: ObjectId,
        (mine, previous): (&Fact, Option<&Fact>),
        fixed: Fixed<'_>,
        ordered: &mut Ordered,
    ) {
        let table = fixed.world.searches.table_of(object).and_then(|table| self.tables.get(&table));
        let (Some(table), record) = (table, self.get(object)) else { return };
        let number = fixed.judged + place.0 as u64;
        for searched in table.searchers.changed_by(object, &mine.pattern, fixed.world) {
            let Searched { txn: from, op, predicate, by, .. } = *searched;
            let live = searched.number >= fixed.forgotten;
            let counts = live && searched.number <= number && from != ended.id;
            if !counts || mine.installed.before <= by {
                continue;
            }
            ordered.rw.certain += 1;
            let changes =
                |fact: &Fact| Saw::Without(predicate).is_changed_by(object, &fact.pattern, fixed.world);
            if !previous.is_some_and(|previous| previous.installed.before > by && changes(previous)) {
                let reason = Reason::AntiRead { op, object, version: record.seen_by(by, from) };
                let edge = Edge { from, to: ended.id, reason };
                ordered.edges.push((place, MarkedEdge { edge, direct: false }));
            }
        }
    }
}

/// What is known of an object: at least one version.
fn record<'r>(
    records: &'r mut HashMap<ObjectId, Record>,
    new: &mut Vec<ObjectId>,
    object: ObjectId,
    searches: &Searches,
) -> &'r mut Record {
    match records.entry(object) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            if searches.table_of(object).is_some() {
                new.push(object);
            }
            entry.insert(Record::of(ValueId::NULL))
        }
    }
}

/// An index of what versions of these objects make of a column.
fn indexed(
    objects: impl Iterator<Item = ObjectId>,
    column: &str,
    records: &HashMap<ObjectId, Record>,
    searches: &Searches,
    values: &Values,
) -> Index {
    let cells = |object: ObjectId| {
        let versions = records.get(&object).into_iter().flat_map(|record| &record.versions);
        versions.filter_map(move |(_, fact)| Some((object, searches.column(column, &fact.pattern, values)?)))
    };
    Index::of(objects.flat_map(cells), values)
}

/// Hands out what a transaction made of an object, as others see it.
pub(crate) fn made(
    written: &Written,
    ended: &Txn,
    mechanisms: &Mechanisms,
    values: &Values,
    mut out: impl FnMut(Fact),
) {
    match mechanisms.view {
        ReadView::Uncommitted => written.facts(&ended.course, values).into_iter().for_each(out),
        _ => out(written.clone().fact(&ended.course, mechanisms, values)),
    }
}

/// Leaves open whether the writer of a version must be refused, if it may have inserted the object
/// anew.
fn refuse(
    fact: &mut Fact,
    record: &Record,
    (object, ended): (ObjectId, &Txn),
    (tables, everywhere, world): (&Tables, &Log, World<'_>),
) {
    if fact.snapshot.is_some() {
        let others = record
            .versions
            .iter()
            .filter(|(version, _)| *version != Version::Of(ended.id))
            .map(|(_, other)| other);
        let unseen = deletions(tables, everywhere, (object, ended.id), world);
        fact.may_be_inserted(ended.course.start(), others.chain(unseen));
    }
}

/// Whether two versions cannot both be there: neither writer had committed when the other took its
/// snapshot.
fn clash(one: &Fact, other: &Fact) -> bool {
    let (Some(a), Some(b)) = (one.snapshot, other.snapshot) else { return false };
    one.certain && other.certain && one.installed.before > b && other.installed.before > a
}
