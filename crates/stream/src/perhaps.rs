//! What may have happened among the transactions that are settled.
//!
//! # Problem
//! A transaction of unknown outcome wrote an object that nobody looks at for a long time. Nothing
//! tells whether it committed, and what is settled cannot wait for it.
//!
//! # Algorithm
//! It is settled without it, and the place is kept at which it may have taken effect unnoticed
//! ([`margay_follow::unnoticed`]), with what some objects hold if it did. Each part that is settled
//! carries this along. If a later search finds that it did, the state changes, and the proof says
//! at which place it took effect.
//!
//! It may have seen what others of unknown outcome wrote. Then these took effect, too, and it is
//! kept together with them; each of them is also kept alone.
//!
//! # Invariants
//! Any of them may have happened together, but for those that are against each other, and two of one
//! session against its order.

use hashbrown::HashMap;

use crate::settled::Change;

/// Labels from here on are of transactions that stand for others.
const STAND_INS: u64 = 9_000_000_000_000_000_000;

/// How many are kept at most. The oldest are taken not to have committed.
const MOST: usize = 100_000;

/// A transaction in an order, or its begin (`true`) or commit.
pub type Step = (bool, u64);

/// A transaction that may have taken effect, and its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member {
    /// How many steps of all parts were before it.
    pub place: u64,
    /// Its label.
    pub label: u64,
    /// Its session.
    pub session: u64,
    /// Its number in its session.
    pub turn: u64,
    /// The last step before it.
    pub after: Option<Step>,
}

impl Member {
    /// Whether not both stand where they do.
    fn is_against(&self, other: &Member) -> bool {
        match self.label == other.label {
            true => self.place != other.place,
            false => {
                self.session == other.session && self.turn.cmp(&other.turn) != self.place.cmp(&other.place)
            }
        }
    }
}

/// A transaction that may have taken effect, with all that then did, too.
#[derive(Clone, Debug)]
pub struct Perhaps {
    /// By place; the last is the one that it is about.
    pub members: Vec<Member>,
    /// What objects hold if they took effect.
    pub changes: Vec<Change>,
    /// Others of which not both did.
    pub against: Vec<u64>,
    /// Others whose changes these overwrite, if both did.
    pub over: Vec<u64>,
}

impl Perhaps {
    /// The label of the one that it is about.
    pub fn label(&self) -> u64 {
        self.members.last().map_or(0, |member| member.label)
    }

    fn place(&self) -> u64 {
        self.members.last().map_or(0, |member| member.place)
    }

    /// Whether one is among them.
    pub fn has(&self, label: u64) -> bool {
        self.members.iter().any(|member| member.label == label)
    }

    /// Whether not both happened.
    fn is_against(&self, other: &Perhaps) -> bool {
        self.against.iter().any(|&label| other.has(label))
            || other.against.iter().any(|&label| self.has(label))
            || self.members.iter().any(|one| other.members.iter().any(|two| one.is_against(two)))
    }

    /// Whether all of them may have happened together.
    pub fn is_possible(&self) -> bool {
        !self.against.iter().any(|&label| self.has(label))
            && !self.members.iter().any(|one| self.members.iter().any(|two| one.is_against(two)))
    }
}

/// All of them.
#[derive(Default)]
pub struct Open {
    by_label: HashMap<u64, Perhaps>,
    by_object: HashMap<Box<[u8]>, Vec<u64>>,
    bytes: usize,
}

