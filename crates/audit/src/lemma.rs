//! Whether a lemma is true of the history: the cycle closes, every edge is what it says, and the
//! level forbids the shape.
//!
//! | level | shape |
//! |---|---|
//! | `read-uncommitted` | ww |
//! | `read-committed` | ww, wr |
//! | `repeatable-read` | ww, wr, rw over items |
//! | serializable levels | ww, wr, rw |
//! | `parallel-snapshot` | ww, wr, at most one rw |
//! | snapshot levels, `prefix` | a walk through begin and commit points that never goes back |
//! | `be-read-committed`, `read-atomic`, `causal` | ww, wr, visible; or one rw, and the path that makes the overwriter visible to the reader |
//!
//! Edges by one column stand for paths: whoever was the last to write a column of what was seen
//! wrote that version, or an earlier one. So they may stand wherever ww and wr edges may both stand
//! between the same points, and, where they are rw edges, where what was seen counts as an item.
//!
//! Session order and real time may stand in any of them, if the question uses them; timestamps of
//! the evidence at the serializable and the snapshot levels.
//!
//! At the levels of points, an edge leads from the commit of one transaction to the begin of the
//! other, except that an rw edge leads from a begin to a commit, and a ww edge from a commit to a
//! commit where writers may overlap. Within a transaction the walk may go from begin to commit,
//! never back.

use margay_history::{History, NameId, ObjectId, Op, OpId, Outcome, TxnId, Version};
use margay_levels::Level;
use margay_levels::definition::{Axiom, Family};
use margay_verdict::{Edge, Lemma, Question, Reason, Stamp};

use super::candidates::{Candidates, PossibleSight};
use super::{Rejected, reject};

/// What a lemma assumes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Atom {
    /// A transaction committed.
    Committed(TxnId),
    /// An operation saw this version of an object, or of one of its columns.
    Saw(OpId, ObjectId, Option<NameId>, Version),
    /// One transaction's version of an object comes before another's.
    Before(ObjectId, TxnId, TxnId),
}

/// The objects that a lemma is about; an error if it names what the history does not have.
pub(super) fn objects(
    history: &History,
    lemma: &Lemma,
    into: &mut impl FnMut(ObjectId),
) -> Result<(), Rejected> {
    lemma.edges.iter().try_for_each(|edge| edge_objects(history, edge, into))
}

fn edge_objects(history: &History, edge: &Edge, into: &mut impl FnMut(ObjectId)) -> Result<(), Rejected> {
    let (op, object) = match &edge.reason {
        Reason::Session | Reason::RealTime | Reason::Recorded(_) => (None, None),
        Reason::Write { object } => (None, Some(*object)),
        Reason::Read { op, object }
        | Reason::AntiRead { op, object, .. }
        | Reason::ReadColumn { op, object, .. }
        | Reason::AntiReadColumn { op, object, .. } => (Some(*op), Some(*object)),
        Reason::Visible { op, object, path } => {
            path.iter().try_for_each(|edge| match edge.reason {
                Reason::Session | Reason::Read { .. } => edge_objects(history, edge, into),
                _ => reject("only session order and reads make a transaction visible"),
            })?;
            (Some(*op), Some(*object))
        }
    };
    let version = match edge.reason {
        Reason::AntiRead { version: Version::Of(txn), .. }
        | Reason::AntiReadColumn { version: Version::Of(txn), .. } => Some(txn),
        _ => None,
    };
    let column = match edge.reason {
        Reason::ReadColumn { column, .. } | Reason::AntiReadColumn { column, .. } => Some(column),
        _ => None,
    };
    if [Some(edge.from), Some(edge.to), version].iter().flatten().any(|t| t.index() >= history.txn_count())
        || op.is_some_and(|op| op.index() >= history.op_count())
        || object.is_some_and(|object| object.index() >= history.object_count())
        || column.is_some_and(|column| column.index() >= history.values().name_count())
    {
        return reject("a lemma names what the history does not have");
    }
    object.into_iter().for_each(into);
    Ok(())
}

