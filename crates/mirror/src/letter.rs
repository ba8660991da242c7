//! What workers tell each other, round by round.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use margay_history::{History, ObjectId, OpId, TxnId, Version};
use margay_mechanisms::Fact;
use margay_verdict::mechanism::Mechanisms;
use margay_verdict::{Broken, Budget, Why};

use crate::judge::{Explained, SharedRead, Spot};
use crate::mirror::Violation;
use crate::record::Reader;
use crate::shard::{Alarm, Ordered};
use crate::statistics::{Dependencies, Statistics};
use crate::txn::Ended;
use crate::wire::Wire;

/// The way between workers: what it takes to verify one history on several threads, processes or
/// machines.
pub trait Exchange {
    /// Which of all workers this is.
    fn index(&self) -> usize;

    /// How many there are.
    fn count(&self) -> usize;

    /// The workers of this process: they share what they have read.
    fn process(&self) -> Range<usize>;

    /// Sends letters, and waits until all workers have sent theirs of this round. Answers those to
    /// this one by sender; of one sender in the order in which it sent them.
    ///
    /// # Errors
    /// Why the others cannot be reached.
    fn exchange(&mut self, letters: Vec<(usize, Letter)>) -> Result<Vec<Letter>, Lost>;
}

/// What was found in a history, and how much was deduced.
pub type Account = (Vec<Violation>, Statistics);

/// Several workers that verify histories together.
pub trait Workers: Sync + fmt::Debug {
    /// Verifies a history by these mechanisms.
    ///
    /// # Errors
    /// When it cannot be taken, the budget is used up, or a worker is lost.
    fn verify(&self, history: &History, by: Mechanisms, budget: &Budget) -> Result<Account, Why>;
}

/// A worker cannot be reached, or did not say what it should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost(pub String);

/// What one worker tells another.
#[derive(Clone, Debug)]
pub struct Letter(pub(crate) Content);

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Within a process only.
    Fresh(Fresh),
    Open(Opens),
    Joined(Vec<Narrowed>),
    Certain(Certain),
    /// What was found in the whole history, and the dependencies: ww, wr and rw.
    Found(Vec<(Vec<TxnId>, Broken)>, [Dependencies; 3]),
}

/// What one worker has read of the history.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    /// The transactions that have ended, with the times and numbers of their last operations.
    pub ended: Arc<Vec<(i64, OpId, Ended)>>,
    /// When the first of those that are running began.
    pub low: Option<i64>,
    /// When the next operation is called.
    pub next: Option<i64>,
    pub operations: u64,
}

/// The open reads of one worker's objects, for the worker that brings those of a transaction
/// together.
#[derive(Clone, Debug)]
pub(crate) struct Opens {
    /// How many versions there are of one object, at most.
    pub most: usize,
    /// Whether its time or memory is used up.
    pub stop: bool,
    /// The certifier has forgotten so many of the first transactions.
    pub forgotten: u64,
    pub reads: Vec<OpenLetter>,
}

/// An open read with all versions of its object, of a transaction by its place in the window.
pub(crate) type OpenLetter = (usize, SharedRead, Vec<(Version, Fact)>);

/// By when the snapshots of a transaction were taken, and what is to be remembered of its open
/// reads.
pub(crate) type Narrowed = (usize, Vec<(u64, Option<i64>)>, Vec<(Spot, ObjectId, Reader)>);

/// What is certain, for the certifier.
#[derive(Clone, Debug)]
pub(crate) enum Certain {
    /// Of transactions that have ended.
    Met(Vec<Alarm>),
    /// Of transactions that are judged.
    Judged(Vec<(usize, Explained)>, Vec<Ordered>),
}

impl Letter {
    /// The bytes that stand for it in another process.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.0 {
            // Every process reads the history itself.
            Content::Fresh(_) => out.push(0),
            Content::Open(Opens { most, stop, forgotten, reads }) => {
                out.push(1);
                (*most, *stop, *forgotten).put(&mut out);
                reads.put(&mut out);
            }
            Content::Joined(all) => {
                out.push(2);
                all.put(&mut out);
            }
            Content::Certain(Certain::Met(alarms)) => {
                out.push(3);
                alarms.put(&mut out);
            }
            Content::Certain(Certain::Judged(explained, ordered)) => {
                out.push(4);
                explained.put(&mut out);
                ordered.put(&mut out);
            }
            Content::Found(found, [ww, wr, rw]) => {
                out.push(5);
                found.put(&mut out);
                (*ww, *wr, *rw).put(&mut out);
            }
        }
        out
    }

    /// The letter of these bytes; nothing if they are none.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let content = match u8::take(bytes)? {
            1 => {
                let (most, stop, forgotten) = Wire::take(bytes)?;
                Content::Open(Opens { most, stop, forgotten, reads: Wire::take(bytes)? })
            }
            2 => Content::Joined(Wire::take(bytes)?),
            3 => Content::Certain(Certain::Met(Wire::take(bytes)?)),
            4 => Content::Certain(Certain::Judged(Wire::take(bytes)?, Wire::take(bytes)?)),
            5 => {
                let found = Wire::take(bytes)?;
                let (ww, wr, rw) = Wire::take(bytes)?;
                Content::Found(found, [ww, wr, rw])
            }
            _ => return None,
        };
        bytes.is_empty().then_some(Self(content))
    }
}
