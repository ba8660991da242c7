//! Which move is tried first.
//!
//! # Algorithm
//! First those that no dead end advised to wait, then those that committed for certain, then those
//! after which the most others still agree, then by when clients got their last answers. With two
//! points, a commit first lets others begin that would not agree afterwards; so it waits if one of
//! them is advised to wait.
//!
//! The whole order costs the square of the ready transactions. Most often the first of them by that
//! guess need not wait, harms nobody and overwrites nothing that is still to be seen: then it is the
//! most promising one, and the others need no rank before the search comes back.
//!
//! # Invariants
//! Every move that may be made is among the moves: the rank changes what is tried first, never what
//! is found.

use super::{Kind, Move, Search};

impl Search<'_> {
    /// Ready transactions as moves, the most promising first.
    pub(super) fn ranked(&self, ready: &[u32]) -> Vec<Move> {
        let rank = |&place: &u32| {
            let harm = if ready.len() > 1 { self.harm(place, ready) } else { 0 };
            (self.waits(place, ready), !self.calendar.must(place), harm, self.calendar.probably(place), place)
        };
        let mut ranked: Vec<_> = ready.iter().map(rank).collect();
        ranked.sort_unstable();
        let mut moves: Vec<Move> = ranked.iter().map(|&(.., place)| self.next_of(place)).collect();
        if self.instants {
            let commits = moves.iter().filter(|m| m.kind == Kind::Commit);
            let bare: Vec<Move> = commits.map(|m| Move { saves: false, ..*m }).collect();
            moves.extend(bare);
        } else if self.split {
            let begins = moves.clone().into_iter().filter(|m| m.kind == Kind::Whole);
            let begins = begins.filter(|m| self.candidate(m.place).strands.reads);
            let begins: Vec<Move> = begins.map(|m| Move { kind: Kind::Begin, saves: false, ..m }).collect();
            let bare: Vec<Move> = moves.iter().map(|m| Move { saves: false, ..*m }).collect();
            moves.extend(begins);
            moves.extend(bare);
        }
        moves
    }

    /// The most promising move, if the others need no look: it has the least rank that there is.
    pub(super) fn harmless(&self, ready: &[u32]) -> Option<Move> {
        let mut by_time: Vec<(i64, u32)> = ready
            .iter()
            .filter(|&&place| self.calendar.must(place))
            .map(|&place| (self.calendar.probably(place), place))
            .collect();
        by_time.sort_unstable();
        let is_best = |place: u32| {
            self.waits(place, ready) == 0
                && (ready.len() == 1 || self.harm(place, ready) == 0)
                && self.spoilt(self.next_of(place), ready).is_none()
        };
        by_time
            .into_iter()
            .map(|(_, place)| place)
            .find(|&place| is_best(place))
            .map(|place| self.next_of(place))
    }

    /// What a ready transaction does next.
    fn next_of(&self, place: u32) -> Move {
        let kind = match self.begun.contains_key(&place) {
            true => Kind::Commit,
            false if self.instants => Kind::Begin,
            false => Kind::Whole,
        };
        Move { kind, place, saves: self.split && kind != Kind::Begin }
    }

    /// How many others are better taken before it, or before those that begin because it commits.
    fn waits(&self, place: u32, ready: &[u32]) -> usize {
        let open = |&&other: &&u32| !self.calendar.is_removed(other) && !self.begun.contains_key(&other);
        let awaited = |place| self.advice.get(&place).map_or(0, |others| others.iter().filter(open).count());
        let saved =
            |other: u32| self.is_lost(other, place) && !self.candidate(other).collides(self.made(place));
        let begins = ready.iter().filter(|&&other| self.split && awaited(other) > 0 && saved(other));
        awaited(place) + begins.count()
    }

    /// How many ready transactions would no longer agree after this one, and cannot begin before
    /// it.
    fn harm(&self, place: u32, ready: &[u32]) -> usize {
        let collides = |other: u32| self.candidate(other).collides(self.made(place));
        let harmed = |other: u32| self.is_lost(other, place) && (!self.split || collides(other));
        ready.iter().filter(|&&other| harmed(other)).count()
    }

    /// Whether one would no longer agree after another.
    fn is_lost(&self, other: u32, place: u32) -> bool {
        other != place
            && !self.begun.contains_key(&other)
            && self.calendar.must(other)
            && !self.candidate(other).bears(&self.world, self.made(place))
    }
}
