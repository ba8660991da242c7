//! Transactions of unknown outcome that may have taken effect in an order without them: put in at
//! the places that are answered, they give orders that the audit accepts, and the state that is
//! answered.

use margay_audit::audit_part;
use margay_follow::{Follow, Unnoticed, unnoticed};
use margay_history::{History, ObjectId, Outcome, TxnId};
use margay_levels::Level;
use margay_simdb::{Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Cell, Certificate, Order, Point, Question, Verdict};

fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(9)
}

/// An order with transactions put in after so many of its steps.
fn with(order: &Certificate, mut late: Vec<(TxnId, usize)>) -> Certificate {
    late.sort_unstable_by_key(|&(txn, after)| (after, txn));
    late.dedup();
    match order {
        Certificate::Order(order) => {
            let mut txns = order.txns.clone();
            late.iter().rev().for_each(|&(txn, after)| txns.insert(after, txn));
            Certificate::Order(Order { txns, reads: Vec::new() })
        }
        Certificate::Points(points) => {
            let mut points = points.clone();
            for &(txn, after) in late.iter().rev() {
                points.splice(after..after, [Point::Begin(txn), Point::Commit(txn)]);
            }
            Certificate::Points(points)
        }
        _ => panic!("an order or points"),
    }
}

fn placed(unnoticed: &Unnoticed) -> Vec<(TxnId, usize)> {
    unnoticed.with.iter().copied().chain([(unnoticed.txn, unnoticed.after)]).collect()
}

struct Case {
    history: History,
    question: Question,
    order: Certificate,
    name: String,
}

impl Case {
    fn state(&self, late: Vec<(TxnId, usize)>, what: &str) -> Vec<Cell> {
        let certificate = with(&self.order, late.clone());
        let audited = audit_part(&self.history, self.question, &certificate, &Budget::unlimited());
        audited.unwrap_or_else(|why| panic!("{what}, {late:?}: {why:?}: {}", self.name))
    }

    /// What the objects hold that differ from the state of the order, and what is expected.
    fn expect(&self, bare: &[Cell], mut found: Vec<&Unnoticed>) {
        found.sort_by_key(|unnoticed| unnoticed.after);
        let late = found.iter().flat_map(|unnoticed| placed(unnoticed)).collect();
        let mut expected = bare.to_vec();
        for (object, cell) in found.iter().flat_map(|unnoticed| &unnoticed.made) {
            expected[object.index()] = cell.clone();
        }
        let state = self.state(late, "an order with them");
        for object in (0..state.len()).map(ObjectId::at) {
            assert_eq!(state[object.index()], expected[object.index()], "{}: {object:?}", self.name);
        }
    }
}

/// As the follower decides it: places agree, and neither is against the other or what is below it.
fn may_be_together(history: &History, one: &Unnoticed, other: &Unnoticed) -> bool {
    let against =
        |one: &Unnoticed, other: &Unnoticed| placed(other).iter().any(|&(txn, _)| one.against.contains(&txn));
    let agree = |&(one, at): &(TxnId, usize), &(other, place): &(TxnId, usize)| match one == other {
        true => at == place,
        false => history.session_of(one) != history.session_of(other) || (one < other) == (at < place),
    };
    let (first, second) = (placed(one), placed(other));
    !against(one, other)
        && !against(other, one)
        && first.iter().all(|one| second.iter().all(|other| agree(one, other)))
}

#[test]
fn what_may_have_happened_unnoticed_gives_orders_too() {
    let (mut alone, mut chains, mut pairs) = (0, 0, 0);
    for (protocol, level) in [
        (Protocol::Ss2pl, Level::StrictSerializable),
        (Protocol::Occ, Level::StrictSerializable),
        (Protocol::SiFuw, Level::StrictSnapshotIsolation),
    ] {
        for (_, mix) in Mix::NAMED {
            for seed in 0..seeds() {
                let keys = [5, 20, 100][seed as usize % 3];
                let unknown = Ppm([50_000, 150_000, 250_000][seed as usize / 3 % 3]);
                let base = SimConfig::new(protocol, seed);
                let config = SimConfig { mix, keys, transactions: 60, unknown, ..base };
                let (history, _) = simulate_history(&config).expect("a history");
                let question = Question::new(level);
                let searched = Follow.search(&history, question, &[], &Budget::unlimited());
                let Verdict::Holds(order) = searched else { continue };
                let case = Case { history, question, order, name: config.command("OUT") };
                let (one, two, three) = check(&case);
                (alone, chains, pairs) = (alone + one, chains + two, pairs + three);
            }
        }
    }
    println!("{alone} alone, {chains} with others, {pairs} pairs");
    assert!(alone > 100 && chains > 10 && pairs > 100);
}

fn check(case: &Case) -> (usize, usize, usize) {
    let history = &case.history;
    let bare = case.state(Vec::new(), "the order");
    let settled: Vec<TxnId> = match &case.order {
        Certificate::Order(order) => order.txns.clone(),
        Certificate::Points(points) => points
            .iter()
            .map(|point| match *point {
                Point::Begin(txn) | Point::Commit(txn) => txn,
            })
            .collect(),
        _ => Vec::new(),
    };
    let asked: Vec<TxnId> = history
        .txns()
        .filter(|txn| history.outcome(*txn) == Outcome::Unknown && !settled.contains(txn))
        .collect();
    let found = unnoticed(history, &case.order, &asked, &[]);
    let mut pairs = 0;
    for (number, one) in found.iter().enumerate() {
        case.expect(&bare, vec![one]);
        for other in &found[number + 1..] {
            let is_below = |one: &Unnoticed, other: &Unnoticed| other.with.iter().any(|at| at.0 == one.txn);
            if may_be_together(history, one, other) && !is_below(one, other) && !is_below(other, one) {
                pairs += 1;
                case.expect(&bare, vec![one, other]);
            }
        }
    }
    let chains = found.iter().filter(|unnoticed| !unnoticed.with.is_empty()).count();
    (found.len() - chains, chains, pairs)
}
