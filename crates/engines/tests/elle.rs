//! Elle's own answers, and those of elle-cli's other checkers, held against ours: the verdict, the
//! names of the anomalies, and what they rule out.
//!
//! Every row of the two tables is asked the way it was asked there: its models as levels, its extra
//! anomalies by name, its options as assumptions. Where the answers differ, [`DIFFERENCES`] says
//! why; `docs/ELLE.md` has the same list.

use std::collections::BTreeSet;
use std::path::Path;

use margay::{Assume, assumed};
use margay_formats::{Source, read};
use margay_history::{History, Version, VersionOrder};
use margay_levels::{Anomaly, Level, Model};

use margay_audit::reach::boundary;
use margay_audit::{Reach, reach};
use margay_testkit::corpora;
use margay_verdict::{Budget, Finding, Question, Verdict};

/// A row of a table.
#[derive(Clone, Debug)]
struct Row {
    set: &'static str,
    file: String,
    checker: String,
    models: Vec<Model>,
    extra: Vec<Anomaly>,
    options: String,
    valid: String,
    anomalies: BTreeSet<String>,
    not: Option<BTreeSet<String>>,
}

/// What we say.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Said {
    word: &'static str,
    names: BTreeSet<String>,
    not: BTreeSet<String>,
}

fn rows(root: &Path, set: &'static str) -> Vec<Row> {
    let table = std::fs::read_to_string(root.join(set).join("EXPECTED.tsv")).expect("a table");
    table.lines().skip(1).map(|line| row(set, &line.split('\t').collect::<Vec<_>>())).collect()
}

fn row(set: &'static str, columns: &[&str]) -> Row {
    let tests = set == "elle-tests";
    let text = |column: usize| columns[column].to_string();
    let words = |text: &str| text.split(',').map(str::trim).filter(|w| *w != "-").map(String::from).collect();
    let models = columns[2].replace("(default)", "").replace("--consistency-models", "");
    let models = models.split(',').filter_map(|name| name.trim().parse().ok()).collect();
    Row {
        set,
        file: text(0),
        checker: text(1),
        models,
        extra: if tests {
            columns[3].split(',').filter_map(|a| a.parse().ok()).collect()
        } else {
            Vec::new()
        },
        options: if tests { text(4) } else { String::new() },
        valid: if tests { text(5) } else { text(3) },
        anomalies: if tests { words(columns[6]) } else { words(columns[5]) },
        not: tests.then(|| words(columns[7])),
    }
}

/// The history with what the row's options say.
fn history(root: &Path, row: &Row) -> Option<History> {
    let path = root.join(row.set).join(&row.file);
    if !path.exists() {
        return None;
    }
    let loaded = read(Source::Path(path), None).unwrap_or_else(|e| panic!("{}: {e}", row.file));
    let history = loaded.history;
    let assume = Assume {
        sequential_keys: row.options.contains("sequential-keys? true"),
        linearizable_keys: row.options.contains("linearizable-keys? true"),
    };
    let mut orders = assumed(&history, assume).unwrap_or_default();
    orders.extend(transaction_order(&history, &row.options));
    Some(history.with_version_orders(orders).expect("orders of versions that there are"))
}

/// `{:transaction-order {0 1, 1 4}}`: the place of each operation, by its index.
fn transaction_order(history: &History, options: &str) -> Vec<VersionOrder> {
    let Some((_, order)) = options.split_once(":transaction-order {") else { return Vec::new() };
    let order = order.trim_end_matches('}');
    let places: Vec<(u64, i64)> = order
        .split(", ")
        .filter_map(|pair| pair.split_once(' '))
        .filter_map(|(txn, place)| Some((txn.parse().ok()?, place.parse().ok()?)))
        .collect();
    let order = |object| {
        let writes = |txn| {
            history.ops(txn).any(|op| op.kind.writes() && op.accesses.iter().any(|a| a.object == object))
        };
        let mut writers: Vec<_> = places
            .iter()
            .filter_map(|&(label, place)| Some((place, history.find_txn(label)?)))
            .filter(|&(_, txn)| writes(txn))
            .collect();
        writers.sort_unstable();
        VersionOrder { object, versions: writers.into_iter().map(|(_, txn)| Version::Of(txn)).collect() }
    };
    history.objects().map(order).collect()
}

