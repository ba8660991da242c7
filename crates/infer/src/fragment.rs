//! What of a history the engine gives no meaning to.
//!
//! Predicate updates and SQL make versions that depend on others; rows that are written in part do
//! too. Scans and whole rows are fine: a row whose columns are always written and read together is
//! one value.

use hashbrown::HashMap;
use margay_history::{Access, History, NameId, ObjectId, OpKind, TableId, Value, ValueId};

/// # Errors
/// What is outside the engine's fragment.
pub(crate) fn check(history: &History) -> Result<(), String> {
    for (kind, name) in [(OpKind::Update, "a predicate update"), (OpKind::Sql, "an SQL statement")] {
        if history.has_kind(kind) {
            return Err(name.to_string());
        }
    }
    let evidence = history.evidence();
    let stamped = [&evidence.snapshots, &evidence.commits, &evidence.serializations];
    if stamped.iter().any(|stamps| !stamps.is_empty()) {
        return Err("timestamps beside what clients saw".to_string());
    }
    if !evidence.version_sets.is_empty() {
        return Err("version sets beside what clients saw".to_string());
    }
    scans(history)?;
    rows(history)
}

/// Every row that a scan returned was seen: of another one nobody knows which version matched.
fn scans(history: &History) -> Result<(), String> {
    if !history.has_kind(OpKind::Scan) {
        return Ok(());
    }
    let scans = history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind == OpKind::Scan);
    match scans.flat_map(|op| op.accesses).any(|access| access.value == ValueId::UNKNOWN) {
        true => Err("a scan with rows that its client did not see".to_string()),
        false => Ok(()),
    }
}

/// Every row of a table has the same columns, and so has every row of a key.
fn rows(history: &History) -> Result<(), String> {
    if history.values().name_count() == 0 {
        return Ok(());
    }
    let mut columns: HashMap<Option<TableId>, Vec<NameId>> = HashMap::new();
    let mut whole = |object: ObjectId, value: ValueId| {
        let Some(row) = row(history, value) else { return true };
        let seen = row.iter().filter(|column| column.1 != ValueId::UNKNOWN);
        let own: Vec<NameId> = seen.map(|column| column.0).collect();
        *columns.entry(history.object(object).table).or_insert_with(|| own.clone()) == own
    };
    let mut accesses = history.txns().flat_map(|txn| history.ops(txn)).flat_map(|op| op.accesses);
    let fine = history.initial_values().iter().all(|&(object, value)| whole(object, value))
        && accesses.all(|&Access { object, value }| whole(object, value));
    if fine { Ok(()) } else { Err("rows that are written or read in part".to_string()) }
}

/// The columns of a row.
pub(crate) fn row(history: &History, value: ValueId) -> Option<&[(NameId, ValueId)]> {
    match value.small_int() {
        Some(_) => None,
        None => match history.value(value) {
            Value::Row(columns) => Some(columns),
            _ => None,
        },
    }
}
