//! The lattice of models against tables dumped from Elle, row by row.
//!
//! The tables are not part of the project. They are looked for in `../shared/corpora` beside the
//! workspace, or in the folder that `MARGAY_CORPORA` names; where they are missing the tests say so
//! and pass.

use std::collections::BTreeSet;
use std::path::PathBuf;

use margay_levels::Anomaly;
use margay_levels::model::{Model, boundary};

type Row = Vec<String>;

/// The rows of a table without its header, or `None` where there is no such table.
fn rows(name: &str) -> Option<Vec<Row>> {
    let corpora = std::env::var_os("MARGAY_CORPORA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora"));
    let path = corpora.join("elle-facts").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.lines().skip(1).map(|l| l.split('\t').map(str::to_owned).collect()).collect()),
        Err(error) => {
            println!("SKIPPED: {}: {error}", path.display());
            None
        }
    }
}

fn listed(cell: &str) -> BTreeSet<String> {
    cell.split(',').filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

fn names<T: ToString>(items: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    items.into_iter().map(|i| i.to_string()).collect()
}

fn canonical<'a>(items: impl IntoIterator<Item = &'a Model>) -> BTreeSet<String> {
    items.into_iter().map(|m| m.canonical().to_owned()).collect()
}

/// Elle knows nothing of our own names.
fn without_ours(items: impl IntoIterator<Item = Anomaly>) -> BTreeSet<String> {
    names(items.into_iter().filter(|a| *a < Anomaly::BeReadCommittedCycleExists))
}

#[test]
fn models_imply_what_elle_says() {
    let Some(rows) = rows("models-implies.tsv") else { return };
    for row in &rows {
        let model: Model = row[0].parse().unwrap();
        assert_eq!((model.canonical(), model.name()), (&*row[0], &*row[1]));
        assert_eq!(row[1].parse(), Ok(model));
        assert_eq!(canonical(model.directly_implies()), listed(&row[2]), "{model}, directly");
        assert_eq!(canonical(&model.all_implied()), listed(&row[3]), "{model}, all");
    }
    assert_eq!(rows.len(), Model::ALL.len());
}

#[test]
fn models_prohibit_what_elle_says() {
    let Some(rows) = rows("models-prohibit.tsv") else { return };
    for row in &rows {
        let model: Model = row[0].parse().unwrap();
        assert_eq!(names(model.directly_prohibits()), listed(&row[2]), "{model}, directly");
        assert_eq!(without_ours(model.prohibited_anomalies()), listed(&row[3]), "{model}, all");
    }
    assert_eq!(rows.len(), Model::ALL.len());
}

#[test]
fn anomalies_imply_what_elle_says() {
    let Some(rows) = rows("anomaly-implies.tsv") else { return };
    for row in &rows {
        let anomaly: Anomaly = row[0].parse().unwrap();
        assert_eq!(names(anomaly.directly_implies()), listed(&row[1]), "{anomaly}, directly");
        assert_eq!(names(anomaly.all_implied()), listed(&row[2]), "{anomaly}, all");
    }
    // An anomaly of Elle's that has no row there implies nothing here.
    for &anomaly in Anomaly::ALL.iter().filter(|a| **a < Anomaly::BeReadCommittedCycleExists) {
        let has_row = rows.iter().any(|r| r[0] == anomaly.name());
        assert!(has_row || anomaly.all_implied().is_empty(), "{anomaly}");
    }
}

#[test]
fn boundaries_are_elles() {
    let Some(rows) = rows("anomaly-boundary.tsv") else { return };
    for row in &rows {
        let anomaly: Anomaly = row[0].parse().unwrap();
        let found = boundary([anomaly]);
        assert_eq!(names(&found.not), listed(&row[1]), "{anomaly}, not");
        assert_eq!(names(&found.also_not), listed(&row[2]), "{anomaly}, also not");
    }
    let elles = Anomaly::ALL.iter().filter(|a| **a < Anomaly::BeReadCommittedCycleExists).count();
    assert_eq!(rows.len(), elles);
}
