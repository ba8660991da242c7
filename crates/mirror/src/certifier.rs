//! The certifier: what is certain of many objects comes together.
//!
//! # Algorithm
//! Transactions are taken in the order in which they are judged. The dependencies that explaining their reads
//! (`judge`) and ordering their versions (`shard`) made certain go to the graph, which finds cycles; two
//! consecutive anti-dependencies are held against the conditions of SSI where the database certifies by it.
//!
//! # Invariants
//! Dependencies come in an order that does not depend on the number of shards: by transaction, and then by
//! write. So the cycles that are found do not either.

use margay_history::{Values, Version};
use margay_mechanisms::{World, dangerous};
use margay_verdict::mechanism::{Certified, Mechanisms, View};
use margay_verdict::{Broken, Edge, Reason};

use crate::judge::Explained;
use crate::mirror::Mirror;
use crate::searched::Searched;
use crate::shard::{Alarm, Ordered};
use crate::txn::{Ended, Txn};

/// Transactions that are judged, and what is certain of them.
#[derive(Default, Debug)]
pub(crate) struct Judged {
    pub window: Vec<Ended>,
    pub explained: Vec<Explained>,
    pub ordered: Vec<Ordered>,
}

impl Mirror {
    /// Takes over what is certain of transactions that are judged.
    pub(crate) fn certify(&mut self, judged: Judged, values: &Values) {
        let Judged { window, explained, ordered } = judged;
        let (mut edges, mut alarms) = (Vec::new(), Vec::new());
        for part in ordered {
            self.statistics.ww.add(part.ww);
            self.statistics.rw.add(part.rw);
            edges.extend(part.edges);
            alarms.extend(part.alarms);
        }
        // Those of each shard are in order already, so this only brings them together.
        edges.sort_by_key(|(place, _)| *place);
        alarms.sort_by_key(|alarm| alarm.place);
        let (mut edges, mut alarms) = (edges.into_iter().peekable(), alarms.into_iter().peekable());
        for (number, (ended, found)) in window.iter().zip(explained).enumerate() {
            while let Some(Alarm { txns, broken, .. }) = alarms.next_if(|alarm| alarm.place.0 == number) {
                self.report(txns.to_vec(), broken);
            }
            self.take_over(ended, found, values);
            while let Some((_, edge)) = edges.next_if(|((of, _), _)| *of == number) {
                self.depend(edge, values);
            }
            self.judged(ended);
        }
    }

    /// Takes over what explaining brought to light.
    fn take_over(&mut self, ended: &Txn, found: Explained, values: &Values) {
        for op in found.broken {
            self.report(vec![ended.id], Broken::Read { op });
        }
        self.statistics.reads += found.wr.certain + found.wr.deduced + found.wr.uncertain;
        self.statistics.certain_reads += found.wr.certain + found.wr.deduced;
        self.statistics.wr.add(found.wr);
        self.statistics.rw.add(found.rw);
        found.edges.into_iter().for_each(|edge| self.depend(edge, values));
    }

    /// Rows may still come to match what was searched.
    pub(crate) fn remember_searches(&mut self, explained: &mut [Explained], values: &Values) {
        self.store.enroll(&self.searches);
        let world = World { values, searches: &self.searches };
        for (place, found) in explained.iter_mut().enumerate() {
            for searched in found.searched.drain(..) {
                let Some(table) = self.searches.searched(searched.predicate) else { continue };
                let searched = Searched { number: self.statistics.judged + place as u64, ..searched };
                let is_live = |txn| self.graph.contains(txn);
                self.store.table(table).searchers.push(searched, world, is_live);
            }
        }
    }

    /// A dependency is certain: the certifier looks at it.
    fn depend(&mut self, edge: Edge, values: &Values) {
        let anti = matches!(edge.reason, Reason::AntiRead { .. });
        let Mechanisms { certifier, view, .. } = self.mechanisms;
        if edge.from == edge.to || (anti && (certifier == Certified::Committed || view == View::Uncommitted))
        {
            return;
        }
        let ssi = anti && certifier == Certified::Ssi;
        let look = ssi.then(|| edge.clone());
        match (self.graph.add(edge), look) {
            (Err(broken), _) => self.report_dependencies(broken),
            // An edge that is known already may only now be known to be direct.
            (Ok(_), Some(edge)) => self.look_for_pivots(&edge, values),
            _ => {}
        }
    }

    fn look_for_pivots(&mut self, edge: &Edge, values: &Values) {
        let view = self.mechanisms.view;
        if !self.ran_together(edge) {
            return;
        }
        self.catch_up_with(edge, values);
        if !self.is_direct(edge) {
            return;
        }
        for [first, second] in self.graph.consecutive(edge) {
            self.catch_up_with(&first, values);
            self.catch_up_with(&second, values);
            let courses = [first.from, first.to, second.to].map(|txn| self.graph.course(txn));
            if let [Some(a), Some(b), Some(c)] = courses
                && first.from != second.to
                && dangerous(a, b, c, view)
                && self.is_direct(&first)
                && self.is_direct(&second)
            {
                self.report_dependencies(vec![first, second]);
            }
        }
    }
}

impl Mirror {
    /// Whether the transactions of an edge ran at the same time; others are in no dangerous structure.
    fn ran_together(&self, edge: &Edge) -> bool {
        match (self.graph.course(edge.from), self.graph.course(edge.to)) {
            (Some(from), Some(to)) => from.end().after >= to.start(),
            _ => false,
        }
    }

    /// The object of an anti-dependency gets what unseen writes may have made of it.
    fn catch_up_with(&mut self, edge: &Edge, values: &Values) {
        if let (Reason::AntiRead { object, .. }, false) = (&edge.reason, self.store.saw_all()) {
            let horizon = self.horizon();
            self.store.catch_up(*object, horizon, &self.searches, values);
        }
    }

    /// Whether an anti-dependency is on the very version that followed the one that was read: SSI looks at no
    /// other. A reader of an older version is in conflict with who overwrote that one; who overwrites the
    /// newer one does not meet its lock.
    fn is_direct(&self, edge: &Edge) -> bool {
        let Reason::AntiRead { op, object, version } = edge.reason else { return false };
        let record = self.store.get(object);
        let reader = record.readers.iter().find(|reader| reader.txn == edge.from && reader.op == op);
        let fact = |wanted| record.versions.iter().find(|(known, _)| *known == wanted).map(|(_, fact)| fact);
        let (Some(read), Some(next)) = (fact(version), fact(Version::Of(edge.to))) else { return false };
        let others = record.versions.iter().filter(|(v, _)| *v != version && *v != Version::Of(edge.to));
        // What may have been installed before `next` has come.
        next.installed.after < self.now
            && reader.is_some_and(|reader| reader.sole)
            && read.right_before(next, others.map(|(_, other)| other))
    }
}
