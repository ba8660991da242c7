//! Lemmas that leave no possibility.
//!
//! # Mathematics
//! See [`Certificate`](margay_verdict::Certificate): a lemma says that its assumptions cannot all
//! be true. The axioms say what must be true whatever happened; audit derives them from the
//! history, for the atoms that lemmas mention:
//! 1. if a transaction committed, its read saw one of its candidates; who was seen committed (for
//!    an unknown transaction, all reads that may have seen it are asked, and whether what it saw
//!    itself can be explained at all: if not, it did not commit);
//! 2. of two committed writers one is before the other (one variable for both ways, so never both);
//!    the initial version is before all;
//! 3. what evidence and lists say ([`super::facts`]).
//!
//! If these and the lemmas have no model, nothing that the history allows satisfies the level.
//!
//! # Algorithm
//! A lemma whose every assumption is certain settles it: the plain cycle. Otherwise a SAT solver is
//! asked. It is the crate that engine solve uses too (with clauses of its own making): a second,
//! different solver is still to come.

use batsat::{BasicSolver, Lit, SolverInterface, lbool};
use hashbrown::{HashMap, HashSet};
use margay_history::{History, NameId, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Version};
use margay_levels::Level;
use margay_verdict::{Budget, Lemma, Predicates, Question};

use super::candidates::{Candidates, PossibleSight};
use super::facts::Facts;
use super::lemma::{Atom, Reading, objects};
use super::{Rejected, reject};

pub(super) fn audit(
    history: &History,
    question: Question,
    lemmas: &[Lemma],
    budget: &Budget,
) -> Result<(), Rejected> {
    let mut mentioned = HashSet::new();
    for lemma in lemmas {
        objects(history, lemma, &mut |object| _ = mentioned.insert(object))?;
    }
    for edge in lemmas.iter().flat_map(|lemma| &lemma.edges) {
        mentioned.extend(written_if_unknown(history, edge.from));
    }
    if question.level != Level::ReadUncommitted {
        while touched_if_unknown(history, &mut mentioned) {}
    }
    let predicates = Predicates::lenient(history).within(budget);
    let candidates = Candidates::new(&predicates, |object| mentioned.contains(&object));
    let facts = Facts::new(history, question, &candidates, &mentioned);
    let reading = Reading { history, question, candidates: &candidates };
    let mut refuted = Vec::with_capacity(lemmas.len());
    for lemma in lemmas {
        budget.poll()?;
        refuted.push(reading.assumptions(lemma)?);
    }
    let reads_count = question.level != Level::ReadUncommitted;
    let mut axioms = Axioms::new(&predicates, &candidates, &facts, reads_count);
    for assumptions in &refuted {
        budget.poll()?;
        if axioms.all_certain(assumptions)? {
            return Ok(());
        }
    }
    axioms.solve(&refuted)
}

/// What a transaction of unknown outcome writes.
fn written_if_unknown(history: &History, txn: TxnId) -> Vec<ObjectId> {
    if txn.index() >= history.txn_count() || history.outcome(txn) != Outcome::Unknown {
        return Vec::new();
    }
    let writes = history.ops(txn).filter(|op| op.kind.writes());
    writes.flat_map(|op| op.accesses).map(|access| access.object).collect()
}

/// Adds what transactions of unknown outcome read and write that touch one of these objects;
/// answers whether anything is new.
fn touched_if_unknown(history: &History, objects: &mut HashSet<ObjectId>) -> bool {
    let before = objects.len();
    for txn in history.txns().filter(|&txn| history.outcome(txn) == Outcome::Unknown) {
        let touched = |op: &Op<'_>| op.kind == OpKind::Read || op.kind.writes();
        let accesses = || history.ops(txn).filter(touched).flat_map(|op| op.accesses).map(|a| a.object);
        if accesses().any(|object| objects.contains(&object)) {
            objects.extend(accesses());
        }
    }
    objects.len() > before
}

/// What was seen: an object by an operation, or one of its columns.
type Seen = (OpId, ObjectId, Option<NameId>);

/// The axioms over the atoms that lemmas mention.
struct Axioms<'a, 'p> {
    history: &'p History,
    candidates: &'a Candidates<'p>,
    facts: &'a Facts<'p>,
    budget: &'p Budget,
    /// Not so at `read-uncommitted`, where being seen proves nothing.
    reads_count: bool,
    sights: HashMap<Seen, Vec<Version>>,
    /// The reads whose axiom is there.
    read: HashSet<Seen>,
    literals: HashMap<Atom, Lit>,
    solver: BasicSolver,
}

impl<'a, 'p> Axioms<'a, 'p> {
    fn new(
        predicates: &'p Predicates<'p>,
        candidates: &'a Candidates<'p>,
        facts: &'a Facts<'p>,
        reads_count: bool,
    ) -> Self {
        let (history, budget) = (predicates.history(), predicates.budget());
        let (mut solver, asked) = (BasicSolver::default(), budget.clone());
        solver.cb_mut().set_stop(move || asked.poll().is_err());
        let (sights, read, literals) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { history, candidates, facts, budget, reads_count, sights, read, literals, solver }
    }

    fn sight(&mut self, seen: Seen) -> Result<&[Version], Rejected> {
        if !self.sights.contains_key(&seen) {
            self.budget.poll()?;
            let versions = match self.external(seen)? {
                Some(versions) => versions,
                None => return reject("a lemma is about a read that sees no other transaction's version"),
            };
            self.sights.insert(seen, versions);
        }
        Ok(&self.sights[&seen])
    }

