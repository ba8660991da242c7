//! Moves that lead nowhere: they overwrite what others have still to see ([`crate::foresight`]).

use margay_history::ObjectId;

use super::{Kind, Move, Search};
use crate::foresight::Sight;

impl Search<'_> {
    /// Without the moves that overwrite what others have still to see.
    pub(super) fn unspoilt(&mut self, mut moves: Vec<Move>, ready: &[u32]) -> Vec<Move> {
        let mut spoilers = std::mem::take(&mut self.spoilers);
        moves.retain(|next| {
            let spoilt = self.spoilt(*next, ready);
            spoilers.extend(spoilt.map(|(object, sight)| (next.place, object, sight)));
            spoilt.is_none()
        });
        spoilers.dedup();
        self.spoilers = spoilers;
        moves
    }

    pub(super) fn spoilt(&self, next: Move, ready: &[u32]) -> Option<(ObjectId, Sight)> {
        if next.kind == Kind::Begin {
            return None;
        }
        let made = self.made(next.place);
        let begins = |&other: &u32| {
            other == next.place
                || next.saves && !self.begun.contains_key(&other) && !self.candidate(other).collides(made)
        };
        let done: Vec<u32> = ready.iter().copied().filter(begins).collect();
        self.foresight.spoilt(&self.world, made, &done)
    }

    /// The object that one would overwrite though others have still to see what it holds.
    pub(crate) fn spoils(&self, place: u32) -> Option<ObjectId> {
        self.spoilers.iter().find(|spoiler| spoiler.0 == place).map(|spoiler| spoiler.1)
    }
}
