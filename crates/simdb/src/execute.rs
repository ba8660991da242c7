//! Statements: the protocol says whether and where, the database reads and writes.

use margay_client::{Ask, Change, Cond, Obj, Row, Value};

use crate::db::{Db, ReadView, RuleResult, Seen, Stop};
use crate::fault::Fault;
use crate::rules::Rules;

/// Tries a statement. Its answer is left in `rows`: what was read, or what a predicate update made
/// of its rows.
pub(crate) fn execute(
    db: &mut Db,
    rules: &mut dyn Rules,
    me: usize,
    ask: Ask,
    rows: &mut Vec<Seen>,
) -> RuleResult<()> {
    rows.clear();
    db.looked.clear();
    let step = rules.statement(db, me).and_then(|()| attempt(db, rules, me, ask, rows));
    match &step {
        Err(Stop::Wait(_)) => {
            let clock = db.clock;
            db.txns[me].statement.get_or_insert(clock);
        }
        _ => end_statement(db, me),
    }
    step
}

fn end_statement(db: &mut Db, me: usize) {
    db.txns[me].statement = None;
    let early = db.locks.took_any(me) && db.fault(me, Fault::LockReleasedEarly);
    db.locks.end_statement(me, !early);
    if early {
        db.released.push(me as u32);
    }
}

fn attempt(db: &mut Db, rules: &mut dyn Rules, me: usize, ask: Ask, rows: &mut Vec<Seen>) -> RuleResult<()> {
    match ask {
        Ask::Read(obj) => read(db, rules, me, obj, rows),
        Ask::Write(obj, change) => {
            let view = rules.write(db, me, obj, change)?;
            write(db, me, obj, change, view);
            Ok(())
        }
        Ask::Scan(cond) | Ask::Aggregate(cond) => {
            let view = rules.scan(db, me, cond)?;
            scan(db, me, cond, view, rows);
            Ok(())
        }
        Ask::Update(cond, set) => {
            let change = match set {
                Some(v) => Change::Merge(Row { v: Some(v), w: None }),
                None => Change::Delete,
            };
            let (targets, view) = rules.targets(db, me, cond, change)?;
            if db.keep_looked {
                let searched = rules.searched(db, me).unwrap_or(view);
                look_at_table(db, me, cond, searched, view);
            }
            update(db, me, &targets, change, view, rows);
            Ok(())
        }
    }
}

fn read(db: &mut Db, rules: &mut dyn Rules, me: usize, obj: Obj, rows: &mut Vec<Seen>) -> RuleResult<()> {
    let seen = match db.see_own(me, obj).or_else(|| db.see_wrong(me, obj)) {
        Some(seen) => seen,
        None => {
            let view = rules.read(db, me, obj)?;
            db.see_version(me, obj, view)
        }
    };
    look(db, &seen);
    rows.push(seen);
    Ok(())
}

fn look(db: &mut Db, seen: &Seen) {
    if let (true, Some(writer)) = (db.keep_looked, seen.writer) {
        db.looked.push((seen.obj, writer));
    }
}

fn write(db: &mut Db, me: usize, obj: Obj, change: Change, view: ReadView) -> Value {
    let value = change.apply(&db.base(me, obj, view));
    db.put(me, obj, value.clone());
    value
}

fn scan(db: &mut Db, me: usize, cond: Cond, view: ReadView, rows: &mut Vec<Seen>) {
    let all = if db.keep_looked { db.store.rows().collect() } else { db.candidates(cond) };
    for obj in all {
        let seen = db.see(me, obj, view);
        let matches = cond.matches(&seen.value);
        if matches || db.whole_tables {
            look(db, &seen);
        }
        if matches {
            rows.push(seen);
        }
    }
    misreport(db, me, rows);
}

/// The faults of predicate reads.
fn misreport(db: &mut Db, me: usize, rows: &mut Vec<Seen>) {
    if !rows.is_empty() && db.fault(me, Fault::IndexEntryMissing) {
        let missing = db.faults.choice.below(rows.len() as u64) as usize;
        rows.remove(missing);
    }
    if !rows.is_empty() && db.fault(me, Fault::WrongAggregate) {
        let wrong = db.faults.choice.below(rows.len() as u64) as usize;
        if let Value::Row(Row { v: Some(v), .. }) = &mut rows[wrong].value {
            *v = -1 - *v;
        }
    }
}

fn update(db: &mut Db, me: usize, targets: &[Obj], change: Change, view: ReadView, rows: &mut Vec<Seen>) {
    for &obj in targets {
        let value = write(db, me, obj, change, view);
        rows.push(Seen { obj, value, writer: None });
    }
    if !rows.is_empty() && db.fault(me, Fault::WrongRowCount) {
        let missing = db.faults.choice.below(rows.len() as u64) as usize;
        let Seen { obj, .. } = rows.remove(missing);
        // Another write of the same transaction may still tell of it; then the evidence does not,
        // which is all that is lost.
        if let Some(own) = db.txns[me].writes.iter_mut().find(|w| w.obj == obj) {
            own.untold = true;
        }
    }
}

/// A predicate update has looked at every row of the table: where it searched, and if the row
/// matched there, where it starts from.
fn look_at_table(db: &mut Db, me: usize, cond: Cond, searched: ReadView, view: ReadView) {
    for obj in db.store.rows() {
        if db.txns[me].own(obj).is_some() {
            continue;
        }
        let at = |view| match view {
            ReadView::AsOf(ts) => db.store.row(obj).as_of(ts),
            ReadView::Latest | ReadView::Dirty => db.store.row(obj).latest(),
        };
        let found = at(searched);
        let version = if cond.matches(&found.value) { at(view) } else { found };
        if !version.untold && (db.whole_tables || cond.matches(&version.value)) {
            let looked = (obj, version.txn);
            db.looked.push(looked);
        }
    }
}
