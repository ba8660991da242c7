//! Versions of objects.
//!
//! # Invariants
//! - A chain is never empty and sorted by timestamp; its first version is the initial one until
//!   that is pruned.
//! - Versions that no active transaction can see any more are pruned, when a new one is installed
//!   and once more when the new one is old enough for everyone: a chain holds the newest version,
//!   those since the oldest active snapshot, and one older.
//! - Chains are looked up, never iterated in hash order.
//! - For every row, all values that its column `v` has in the versions of its chain lie in its
//!   bounds, so that a predicate read need not look at rows that cannot match. A row that is not as
//!   it should be has bounds that everything matches.

use std::collections::VecDeque;

use hashbrown::HashMap;

use margay_client::{Cond, Obj, Space, Value};

use crate::config::SimConfig;

/// No firing.
pub(crate) const CLEAN: u32 = u32::MAX;

/// A version of an object.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// When it was installed, on the database's own clock.
    pub ts: u64,
    /// The label of its writer; 0 is the initial state.
    pub txn: u64,
    pub value: Value,
    /// The greatest timestamp that has read it; untold by timestamp ordering only.
    pub read_ts: u64,
    /// The firing that it comes from.
    pub mark: u32,
    /// Whether the history does not know of it: its writer aborted, or was not told that it wrote
    /// it.
    pub untold: bool,
}

impl Version {
    fn initial(value: Value) -> Self {
        Self { ts: 0, txn: 0, value, read_ts: 0, mark: CLEAN, untold: false }
    }
}

/// The versions of one object, oldest first.
#[derive(Debug)]
pub(crate) struct Chain {
    versions: Vec<Version>,
    /// The last value that an aborted transaction had written, if that is asked for.
    pub aborted: Option<(u64, Value)>,
    /// The firing that made this object's newest version other than it should be.
    pub mark: u32,
}

impl Chain {
    fn new(initial: Value) -> Self {
        Self { versions: vec![Version::initial(initial)], aborted: None, mark: CLEAN }
    }

    pub fn latest(&self) -> &Version {
        &self.versions[self.versions.len() - 1]
    }

    /// The version that a reader at `ts` sees.
    pub fn as_of(&self, ts: u64) -> &Version {
        &self.versions[self.place_as_of(ts)]
    }

    pub fn as_of_mut(&mut self, ts: u64) -> &mut Version {
        let place = self.place_as_of(ts);
        &mut self.versions[place]
    }

    fn place_as_of(&self, ts: u64) -> usize {
        self.versions.iter().rposition(|v| v.ts <= ts).unwrap_or(0)
    }

    /// The versions newer than `ts`, each with the one before it.
    pub fn since(&self, ts: u64) -> impl Iterator<Item = (&Version, &Version)> {
        let start = self.versions.iter().rposition(|v| v.ts <= ts).unwrap_or(0);
        self.versions[start..].iter().zip(&self.versions[start + 1..])
    }

    /// Puts a version in its place by timestamp; answers the labels of its neighbours, those that
    /// the history does not know left out.
    pub fn install(&mut self, version: Version, horizon: u64) -> (Option<u64>, Option<u64>) {
        self.prune(horizon);
        let place = self.versions.iter().rposition(|v| v.ts <= version.ts).map_or(0, |p| p + 1);
        self.versions.insert(place, version);
        self.neighbours(place)
    }

    /// Puts a version directly below the newest, with the same timestamp, so that it is never the
    /// newest. Not below the initial version.
    pub fn install_below(&mut self, mut version: Version) -> Option<(Option<u64>, Option<u64>)> {
        let place = self.versions.len() - 1;
        if self.versions[place].txn == 0 {
            return None;
        }
        version.ts = self.versions[place].ts;
        self.versions.insert(place, version);
        Some(self.neighbours(place))
    }

    fn neighbours(&self, place: usize) -> (Option<u64>, Option<u64>) {
        let label = |v: &Version| v.txn;
        (
            self.versions[..place].iter().rev().find(|v| !v.untold).map(label),
            self.versions[place + 1..].iter().find(|v| !v.untold).map(label),
        )
    }

    fn prune(&mut self, horizon: u64) {
        match self.versions.iter().rposition(|v| v.ts <= horizon) {
            None | Some(0) => {}
            Some(keep) => drop(self.versions.drain(..keep)),
        }
    }

    /// The least and the greatest `v` among the versions; everything when something is wrong with
    /// them.
    fn bounds(&self) -> (i64, i64) {
        let wrong =
            self.mark != CLEAN || self.aborted.is_some() || self.versions.iter().any(|v| v.mark != CLEAN);
        if wrong {
            return (i64::MIN, i64::MAX);
        }
        let values = self.versions.iter().filter_map(|version| match version.value {
            Value::Row(row) => row.v,
            _ => None,
        });
        values.fold((i64::MAX, i64::MIN), |(least, most), v| (least.min(v), most.max(v)))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.versions.len()
    }
}

/// All objects.
#[derive(Debug)]
pub(crate) struct Store {
    registers: Vec<Chain>,
    rows: Vec<Chain>,
    bounds: Bounds,
    /// Rows with their newest versions' timestamps that have older versions still.
    unsettled: VecDeque<(u64, Obj)>,
    /// Lists come and go.
    lists: HashMap<u32, Chain>,
}