    /// The versions that may have been seen, if they are other transactions'.
    fn external(&self, (op, object, column): Seen) -> Result<Option<Vec<Version>>, Rejected> {
        match column {
            Some(column) => self.candidates.column_sight(op, object, column),
            None => Ok(match self.candidates.sight(op, object)? {
                PossibleSight::External(versions) => Some(versions),
                PossibleSight::Internal(_) => self.candidates.sight_before_own(op, object)?,
                PossibleSight::Blind => None,
            }),
        }
    }

    /// Whether assumptions are certain. That the readers and writers committed is among the
    /// assumptions of every lemma, so here it is given.
    fn all_certain(&mut self, atoms: &[Atom]) -> Result<bool, Rejected> {
        for &atom in atoms {
            let certain = match atom {
                Atom::Committed(txn) => self.facts.is_committed(txn),
                Atom::Saw(op, object, column, version) => self.sight((op, object, column))? == [version],
                Atom::Before(object, a, b) => self.facts.before(object, a, b),
            };
            if !certain {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The literal of an atom; its axioms are added when it is first met. `None` for what is
    /// certain.
    fn literal(&mut self, atom: Atom) -> Result<Option<Lit>, Rejected> {
        if let Atom::Committed(txn) = atom
            && self.history.outcome(txn) == Outcome::Committed
        {
            return Ok(None);
        }
        if let Some(&literal) = self.literals.get(&atom) {
            return Ok(Some(literal));
        }
        let literal = Lit::new(self.solver.new_var_default(), true);
        self.literals.insert(atom, literal);
        match atom {
            Atom::Committed(txn) => {
                if self.facts.is_committed(txn) {
                    self.clause(vec![literal]);
                }
                if self.reads_count {
                    self.sightings(txn)?;
                    for reader in self.facts.shown_by(txn) {
                        let read = self.literal(Atom::Committed(reader))?;
                        self.clause(read.map(|l| !l).into_iter().chain([literal]).collect());
                    }
                    if self.saw_the_impossible(txn) {
                        self.clause(vec![!literal]);
                    }
                }
            }
            Atom::Saw(op, object, column, version) => {
                if let Version::Of(txn) = version
                    && let Some(committed) = self.literal(Atom::Committed(txn))?
                {
                    self.clause(vec![!literal, committed]);
                }
                self.some_version((op, object, column))?;
            }
            Atom::Before(object, a, b) => {
                self.literals.insert(Atom::Before(object, b, a), !literal);
                let both = self.both_committed(a, b)?;
                for (first, second, literal) in [(a, b, literal), (b, a, !literal)] {
                    for through in self.facts.before_through(object, first, second) {
                        let mut clause: Vec<Lit> = both.iter().map(|&l| !l).collect();
                        for txn in through {
                            clause.extend(self.literal(Atom::Committed(txn))?.map(|l| !l));
                        }
                        clause.push(literal);
                        self.clause(clause);
                    }
                }
            }
        }
        Ok(Some(literal))
    }

    /// Whether a transaction read what nothing explains, so that it cannot have committed.
    fn saw_the_impossible(&self, txn: TxnId) -> bool {
        let mut reads = self.history.ops(txn).filter(|op| op.kind == OpKind::Read);
        reads.any(|op| {
            op.accesses.iter().any(|access| match self.candidates.sight(op.id, access.object) {
                Ok(PossibleSight::External(versions)) => versions.is_empty(),
                Ok(PossibleSight::Internal(explained)) => !explained,
                _ => false,
            })
        })
    }

    /// Who may have seen an unknown transaction may show that it committed.
    fn sightings(&mut self, txn: TxnId) -> Result<(), Rejected> {
        for object in written_if_unknown(self.history, txn) {
            let columns = self.candidates.written_columns(txn, object);
            for place in 0..self.candidates.accesses(object).len() {
                self.budget.poll()?;
                let op = self.candidates.accesses(object)[place].0;
                for column in std::iter::once(None).chain(columns.iter().copied().map(Some)) {
                    let seen = (op, object, column);
                    if self.external(seen).is_ok_and(|v| v.is_some_and(|v| v.contains(&Version::Of(txn)))) {
                        self.some_version(seen)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn both_committed(&mut self, a: TxnId, b: TxnId) -> Result<Vec<Lit>, Rejected> {
        let both = [self.literal(Atom::Committed(a))?, self.literal(Atom::Committed(b))?];
        Ok(both.into_iter().flatten().collect())
    }

    /// A committed transaction's read saw one of its candidates. The recursion ends because every
    /// read is met once.
    fn some_version(&mut self, seen: Seen) -> Result<(), Rejected> {
        if !self.read.insert(seen) {
            return Ok(());
        }
        let (op, object, column) = seen;
        let versions = self.sight(seen)?.to_vec();
        let mut clause = Vec::with_capacity(versions.len() + 1);
        clause.extend(self.literal(Atom::Committed(self.history.txn_of(op)))?.map(|l| !l));
        for version in versions {
            clause.extend(self.literal(Atom::Saw(op, object, column, version))?);
        }
        self.clause(clause);
        Ok(())
    }

    fn clause(&mut self, mut literals: Vec<Lit>) {
        self.solver.add_clause_reuse(&mut literals);
    }

    fn solve(mut self, refuted: &[Vec<Atom>]) -> Result<(), Rejected> {
        for atoms in refuted {
            self.budget.poll()?;
            let mut clause = Vec::with_capacity(atoms.len());
            for &atom in atoms {
                clause.extend(self.literal(atom)?.map(|l| !l));
            }
            self.clause(clause);
        }
        match self.solver.solve_limited(&[]) == lbool::FALSE {
            true => Ok(()),
            false => reject("the lemmas leave a possibility"),
        }
    }
}