/// A lemma under audit.
pub(super) struct Reading<'a, 'p> {
    pub(super) history: &'p History,
    pub(super) question: Question,
    pub(super) candidates: &'a Candidates<'p>,
}

impl Reading<'_, '_> {
    /// What the lemma assumes, if it is true of the history.
    pub(super) fn assumptions(&self, lemma: &Lemma) -> Result<Vec<Atom>, Rejected> {
        let edges = &lemma.edges;
        if edges.is_empty() {
            return reject("a lemma without edges");
        }
        closes(edges.iter().zip(edges.iter().cycle().skip(1)))?;
        let mut atoms = Vec::new();
        for edge in edges {
            self.edge(edge, &mut atoms)?;
        }
        match self.forbidden(edges)? {
            true => Ok(atoms),
            false => reject(format!("{} allows a cycle of this shape", self.question.level)),
        }
    }

    fn edge(&self, edge: &Edge, atoms: &mut Vec<Atom>) -> Result<(), Rejected> {
        let (history, Edge { from, to, reason }) = (self.history, edge);
        if from == to {
            return reject("an edge from a transaction to itself");
        }
        for &txn in [from, to] {
            self.committed(txn, atoms)?;
        }
        let holds = match reason {
            Reason::Session => {
                self.question.uses_session_order()
                    && history.session_of(*from) == history.session_of(*to)
                    && from < to
            }
            Reason::RealTime => self.question.uses_real_time() && history.precedes(*from, *to),
            Reason::Recorded(stamp) => self.recorded(*stamp, *from, *to),
            Reason::Write { object } => {
                self.candidates.known(*object)?;
                atoms.push(Atom::Before(*object, *from, *to));
                self.candidates.writes(*from, *object) && self.candidates.writes(*to, *object)
            }
            Reason::Read { op, object } => {
                self.external(*op, *object, *to)?;
                atoms.push(Atom::Saw(*op, *object, None, Version::Of(*from)));
                self.candidates.writes(*from, *object)
            }
            Reason::AntiRead { op, object, version } => {
                self.external(*op, *object, *from)?;
                atoms.push(Atom::Saw(*op, *object, None, *version));
                self.before(*object, *version, *to, atoms)? && self.candidates.writes(*to, *object)
            }
            Reason::ReadColumn { op, object, column } => {
                self.external_column(*op, *object, *column, *to)?;
                atoms.push(Atom::Saw(*op, *object, Some(*column), Version::Of(*from)));
                self.candidates.writes_column(*from, *object, *column)
            }
            Reason::AntiReadColumn { op, object, column, version } => {
                self.external_column(*op, *object, *column, *from)?;
                atoms.push(Atom::Saw(*op, *object, Some(*column), *version));
                self.before(*object, *version, *to, atoms)?
                    && self.candidates.writes_column(*to, *object, *column)
            }
            Reason::Visible { op, object, path } => self.visible(edge, *op, *object, path, atoms)?,
        };
        match holds {
            true => Ok(()),
            false => reject(format!(
                "the edge from {} to {} is not in the history",
                history.show_txn(*from),
                history.show_txn(*to)
            )),
        }
    }

    /// Whether timestamps put `from` before `to`, at a level that heeds them.
    fn recorded(&self, stamp: Stamp, from: TxnId, to: TxnId) -> bool {
        let (evidence, family) = (self.history.evidence(), self.question.level.family());
        let (stamps, heeded) = match stamp {
            Stamp::Serialization => {
                ((evidence.serialization(from), evidence.serialization(to)), Family::Serial)
            }
            Stamp::Commit => ((evidence.commit(from), evidence.commit(to)), Family::Snapshot),
            // One at or before the other is one before the other plus one.
            Stamp::Inside => {
                let snapshot = evidence.snapshot(to).map(|ts| ts.saturating_add(1));
                ((evidence.commit(from), snapshot), Family::Snapshot)
            }
            Stamp::Outside => ((evidence.snapshot(from), evidence.commit(to)), Family::Snapshot),
        };
        family == heeded && matches!(stamps, (Some(first), Some(second)) if first < second)
    }

