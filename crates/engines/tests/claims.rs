//! What accepted certificates claim.
//!
//! # Laws
//! 1. No two certificates that the audit accepts contradict each other: of one history, none proves
//!    `holds` where another proves `violated` at the same level or at one that it implies. Engines,
//!    readings and translations do not matter, as far as they are the same claim; a breach of
//!    mechanisms claims nothing of a level.
//! 2. A certificate says what it claims, and reads back.
//!
//! The histories are the corpus, the corpora where they are there, random ones, and random
//! statements in every dialect. `MARGAY_SEEDS` says how many of the latter.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use margay_audit::audit;
use margay_engines::{Backend, Choice, Engine, Reading, all, observe_with};
use margay_formats::{Source, read};
use margay_history::History;
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_rows::{SeenState, translate};
use margay_testkit::{Rng, corpora, parse, random};
use margay_verdict::{
    Budget, Certificate, Checker, Claim, Dialect, Question, Standing, Translation, Verdict, wire,
};

/// How long an engine may think; it says `unknown` then.
const PATIENCE: Duration = Duration::from_millis(100);

/// Histories of more transactions are left to other tests.
const SMALL: usize = 12;

const LEVELS: [Level; 5] = [
    Level::ReadCommitted,
    Level::Causal,
    Level::RepeatableRead,
    Level::SnapshotIsolation,
    Level::Serializable,
];

/// A certificate that the audit accepted.
struct Accepted {
    who: String,
    claim: Claim,
    holds: bool,
}

