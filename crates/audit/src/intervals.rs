//! That a mechanism was not at work, by the intervals of the whole history.
//!
//! # Problem
//! A certificate names the mechanisms that a database is said to have, and a place where one of
//! them cannot have been at work. It is true if the definitions in [`margay_mechanisms`] say so of
//! the history: here nothing is streamed, forgotten or taken over from an engine.
//!
//! # Algorithm
//! The versions of each object in question are collected from all transactions. A read is judged
//! together with those that share its snapshot; two locks and two updates by their four instants;
//! every dependency of a cycle by itself.
//!
//! # Cost
//! One pass over the history for each object in question.

use margay_history::{
    Access, History, Interval, ObjectId, Op, OpId, OpKind, PredicateId, ReadLock, TxnId, ValueId, Version,
};
use margay_levels::profile::Granularity;
use margay_mechanisms::{
    Course, Fact, ObjectSight, Pattern, Saw, Searches, Unseen, World, Written, close_unknown, common,
    dangerous, explain, interval, left, need_not_meet, returned, took_effect, unfit,
};
use margay_verdict::mechanism::{Certified, Locking, Mechanisms, ReadView};
use margay_verdict::{Breach, Broken, Budget, Edge, Reason};

use super::{Rejected, reject};

pub(super) fn audit(history: &History, breach: &Breach, budget: &Budget) -> Result<(), Rejected> {
    if let Some(why) = unfit(history) {
        return reject(format!("outside of what intervals tell: {why}"));
    }
    let judge = Judge { history, mechanisms: breach.mechanisms, searches: Searches::of(history), budget };
    let broken = match &breach.broken {
        Broken::Read { op } => judge.read(*op)?,
        Broken::Locks { object, ops } => judge.locks(*object, *ops)?,
        Broken::Updates { object, txns } => judge.updates(*object, *txns)?,
        Broken::Dependencies(edges) => judge.dependencies(edges)?,
    };
    if broken { Ok(()) } else { reject("the mechanism may have been at work") }
}

/// What one operation tells of others' versions of one object.
struct Seen {
    op: OpId,
    object: ObjectId,
    saw: Saw,
}

/// What an operation may have seen of an object.
struct Look {
    /// All versions of the object by others.
    all: Vec<(Version, Fact)>,
    /// Those among them that it may have seen.
    candidates: Vec<usize>,
    snapshot: Interval,
    saw: Saw,
}

impl Look {
    /// The version whose value it returned, where only one is possible.
    fn read(&self) -> Option<&(Version, Fact)> {
        match (self.candidates.as_slice(), self.saw) {
            ([one], Saw::Value(_)) => Some(&self.all[*one]),
            _ => None,
        }
    }
}

struct Judge<'h> {
    history: &'h History,
    mechanisms: Mechanisms,
    searches: Searches,
    budget: &'h Budget,
}

