//! Part of a problem: some of its transactions, by themselves.
//!
//! # Problem
//! A violation is shown best by the few transactions that make it, which needs the problem of some
//! transactions only.
//!
//! # Algorithm
//! Of the versions those of the kept transactions stay. A read stays if all versions that it may
//! have seen do, otherwise it says nothing. What is known of the order of versions stays if those
//! that it is about and the list that shows it are kept; orders through versions that go become
//! orders of their neighbours.
//!
//! # Invariants
//! - An order that explains the whole explains the part, without those that are gone. So what
//!   refutes the part refutes the whole, and the lemmas say the same there: no read has other
//!   candidates than in the whole.
//! - A transaction of unknown outcome must have committed only if a kept transaction shows it.
//!
//! # Cost
//! Linear in the versions of the kept items, the reads of the kept transactions, and all that is
//! known of orders from the start.

use hashbrown::{HashMap, HashSet};
use margay_history::Outcome;

use super::{INITIAL, Item, Problem, Read, Version, by_txn};

/// From the numbers of a problem to those of a part.
#[derive(Default)]
struct Numbers {
    txns: HashMap<u32, u32>,
    versions: HashMap<u32, u32>,
    points: HashMap<u32, u32>,
    items: Vec<Item>,
}

impl Numbers {
    fn item(&self, item: Item) -> Option<Item> {
        self.items.binary_search(&item).ok().map(|place| Item(place as u32))
    }
}

impl<'h> Problem<'h> {
    /// The problem of these transactions alone, which are given in order.
    pub fn part(&self, txns: &[u32]) -> Self {
        self.part_with_reads(txns, |_| true)
    }

    /// The same with the reads of some of the transactions only.
    pub fn part_with_reads(&self, txns: &[u32], reads: impl Fn(u32) -> bool) -> Self {
        let mut numbers = Numbers { items: self.items_of(txns), ..Numbers::default() };
        numbers.txns.extend(txns.iter().copied().zip(0..));
        let (versions, item_starts) = self.part_versions(&mut numbers);
        let written = versions.iter().zip(0..).filter(|(version, _)| version.txn != INITIAL);
        let mut written: Vec<(u32, u32)> = written.map(|(version, place)| (version.txn, place)).collect();
        written.sort_unstable();
        let (txn_version_starts, txn_versions) = by_txn(written, txns.len());
        let committed = |&txn: &u32| self.history.outcome(self.txns[txn as usize]) == Outcome::Committed;
        let mut part = Self {
            history: self.history,
            question: self.question,
            strategies: self.strategies,
            txns: txns.iter().map(|&txn| self.txns[txn as usize]).collect(),
            forced: txns.iter().map(committed).collect(),
            versions,
            columns: Vec::new(),
            places: Some(numbers.items.iter().map(|&item| self.place(item)).collect()),
            item_starts,
            txn_versions,
            txn_version_starts,
            reads: Vec::new(),
            read_starts: vec![0],
            candidates: Vec::new(),
            facts: Vec::new(),
            sources: Vec::new(),
            needs: Vec::new(),
            own_points: Vec::new(),
        };
        for &txn in txns {
            if reads(txn) {
                part.copy_reads(self, txn, &mut numbers);
            }
            part.read_starts.push(part.reads.len() as u32);
        }
        part.copy_facts(self, &numbers);
        let number = |txn: &u32| numbers.txns.get(txn).copied();
        part.needs = self.needs.iter().filter_map(|(a, b)| Some((number(a)?, number(b)?))).collect();
        part.force_only_candidates();
        part
    }

    fn items_of(&self, txns: &[u32]) -> Vec<Item> {
        let mut items = Vec::new();
        for &txn in txns {
            items.extend(self.txn_versions(txn).iter().map(|&v| self.versions[v as usize].item));
            items.extend(self.txn_reads(txn).map(|read| self.reads[read as usize].item));
        }
        items.sort_unstable();
        items.dedup();
        items
    }

    fn part_versions(&self, numbers: &mut Numbers) -> (Vec<Version>, Vec<u32>) {
        let (mut versions, mut starts) = (Vec::new(), vec![0]);
        for (place, &item) in numbers.items.iter().enumerate() {
            for version in self.item_versions(item) {
                let txn = match self.versions[version as usize].txn {
                    INITIAL => Some(INITIAL),
                    txn => numbers.txns.get(&txn).copied(),
                };
                if let Some(txn) = txn {
                    numbers.versions.insert(version, versions.len() as u32);
                    versions.push(Version { txn, item: Item(place as u32) });
                }
            }
            starts.push(versions.len() as u32);
        }
        (versions, starts)
    }

    fn copy_reads(&mut self, whole: &Self, txn: u32, numbers: &mut Numbers) {
        for read in whole.txn_reads(txn) {
            let Read { op, item, stand, .. } = whole.reads[read as usize];
            let candidates = whole.candidates(read).iter().map(|version| numbers.versions.get(version));
            let candidates: Option<Vec<u32>> = candidates.map(Option::<&u32>::copied).collect();
            if let (Some(candidates), Some(item)) = (candidates, numbers.item(item)) {
                let (first, count) = (self.candidates.len() as u32, candidates.len() as u32);
                self.candidates.extend(candidates);
                let txn = numbers.txns[&txn];
                let stand = self.stand(txn, stand, &mut numbers.points);
                self.reads.push(Read { txn, op, item, stand, first, count });
            }
        }
    }

    /// What is known of orders, each with its source.
    fn copy_facts(&mut self, whole: &Self, numbers: &Numbers) {
        let mut next: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        for (&(a, b), &source) in whole.facts.iter().zip(&whole.sources) {
            let item = whole.versions[a as usize].item;
            let shown = source == INITIAL || numbers.txns.contains_key(&source);
            if shown && numbers.item(item).is_some() {
                next.entry((source, a)).or_default().push(b);
            }
        }
        let mut starts: Vec<(u32, u32)> =
            next.keys().copied().filter(|(_, a)| numbers.versions.contains_key(a)).collect();
        starts.sort_unstable();
        for (source, a) in starts {
            let shown = numbers.txns.get(&source).copied().unwrap_or(INITIAL);
            for b in nearest(&next, source, a, &numbers.versions) {
                self.facts.push((numbers.versions[&a], b));
                self.sources.push(shown);
            }
        }
    }
}

/// The kept versions next after `a`, by their new numbers.
fn nearest(next: &HashMap<(u32, u32), Vec<u32>>, source: u32, a: u32, kept: &HashMap<u32, u32>) -> Vec<u32> {
    let (mut open, mut visited, mut found) = (vec![a], HashSet::new(), Vec::new());
    while let Some(version) = open.pop() {
        for &later in next.get(&(source, version)).into_iter().flatten() {
            match kept.get(&later) {
                _ if later == a || !visited.insert(later) => {}
                Some(&number) => found.push(number),
                None => open.push(later),
            }
        }
    }
    found.sort_unstable();
    found
}