fn ask(history: &History, level: Level) -> (Verdict, Vec<Reach>) {
    let budget = Budget::unlimited().with_time(std::time::Duration::from_secs(60));
    let question = Question::new(level);
    let decision = margay::decide(history, question, &margay::Options::default(), &budget);
    assert!(decision.faults.is_empty(), "{level}: {:?}", decision.faults);
    let translation = decision.claim(history, question).map_or_else(Default::default, |c| c.translation);
    let reaches = match &decision.verdict {
        Verdict::Violated(findings) => {
            let about = decision.about(history);
            findings
                .iter()
                .map(|finding| reach(about, question, finding, translation, &Budget::unlimited()))
                .collect()
        }
        _ => Vec::new(),
    };
    (decision.verdict, reaches)
}

/// Asks at every level of the row, and for its extra anomalies at the levels that forbid them.
fn say(row: &Row, history: &History) -> Said {
    let mut questions: Vec<(Level, Option<Anomaly>)> =
        row.models.iter().filter_map(|model| model.level()).map(|level| (level, None)).collect();
    for &extra in &row.extra {
        questions.extend(extra.weakest_forbidding().into_iter().map(|level| (level, Some(extra))));
    }
    if questions.is_empty() {
        questions.push((Level::StrictSerializable, None));
    }
    let (mut found, mut reaches): (Vec<Anomaly>, Vec<Reach>) = Default::default();
    let mut words = BTreeSet::new();
    for (level, wanted) in questions {
        let (verdict, all) = ask(history, level);
        let Verdict::Violated(findings) = &verdict else {
            words.insert(verdict.word());
            continue;
        };
        let counts = |finding: &&Finding| wanted.is_none_or(|wanted| finding.anomaly.implies(wanted));
        let counting: Vec<Anomaly> = findings.iter().filter(counts).map(|finding| finding.anomaly).collect();
        words.insert(if counting.is_empty() { "holds" } else { "violated" });
        found.extend(counting);
        let counted = findings.iter().zip(all).filter(|(finding, _)| counts(finding));
        reaches.extend(counted.map(|(_, reach)| reach));
    }
    let word =
        ["violated", "unknown", "clean"].into_iter().find(|word| words.contains(word)).unwrap_or("holds");
    let not = boundary(&reaches).not.iter().map(|model| model.name().to_string()).collect();
    Said { word, names: found.iter().map(|anomaly| elles_name(*anomaly)).collect(), not }
}

/// Elle calls a read that differs from an earlier one of its transaction `internal`, too.
fn elles_name(anomaly: Anomaly) -> String {
    match anomaly {
        Anomaly::NonRepeatableRead => Anomaly::Internal.name().to_string(),
        other => other.name().to_string(),
    }
}

/// What Elle says where no transaction depends on another: then it does not decide.
const NO_GRAPH: &str = "empty-transaction-graph";

fn agrees(row: &Row, said: &Said) -> bool {
    let mut anomalies = row.anomalies.clone();
    let undecided = anomalies.remove(NO_GRAPH) && row.valid == "unknown";
    // A finder of one anomaly looks for nothing else.
    if let Some((_, finder)) = row.checker.split_once('/') {
        let name = finder.trim_end_matches("-cases");
        return if row.valid == "true" {
            !said.names.contains(name)
        } else {
            anomalies.is_subset(&said.names)
        };
    }
    let word = match row.valid.as_str() {
        "true" => matches!(said.word, "holds" | "clean"),
        "false" => said.word == "violated",
        _ => undecided && said.word == "holds",
    };
    // elle-cli's other checkers name no anomalies.
    let names =
        row.set == "elle-cli" && anomalies.is_empty() && row.valid != "true" || anomalies == said.names;
    // What extra anomalies were asked for does not tell what else Elle found, which it counts.
    let not = row.not.as_ref().is_none_or(|not| !row.extra.is_empty() || undecided || *not == said.not);
    word && (undecided || names) && not
}

