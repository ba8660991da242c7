//! Strict snapshot isolation with instants, on random histories with times.
//!
//! # Laws
//! 1. By the definitions, what holds with instants holds without.
//! 2. No engine contradicts the definition, and the audit accepts every proof.
//! 3. At every other level, asking for instants changes nothing.
//! 4. `auto` decides every history without evidence, of clients that do one thing after the other.
//!
//! `MARGAY_SEEDS` says how many histories.

use std::path::Path;

use margay::{Choice, Options, all, decide};
use margay_formats::{Source, read};
use margay_history::{History, TxnId};
use margay_levels::Level;
use margay_testkit::{history, random, show};
use margay_verdict::{Budget, Question, Verdict};

const STRICT: Question = Question::new(Level::StrictSnapshotIsolation);
const INSTANTS: Question = Question { instants: true, ..STRICT };

fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4000)
}

fn holds(history: &History, question: Question) -> Option<bool> {
    margay_naive::holds(history, question, &Budget::unlimited()).ok()
}

/// What an engine says; its proof is audited, and a proof that the audit rejects is a fault.
fn says(history: &History, choice: Choice) -> Option<bool> {
    let decision = decide(history, INSTANTS, &Options::with_engine(choice), &Budget::unlimited());
    assert_eq!(decision.faults, [], "{}", show(history));
    match decision.verdict {
        Verdict::Holds(_) => Some(true),
        Verdict::Violated(_) => Some(false),
        Verdict::Clean | Verdict::Unknown(_) => None,
    }
}

/// Whether each session has one transaction after the other on its clock. Random histories need
/// not.
fn has_clients(history: &History) -> bool {
    let follows = |pair: &[TxnId]| {
        history.start(pair[1]) >= history.ops(pair[0]).filter_map(|op| op.at).map(|at| at.after).max()
    };
    history
        .sessions()
        .all(|session| history.session_txns(session).collect::<Vec<_>>().windows(2).all(follows))
}

#[test]
fn engines_agree_with_the_definition() {
    let (mut narrowed, mut held, mut decided) = (0, 0, 0);
    for history in seeds().map(random).filter(History::is_timed) {
        let (Some(expected), Some(without)) = (holds(&history, INSTANTS), holds(&history, STRICT)) else {
            continue;
        };
        assert!(without || !expected, "holds with instants, not without: {}", show(&history));
        narrowed += usize::from(without && !expected);
        held += usize::from(expected);
        for &engine in all().iter().filter(|engine| engine.name() != "mirror") {
            if let Some(answer) = says(&history, Choice::Engine(engine)) {
                assert_eq!(answer, expected, "{} is wrong: {}", engine.name(), show(&history));
            }
        }
        if has_clients(&history) && history.evidence().is_empty() {
            decided += 1;
            assert_eq!(says(&history, Choice::Auto), Some(expected), "auto: {}", show(&history));
        }
    }
    eprintln!("{held} hold, {narrowed} are violated by instants only; auto decided {decided}");
    assert!(
        held > seeds().end as usize / 100 && narrowed > 0 && decided > 0,
        "{held} hold, {narrowed} by instants only"
    );
}

/// A regression: with commit timestamps, strict serializability includes strict snapshot isolation.
/// `naive` asked about that with instants, `solve` without: seed 1023.
#[test]
fn instants_count_at_their_level_alone() {
    let plain = Question::new(Level::StrictSerializable);
    let mut stamped = 0;
    for seed in 1000..1200 {
        let history = random(seed);
        let Some(expected) = holds(&history, plain) else { continue };
        stamped += usize::from(!history.evidence().commits.is_empty());
        let asked = holds(&history, Question { instants: true, ..plain });
        assert_eq!(asked, Some(expected), "seed {seed}: {}", show(&history));
    }
    assert!(stamped > 0, "no history has commit timestamps");
}

fn both(text: &str) -> (bool, bool) {
    let history = history(text);
    let auto = says(&history, Choice::Auto);
    let found = (holds(&history, STRICT).unwrap(), holds(&history, INSTANTS).unwrap());
    assert_eq!(auto, Some(found.1), "{text}");
    found
}

#[test]
fn points_lie_at_their_instants() {
    // The snapshot is taken with the first statement, before the other commits.
    let late = "init: x=0 y=0 | T1: r(y,0)@[1,2] r(x,1)@[7,8] commit@[9,10] | T2: w(x,1)@[3,4] commit@[5,6]";
    assert_eq!(both(late), (true, false));
    // The first statement takes long enough.
    let in_time =
        "init: x=0 y=0 | T1: r(y,0)@[1,6] r(x,1)@[7,8] commit@[9,10] | T2: w(x,1)@[3,4] commit@[5,6]";
    assert_eq!(both(in_time), (true, true));
    // BEGIN may have taken it.
    let begin = "init: x=0 | T1: begin@[1,2] r(x,0)@[7,8] commit@[9,10] | T2: w(x,1)@[3,4] commit@[5,6]";
    assert_eq!(both(begin), (true, true));
    // A commit takes effect when it is called, not before.
    let early = "init: x=0 | T1: w(x,1)@[1,2] commit@[7,8] | T2: r(x,1)@[3,4] commit@[5,9]";
    assert_eq!(both(early), (true, false));
    // Two that overlap and write one object, whatever they read.
    let blind = "init: x=0 | T1: w(x,1)@[1,2] commit@[5,6] | T2: w(x,2)@[3,4] commit@[7,8]";
    assert_eq!(both(blind), (true, false));
    // Who begins later does not see less, though each alone may.
    let back = "init: x=0 | T1: r(x,1)@[1,4] commit@[20,21] | T2: r(x,0)@[5,8] commit@[22,23] \
                | T3: w(x,1)@[0,0] commit@[0,30]";
    assert_eq!(both(back), (true, false));
    // Nobody knows when a transaction of unknown outcome committed.
    let unknown = "init: x=0 | T1: w(x,1)@[1,2] unknown@[3,4] | T2: r(x,1)@[7,8] commit@[9,10]";
    assert_eq!(both(unknown), (true, true));
}

/// Troubadour's Fig. 1: transactions 2 and 3 overlap and change one account, and nothing but the
/// last balance is seen. Without instants, transaction 3 may have taken its snapshot after
/// transaction 2 committed.
#[test]
fn troubadours_example_is_violated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/troubadour-fig-1.jsonl");
    let history = read(Source::Path(path), None).expect("a readable case").history;
    let strict = decide(&history, STRICT, &Options::default(), &Budget::unlimited());
    assert!(matches!(strict.verdict, Verdict::Holds(_)), "{:?}", strict.verdict);
    assert_eq!(says(&history, Choice::Auto), Some(false));
}
