//! Histories whose lines were changed after they were written: what no simulator would think of.

use margay_formats::{Format, Source, Target, read, write};
use margay_history::History;
use margay_testkit::Rng;
use serde_json::{Value, json};

/// The history after some changes of its lines; nothing if that is no history.
pub fn changed(history: &History, seed: u64) -> Option<History> {
    let mut rng = Rng::new(seed ^ 0x51ed_270b);
    let mut lines = lines(history);
    for _ in 0..1 + rng.below(6) {
        change(&mut lines, &mut rng);
    }
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    read(Source::bytes(text.join("\n").as_bytes()), Some(Format::Margay)).ok().map(|loaded| loaded.history)
}

fn lines(history: &History) -> Vec<Value> {
    let mut bytes = Vec::new();
    write(history, Format::Margay, Target::Stream(Box::new(&mut bytes))).expect("memory takes everything");
    let text = String::from_utf8(bytes).expect("JSON is text");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of ours")).collect()
}

/// Changes one line, or two.
fn change(lines: &mut Vec<Value>, rng: &mut Rng) {
    if lines.len() < 3 {
        return;
    }
    let (i, j) = (1 + rng.below(lines.len() - 1), 1 + rng.below(lines.len() - 1));
    match rng.below(8) {
        0 => end(&mut lines[i], rng),
        1 if lines[i].get("commit").is_none() => drop(lines.remove(i)),
        2 => forget(&mut lines[i], rng),
        3 => swap_what(lines, i, j),
        4 => lines[i].as_object_mut().into_iter().for_each(|line| drop(line.remove("at"))),
        _ => exchange(lines, i, j, rng),
    }
}

/// Another outcome.
fn end(line: &mut Value, rng: &mut Rng) {
    let outcomes = ["commit", "abort", "unknown"];
    let Some(line) = line.as_object_mut() else { return };
    if outcomes.iter().any(|outcome| line.remove(*outcome).is_some()) {
        line.insert((*rng.pick(&outcomes)).to_owned(), json!(true));
    }
}

/// What was observed is not.
fn forget(line: &mut Value, rng: &mut Rng) {
    let Some(line) = line.as_object_mut() else { return };
    line.remove(*rng.pick(&["rows", "count"]));
}

/// Two operations change places: each happens in the other's transaction.
fn swap_what(lines: &mut [Value], i: usize, j: usize) {
    let known = |line: &Value| {
        ["read", "write", "append", "scan", "update", "sql"].iter().any(|kind| line.get(kind).is_some())
    };
    if !known(&lines[i]) || !known(&lines[j]) {
        return;
    }
    for place in ["session", "txn", "at"] {
        let (mine, theirs) = (lines[i].get(place).cloned(), lines[j].get(place).cloned());
        if let (Some(mine), Some(theirs)) = (mine, theirs) {
            lines[i][place] = theirs;
            lines[j][place] = mine;
        }
    }
    lines.swap(i, j);
}

/// A scalar of one line takes the place of one of another, where both mean something alike.
fn exchange(lines: &mut [Value], i: usize, j: usize, rng: &mut Rng) {
    let fields = ["read", "write", "append", "rows", "txns", "ts", "count", "object"];
    let mut taken = Vec::new();
    fields.iter().filter_map(|field| lines[j].get(field)).for_each(|part| scalars(part, &mut taken));
    let Some(field) = fields.iter().find(|field| lines[i].get(**field).is_some()) else { return };
    if taken.is_empty() {
        return;
    }
    let new = rng.pick(&taken).clone();
    let mut places = Vec::new();
    scalars(&lines[i][field], &mut places);
    if !places.is_empty() {
        let mut at = rng.below(places.len());
        put(&mut lines[i][field], &mut at, &new);
    }
}

fn scalars(value: &Value, out: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| scalars(item, out)),
        Value::Object(fields) => fields.values().for_each(|item| scalars(item, out)),
        scalar => out.push(scalar.clone()),
    }
}

/// Puts a value at the place of the `at`-th scalar.
fn put(value: &mut Value, at: &mut usize, new: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().any(|item| put(item, at, new)),
        Value::Object(fields) => fields.values_mut().any(|item| put(item, at, new)),
        scalar if *at == 0 => {
            *scalar = new.clone();
            true
        }
        _ => {
            *at -= 1;
            false
        }
    }
}