#[derive(Default)]
struct Tally {
    holds: usize,
    violated: usize,
    breaches: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn case(name: &str) -> History {
    load(&root().join("crates/engines/tests/cases").join(name)).expect("a readable case")
}

fn load(path: &Path) -> Option<History> {
    if path.extension().is_some_and(|extension| extension == "hist") {
        let text = fs::read_to_string(path).ok()?;
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        return parse(&lines.join(" | ")).ok();
    }
    read(Source::Path(path.to_owned()), None).ok().map(|loaded| loaded.history)
}

/// Everybody who can be asked.
fn engines() -> Vec<(String, Engine)> {
    let statement = observe_with(Reading::Statement, Backend::default());
    let Ok(Choice::Observe(statement)) = statement else { panic!("an engine with a backend of our own") };
    let statement: Engine = Box::leak(Box::new(statement));
    let named = all().iter().map(|&engine| (engine.name().to_owned(), engine));
    named.chain([("observe by statement".to_owned(), statement)]).collect()
}

/// What everybody says, of the history and of the rows that its statements are.
fn ask_all(history: &History, question: Question, tally: &mut Tally) -> Vec<Accepted> {
    let stable = matches!(question.level.family(), Family::Serial | Family::Snapshot);
    let sight = if stable { SeenState::Stable } else { SeenState::Changing };
    let rows = translate(history, sight).filter(|rows| rows.left.is_none()).map(|rows| rows.history);
    let as_rows = Translation::Rows { stable, partly: false };
    let mut accepted = Vec::new();
    for (history, rows) in [(Some(history), None), (rows.as_ref(), Some(as_rows))] {
        let Some(history) = history else { continue };
        for (who, engine) in engines() {
            let budget = Budget::unlimited().with_time(PATIENCE);
            let verdict = engine.check(history, question, &budget);
            let certificates: Vec<Certificate> = match verdict {
                Verdict::Holds(certificate) => vec![certificate],
                Verdict::Violated(findings) => {
                    findings.into_iter().map(|finding| finding.certificate).collect()
                }
                Verdict::Clean | Verdict::Unknown(_) => continue,
            };
            for certificate in certificates {
                accepted.extend(accept(&who, history, question, rows, &certificate, tally));
            }
        }
    }
    accepted
}

/// A certificate that the audit accepts and that reads back; nothing for a breach, which is not
/// about the level.
fn accept(
    who: &str,
    history: &History,
    question: Question,
    rows: Option<Translation>,
    certificate: &Certificate,
    tally: &mut Tally,
) -> Option<Accepted> {
    // A breach of rows that are not translated in part is no question that somebody asks.
    if certificate.breach().is_some() && rows.is_some() {
        return None;
    }
    audit(history, question, certificate).ok()?;
    let claim = Claim::of(history, question, rows, certificate);
    let read = wire::from_json(history, rows, &wire::to_json(history, &claim, certificate));
    assert_eq!(read, Ok((claim.clone(), certificate.clone())), "{who}");
    if certificate.breach().is_some() {
        tally.breaches += 1;
        return None;
    }
    let holds = certificate.proves() == "holds";
    *(if holds { &mut tally.holds } else { &mut tally.violated }) += 1;
    Some(Accepted { who: format!("{who} ({})", claim.translation.name()), claim, holds })
}

/// Whether `holds` and `violated` cannot both be true.
fn contradict(yes: &Claim, no: &Claim) -> bool {
    let (strong, weak) = (yes.question.level, no.question.level);
    let by_statement = weak == Level::ReadCommitted && no.reading == Reading::Statement;
    let one_state = matches!(strong.family(), Family::Serial | Family::Snapshot)
        || strong == Level::ReadCommitted && yes.reading == Reading::Statement;
    strong.implies(weak) && (!by_statement || one_state)
}

/// Holds a history against the laws.
fn judge(history: &History, from: &str, tally: &mut Tally) {
    let mut accepted = Vec::new();
    for level in LEVELS {
        accepted.extend(ask_all(history, Question::new(level), tally));
    }
    for yes in accepted.iter().filter(|accepted| accepted.holds) {
        let against = |no: &&Accepted| !no.holds && contradict(&yes.claim, &no.claim);
        if let Some(no) = accepted.iter().find(against) {
            panic!(
                "{from}: {}\n{} proves that {} holds, {} that {} does not: {} / {}",
                margay_testkit::show(history),
                yes.who,
                yes.claim.question.level,
                no.who,
                no.claim.question.level,
                yes.claim.rules(),
                no.claim.rules()
            );
        }
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| entry.ok()).map(|entry| entry.path()) {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
    found.sort();
}

#[test]
fn no_contradictions_in_the_corpus() {
    let (mut paths, mut tally, mut judged) = (Vec::new(), Tally::default(), 0);
    files(&root().join("corpus"), &mut paths);
    files(&root().join("crates/engines/tests/cases"), &mut paths);
    paths
        .retain(|path| path.extension().is_some_and(|extension| extension == "hist" || extension == "jsonl"));
    // These two are no histories, which is what they are kept for.
    let refused = ["one-read-names-object-twice.jsonl", "version-set-names-object-twice.jsonl"];
    paths.retain(|path| !refused.iter().any(|name| path.ends_with(name)));
    for path in paths {
        let history = load(&path).unwrap_or_else(|| panic!("{} is unreadable", path.display()));
        if history.txn_count() <= SMALL {
            judge(&history, &path.display().to_string(), &mut tally);
            judged += 1;
        }
    }
    assert!(judged > 100 && tally.holds > 500 && tally.violated > 500, "{judged} {}", tally.holds);
}

#[test]
fn no_contradictions_in_the_corpora() {
    let Some(root) = corpora() else {
        println!("SKIPPED: the corpora are not there");
        return;
    };
    let (mut paths, mut tally) = (Vec::new(), Tally::default());
    files(&root, &mut paths);
    let small = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| (20..3_000).contains(&file.len()));
    paths.retain(small);
    for path in paths.iter().step_by((paths.len() / 120).max(1)) {
        if let Some(history) = load(path).filter(|history| (1..=SMALL).contains(&history.txn_count())) {
            judge(&history, &path.display().to_string(), &mut tally);
        }
    }
}

fn seeds(few: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("MARGAY_SEED").unwrap_or(0);
    first..first + number("MARGAY_SEEDS").unwrap_or(few)
}

#[test]
fn no_contradictions_in_random_histories() {
    let mut tally = Tally::default();
    for seed in seeds(40) {
        judge(&random(seed), &format!("random {seed}"), &mut tally);
    }
    assert!(tally.holds > 100 && tally.violated > 100);
}

/// Names that some dialects hold equal, some not, and of some pairs nobody knows.
const NAMES: [&str; 6] = ["Bob", "bob", "BOB", "bob ", "ann", "a_b"];

const DATABASES: [Option<&str>; 8] = [
    None,
    Some("innodb"),
    Some("mariadb-11.8"),
    Some("tidb-7.5"),
    Some("postgresql-15"),
    Some("cockroachdb-23.1"),
    Some("yugabytedb"),
    Some("sqlite-3.45"),
];

/// A few statements with answers that may be right or wrong, by whatever dialect.
fn statements(seed: u64, dbms: Option<&str>) -> History {
    let mut rng = Rng::new(seed);
    let mut pick = |most: usize| rng.below(most);
    let names: Vec<&str> = (0..3).map(|_| NAMES[pick(NAMES.len())]).collect();
    let dbms = dbms.map_or(String::new(), |name| format!("\"dbms\":\"{name}\","));
    let mut text = format!(
        "{{\"margay\":1,{dbms}\"tables\":{{\"t\":{{\"key\":[\"id\"],\"columns\":{{\"id\":\"int\",\"name\":\"varchar(20)\",\"v\":\"int\"}}}}}},\"initial\":["
    );
    let initial = |(id, name): (usize, &&str)| format!("[[\"t\",{id}],{{\"name\":\"{name}\",\"v\":0}}]");
    text += &names.iter().enumerate().map(initial).collect::<Vec<_>>().join(",");
    text += "]}\n";
    for txn in 1..=3 {
        for _ in 0..=pick(2) {
            let (id, name, other, number) = (pick(3), NAMES[pick(6)], NAMES[pick(6)], pick(3));
            let found: Vec<usize> = (0..3)
                .filter(|&id| match pick(8) {
                    0 => true,
                    1 => false,
                    2..5 => names[id].eq_ignore_ascii_case(name),
                    _ => names[id] == name,
                })
                .collect();
            let ids = found.iter().map(|id| format!("[{id}]")).collect::<Vec<_>>().join(",");
            let statement = match pick(7) {
                0 => format!("\"sql\":\"UPDATE t SET v = {number} WHERE id = {id}\",\"count\":1"),
                1 => format!(
                    "\"sql\":\"UPDATE t SET v = v + 1 WHERE name = '{name}'\",\"count\":{}",
                    found.len()
                ),
                2 => format!("\"sql\":\"UPDATE t SET name = '{other}' WHERE id = {id}\",\"count\":1"),
                3 => format!("\"sql\":\"SELECT v FROM t WHERE id = {id}\",\"rows\":[[{number}]]"),
                4 => format!("\"sql\":\"SELECT id FROM t WHERE v = {number}\",\"rows\":[{ids}]"),
                5 => format!("\"sql\":\"SELECT id FROM t WHERE name < '{name}'\",\"rows\":[{ids}]"),
                _ => format!("\"sql\":\"SELECT id FROM t WHERE name = '{name}'\",\"rows\":[{ids}]"),
            };
            text += &format!("{{\"session\":{txn},\"txn\":{txn},{statement}}}\n");
        }
        text += &format!("{{\"session\":{txn},\"txn\":{txn},\"commit\":true}}\n");
    }
    let source = Source::Stream("statements".to_owned(), Box::new(std::io::Cursor::new(text.clone())));
    read(source, None).unwrap_or_else(|error| panic!("{error}\n{text}")).history
}

#[test]
fn no_contradictions_in_any_dialect() {
    let mut tally = Tally::default();
    for seed in seeds(25) {
        for dbms in DATABASES {
            judge(&statements(seed, dbms), &format!("statements {seed} of {dbms:?}"), &mut tally);
        }
    }
    assert!(tally.holds > 100 && tally.violated > 100, "{} {}", tally.holds, tally.violated);
}

/// What everybody who answers says.
fn answers(history: &History, level: Level) -> Vec<(String, bool)> {
    let accepted = ask_all(history, Question::new(level), &mut Tally::default());
    accepted.into_iter().map(|accepted| (accepted.who, accepted.holds)).collect()
}

/// `innodb` was read as no particular database, which compares with case: a false alarm.
#[test]
fn innodb_compares_without_case() {
    let history = case("dialect-innodb.jsonl");
    let answers = answers(&history, Level::Serializable);
    assert!(answers.len() > 1 && answers.iter().all(|(_, holds)| *holds), "{answers:?}");
}

/// `tidb` was MySQL for the engine that executes statements and no particular database for the
/// others, so that one proved `holds` and another `violated`.
#[test]
fn tidb_compares_with_case() {
    let history = case("dialect-tidb.jsonl");
    let answers = answers(&history, Level::Serializable);
    assert!(answers.len() > 1 && answers.iter().all(|(_, holds)| !holds), "{answers:?}");
}

/// Both certificates of version 0.1.0 are right, each by its reading, which nobody could see.
#[test]
fn certificates_name_their_reading() {
    let history = case("reading-item-or-statement.jsonl");
    let folder = root().join("crates/engines/tests/cases");
    for (file, reading, verdict) in [
        ("reading-item.json", Reading::Item, "holds"),
        ("reading-statement.json", Reading::Statement, "violated"),
    ] {
        let text = fs::read_to_string(folder.join(file)).expect("a readable case");
        let (claim, certificate) = wire::from_json(&history, None, &text).expect("a certificate");
        assert_eq!((claim.reading, certificate.proves()), (reading, verdict));
        assert_eq!(claim.translation, Translation::Executed);
        assert_eq!(audit(&history, claim.question, &certificate), Ok(()));
        assert!(claim.rules().contains(&format!("reading {}", reading.name())), "{}", claim.rules());
        // With another reading the execution is none of this level.
        if let Certificate::Execution(execution) = certificate {
            let other = margay_verdict::execution::Execution { reading: Reading::Statement, ..execution };
            assert!(audit(&history, claim.question, &Certificate::Execution(other)).is_err());
        }
    }
}

/// Mechanisms that belong to no database of the history "proved" a violation of any level that was
/// written beside them.
#[test]
fn made_up_mechanisms_accuse_no_level() {
    let history = case("forged-mechanisms.jsonl");
    let folder = root().join("crates/engines/tests/cases");
    for file in ["forged-mechanisms-1.json", "forged-mechanisms-2.json"] {
        let text = fs::read_to_string(folder.join(file)).expect("a readable case");
        let (claim, certificate) = wire::from_json(&history, None, &text).expect("a certificate");
        let said = claim.sentence(&certificate);
        assert!(!said.contains("violated") && !said.contains(claim.question.level.name()), "{said}");
        let standing = Standing::of(certificate.breach().expect("a breach"));
        let note = standing.note();
        assert!(
            note.contains("names no profile that has these mechanisms")
                && note.contains("mysql/serializable")
        );
        let odd = text.replace("\"update-search\":false", "\"update-search\":true");
        let (_, certificate) = wire::from_json(&history, None, &odd).expect("a certificate");
        let note = Standing::of(certificate.breach().expect("a breach")).note();
        assert!(note.starts_with("no profile has these mechanisms"), "{note}");
    }
}

/// Whoever lies about the profile is found out, and a real one is named in its own words.
#[test]
fn breaches_name_their_profile() {
    let history = case("forged-mechanisms.jsonl");
    let text = fs::read_to_string(root().join("crates/engines/tests/cases/forged-mechanisms-1.json"));
    let text = text.expect("a readable case").replacen('{', "{\"profile\":\"postgresql/serializable\",", 1);
    let (claim, certificate) = wire::from_json(&history, None, &text).expect("a certificate");
    assert_eq!(claim.profile.as_deref(), Some("postgresql/serializable"));
    assert!(matches!(Standing::of(certificate.breach().expect("a breach")), Standing::Others { .. }));

    let mirror = margay_engines::by_name("mirror").expect("an engine");
    let dbms = margay_engines::dbms("mysql/serializable").expect("a profile");
    let mirror = mirror.for_dbms(&dbms, &history, Level::Serializable);
    let Ok(Choice::Mirror(mirror)) = mirror else { panic!("it promises the level") };
    let verdict = mirror.check(&history, Question::new(Level::Serializable), &Budget::unlimited());
    let certificate = verdict.certificate().expect("a breach");
    let claim = Claim::of(&history, Question::new(Level::Serializable), None, certificate);
    assert_eq!(claim.profile.as_deref(), Some("mysql/serializable"));
    assert_eq!(
        claim.sentence(certificate),
        "not possible for MySQL's SERIALIZABLE as its profile describes it"
    );
}

/// Every database that profiles know has a dialect by all its spellings, or none on purpose.
#[test]
fn profiles_have_dialects() {
    let without = [
        "derby",
        "duckdb",
        "etcd",
        "firebird",
        "fjall",
        "foundationdb",
        "generic",
        "h2",
        "hsqldb",
        "lmdb",
        "nuodb",
        "opengauss",
        "oracle",
        "redb",
        "redis",
        "rocksdb",
        "sap-hana",
        "singlestore",
        "slatedb",
        "spanner",
        "sql-server",
        "surrealkv",
    ];
    for profile in margay_levels::profile::all() {
        let generic = Dialect::of_dbms(Some(profile.dbms)) == Dialect::Generic;
        assert_eq!(generic, without.contains(&profile.dbms), "{}", profile.dbms);
    }
}