const GARBAGE: &str = "it reads what nobody wrote: garbage-read, which Elle does not look for";
const MORE: &str = "Elle's anomalies, and a shorter cycle through real time; of two transactions with several dependencies Elle tells one";

/// Files where we say something else, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    ("la-lost-update.edn", MORE),
    ("la-g-nonadjacent.edn", MORE),
    (
        "la-checker-g1b.edn",
        "Elle's cycle joins a transaction's own elements; a version is not before itself, and G1b says it",
    ),
    (
        "la-checker-duplicated-elements.edn",
        "the doubled element stands on both sides of another's: already G0",
    ),
    ("la-sim-prefix.edn", "Elle's anomalies, and a cycle of one rw edge in another component"),
    ("la-internal-cases-read-nil-then-something.edn", GARBAGE),
    ("la-internal-cases-read-append-read.edn", GARBAGE),
    ("la-internal-cases-append-read.edn", GARBAGE),
    ("rw-checker-read-doesn-t-return-what-was-just-been-written.edn", GARBAGE),
    ("rw-checker-g2-item.edn", GARBAGE),
    ("rw-scc-sort-bug.edn", GARBAGE),
    (
        "cp-g1c-multi-key-delete.edn",
        "one of the rows that the cycle is about was returned: an item, so G-single-item",
    ),
    (
        "cp-g2-predicate-read-unseen-universe-write.edn",
        "Elle says that a cycle rules strong snapshot isolation out; we show it: G-single-realtime",
    ),
    (
        "cp-g1c-predicate-read-seen.edn",
        "besides Elle's G1c: the scan misses the transaction's own row, which is internal",
    ),
    (
        "repo-histories/paper-example.edn",
        "Elle drops operations without a process; here they are transactions",
    ),
    ("repo-histories/huge-scc.edn", "no search ran out of time: the cycle of one rw edge is shown"),
    ("elle/rw-register.edn", GARBAGE),
    ("elle/rw-register.json", GARBAGE),
    (
        "jepsen/set_full.edn",
        "elements are added as [0 n] and read as n: elle-cli takes all for lost, we take 0 for the set's key",
    ),
    (
        "jepsen/set_full.json",
        "elements are added as [0 n] and read as n: elle-cli takes all for lost, we take 0 for the set's key",
    ),
    (
        "jepsen/bank-negative-balances.json",
        "balances changed without a transfer: garbage-read; a negative balance as such breaks no level",
    ),
];

#[test]
fn elles_answers() {
    let Some(root) = corpora() else { return println!("SKIPPED: no corpora beside the workspace") };
    let (mut same, mut wrong, mut used) = (0, Vec::new(), BTreeSet::new());
    for row in rows(&root, "elle-tests").into_iter().chain(rows(&root, "elle-cli")) {
        let Some(history) = history(&root, &row).filter(|_| row.valid != "-") else { continue };
        let said = say(&row, &history);
        let known = DIFFERENCES.iter().find(|(file, _)| *file == row.file);
        match (agrees(&row, &said), known) {
            (true, _) => same += 1,
            (false, Some(known)) => _ = used.insert(known.0),
            (false, None) => wrong.push(format!("{row:?}\n    {said:?}")),
        }
    }
    println!("{same} answers are Elle's; {} files differ for a reason", used.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (file, _) in DIFFERENCES {
        assert!(used.contains(file), "{file} does not differ any more");
    }
}

/// A small history of elle-cli's own tests: who did what, in this order, one after the other; what
/// Elle says of it; and why we say something else, if we do.
struct Small {
    name: &'static str,
    level: Level,
    txns: &'static str,
    anomalies: &'static [&'static str],
    reason: Option<&'static str>,
}

