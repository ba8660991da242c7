//! Every history of the corpora, if they lie beside the workspace: read, through the native format
//! and back, and through its own format where that can be written.

use std::path::{Path, PathBuf};

use margay_formats::{Format, Source, Target, read, write};
use margay_history::{History, OpKind};

fn corpora() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora");
    let root = std::env::var_os("MARGAY_CORPORA").map_or_else(beside, PathBuf::from);
    if root.is_dir() {
        return Some(root);
    }
    println!("SKIPPED: there are no corpora at {}", root.display());
    None
}

/// The histories below a directory: files, and directories of logs.
fn histories(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    if entries.iter().any(|path| path.extension().is_some_and(|e| e == "log")) {
        found.push(dir.to_path_buf());
        return;
    }
    for path in entries {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        match extension {
            _ if path.is_dir() => histories(&path, found),
            "edn" | "json" | "txt" | "bincode" => found.push(path),
            _ => {}
        }
    }
}

fn same(what: &str, path: &Path, a: &History, b: &History) {
    if let Some(difference) = a.difference(b) {
        panic!("{}: {what}: {difference}", path.display());
    }
}

/// Through `format` and back.
fn through(format: Format, path: &Path, history: &History) -> Result<History, String> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("history");
    write(history, format, Target::from(out.as_path())).map_err(|error| error.to_string())?;
    let loaded = read(Source::from(out.as_path()), Some(format));
    Ok(loaded
        .unwrap_or_else(|error| panic!("{}: {format} again: {}", path.display(), error.render()))
        .history)
}

/// Elle's own micro-operations can be written back; the other workloads of Jepsen become
/// statements, sets and initial values.
fn may_refuse(history: &History) -> bool {
    let named = |name: &str| history.tables().iter().any(|table| table.name == name);
    history.has_kind(OpKind::Sql)
        || named("set")
        || named("sets")
        || named("accounts")
        || !history.initial_values().is_empty() && !named("closed")
}

#[test]
fn every_history_survives() {
    let Some(root) = corpora() else { return };
    let mut paths = Vec::new();
    histories(&root, &mut paths);
    let (mut written, mut refused) = (0, 0);
    for path in &paths {
        let loaded =
            read(Source::from(path.as_path()), None).unwrap_or_else(|error| panic!("{}", error.render()));
        let (history, format) = (loaded.history, loaded.format);
        for native in [Format::Margay, Format::MargayBin] {
            let again = through(native, path, &history).unwrap_or_else(|error| panic!("{error}"));
            same(native.name(), path, &history, &again);
        }
        match through(format, path, &history) {
            Ok(again) => same(format.name(), path, &history, &again),
            Err(error) => {
                let jepsen = matches!(format, Format::Edn | Format::ElleJson);
                assert!(jepsen && may_refuse(&history), "{}: {error}", path.display());
                refused += 1;
                continue;
            }
        }
        written += 1;
    }
    println!(
        "{} histories survive the native formats, {written} their own too; {refused} cannot be written",
        paths.len()
    );
    assert!(paths.len() > 100, "only {} histories were found", paths.len());
}

#[test]
fn the_same_history_in_two_syntaxes() {
    let Some(root) = corpora() else { return };
    let elle = root.join("elle-cli");
    for name in
        ["jepsen/bank", "jepsen/counter", "jepsen/set_full", "knossos/mutex/bad/etcd", "elle/paper-example"]
    {
        let one = |extension: &str| {
            let path = elle.join(name).with_extension(extension);
            read(Source::from(path.as_path()), None)
                .unwrap_or_else(|error| panic!("{}", error.render()))
                .history
        };
        same("the JSON", &elle.join(name), &one("edn"), &one("json"));
    }
}

#[test]
fn initial_states_of_the_corpora() {
    let Some(root) = corpora() else { return };
    let load = |path: &str| {
        let path = root.join(path);
        read(Source::from(path.as_path()), None).unwrap_or_else(|error| panic!("{}", error.render()))
    };
    // Implicit: every object that occurs begins with 0.
    let implicit = load("mtc/lost-update.txt").history;
    assert_eq!(implicit.initial_values().len(), implicit.object_count());
    // Explicit: a transaction of session 0 writes 0, so nothing else stands before it.
    let explicit = load("isovista/yugabyte_tcc.txt").history;
    assert!(explicit.initial_values().is_empty());
    // One id in two sessions.
    let trap = load("mtc/causality-violation.txt");
    assert_eq!((trap.history.txn_count(), trap.warnings.len()), (3, 1));
    // Failed transactions.
    let dgraph = load("polysi/dgraph/history.bincode").history;
    let aborted =
        dgraph.txns().filter(|&txn| dgraph.outcome(txn) == margay_history::Outcome::Aborted).count();
    assert_eq!(aborted, 320);
}