impl Open {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_label.is_empty()
    }

    /// The memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Those that may have changed an object.
    pub fn about(&self, object: &[u8]) -> &[u64] {
        self.by_object.get(object).map_or(&[], Vec::as_slice)
    }

    /// Whether one cannot take effect after another: not both did, or the other stands for it, too,
    /// or overwrites it.
    pub fn is_closed(&self, one: u64, by: u64) -> bool {
        let (Some(one), Some(by)) = (self.by_label.get(&one), self.by_label.get(&by)) else { return false };
        by.has(one.label()) || by.over.contains(&one.label()) || !one.has(by.label()) && one.is_against(by)
    }

    /// Those that took effect if one did, and itself.
    pub fn members(&self, label: u64) -> &[Member] {
        self.by_label.get(&label).map_or(&[], |perhaps| &perhaps.members)
    }

    /// Those that may have changed rows.
    pub fn about_rows(&self) -> Vec<u64> {
        let is_of_rows = |perhaps: &&Perhaps| perhaps.changes.iter().any(|change| change.is_row());
        let mut all: Vec<u64> = self.by_label.values().filter(is_of_rows).map(Perhaps::label).collect();
        all.sort_unstable();
        all
    }

    /// The lines of a transaction that stands for one: it writes what that one may have changed.
    pub fn line(&self, label: u64, number: usize) -> Vec<u8> {
        let id = stand_in(number);
        let mut line = format!("{{\"session\":{id},\"txn\":{id},\"at\":[0,0],\"write\":[").into_bytes();
        let changes = self.by_label.get(&label).map_or(&[][..], |perhaps| &perhaps.changes);
        for (number, change) in changes.iter().enumerate() {
            line.extend(if number == 0 { &b""[..] } else { &b","[..] });
            match change.pair() {
                Some(pair) => line.extend(pair),
                None => line.extend([&b"["[..], change.key(), &b",null]"[..]].concat()),
            }
        }
        line.extend(b"]}");
        line
    }

    /// Takes one out.
    pub fn remove(&mut self, label: u64) -> Option<Perhaps> {
        let perhaps = self.by_label.remove(&label)?;
        for change in &perhaps.changes {
            self.bytes -= size(change);
            if let Some(all) = self.by_object.get_mut(change.key()) {
                all.retain(|&other| other != label);
                if all.is_empty() {
                    self.by_object.remove(change.key());
                }
            }
        }
        Some(perhaps)
    }

    /// Puts one in; it takes the place of what was known of it before.
    pub fn insert(&mut self, perhaps: Perhaps) {
        let label = perhaps.label();
        self.remove(label);
        for change in &perhaps.changes {
            self.bytes += size(change);
            self.by_object.entry(change.key().into()).or_default().push(label);
        }
        self.by_label.insert(label, perhaps);
    }

    /// These took effect: takes out those that did not then. The others no longer depend on them.
    pub fn took_effect(&mut self, these: &Perhaps) {
        let is_out = |other: &&Perhaps| these.has(other.label()) || other.is_against(these);
        let out: Vec<u64> = self.by_label.values().filter(is_out).map(Perhaps::label).collect();
        out.into_iter().for_each(|label| _ = self.remove(label));
        for other in self.by_label.values_mut().filter(|other| other.members.len() > 1) {
            other.members.retain(|member| !these.has(member.label));
        }
        for below in &these.over {
            let Some(mut other) = self.remove(*below) else { continue };
            let is_over = |change: &Change| these.changes.iter().any(|new| new.key() == change.key());
            other.changes.retain(|change| !is_over(change));
            if !other.changes.is_empty() {
                self.insert(other);
            }
        }
    }

    /// Takes out those that stand for one that took effect elsewhere.
    pub fn settled(&mut self, is_settled: impl Fn(u64) -> bool) {
        let is_out = |perhaps: &&Perhaps| perhaps.members.iter().any(|member| is_settled(member.label));
        let out: Vec<u64> = self.by_label.values().filter(is_out).map(Perhaps::label).collect();
        out.into_iter().for_each(|label| _ = self.remove(label));
    }

    /// Takes out the oldest, if there are too many.
    pub fn forget(&mut self) {
        if self.by_label.len() <= MOST {
            return;
        }
        let mut all: Vec<(u64, u64)> = self.by_label.values().map(|p| (p.place(), p.label())).collect();
        all.sort_unstable();
        all.iter().take(MOST / 10).for_each(|&(_, label)| _ = self.remove(label));
    }
}

fn size(change: &Change) -> usize {
    size_of::<Change>() + 2 * change.key().len() + change.pair().map_or(0, <[u8]>::len) + 64
}

/// The label of a transaction that stands for another.
pub fn stand_in(number: usize) -> u64 {
    STAND_INS + number as u64
}

/// Which one it stands for, if it does.
pub fn number(label: u64) -> Option<usize> {
    label.checked_sub(STAND_INS).and_then(|number| usize::try_from(number).ok())
}