const STRICT: Level = Level::StrictSerializable;
const CYCLE_EXISTS: Option<&str> = Some("Elle says that a cycle exists, and we show it");
const OWN: Option<&str> = Some("Elle's cycle joins a transaction's own elements; G1b says it");
const WRITTEN_BY_NOBODY: Option<&str> = Some(GARBAGE);
const SHORTER: Option<&str> = Some(MORE);

#[rustfmt::skip]
const SMALL: &[Small] = &[
    Small { name: "single write and read", level: STRICT, txns: "0 ok [:w :x 2] / 0 ok [:r :x 2]", anomalies: &[], reason: None },
    Small { name: "different keys", level: STRICT, txns: "0 ok [:w :x 1] / 1 ok [:w :y 1] / 0 ok [:r :x 1]", anomalies: &[], reason: None },
    Small { name: "overwritten", level: STRICT, txns: "0 ok [:w :x 1] / 0 ok [:w :x 2] / 1 ok [:r :x 2]", anomalies: &[], reason: None },
    Small { name: "never written", level: STRICT, txns: "0 ok [:r :x nil]", anomalies: &[], reason: None },
    Small { name: "writes only", level: STRICT, txns: "0 ok [:w :x 1] / 1 ok [:w :x 2]", anomalies: &[], reason: None },
    Small { name: "read twice", level: STRICT, txns: "0 ok [:w :x 1] / 1 ok [:r :x 1] [:r :x 1]", anomalies: &[], reason: None },
    Small { name: "own write missed", level: STRICT, txns: "0 ok [:w :x 2] [:r :x 3]", anomalies: &["internal"], reason: None },
    Small { name: "aborted read", level: STRICT, txns: "0 fail [:w :x 2] / 1 ok [:r :x 2]", anomalies: &["G1a"], reason: None },
    Small { name: "intermediate read", level: STRICT, txns: "0 ok [:w :x 1] [:w :x 2] / 1 ok [:r :x 1]", anomalies: &["G1b"], reason: None },
    Small { name: "lost update", level: STRICT, txns: "0 ok [:w :x 0] / 1 ok [:r :x 0] [:w :x 1] / 2 ok [:r :x 0] [:w :x 2]", anomalies: &["lost-update"], reason: SHORTER },
    Small { name: "one rw", level: STRICT, txns: "0 ok [:w :x 1] / 1 ok [:r :x 1] [:w :y 1] / 2 ok [:r :y 1] [:r :x nil]", anomalies: &["G-single-item"], reason: None },
    Small { name: "two rw", level: STRICT, txns: "0 ok [:r :x nil] [:w :y 1] / 1 ok [:r :y nil] [:w :x 1]", anomalies: &["G2-item", "strong-snapshot-isolation-cycle-exists"], reason: CYCLE_EXISTS },
    Small { name: "two rw, serializable", level: Level::Serializable, txns: "0 ok [:r :x nil] [:w :y 1] / 1 ok [:r :y nil] [:w :x 1]", anomalies: &["G2-item"], reason: None },
    Small { name: "two rw, snapshot isolation", level: Level::SnapshotIsolation, txns: "0 ok [:r :x nil] [:w :y 1] / 1 ok [:r :y nil] [:w :x 1]", anomalies: &[], reason: None },
    Small { name: "two rw, strong snapshot isolation", level: Level::StrictSnapshotIsolation, txns: "0 ok [:r :x nil] [:w :y 1] / 1 ok [:r :y nil] [:w :x 1]", anomalies: &["strong-snapshot-isolation-cycle-exists"], reason: CYCLE_EXISTS },
    Small { name: "read before written", level: STRICT, txns: "0 ok [:r :x 1] / 0 ok [:w :x 1]", anomalies: &["G1c-realtime"], reason: None },
    Small { name: "read before written, sessions", level: Level::StrongSessionSerializable, txns: "0 ok [:r :x 1] / 0 ok [:w :x 1]", anomalies: &["G1c-process"], reason: None },
    Small { name: "versions back and forth", level: STRICT, txns: "0 ok [:w :x 1] / 1 ok [:r :x 2] / 0 ok [:r :x 1]", anomalies: &["cyclic-versions"], reason: WRITTEN_BY_NOBODY },
    Small { name: "writes follow reads", level: STRICT, txns: "0 ok [:r :x nil] [:w :x 1] / 1 ok [:r :x 1] [:w :x 2] / 2 ok [:r :x 5]", anomalies: &[], reason: WRITTEN_BY_NOBODY },
    Small { name: "unknown reads", level: STRICT, txns: "0 ok [:w :x 1] / 1 info [:r :x 1] / 2 info [:r :x 1]", anomalies: &[], reason: None },
    Small { name: "append and read", level: STRICT, txns: "0 ok [:append 1 1] / 0 ok [:r 1 [1]]", anomalies: &[], reason: None },
    Small { name: "several appends", level: STRICT, txns: "0 ok [:append 1 1] [:append 1 2] / 1 ok [:append 1 3] / 1 ok [:r 1 [1 2 3]]", anomalies: &[], reason: None },
    Small { name: "lists of their own", level: STRICT, txns: "0 ok [:append 1 1] / 1 ok [:append 2 1] / 0 ok [:r 1 [1]]", anomalies: &[], reason: None },
    Small { name: "an empty list", level: STRICT, txns: "0 ok [:r 1 []]", anomalies: &[], reason: None },
    Small { name: "appends only", level: STRICT, txns: "0 ok [:append 1 1] / 1 ok [:append 1 2]", anomalies: &[], reason: None },
    Small { name: "an unknown read of a list", level: STRICT, txns: "0 ok [:append 1 1] / 0 info [:r 1 nil]", anomalies: &[], reason: None },
    Small { name: "G0", level: STRICT, txns: "0 ok [:append 1 1] [:append 2 1] / 1 ok [:append 1 2] [:append 2 2] / 2 ok [:r 1 [1 2]] [:r 2 [2 1]]", anomalies: &["G0"], reason: None },
    Small { name: "stale list", level: STRICT, txns: "0 ok [:append 1 1] / 1 ok [:append 1 2] / 2 ok [:r 1 [1]]", anomalies: &["G-single-item-realtime"], reason: None },
    Small { name: "G1c", level: STRICT, txns: "0 ok [:append 1 1] [:r 2 [1]] / 1 ok [:append 1 2] [:append 2 1] / 2 ok [:r 1 [1 2]]", anomalies: &["G1c"], reason: None },
    Small { name: "one rw in lists", level: STRICT, txns: "0 ok [:append 1 1] [:append 2 1] / 1 ok [:append 1 2] [:r 2 []] / 2 ok [:r 1 [1 2]]", anomalies: &["G-single-item"], reason: None },
    Small { name: "two rw in lists", level: STRICT, txns: "0 ok [:append 1 1] [:r 2 []] / 1 ok [:append 2 1] [:r 1 []]", anomalies: &["G2-item", "strong-snapshot-isolation-cycle-exists"], reason: CYCLE_EXISTS },
    Small { name: "two orders", level: STRICT, txns: "0 ok [:append 1 1] / 0 ok [:append 1 3] / 1 ok [:r 1 [1 3]] / 0 ok [:append 1 2] / 1 ok [:r 1 [1 2 3]]", anomalies: &["G1c-realtime", "incompatible-order", "strong-PL-1-cycle-exists"], reason: CYCLE_EXISTS },
    Small { name: "lost update of a list", level: STRICT, txns: "0 ok [:append 1 0] / 1 ok [:r 1 [0]] [:append 1 1] / 2 ok [:r 1 [0]] [:append 1 2]", anomalies: &["G2-item", "lost-update"], reason: SHORTER },
    Small { name: "dirty update", level: STRICT, txns: "0 fail [:append 1 1] / 1 ok [:append 1 2] / 2 ok [:r 1 [1 2]]", anomalies: &["G1a", "dirty-update"], reason: None },
    Small { name: "own future", level: STRICT, txns: "0 ok [:r 1 [1]] [:append 1 1]", anomalies: &["future-read"], reason: None },
    Small { name: "an element twice", level: STRICT, txns: "0 ok [:append 1 1] / 1 ok [:r 1 [1 1]]", anomalies: &["duplicate-elements"], reason: None },
    Small { name: "aborted append", level: STRICT, txns: "0 fail [:append 1 1] / 1 ok [:r 1 [1]]", anomalies: &["G1a"], reason: None },
    Small { name: "a list that grows", level: STRICT, txns: "0 ok [:append 1 1] [:append 1 2] / 1 ok [:r 1 [1]] [:r 1 [1 2]]", anomalies: &["G-single-item", "G1b", "internal"], reason: OWN },
    Small { name: "half a transaction", level: STRICT, txns: "0 ok [:append 1 1] [:append 1 2] / 2 ok [:r 1 [1]] / 3 ok [:r 1 [1 2]]", anomalies: &["G-single-item", "G1b"], reason: OWN },
    Small { name: "two of three", level: STRICT, txns: "0 ok [:append 1 1] [:append 1 2] [:append 1 3] / 2 ok [:r 1 [1 2]]", anomalies: &["G-single-item", "G1b"], reason: OWN },
    Small { name: "two of three, then all", level: STRICT, txns: "0 ok [:append 1 1] [:append 1 2] [:append 1 3] / 2 ok [:r 1 [1 2]] / 3 ok [:r 1 [1 2 3]]", anomalies: &["G-single-item", "G1b"], reason: OWN },
    Small { name: "not repeatable", level: STRICT, txns: "0 ok [:append 1 1] / 1 ok [:append 1 2] / 2 ok [:r 1 [1]] [:r 1 [1 2]]", anomalies: &["G-single-item", "internal"], reason: None },
    Small { name: "own append missed", level: STRICT, txns: "0 ok [:append 1 1] / 1 ok [:append 1 2] [:r 1 [1]]", anomalies: &["internal"], reason: None },
    Small { name: "dirty updates", level: STRICT, txns: "0 ok [:append 1 1] / 0 info [:append 1 2] / 0 ok [:append 1 4] / 0 fail [:append 1 5] / 0 info [:append 1 6] / 0 fail [:append 1 7] / 0 ok [:append 1 9] / 1 ok [:r 1 [1 2 4 5 6 7 9]]", anomalies: &["G1a", "dirty-update"], reason: None },
];

