//! A second opinion: SMT solvers say what the search says, and find initial values that nobody
//! knows. Skipped, and said so, where no solver is installed.

mod support;

use margay_audit::audit;
use margay_executions::Rules;
use margay_history::{History, OpKind::Commit, ValueId};
use margay_levels::Level;
use margay_observe::smt::{Said, Solver, ask};
use margay_observe::{Backend, Options};
use margay_sql::Value;
use margay_verdict::execution::Reading;
use margay_verdict::{Budget, Certificate, Question, Verdict};
use support::log::{Log, Seen};
use support::tiny::tiny;
use support::{LEVELS, check};

/// The solvers that are there.
fn solvers() -> Vec<Solver> {
    let there: Vec<Solver> = Solver::ALL.into_iter().filter(|solver| solver.is_there()).collect();
    for solver in Solver::ALL.into_iter().filter(|solver| !there.contains(solver)) {
        eprintln!("SKIPPED: {} is not installed (Debian package {})", solver.name(), solver.name());
    }
    there
}

/// What a solver says in the words of verdicts; an execution has to pass the audit.
fn said(history: &History, level: Level, reading: Reading, solver: Solver) -> &'static str {
    let question = Question::new(level);
    let rules = Rules::of(question, reading).expect("a level of executions");
    match ask(history, rules, solver, &Budget::unlimited()).expect("inside the fragment") {
        Said::None => "violated",
        Said::Unknown(why) => panic!("{solver:?} at {level}: {why}"),
        Said::Execution(execution) => {
            let certificate = Certificate::Execution(execution);
            if let Err(rejected) = audit(history, question, &certificate) {
                panic!("{solver:?} at {level} with {reading:?}: {rejected}\n{certificate:?}\n{history:?}");
            }
            "holds"
        }
    }
}

#[test]
fn solvers_say_what_the_search_says() {
    let cases = std::env::var("MARGAY_OBSERVE_SMT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    for solver in solvers() {
        let mut words = [0; 2];
        for seed in 5000..5000 + cases {
            let history = tiny(seed);
            for (level, reading) in LEVELS
                .into_iter()
                .map(|level| (level, Reading::Item))
                .chain([(Level::ReadCommitted, Reading::Statement)])
            {
                let expected = check(&history, level, Options { reading, ..Options::DEFAULT }).word();
                let word = said(&history, level, reading, solver);
                assert_eq!(
                    word, expected,
                    "{solver:?}, seed {seed} at {level} with {reading:?}\n{history:?}"
                );
                words[usize::from(word == "holds")] += 1;
            }
        }
        assert!(words.iter().all(|&count| count > cases), "{words:?}");
    }
}

const ACCOUNTS: &[support::log::Shape<'_>] = &[("accounts", &["id"], &[("id", "int"), ("balance", "int")])];
const ADD: &str = "UPDATE accounts SET balance = balance + 10 WHERE id = 1";
const RICH: &str = "SELECT id FROM accounts WHERE balance >= 100 ORDER BY id";
const SUM: &str = "SELECT SUM(balance) FROM accounts";
const LEAST: &str = "SELECT MIN(balance), MAX(balance), COUNT(*) FROM accounts";
const NEW: &str = "INSERT INTO accounts VALUES (3, 7)";

/// Two accounts whose balances nobody knows, and transactions of one session.
fn unknown(lines: &[(&str, &[&[i64]])]) -> History {
    let mut log = Log::new(ACCOUNTS);
    for id in [1, 2] {
        let key = log.builder.values().int(id);
        let table = log.builder.table("accounts");
        let object = log.builder.object(Some(table), key);
        log.builder.initial(object, ValueId::UNKNOWN).unwrap();
    }
    for (number, (text, rows)) in (0..).zip(lines) {
        let rows: Vec<Vec<Value>> =
            rows.iter().map(|row| row.iter().copied().map(Value::Int).collect()).collect();
        let seen = if text.starts_with("SELECT") { Seen::Rows(rows) } else { Seen::Nothing };
        log.sql(0, number, None, text, &[], &seen);
        log.op(0, number, None, Commit);
    }
    log.finish()
}

fn by(solver: Solver, history: &History) -> Verdict {
    let backend = if solver == Solver::Z3 { Backend::Z3 } else { Backend::Cvc5 };
    check(history, Level::StrongSessionSerializable, Options { backend, ..Options::DEFAULT })
}

/// Where no result shows a balance itself, the search cannot find them: the first sum may be split
/// in many ways, and only conditions tell which.
#[test]
fn initial_values_that_no_result_shows_are_found() {
    let history = unknown(&[
        (RICH, &[&[2]]),
        (ADD, &[]),
        (RICH, &[&[1], &[2]]),
        (SUM, &[&[310]]),
        (NEW, &[]),
        (LEAST, &[&[7, 203, 3]]),
    ]);
    for solver in solvers() {
        let Verdict::Holds(Certificate::Execution(execution)) = by(solver, &history) else {
            panic!("{:?}", by(solver, &history));
        };
        let values: Vec<Value> = execution.initial.iter().map(|cell| cell.value.clone()).collect();
        assert_eq!(values, [97, 203].map(Value::Int));
    }
}

/// That no initial values explain a log comes with the certificate of the formula.
#[test]
fn what_no_initial_values_explain_is_violated() {
    let history = unknown(&[(RICH, &[&[1], &[2]]), (ADD, &[]), (SUM, &[&[209]])]);
    for solver in solvers() {
        assert_eq!(by(solver, &history).word(), "violated", "{solver:?}");
    }
}

#[test]
fn violations_come_with_a_certificate() {
    let mut log = Log::register(&[(1, 5)]);
    log.txn(0, 1, &[("UPDATE t SET v = v + 1 WHERE k = 1", None)], Commit);
    log.txn(1, 2, &[("SELECT v FROM t WHERE k = 1", Some(&[&[7]]))], Commit);
    let history = log.finish();
    for solver in solvers() {
        assert_eq!(by(solver, &history).word(), "violated");
    }
}

#[test]
fn what_has_no_terms_is_named() {
    let mut log = Log::register(&[(1, 5)]);
    log.txn(0, 1, &[("SELECT DISTINCT v FROM t", Some(&[&[5]]))], Commit);
    let history = log.finish();
    for solver in solvers() {
        let Verdict::Unknown(why) = by(solver, &history) else { panic!() };
        assert!(why.to_string().contains("DISTINCT"), "{why}");
    }
}
