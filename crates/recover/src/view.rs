//! PostgreSQL's snapshots, and the one order of commits that all of them are prefixes of.
//!
//! # Problem
//! A snapshot says which transactions it sees by their numbers, not by a time. The log has the
//! commits in the order of their records, but a commit becomes visible a moment after its record is
//! written, so that two of them may become visible the other way round.
//!
//! # Algorithm
//! Transactions become visible one after the other, so of any two snapshots one sees all that the
//! other does. Sorted by how much they see, snapshots are a chain; a commit belongs to the first of
//! them that sees it, and commits between two snapshots keep the log's order. Nobody can tell these
//! apart.
//!
//! # Invariants
//! What comes out is checked, not believed: snapshots that are no chain are reported, and then
//! there is no such order.
//!
//! # Cost
//! Commits and snapshots × log, and the numbers that snapshots list.

/// `xmin:xmax:xip,…`: what `pg_current_snapshot()` says.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PgSnapshot {
    /// All below have ended.
    pub xmin: u64,
    /// All from here on had not begun.
    pub xmax: u64,
    /// Those between that were still running; sorted.
    pub running: Vec<u64>,
}

impl PgSnapshot {
    /// Reads what the server says.
    #[must_use]
    pub fn parse(text: &str) -> Option<PgSnapshot> {
        let mut parts = text.split(':');
        let mut number = || parts.next()?.parse().ok();
        let (xmin, xmax) = (number()?, number()?);
        let list = parts.next()?.split(',').filter(|part| !part.is_empty());
        let mut running = list.map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()?;
        running.sort_unstable();
        Some(PgSnapshot { xmin, xmax, running })
    }

    /// The same view of a transaction whose own number this is: the server does not list it among
    /// those that run.
    #[must_use]
    pub fn without(mut self, own: Option<u64>) -> PgSnapshot {
        if let Some(own) = own.filter(|&own| self.sees(own)) {
            let place = self.running.partition_point(|&xid| xid < own);
            self.running.insert(place, own);
        }
        self
    }

    /// Whether it sees what this transaction did, if that has committed.
    #[must_use]
    pub fn sees(&self, xid: u64) -> bool {
        xid < self.xmax && self.running.binary_search(&xid).is_err()
    }

    /// How many of these it sees; they are sorted.
    fn count(&self, committed: &[u64]) -> usize {
        let below = |bound: u64| committed.partition_point(|&xid| xid < bound);
        let hidden =
            self.running.iter().filter(|&&xid| xid < self.xmax && committed.binary_search(&xid).is_ok());
        below(self.xmax) - hidden.count()
    }

    /// A commit that this sees and the other does not.
    fn beyond(&self, other: &PgSnapshot, committed: &[u64]) -> Option<u64> {
        let from = committed.partition_point(|&xid| xid < other.xmax);
        let late = committed[from..].iter().copied().take_while(|&xid| xid < self.xmax);
        let running = other.running.iter().copied().filter(|xid| committed.binary_search(xid).is_ok());
        late.chain(running).find(|&xid| self.sees(xid) && !other.sees(xid))
    }
}

/// The order in which commits became visible.
#[derive(Debug)]
pub(crate) struct Visible {
    /// The commits' numbers, sorted.
    committed: Vec<u64>,
    /// The place of each commit of the log, from 1.
    pub ranks: Vec<u32>,
}

/// Two commits that two snapshots see the other way round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fork(pub u64, pub u64);

impl Visible {
    /// `log`: the commits' numbers in the order of the log.
    pub fn new(log: &[u64], views: &[&PgSnapshot]) -> Result<Self, Fork> {
        let mut committed = log.to_vec();
        committed.sort_unstable();
        let mut chain: Vec<(usize, &PgSnapshot)> =
            views.iter().map(|&view| (view.count(&committed), view)).collect();
        chain.sort();
        chain.dedup();
        for pair in chain.windows(2) {
            if let Some(one) = pair[0].1.beyond(pair[1].1, &committed) {
                let other = pair[1].1.beyond(pair[0].1, &committed);
                return Err(Fork(one, other.unwrap_or(one)));
            }
        }
        let mut order: Vec<(usize, usize)> = log
            .iter()
            .enumerate()
            .map(|(place, &xid)| (chain.partition_point(|(_, view)| !view.sees(xid)), place))
            .collect();
        order.sort_unstable();
        let mut ranks = vec![0; log.len()];
        order.iter().enumerate().for_each(|(rank, &(_, place))| ranks[place] = rank as u32 + 1);
        Ok(Self { committed, ranks })
    }

    /// A view sees the commits up to this rank.
    pub fn rank(&self, view: &PgSnapshot) -> u32 {
        view.count(&self.committed) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> PgSnapshot {
        PgSnapshot::parse(text).expect("a snapshot")
    }

    #[test]
    fn snapshots_are_read() {
        assert_eq!(view("10:20:10,14"), PgSnapshot { xmin: 10, xmax: 20, running: vec![10, 14] });
        assert!(view("10:10:").running.is_empty());
        let seen: Vec<u64> = (8..22).filter(|&xid| view("10:20:10,14").sees(xid)).collect();
        assert_eq!(seen, [8, 9, 11, 12, 13, 15, 16, 17, 18, 19]);
        for text in ["", "1", "1:2", "a:2:", "1:2:x"] {
            assert_eq!(PgSnapshot::parse(text), None, "{text}");
        }
    }

    #[test]
    fn nobody_sees_its_own_commit() {
        assert!(!view("10:20:14").without(Some(12)).sees(12));
        assert_eq!(view("10:20:14").without(Some(12)).running, vec![12, 14]);
        assert_eq!(view("10:20:14").without(Some(25)), view("10:20:14"));
    }

    #[test]
    fn snapshots_decide_where_the_log_does_not_agree() {
        // 5 wrote its record first, but 4 became visible first.
        let (early, late) = (view("5:6:5"), view("6:6:"));
        let visible = Visible::new(&[5, 4], &[&late, &early]).expect("a chain");
        assert_eq!(visible.ranks, [2, 1]);
        assert_eq!((visible.rank(&early), visible.rank(&late)), (1, 2));
    }

    #[test]
    fn a_fork_is_no_chain() {
        let (one, other) = (view("4:6:4"), view("4:6:5"));
        assert!(matches!(Visible::new(&[4, 5], &[&one, &other]), Err(Fork(..))));
    }

    #[test]
    fn between_snapshots_the_log_decides() {
        let visible = Visible::new(&[7, 3, 5], &[]).expect("a chain");
        assert_eq!(visible.ranks, [1, 2, 3]);
    }
}