    fn committed(&self, txn: TxnId, atoms: &mut Vec<Atom>) -> Result<(), Rejected> {
        match self.history.outcome(txn) {
            Outcome::Committed => Ok(()),
            Outcome::Unknown => {
                atoms.push(Atom::Committed(txn));
                Ok(())
            }
            Outcome::Aborted => reject(format!("{} aborted", self.history.show_txn(txn))),
        }
    }

    /// The operation is the transaction's, and sees a version of another transaction's.
    fn external(&self, op: OpId, object: ObjectId, txn: TxnId) -> Result<(), Rejected> {
        let own = self.history.txn_of(op) == txn;
        match self.candidates.sight(op, object)? {
            PossibleSight::External(_) if own => Ok(()),
            PossibleSight::Internal(_) if own && self.shows_version_before(op, object)? => Ok(()),
            _ => reject(format!(
                "{} does not see another transaction's version of {} there",
                self.history.show_txn(txn),
                self.history.show_object(object)
            )),
        }
    }

    /// Whether an operation that sees its own transaction's writes also counts as a read of the
    /// version before them.
    fn shows_version_before(&self, op: OpId, object: ObjectId) -> Result<bool, Rejected> {
        let counts = matches!(self.question.level.family(), Family::CommitOrder(_));
        Ok(counts && self.candidates.sight_before_own(op, object)?.is_some())
    }

    /// The operation is the transaction's, and sees what another transaction made of the column.
    fn external_column(
        &self,
        op: OpId,
        object: ObjectId,
        column: NameId,
        txn: TxnId,
    ) -> Result<(), Rejected> {
        let own = self.history.txn_of(op) == txn;
        // Where writers overlap, a row that the transaction wrote itself stands on the version
        // before its own, not on its snapshot.
        let wrote = |op: Op<'_>| op.kind.writes() && op.accesses.iter().any(|a| a.object == object);
        let mut before = self.history.ops(txn).take_while(|before| before.id < op);
        let stands = self.question.level != Level::Prefix || !before.any(wrote);
        match self.candidates.column_sight(op, object, column)? {
            Some(_) if own && stands => Ok(()),
            _ => reject(format!(
                "{} does not see what another transaction made of that column of {} there",
                self.history.show_txn(txn),
                self.history.show_object(object)
            )),
        }
    }

    fn before(
        &self,
        object: ObjectId,
        version: Version,
        to: TxnId,
        atoms: &mut Vec<Atom>,
    ) -> Result<bool, Rejected> {
        let Version::Of(from) = version else { return Ok(true) };
        self.committed(from, atoms)?;
        atoms.push(Atom::Before(object, from, to));
        Ok(from != to && self.candidates.writes(from, object))
    }

    /// By an axiom: the reader saw `to`'s version, and `from`, which wrote one too, is visible to
    /// it.
    fn visible(
        &self,
        edge: &Edge,
        op: OpId,
        object: ObjectId,
        path: &[Edge],
        atoms: &mut Vec<Atom>,
    ) -> Result<bool, Rejected> {
        let reader = self.history.txn_of(op);
        self.external(op, object, reader)?;
        self.committed(reader, atoms)?;
        atoms.push(Atom::Saw(op, object, None, Version::Of(edge.to)));
        for edge in path {
            self.edge(edge, atoms)?;
        }
        let writes = self.candidates.writes(edge.from, object) && self.candidates.writes(edge.to, object);
        Ok(writes && edge.from != reader && self.makes_visible(edge.from, path, op)?)
    }

    /// Whether the path makes `from` visible to the transaction of `op`, by the level's axiom.
    fn makes_visible(&self, from: TxnId, path: &[Edge], op: OpId) -> Result<bool, Rejected> {
        closes(path.iter().zip(path.iter().skip(1)))?;
        let ends = path.first().map(|e| e.from) == Some(from)
            && path.last().map(|e| e.to) == Some(self.history.txn_of(op));
        let steps = path.iter().all(|e| matches!(e.reason, Reason::Session | Reason::Read { .. }));
        Ok(ends
            && steps
            && match self.question.level.family() {
                Family::CommitOrder(Axiom::ReadBefore) => {
                    matches!(path, [Edge { reason: Reason::Read { op: earlier, .. }, .. }] if *earlier < op)
                }
                Family::CommitOrder(Axiom::Direct) => path.len() == 1,
                Family::CommitOrder(Axiom::Causal) => true,
                _ => false,
            })
    }

