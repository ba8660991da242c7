//! Points on a line, and the versions of each item in the order in which they are committed there.

use std::rc::Rc;

use crate::known::KnownGraph;
use crate::problem::{INITIAL, Item};
use crate::schedule::Choices;

/// What is moved at once: one point twice, or the begin and the commit of a transaction.
pub(crate) type Body = [u32; 2];

/// An order of points that can be changed.
pub(crate) struct Line<'k> {
    known: &'k KnownGraph<'k>,
    /// The transactions that committed.
    active: Rc<Vec<bool>>,
    /// Where each point is.
    pub at: Vec<f64>,
    /// By item: the written versions that are there, by where they are committed.
    versions: Vec<Vec<u32>>,
}

impl<'k> Line<'k> {
    pub fn new(known: &'k KnownGraph<'k>, choices: &Choices, at: Vec<f64>) -> Self {
        let problem = known.problem;
        let there = |&v: &u32| {
            let txn = problem.versions[v as usize].txn;
            txn != INITIAL && choices.active[txn as usize]
        };
        let versions = problem.items().map(|item| problem.item_versions(item).filter(there).collect());
        let mut line = Self { known, active: choices.active.clone(), at, versions: versions.collect() };
        let mut versions = std::mem::take(&mut line.versions);
        for versions in &mut versions {
            versions.sort_by(|&one, &other| line.place(one).total_cmp(&line.place(other)));
        }
        line.versions = versions;
        line
    }

    /// Whether a transaction committed.
    pub fn has(&self, txn: u32) -> bool {
        self.active[txn as usize]
    }

    /// Where a version is committed.
    pub fn place(&self, version: u32) -> f64 {
        let txn = self.known.problem.versions[version as usize].txn;
        self.at[self.known.points.commit(txn) as usize]
    }

    /// Whether a written version is there and committed before a place.
    pub fn is_before(&self, version: u32, place: f64) -> bool {
        self.has(self.known.problem.versions[version as usize].txn) && self.place(version) < place
    }

    /// The written versions of an item, in order.
    pub fn versions(&self, item: Item) -> &[u32] {
        &self.versions[item.index()]
    }

    /// How many of them are committed before a place.
    pub fn before(&self, item: Item, place: f64) -> usize {
        self.versions(item).partition_point(|&version| self.place(version) < place)
    }

    /// The versions that are committed at a point of a body.
    pub fn written(&self, body: Body) -> &'k [u32] {
        match self.known.txn(body[1]) {
            Some(txn) if body[1] == self.known.points.commit(txn) && self.has(txn) => {
                self.known.problem.txn_versions(txn)
            }
            _ => &[],
        }
    }

    /// Puts the points of a body somewhere else.
    pub fn shift(&mut self, body: Body, places: [f64; 2]) {
        let written = self.written(body);
        let item = |version: u32| self.known.problem.versions[version as usize].item;
        for &version in written {
            self.versions[item(version).index()].retain(|&other| other != version);
        }
        for (point, place) in body.into_iter().zip(places) {
            self.at[point as usize] = place;
        }
        for &version in written {
            let end = self.before(item(version), places[1]);
            self.versions[item(version).index()].insert(end, version);
        }
    }

    /// The version that a read sees.
    pub fn seen(&self, read: u32) -> u32 {
        let item = self.known.problem.reads[read as usize].item;
        let end = self.before(item, self.at[self.known.node(read) as usize]);
        let last = end.checked_sub(1).map(|last| self.versions(item)[last]);
        last.unwrap_or(self.known.problem.item_versions(item).start)
    }
}
