//! Documented answers of other tools: Elle's verdicts and anomaly names, and the weak levels.

use std::collections::BTreeSet;
use std::path::Path;

use margay_audit::audit;
use margay_formats::{Source, read};
use margay_history::History;
use margay_infer::Infer;
use margay_levels::{Level, Model};
use margay_testkit::{cases, corpora};
use margay_verdict::{Budget, Checker, Question, Verdict};

fn load(path: &Path) -> History {
    read(Source::Path(path.to_path_buf()), None).unwrap_or_else(|e| panic!("{}: {e}", path.display())).history
}

/// The verdict, whose certificates pass the audit.
fn ask(history: &History, question: Question) -> Verdict {
    let verdict = Infer::DEFAULT.check(history, question, &Budget::unlimited());
    let proofs: Vec<_> = match &verdict {
        Verdict::Holds(certificate) => vec![certificate],
        Verdict::Violated(findings) => findings.iter().map(|finding| &finding.certificate).collect(),
        _ => Vec::new(),
    };
    for proof in proofs {
        audit(history, question, proof).unwrap_or_else(|why| panic!("{}: {why}\n{proof:?}", question.level));
    }
    verdict
}

fn names(verdict: &Verdict) -> BTreeSet<&'static str> {
    match verdict {
        Verdict::Violated(findings) => findings.iter().map(|finding| finding.anomaly.name()).collect(),
        _ => BTreeSet::new(),
    }
}

const WEAK: [Level; 3] = [Level::BeReadCommitted, Level::ReadAtomic, Level::Causal];

/// Holds a documented answer against ours.
#[derive(Default)]
struct Score {
    same: usize,
    wrong: Vec<String>,
}

impl Score {
    fn hold(&mut self, name: &str, path: &Path, level: Level, holds: bool) {
        let verdict = ask(&load(path), Question::new(level));
        let expected = if holds { "holds" } else { "violated" };
        match verdict.word() == expected {
            true => self.same += 1,
            false => self.wrong.push(format!("{name} {level}: {expected}, and infer says {verdict:?}")),
        }
    }

    fn finish(self, at_least: usize) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        assert!(self.same >= at_least, "only {} answers: the corpora are not what they were", self.same);
        println!("{} answers as documented", self.same);
    }
}

#[test]
fn weak_levels() {
    let Some(root) = corpora() else { return println!("SKIPPED: no corpora beside the workspace") };
    let mut score = Score::default();
    for case in cases(&root).into_iter().filter(|case| WEAK.contains(&case.level)) {
        score.hold(&case.name, &case.path, case.level, case.holds);
    }
    for level in WEAK {
        let of = |name: &str| root.join("isovista").join(name);
        score.hold("isovista", &of("sample_history.txt"), level, true);
        score.hold("isovista", &of("yugabyte_tcc.txt"), level, level == Level::BeReadCommitted);
    }
    score.finish(200);
}

#[test]
fn weak_levels_of_a_galera_cluster() {
    let Some(root) = corpora() else { return println!("SKIPPED: no corpora beside the workspace") };
    let mut score = Score::default();
    let table = std::fs::read_to_string(root.join("dbcop/VERDICTS.tsv")).expect("a table");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let path = root.join("dbcop").join(format!("{}.bincode", columns[0]));
        for (level, said) in WEAK.into_iter().zip(&columns[3..6]).filter(|_| path.exists()) {
            score.hold(columns[0], &path, level, *said == "ok");
        }
    }
    score.finish(60);
}

/// Rows where Elle says something else, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "la-lost-update.edn",
        "besides Elle's, a cycle through real time; Elle prefers rw where two transactions have both",
    ),
    ("la-g-nonadjacent.edn", "besides Elle's, a shorter cycle through real time"),
    ("la-checker-g1a.edn", "Elle does not answer where nothing depends on anything"),
    (
        "la-checker-g1b.edn",
        "Elle's cycle joins a transaction's own elements; a version has no place before itself",
    ),
    (
        "la-checker-duplicated-elements.edn",
        "the doubled element stands on both sides of another's: already G0",
    ),
    ("la-sim-prefix.edn", "besides Elle's, a cycle of one rw edge elsewhere"),
    ("rw-checker-read-doesn-t-return-what-was-just-been-written.edn", "it reads what nobody wrote"),
    ("rw-checker-g1b.edn", "Elle does not answer where nothing depends on anything"),
    (
        "rw-checker-g2-item-transaction-order.edn",
        "an order of all transactions is evidence, which engine certify takes",
    ),
    ("rw-checker-g2-item.edn", "it reads what nobody wrote"),
    (
        "rw-scc-sort-bug.edn",
        "it reads what nobody wrote; the cycle of versions shows as a cycle of writes in real time",
    ),
    (
        "repo-histories/paper-example.edn",
        "Elle drops operations without a process; they are transactions here",
    ),
    ("repo-histories/huge-scc.edn", "no search ran out of time: the cycle of one rw edge was found"),
    ("elle/rw-register.edn", "it reads what nobody wrote"),
    ("elle/rw-register.json", "it reads what nobody wrote"),
];

#[test]
fn elle() {
    let Some(root) = corpora() else { return println!("SKIPPED: no corpora beside the workspace") };
    let (mut same, mut wrong) = (0, Vec::new());
    for (set, valid, anomalies) in [("elle-tests", 5, 6), ("elle-cli", 3, 5)] {
        let table = std::fs::read_to_string(root.join(set).join("EXPECTED.tsv")).expect("a table");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let models = columns[2].replace("(default)", "").replace("--consistency-models", "");
            let Some(level) = models.trim().parse::<Model>().ok().and_then(Model::level) else { continue };
            let path = root.join(set).join(columns[0]);
            if !matches!(columns[1], "list-append" | "rw-register") || !path.exists() {
                continue;
            }
            let verdict = ask(&load(&path), Question::new(level));
            let expected: BTreeSet<&str> = columns[anomalies].split(',').filter(|n| *n != "-").collect();
            let word = match columns[valid] {
                "true" => "holds",
                "false" => "violated",
                other => other,
            };
            let agrees = verdict.word() == word && names(&verdict) == expected;
            match agrees || DIFFERENCES.iter().any(|(name, _)| *name == columns[0]) {
                true => same += usize::from(agrees),
                false => wrong.push(format!(
                    "{} {level}: {word} {expected:?}, and infer says {} {:?}",
                    columns[0],
                    verdict.word(),
                    names(&verdict)
                )),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(same >= 17, "only {same} answers: the corpora are not what they were");
    println!("{same} answers with Elle's names");
}

/// What Elle's finders of single anomalies complain of never holds. (Some of these fragments append
/// an element twice, which is outside.)
#[test]
fn elle_finders() {
    let Some(root) = corpora() else { return println!("SKIPPED: no corpora beside the workspace") };
    let table = std::fs::read_to_string(root.join("elle-tests/EXPECTED.tsv")).expect("a table");
    let mut asked = 0;
    for line in table.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        if !columns[1].contains('/') {
            continue;
        }
        let verdict =
            ask(&load(&root.join("elle-tests").join(columns[0])), Question::new(Level::Serializable));
        asked += 1;
        assert!(columns[5] == "true" || verdict.word() != "holds", "{}", columns[0]);
    }
    assert!(asked > 8);
}