/// The same as EDN, an invocation and a completion for each.
fn edn(txns: &str) -> String {
    let mut lines = Vec::new();
    for txn in txns.split(" / ") {
        let mut parts = txn.splitn(3, ' ');
        let (process, kind, ops) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        for kind in ["invoke", kind] {
            lines.push(format!("{{:process {process}, :type :{kind}, :f :txn, :value [{ops}]}}"));
        }
    }
    lines.join("\n")
}

#[test]
fn small_histories_of_elle_cli() {
    let mut wrong = Vec::new();
    for small in SMALL {
        let text = edn(small.txns);
        let bytes = text.as_bytes();
        let history =
            read(Source::Stream(small.name.to_string(), Box::new(bytes)), Some(margay_formats::Format::Edn))
                .expect("EDN")
                .history;
        let (verdict, _) = ask(&history, small.level);
        let names: BTreeSet<String> = match &verdict {
            Verdict::Violated(findings) => {
                findings.iter().map(|finding| elles_name(finding.anomaly)).collect()
            }
            _ => BTreeSet::new(),
        };
        let expected: BTreeSet<String> = small.anomalies.iter().map(|name| (*name).to_string()).collect();
        let word = if expected.is_empty() { "holds" } else { "violated" };
        let agrees = verdict.word() == word && names == expected;
        if agrees == small.reason.is_some() {
            wrong.push(format!(
                "{}: {word} {expected:?}, and we say {} {names:?}",
                small.name,
                verdict.word()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