    fn forbidden(&self, edges: &[Edge]) -> Result<bool, Rejected> {
        let rw = edges.iter().filter(|e| e.reason.is_anti()).count();
        let wr = edges.iter().any(|e| e.reason.is_read());
        let visible = edges.iter().any(|e| matches!(e.reason, Reason::Visible { .. }));
        let level = self.question.level;
        let columns = edges.iter().any(|e| e.reason.is_of_column());
        Ok(match (level.family(), level) {
            (family, _)
                if columns
                    && !matches!(level, Level::Prefix | Level::RepeatableRead | Level::ReadCommitted)
                    && !matches!(family, Family::Serial | Family::Snapshot) =>
            {
                return reject(format!("{level} is not defined by columns"));
            }
            (_, Level::ReadUncommitted) => !wr && rw == 0 && !visible,
            (_, Level::ReadCommitted) => rw == 0 && !visible,
            (_, Level::RepeatableRead) => !visible && edges.iter().all(|e| self.counts_as_item(e)),
            (_, Level::ParallelSnapshot) => !visible && rw <= 1,
            (Family::Serial, _) => !visible,
            (Family::Snapshot, _) | (_, Level::Prefix) => !visible && self.walks_forward(edges),
            _ if rw == 0 => true,
            _ => rw == 1 && self.unseen_though_visible(edges)?,
        })
    }

    /// Of a column that was seen after an own write of the row, the one who wrote it later wrote a
    /// later version than the transaction's own.
    fn counts_as_item(&self, edge: &Edge) -> bool {
        let returned = |op: Op<'_>, object| op.accesses.iter().any(|access| access.object == object);
        match edge.reason {
            Reason::AntiRead { op, object, .. } => returned(self.history.op(op), object),
            Reason::AntiReadColumn { op, object, .. } => {
                let mut before = self.history.ops(edge.from).take_while(|before| before.id < op);
                let wrote = before.any(|before| before.kind.writes() && returned(before, object));
                wrote || returned(self.history.op(op), object)
            }
            _ => true,
        }
    }

    fn walks_forward(&self, edges: &[Edge]) -> bool {
        let overlap = self.question.level == Level::Prefix;
        let leaves_at_begin = |e: &Edge| e.reason.is_anti() || e.reason == Reason::Recorded(Stamp::Outside);
        let enters_at_commit = |e: &Edge| {
            leaves_at_begin(e)
                || overlap && matches!(e.reason, Reason::Write { .. })
                || e.reason == Reason::Recorded(Stamp::Commit)
        };
        edges
            .iter()
            .zip(edges.iter().cycle().skip(1))
            .all(|(a, b)| !(enters_at_commit(a) && leaves_at_begin(b)))
    }

    /// The reader's version comes before the overwriter's, which the rest of the cycle makes
    /// visible to it.
    fn unseen_though_visible(&self, edges: &[Edge]) -> Result<bool, Rejected> {
        let Some(start) = edges.iter().position(|e| matches!(e.reason, Reason::AntiRead { .. })) else {
            return Ok(false);
        };
        let Reason::AntiRead { op, .. } = edges[start].reason else { return Ok(false) };
        let path: Vec<Edge> = edges[start + 1..].iter().chain(&edges[..start]).cloned().collect();
        self.makes_visible(edges[start].to, &path, op)
    }
}

fn closes<'a>(pairs: impl Iterator<Item = (&'a Edge, &'a Edge)>) -> Result<(), Rejected> {
    for (a, b) in pairs {
        if a.to != b.from {
            return reject("the edges of a lemma do not follow each other");
        }
    }
    Ok(())
}