impl Store {
    pub fn new(config: &SimConfig) -> Self {
        let chains = |used: bool, space| {
            let keys = if used { config.keys } else { 0 };
            (0..keys).map(|key| Chain::new(Obj::new(space, key).initial(config.domain))).collect()
        };
        let rows: Vec<Chain> = chains(config.mix.rows(), Space::Row);
        Self {
            registers: chains(config.mix.registers(), Space::Register),
            bounds: Bounds::new(&rows),
            unsettled: VecDeque::new(),
            rows,
            lists: HashMap::new(),
        }
    }

    /// Prunes rows whose newest versions everyone can see by now.
    pub fn settle(&mut self, horizon: u64) {
        while let Some(&(ts, obj)) = self.unsettled.front()
            && ts <= horizon
        {
            self.unsettled.pop_front();
            self.rows[obj.key as usize].prune(horizon);
            self.bounds.set(obj.key as usize, self.rows[obj.key as usize].bounds());
        }
    }

    /// Notes that an object's chain has changed.
    pub fn changed(&mut self, obj: Obj) {
        if obj.space == Space::Row {
            self.unsettled.push_back((self.row(obj).latest().ts, obj));
            self.bounds.set(obj.key as usize, self.rows[obj.key as usize].bounds());
        }
    }

    /// Rows of which some version may match, in order.
    pub fn candidates(&self, cond: Cond) -> Vec<Obj> {
        self.bounds.overlapping(cond).into_iter().map(|key| Obj::new(Space::Row, key)).collect()
    }

    /// The chain of an object, made if it is a new list.
    pub fn chain(&mut self, obj: Obj) -> &mut Chain {
        match obj.space {
            Space::Register => &mut self.registers[obj.key as usize],
            Space::Row => &mut self.rows[obj.key as usize],
            Space::List => self.lists.entry(obj.key).or_insert_with(|| Chain::new(Value::Absent)),
        }
    }

    /// The rows of the table, present or not.
    pub fn rows(&self) -> impl Iterator<Item = Obj> + use<> {
        (0..self.rows.len() as u32).map(|key| Obj::new(Space::Row, key))
    }

    /// The chain of a row.
    pub fn row(&self, obj: Obj) -> &Chain {
        &self.rows[obj.key as usize]
    }

    /// Forgets a list that nobody will ask for any more.
    pub fn forget(&mut self, list: u32) {
        self.lists.remove(&list);
    }
}

/// By row: the least and the greatest `v` among its versions.
///
/// # Cost
/// Predicate reads walk through all of them, so they are kept as columns of narrow integers, eight
/// of which are compared at a time. Values that do not fit count as the nearest that does: that can
/// only let in rows that need not be looked at.
#[derive(Debug)]
struct Bounds {
    least: Vec<i32>,
    most: Vec<i32>,
}

fn narrow(v: i64) -> i32 {
    v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

impl Bounds {
    const STEP: usize = 8;

    fn new(rows: &[Chain]) -> Self {
        let (least, most) = rows.iter().map(Chain::bounds).map(|(l, m)| (narrow(l), narrow(m))).unzip();
        Self { least, most }
    }

    fn set(&mut self, row: usize, (least, most): (i64, i64)) {
        (self.least[row], self.most[row]) = (narrow(least), narrow(most));
    }

    fn overlapping(&self, cond: Cond) -> Vec<u32> {
        let (low, high) = (narrow(cond.low), narrow(cond.high));
        let overlaps = |(least, most): (&i32, &i32)| (*least <= high) & (low <= *most);
        let mut rows = Vec::new();
        let chunks = self.least.chunks(Self::STEP).zip(self.most.chunks(Self::STEP));
        for (chunk, (least, most)) in chunks.enumerate() {
            if least.iter().zip(most).fold(false, |any, pair| any | overlaps(pair)) {
                let hits = least.iter().zip(most).enumerate().filter(|(_, pair)| overlaps(*pair));
                rows.extend(hits.map(|(i, _)| (chunk * Self::STEP + i) as u32));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(ts: u64) -> Version {
        Version { ts, txn: ts, value: Value::Int(ts as i64), read_ts: 0, mark: CLEAN, untold: false }
    }

    #[test]
    fn readers_see_what_is_not_newer_and_old_versions_go() {
        let mut chain = Chain::new(Value::Int(0));
        assert_eq!(chain.install(version(5), 0), (Some(0), None));
        assert_eq!(chain.install(version(9), 0), (Some(5), None));
        assert_eq!(chain.install(version(7), 0), (Some(5), Some(9)), "in the middle");
        assert_eq!([0, 5, 6, 8, 99].map(|ts| chain.as_of(ts).txn), [0, 5, 5, 7, 9]);
        let since: Vec<_> = chain.since(5).map(|(a, b)| (a.txn, b.txn)).collect();
        assert_eq!(since, [(5, 7), (7, 9)]);
        chain.install(version(11), 8);
        assert_eq!((chain.len(), chain.as_of(8).txn), (3, 7), "what a reader at 8 sees stays");
    }

    #[test]
    fn a_version_below_the_newest_is_never_seen() {
        let mut chain = Chain::new(Value::Int(0));
        assert_eq!(chain.install_below(version(3)), None, "the initial version is the first");
        chain.install(version(5), 0);
        assert_eq!(chain.install_below(version(8)), Some((Some(0), Some(5))));
        assert_eq!((chain.latest().txn, chain.as_of(6).txn, chain.as_of(4).txn), (5, 5, 0));
    }
}
