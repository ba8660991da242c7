//! The certifier: what is certain of many objects comes together.
//!
//! # Algorithm
//! Transactions are taken in the order in which they are judged. The dependencies that explaining
//! their reads (`judge`) and ordering their versions (`shard`) made certain go to the graph, which
//! finds cycles; two consecutive anti-dependencies are held against the conditions of SSI where the
//! database certifies by it. Whether an anti-dependency is direct, which SSI asks, was decided
//! where the versions are: the certifier looks at no record.
//!
//! # Invariants
//! Dependencies come in an order that does not depend on the number of shards: by transaction, and
//! then by write. So the cycles that are found do not either.

use margay_mechanisms::dangerous;
use margay_verdict::mechanism::{Certified, Mechanisms, ReadView};
use margay_verdict::{Broken, Edge, Reason};

use crate::judge::{Explained, Spot, What};
use crate::mirror::Mirror;
use crate::record::MarkedEdge;
use crate::shard::{Alarm, Ordered};
use crate::txn::{Ended, Txn};

/// Transactions that are judged, and what is certain of them.
#[derive(Default, Debug)]
pub(crate) struct Judged {
    pub window: Vec<Ended>,
    /// Whatever was not judged before began at this time or later.
    pub horizon: i64,
    pub explained: Vec<Explained>,
    pub ordered: Vec<Ordered>,
}

impl Judged {
    /// Adds what one more shard found of each transaction.
    pub fn add(&mut self, explained: Vec<Explained>) {
        if self.explained.is_empty() {
            self.explained = explained;
            return;
        }
        self.explained.iter_mut().zip(explained).for_each(|(all, part)| all.add(part));
    }
}

impl Mirror {
    /// Takes over what is certain of transactions that are judged.
    pub(crate) fn certify(&mut self, judged: Judged) {
        let Judged { window, horizon, explained, ordered } = judged;
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
        for (number, (ended, mut found)) in window.iter().zip(explained).enumerate() {
            found.sort();
            while let Some(Alarm { txns, broken, .. }) = alarms.next_if(|alarm| alarm.place.0 == number) {
                self.report(txns.to_vec(), broken);
            }
            self.take_over(ended, found);
            while let Some((_, edge)) = edges.next_if(|((of, _), _)| *of == number) {
                self.depend(edge);
            }
            self.tidy(ended, horizon);
        }
    }

    /// Takes over what explaining brought to light. Of reads and searches that did not see their
    /// own transaction's writes the first counts.
    fn take_over(&mut self, ended: &Txn, mut found: Explained) {
        let is_own = |spot: &Spot| spot.of <= What::Search;
        let missed = found.broken.iter().filter(|(spot, _)| is_own(spot)).count();
        found.broken.drain(1.min(missed)..missed);
        for (_, op) in found.broken {
            self.report(vec![ended.id], Broken::Read { op });
        }
        self.statistics.reads += found.wr.certain + found.wr.deduced + found.wr.uncertain;
        self.statistics.certain_reads += found.wr.certain + found.wr.deduced;
        self.statistics.wr.add(found.wr);
        self.statistics.rw.add(found.rw);
        self.statistics.open.add(found.open);
        found.edges.into_iter().for_each(|(_, edge)| self.depend(edge));
    }

    /// A dependency is certain: the certifier looks at it.
    fn depend(&mut self, MarkedEdge { edge, direct }: MarkedEdge) {
        let anti = matches!(edge.reason, Reason::AntiRead { .. });
        let Mechanisms { certifier, view, .. } = self.mechanisms;
        if edge.from == edge.to
            || (anti && (certifier == Certified::Committed || view == ReadView::Uncommitted))
        {
            return;
        }
        let look = (direct && certifier == Certified::Ssi).then(|| edge.clone());
        match (self.graph.add(edge, direct), look) {
            (Err(broken), _) => self.report_dependencies(broken),
            // An edge that is known already may only now be known to be direct.
            (Ok(_), Some(edge)) => self.look_for_pivots(&edge),
            _ => {}
        }
    }

    /// Holds a direct anti-dependency and those before and after it against the conditions of SSI.
    fn look_for_pivots(&mut self, edge: &Edge) {
        if !self.ran_together(edge) {
            return;
        }
        for [first, second] in self.graph.consecutive(edge) {
            let courses = [first.from, first.to, second.to].map(|txn| self.graph.course(txn));
            if let [Some(a), Some(b), Some(c)] = courses
                && first.from != second.to
                && dangerous(a, b, c, self.mechanisms.view)
            {
                self.report_dependencies(vec![first, second]);
            }
        }
    }

    /// Whether the transactions of an edge ran at the same time; others are in no dangerous
    /// structure.
    fn ran_together(&self, edge: &Edge) -> bool {
        match (self.graph.course(edge.from), self.graph.course(edge.to)) {
            (Some(from), Some(to)) => from.end().after >= to.start(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use margay_simdb::{Fault, Ppm, Protocol, SimConfig, simulate_history};
    use margay_verdict::Budget;

    use super::*;
    use crate::{Engine, Statistics, Violation, simulated};

    /// What is found when objects are told so late, or never, what the certifier has forgotten.
    fn found(
        protocol: Protocol,
        fault: Option<Fault>,
        seed: u64,
        lag: fn(u64, u64) -> u64,
    ) -> (Vec<Violation>, Statistics, usize) {
        let mut config = SimConfig { transactions: 300, keys: 10, ..SimConfig::new(protocol, seed) };
        if let Some(fault) = fault.filter(|fault| fault.breaks(protocol).is_some()) {
            config = config.with_fault(fault, Ppm::percent(20));
        }
        let history = simulate_history(&config).expect("a history").0;
        let mechanisms = simulated(&format!("simdb-{protocol}")).expect("a simulated database");
        let mut mirror = Mirror::new(mechanisms, 0);
        mirror.lag = lag;
        Engine::play(&mut mirror, &history, &Budget::unlimited()).expect("a timed history");
        let found = std::iter::from_fn(|| mirror.next_violation()).collect();
        (found, mirror.statistics(), mirror.size().readers)
    }

    /// What the certifier has forgotten only saves memory: told late or never, it changes nothing
    /// of what is found.
    #[test]
    fn what_is_forgotten_may_be_told_late() {
        let (mut count, mut more) = (0, 0);
        for protocol in [Protocol::Ssi, Protocol::Ss2pl, Protocol::Occ, Protocol::Mvto] {
            for fault in [None, Some(Fault::StaleSnapshot), Some(Fault::WriteSkew), Some(Fault::Phantom)] {
                for seed in 0..4 {
                    let (now, told, readers) = found(protocol, fault, seed, |_, now| now);
                    let late = |old, now: u64| if now.wrapping_mul(0x9E37_79B9) % 7 < 5 { old } else { now };
                    let (late, sometimes, _) = found(protocol, fault, seed, late);
                    let (never, seldom, all) = found(protocol, fault, seed, |old, _| old);
                    assert_eq!(now, late, "{protocol} {fault:?} {seed}");
                    assert_eq!(now, never, "{protocol} {fault:?} {seed}");
                    assert_eq!((told.ww, told.wr, told.graph), (sometimes.ww, sometimes.wr, sometimes.graph));
                    assert_eq!((told.ww, told.wr, told.graph), (seldom.ww, seldom.wr, seldom.graph));
                    count += now.len();
                    more += usize::from(all > readers);
                }
            }
        }
        assert!(count > 20 && more > 20, "{count} found, more remembered {more} times");
    }
}