impl<'h> Judge<'h> {
    fn world(&self) -> World<'_> {
        World { values: self.history.values(), searches: &self.searches }
    }

    fn op(&self, id: OpId) -> Result<Op<'h>, Rejected> {
        match id.index() < self.history.op_count() {
            true => Ok(self.history.op(id)),
            false => reject("the certificate names an operation that the history does not have"),
        }
    }

    fn at(&self, op: &Op<'_>) -> Interval {
        let at = interval(self.history, op).unwrap_or(Interval::new(i64::MIN, i64::MAX));
        common(at, self.history.header().skew)
    }

    fn course(&self, txn: TxnId) -> Course {
        let (mut course, mut written) = (Course::default(), Vec::new());
        for op in self.history.ops(txn) {
            let own = op.kind == OpKind::Read && op.accesses.iter().all(|a| written.contains(&a.object));
            let own = own || !self.is_plain(&op);
            course.push(op.kind, self.at(&op), op.accesses, own);
            if op.kind.writes() {
                written.extend(op.accesses.iter().map(|access| access.object));
            }
        }
        course
    }

    fn committed(&self, txn: TxnId) -> Result<Course, Rejected> {
        if txn.index() >= self.history.txn_count() {
            return reject("the certificate names a transaction that the history does not have");
        }
        let course = self.course(txn);
        match course.committed() {
            true if course.is_opaque() => reject("a transaction with a statement of which nothing is known"),
            true => Ok(course),
            false => reject("a transaction did not commit for certain"),
        }
    }

    /// What a transaction made of an object before operation `until`.
    fn written(&self, txn: TxnId, object: ObjectId, until: Option<OpId>) -> Written {
        let mut written = Written::default();
        let before = |op: &Op<'_>| op.kind.writes() && until.is_none_or(|until| op.id < until);
        for op in self.history.ops(txn).filter(before) {
            let at = self.at(&op);
            for access in op.accesses.iter().filter(|access| access.object == object) {
                written.push(op.kind, at, access.value, self.history.values());
                written.step(op.kind, at, access.value);
            }
            let unseen = Unseen::of(self.history, &op, at);
            let touches = |unseen: &Unseen| unseen.touches(object, &self.searches, self.history.values());
            unseen.filter(touches).into_iter().for_each(|unseen| written.push_unseen(&unseen.pattern));
        }
        written
    }

    /// Every version of an object, the initial one first.
    fn versions(&self, object: ObjectId) -> Vec<(Version, Fact)> {
        let mut all = vec![(Version::Initial, Fact::initial(self.history.initial(object)))];
        for txn in self.history.txns() {
            if self.budget.poll().is_err() {
                return all;
            }
            let (mut written, course) = (self.written(txn, object, None), self.course(txn));
            if course.is_opaque() {
                written.push_unseen(&Pattern::Any);
            }
            let unheard = Fact::unheard(&course, self.mechanisms.view);
            let made = self.made(written, &course).into_iter().chain(unheard);
            all.extend(made.map(|fact| (Version::Of(txn), fact)));
        }
        close_unknown(&mut all);
        if self.mechanisms.skips_unchanged {
            self.spare_unchanged(&mut all);
        }
        self.spare_insertions(&mut all);
        all
    }

    /// Nobody is refused because of a write that may have left the object as it was.
    fn spare_unchanged(&self, all: &mut [(Version, Fact)]) {
        let made = all.to_vec();
        for (version, fact) in all.iter_mut().filter(|(version, _)| *version != Version::Initial) {
            if self.budget.poll().is_err() {
                return;
            }
            let others = made.iter().filter(|(other, _)| other != version).map(|(_, other)| other);
            fact.may_change_nothing(&others.collect::<Vec<_>>(), self.history.values());
        }
    }

    /// Updates that may be insertions over a deletion are refused nowhere for certain.
    fn spare_insertions(&self, all: &mut [(Version, Fact)]) {
        for place in 0..all.len() {
            if self.budget.poll().is_err() {
                return;
            }
            let (version, mut fact) = all[place].clone();
            if let (Version::Of(txn), Some(_)) = (version, fact.snapshot) {
                let others = all.iter().filter(|(other, _)| *other != version).map(|(_, other)| other);
                fact.may_be_inserted(self.course(txn).start(), others);
                all[place].1 = fact;
            }
        }
    }

    /// What a transaction made of an object, as others see it.
    fn made(&self, written: Written, course: &Course) -> Vec<Fact> {
        let values = self.history.values();
        match self.mechanisms.view {
            _ if written.is_empty() => Vec::new(),
            ReadView::Uncommitted => written.facts(course, values),
            _ if course.aborted() => Vec::new(),
            _ => vec![written.fact(course, &self.mechanisms, values)],
        }
    }

    /// Whether an operation sees what plain reads see.
    fn is_plain(&self, op: &Op<'_>) -> bool {
        let unlike = self.mechanisms.locking.sees_newest() || self.mechanisms.locking == Locking::Nothing;
        !unlike || self.history.read_lock(op.id).is_none()
    }

    fn is_read(op: &Op<'_>) -> bool {
        matches!(op.kind, OpKind::Read | OpKind::Scan)
    }

    /// The condition of a search whose rows are known: a scan, or an update where it searches what
    /// reads see.
    fn search(&self, op: &Op<'_>) -> Option<PredicateId> {
        if !self.is_plain(op) {
            return None;
        }
        let scan = self.history.scan(op.id).filter(|scan| scan.observed && self.mechanisms.scans_whole());
        let update = self.history.update(op.id).filter(|u| u.observed && self.mechanisms.update_search);
        scan.map(|scan| scan.predicate).or(update.map(|update| update.predicate))
    }

    /// What an operation tells of every object: of those that it returned or changed, and of those
    /// that a search left out.
    fn tells(&self, op: &Op<'_>) -> Vec<Seen> {
        let search = self.search(op);
        let mut all = Vec::new();
        if self.mechanisms.locking == Locking::Nothing && self.history.read_lock(op.id).is_some() {
            return all;
        }
        for access in op.accesses {
            let again = op.accesses.iter().filter(|a| a.object == access.object).count() > 1;
            let saw = match (Self::is_read(op), search) {
                (true, _) if access.value != ValueId::UNKNOWN => Saw::Value(access.value),
                (false, Some(predicate)) => Saw::With(predicate),
                _ => continue,
            };
            let own = || !self.written(self.history.txn_of(op.id), access.object, Some(op.id)).is_empty();
            if !again || (self.mechanisms.sees_own_alone() && own()) {
                all.push(Seen { op: op.id, object: access.object, saw });
            }
        }
        let Some(predicate) = search else { return all };
        let left_out = self.history.objects().filter(|object| {
            self.searches.table_of(*object) == self.searches.searched(predicate)
                && !op.accesses.iter().any(|access| access.object == *object)
        });
        all.extend(left_out.map(|object| Seen { op: op.id, object, saw: Saw::Without(predicate) }));
        all
    }

    /// What the reads that are explained together with what `op` saw of `object` saw of others.
    fn group(&self, op: &Op<'_>, object: ObjectId) -> Vec<Seen> {
        let txn = self.history.txn_of(op.id);
        let plain = self.is_plain(op);
        let shared = plain && self.mechanisms.view.is_shared();
        let together = |other: &Op<'_>| other.id == op.id || (shared && self.is_plain(other));
        let mut all = Vec::new();
        for other in self.history.ops(txn).filter(together) {
            all.extend(self.tells(&other).into_iter().filter(|seen| {
                let asked = (plain && self.mechanisms.together) || seen.object == object;
                asked && self.is_of_others(txn, seen.object, other.id)
            }));
        }
        all
    }

    /// The snapshot's interval as far as the group narrows it; none if nothing explains the group.
    fn snapshot(&self, op: &Op<'_>, object: ObjectId) -> Option<Interval> {
        let course = self.course(self.history.txn_of(op.id));
        let whole = match self.is_plain(op) {
            true => course.snapshot(self.mechanisms.view, self.at(op)),
            false => self.at(op),
        };
        self.explained(&self.group(op, object), whole)
    }

    /// The part of an interval in which a snapshot shows what was seen, if there is one.
    fn explained(&self, group: &[Seen], whole: Interval) -> Option<Interval> {
        let versions: Vec<Vec<(Version, Fact)>> = group.iter().map(|seen| self.others(seen)).collect();
        let facts: Vec<Vec<&Fact>> =
            versions.iter().map(|all| all.iter().map(|(_, fact)| fact).collect()).collect();
        let sight =
            |(seen, versions): (&Seen, _)| ObjectSight { object: seen.object, saw: seen.saw, versions };
        let mut sights: Vec<ObjectSight<'_>> =
            group.iter().zip(facts.iter().map(Vec::as_slice)).map(sight).collect();
        let columns: Vec<(ObjectId, Saw, Vec<&Fact>)> = sights.iter().flat_map(|s| self.columns(s)).collect();
        sights.extend(columns.iter().map(|(object, saw, versions)| ObjectSight {
            object: *object,
            saw: *saw,
            versions,
        }));
        explain(&sights, whole, self.world()).ok()
    }

    /// The columns of a row that partial writes left alone.
    fn columns<'a>(&self, sight: &ObjectSight<'a>) -> Vec<(ObjectId, Saw, Vec<&'a Fact>)> {
        let columns = sight.saw.columns(sight.versions, self.history.values());
        columns.into_iter().map(|(saw, versions)| (sight.object, saw, versions)).collect()
    }

    fn others(&self, seen: &Seen) -> Vec<(Version, Fact)> {
        let mut all = self.versions(seen.object);
        let me = Version::Of(self.history.txn_of(seen.op));
        all.retain(|(version, _)| *version != me || !self.mechanisms.keeps_own());
        all
    }

    /// Whether what an operation saw of an object tells of others: its transaction had not written
    /// it, or did not keep others away.
    fn is_of_others(&self, txn: TxnId, object: ObjectId, op: OpId) -> bool {
        !self.mechanisms.keeps_own() || self.written(txn, object, Some(op)).is_empty()
    }

    fn read(&self, op: OpId) -> Result<bool, Rejected> {
        let op = self.op(op)?;
        let txn = self.history.txn_of(op.id);
        self.committed(txn)?;
        let reads = Self::is_read(&op) || self.search(&op).is_some();
        if !reads {
            return reject("no read");
        }
        let mut told: Vec<ObjectId> = self.tells(&op).into_iter().map(|seen| seen.object).collect();
        told.truncate(if self.mechanisms.together && self.is_plain(&op) { 1 } else { told.len() });
        let unexplained = told.into_iter().any(|object| self.snapshot(&op, object).is_none());
        Ok(self.misses_own(txn, &op) || unexplained || self.is_outdated(txn, &op))
    }

    /// Whether a locking read returned a row that had been changed since its snapshot, where that
    /// is refused.
    fn is_outdated(&self, txn: TxnId, op: &Op<'_>) -> bool {
        let refused = self.mechanisms.locking == Locking::Snapshot && self.mechanisms.first_updater_wins;
        if !refused || self.history.read_lock(op.id).is_none() {
            return false;
        }
        let of_others = |seen: &Seen| {
            matches!(seen.saw, Saw::Value(value) if returned(value))
                && self.written(txn, seen.object, Some(op.id)).is_empty()
        };
        let at = self.at(op);
        self.tells(op).into_iter().filter(of_others).any(|seen| self.explained(&[seen], at).is_none())
    }

    /// Whether an operation did not see what its own transaction had written, or left a row out
    /// that its own transaction had made match.
    fn misses_own(&self, txn: TxnId, op: &Op<'_>) -> bool {
        self.tells(op).into_iter().any(|seen| {
            let own = self.written(txn, seen.object, Some(op.id));
            match (seen.saw, own.pattern.as_ref().filter(|_| own.unseen.is_none())) {
                (Saw::Value(value), _) => {
                    self.mechanisms.keeps_own()
                        && !own.shows(value, self.history.values())
                        && !self.may_see_both(txn, seen.object, &own)
                }
                (Saw::Without(_), Some(own)) => seen.saw.is_changed_by(seen.object, own, self.world()),
                _ => false,
            }
        })
    }

    /// Whether a transaction may see the row that it has replaced beside its own.
    fn may_see_both(&self, txn: TxnId, object: ObjectId, own: &Written) -> bool {
        let versions = self.versions(object);
        let others = versions.iter().filter(|(version, _)| *version != Version::Of(txn));
        self.mechanisms.sees_both()
            && own.may_be_inserted(self.course(txn).start(), others.map(|(_, fact)| fact))
    }

    /// The condition that a search locks, where it locks what it searched.
    fn region(&self, op: &Op<'_>) -> Option<PredicateId> {
        let course = self.course(self.history.txn_of(op.id));
        let gaps = self.mechanisms.locking == Locking::NewestGaps && self.history.read_lock(op.id).is_some();
        let reads = gaps || (self.mechanisms.read_regions && course.locks_reads(&self.mechanisms));
        let scan = self.history.scan(op.id).filter(|_| reads);
        let update = self.history.update(op.id).filter(|_| self.mechanisms.write_regions);
        scan.map(|scan| scan.predicate).or(update.map(|update| update.predicate))
    }

    /// Whether an operation made the object match what another one had searched.
    fn enters(&self, object: ObjectId, op: OpId, region: PredicateId) -> Result<bool, Rejected> {
        let op = self.op(op)?;
        let values = self.history.values();
        let written = op.accesses.iter().filter(|a| a.object == object && took_effect(op.kind, a.value));
        let mut patterns = written.map(|a| Pattern::written(None, op.kind, a.value, values));
        Ok(patterns.any(|p| self.searches.holds(region, object, &p, values) == Some(true)))
    }

    /// Whether an update finds the row that another one changed: the other found it by a condition
    /// that is part of its own. Both update it, so both lock the row itself.
    fn finds(
        &self,
        update: &Op<'_>,
        region: PredicateId,
        object: ObjectId,
        other: OpId,
    ) -> Result<bool, Rejected> {
        let other = self.op(other)?;
        let changed = other.accesses.iter().any(|a| a.object == object && took_effect(other.kind, a.value));
        let (Some(_), Some(found)) = (self.history.update(update.id), self.history.update(other.id)) else {
            return Ok(false);
        };
        let newest = !self.mechanisms.update_search;
        Ok(changed && newest && self.searches.contains(region, found.predicate))
    }

    /// Until when what an operation wrote to an object stayed so, at least.
    fn stayed(&self, object: ObjectId, op: OpId) -> i64 {
        let mut later = self.history.ops(self.history.txn_of(op)).filter(|next| next.id > op);
        let again = later.find(|next| {
            let on_object = |a: &&Access| a.object == object && took_effect(next.kind, a.value);
            next.accesses.iter().any(|a| on_object(&a))
        });
        again.map_or(i64::MAX, |next| self.at(&next).before)
    }

    /// By when an operation had locked the object, until when at least, and whether for itself
    /// alone. A search locks what `other` makes match.
    fn lock(&self, object: ObjectId, op: OpId, other: OpId) -> Result<(i64, i64, bool), Rejected> {
        let op = self.op(op)?;
        let course = self.course(self.history.txn_of(op.id));
        let on_object = || op.accesses.iter().filter(|access| access.object == object);
        let anywhere = self.mechanisms.write_locks == Some(Granularity::Database);
        let wrote = match anywhere {
            true => op.accesses.iter().any(|access| took_effect(op.kind, access.value)),
            false => on_object().any(|access| took_effect(op.kind, access.value)),
        };
        let locking = self.history.read_lock(op.id).filter(|_| self.mechanisms.locking.locks());
        let gaps = self.mechanisms.read_regions
            || (locking.is_some() && self.mechanisms.locking == Locking::NewestGaps);
        let there = |value| returned(value) || (value == ValueId::NULL && gaps);
        let read = Self::is_read(&op) && on_object().any(|access| there(access.value));
        let alone = locking == Some(ReadLock::Exclusive) && on_object().any(|access| returned(access.value));
        let exclusive = (wrote || alone) && self.mechanisms.write_locks.is_some();
        let shared = read && (locking.is_some() || course.locks_reads(&self.mechanisms));
        let region = match self.region(&op) {
            Some(region) => self.enters(object, other, region)? || self.finds(&op, region, object, other)?,
            None => false,
        };
        if !exclusive && !shared && !region {
            return reject("an operation takes no lock");
        }
        let searched =
            |other: Op<'h>| self.history.scan(other.id).is_some() || self.history.update(other.id).is_some();
        // Another one that only searched finds what is there, not what was there for a while. Where
        // writes lock the whole database, it is locked as long.
        let only_searched = !anywhere
            && searched(self.op(other)?)
            && !self.op(other)?.accesses.iter().any(|a| a.object == object);
        let stayed = if only_searched { self.stayed(object, op.id) } else { i64::MAX };
        let (by, until) = (self.at(&op).after, course.held_until().min(stayed));
        if !course.was_done(self.at(&op)) {
            return reject("an operation may not have been done");
        }
        Ok((by, until, exclusive))
    }

    fn locks(&self, object: ObjectId, ops: [OpId; 2]) -> Result<bool, Rejected> {
        let (first, second) = (self.lock(object, ops[0], ops[1])?, self.lock(object, ops[1], ops[0])?);
        if self.history.txn_of(ops[0]) == self.history.txn_of(ops[1]) {
            return reject("a transaction does not exclude itself");
        }
        let apart = self.need_not_meet(object, ops);
        Ok((first.2 || second.2) && first.1 > second.0 && second.1 > first.0 && !apart)
    }

    /// Whether one operation scanned and the other wrote columns of the object that the scan did
    /// not return.
    fn need_not_meet(&self, object: ObjectId, ops: [OpId; 2]) -> bool {
        let [one, other] = ops.map(|op| {
            let op = self.history.op(op);
            let on_object = op.accesses.iter().filter(|access| access.object == object);
            on_object.map(|access| (op.kind, access.value)).collect::<Vec<_>>()
        });
        let values = self.history.values();
        one.iter().any(|one| other.iter().any(|other| need_not_meet(*one, *other, values)))
    }

    fn fact(&self, object: ObjectId, txn: TxnId) -> Result<Fact, Rejected> {
        self.committed(txn)?;
        let versions = self.versions(object);
        let mine = versions.iter().filter(|(version, _)| *version == Version::Of(txn));
        match left(mine.map(|(_, fact)| fact)) {
            None => reject("a transaction did not write the object for certain"),
            Some(fact) if fact.unchanged => reject("a transaction may have left the object as it was"),
            Some(fact) => Ok(fact),
        }
    }

    fn updates(&self, object: ObjectId, txns: [TxnId; 2]) -> Result<bool, Rejected> {
        let (first, second) = (self.fact(object, txns[0])?, self.fact(object, txns[1])?);
        match (first.snapshot, second.snapshot) {
            (Some(a), Some(b)) if txns[0] != txns[1] => {
                Ok(first.installed.before > b && second.installed.before > a)
            }
            _ => reject("concurrent updates are not refused here"),
        }
    }

    fn dependencies(&self, edges: &[Edge]) -> Result<bool, Rejected> {
        for edge in edges {
            self.committed(edge.from)?;
            self.committed(edge.to)?;
            if !self.depends(edge)? {
                return reject("a dependency is not certain");
            }
        }
        let next = edges.iter().cycle().skip(1);
        let closed = !edges.is_empty() && edges.iter().zip(next).all(|(edge, next)| edge.to == next.from);
        match edges {
            _ if closed => Ok(true),
            _ if self.is_backward(edges) => Ok(true),
            [first, second] if self.mechanisms.certifier == Certified::Ssi && first.to == second.from => {
                self.is_dangerous(first, second)
            }
            _ => reject("neither a cycle nor a dangerous structure"),
        }
    }

    /// Whether a path leads to a transaction that took place before the first one of the path for
    /// certain.
    fn is_backward(&self, edges: &[Edge]) -> bool {
        let connected = edges.windows(2).all(|pair| pair[0].to == pair[1].from);
        match (self.mechanisms.points, edges.first(), edges.last()) {
            (Some(points), Some(first), Some(last)) if connected => {
                self.course(last.to).point(points).after < self.course(first.from).point(points).before
            }
            _ => false,
        }
    }

    fn depends(&self, edge: &Edge) -> Result<bool, Rejected> {
        match &edge.reason {
            Reason::Write { object } => {
                Ok(edge.from != edge.to
                    && self.fact(*object, edge.from)?.before(&self.fact(*object, edge.to)?))
            }
            Reason::Read { op, object } => {
                let Some(look) = self.look(edge.to, *op, *object)? else { return Ok(true) };
                let only = look.read().is_some_and(|(version, _)| *version == Version::Of(edge.from));
                Ok(only && self.fact(*object, edge.from).is_ok())
            }
            Reason::AntiRead { .. } if self.mechanisms.certifier == Certified::Committed => {
                reject("anti-dependencies are not certified here")
            }
            Reason::AntiRead { op, object, version } => {
                let Some(look) = self.look(edge.from, *op, *object)? else { return Ok(true) };
                let facts: Vec<&Fact> = look.all.iter().map(|(_, fact)| fact).collect();
                let sight = ObjectSight { object: *object, saw: look.saw, versions: &facts };
                let later = self.fact(*object, edge.to)?;
                // Which version of a row that was not returned is of no matter: none that it may
                // have seen matches.
                let named = look.candidates.iter().any(|&i| look.all[i].0 == *version)
                    || matches!(look.saw, Saw::Without(_));
                Ok(edge.from != edge.to
                    && named
                    && sight.is_overwritten_by(&look.candidates, look.snapshot, &later, self.world()))
            }
            _ => reject("a dependency of another kind"),
        }
    }

    /// What `op` of `txn` may have seen of an object. Nothing if no snapshot shows what it saw:
    /// then the mechanisms were not at work, and whatever is said to follow from them does.
    fn look(&self, txn: TxnId, op: OpId, object: ObjectId) -> Result<Option<Look>, Rejected> {
        let op = self.op(op)?;
        if self.history.txn_of(op.id) != txn || self.mechanisms.view == ReadView::Uncommitted {
            return reject("a read of another transaction");
        }
        let Some(seen) = self.group(&op, object).into_iter().find(|s| s.op == op.id && s.object == object)
        else {
            return reject("an operation did not see the object");
        };
        let Some(snapshot) = self.snapshot(&op, object) else { return Ok(None) };
        let all = self.others(&seen);
        let facts: Vec<&Fact> = all.iter().map(|(_, fact)| fact).collect();
        let sight = ObjectSight { object, saw: seen.saw, versions: &facts };
        let candidates = sight.candidates(snapshot, self.world());
        Ok(Some(Look { all, candidates, snapshot, saw: seen.saw }))
    }

    /// Whether an anti-dependency is on the very version that followed the one that was read, which
    /// is the only one that SSI looks at.
    fn is_direct(&self, edge: &Edge) -> Result<bool, Rejected> {
        let Reason::AntiRead { op, object, version } = edge.reason else { return Ok(false) };
        let Some(look) = self.look(edge.from, op, object)? else { return Ok(true) };
        let Some((known, fact)) = look.read() else { return Ok(false) };
        let next = self.fact(object, edge.to)?;
        let own = self.versions(object).iter().any(|(other, _)| *other == Version::Of(edge.from));
        let others = look.all.iter().filter(|(other, _)| *other != version && *other != Version::Of(edge.to));
        Ok(!own && *known == version && fact.right_before(&next, others.map(|(_, other)| other)))
    }

    /// `A → B → C` over rw, where C committed first, A and B ran at the same time, and C committed
    /// before A's snapshot if A wrote nothing.
    fn is_dangerous(&self, first: &Edge, second: &Edge) -> Result<bool, Rejected> {
        let anti = |edge: &Edge| matches!(edge.reason, Reason::AntiRead { .. });
        if !anti(first) || !anti(second) {
            return reject("a dangerous structure is of two anti-dependencies");
        }
        if !self.is_direct(first)? || !self.is_direct(second)? {
            return reject("an anti-dependency is not on the version right after the one that was read");
        }
        let (a, b, c) = (self.committed(first.from)?, self.committed(first.to)?, self.committed(second.to)?);
        Ok(dangerous(&a, &b, &c, self.mechanisms.view))
    }
}
