//! Refutation by invariants: results that no row can ever give, found without looking for an order.
//!
//! # Algorithm
//! What all statements together can make of rows is collected once ([`World`]). What a cell can be
//! follows from it, and from other cells where statements compute one from the other. What is
//! computed from the cell itself (`q = CASE WHEN q > 9 THEN q - 5 ELSE q + 86 END`) is added until
//! nothing new comes; cells that depend on each other can be anything. Each result of a committed
//! transaction is held against what its statement can answer. The first one that cannot be is the
//! answer: its certificate names the cells that were looked at. Statements that look for an integer
//! find its rows in an index of what columns can be.
//!
//! # Invariants
//! - Nothing is refuted that the audit would not accept: what is found is what [`contradicts`] says
//!   of the sets in the certificate.
//!
//! # Cost
//! Linear in the log, and for each statement that looks through a table in the rows that the table
//! can have; [`MAX_ROWS`] ends it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use margay_executions::{
    Constraints, Contradiction, Machine, World, contradicts, show_observed, show_statement,
};
use margay_history::{History, OpId, Outcome, TxnId};
use margay_levels::Anomaly;
use margay_sql::{Database, Key, Possible, Rows, TableId, Value};
use margay_verdict::execution::{Invariant, InvariantCell};
use margay_verdict::{Budget, Certificate, Finding, Outside, Verdict};

/// The most rows that statements look through, all together.
const MAX_ROWS: u64 = 5_000_000;

/// How often a cell that is computed from itself is computed again.
const MAX_ROUNDS: usize = 300;

/// The most cells that are told.
const TOLD: usize = 4;

/// A result that no order explains, if invariants find one: of one transaction, without the
/// statements of those that have to come after it, or of any.
///
/// # Errors
/// When a statement is outside the fragment.
pub fn refuted(
    history: &History,
    constraints: &Constraints<'_>,
    own: Option<TxnId>,
    budget: &Budget,
) -> Result<Option<Verdict>, Outside> {
    let txns: Vec<TxnId> = own.map_or_else(|| constraints.preferred().to_vec(), |txn| vec![txn]);
    refuted_among(history, constraints, (own, &txns), budget)
}

/// The same for one of these transactions.
///
/// # Errors
/// When a statement is outside the fragment.
pub(crate) fn refuted_among(
    history: &History,
    constraints: &Constraints<'_>,
    (own, txns): (Option<TxnId>, &[TxnId]),
    budget: &Budget,
) -> Result<Option<Verdict>, Outside> {
    let mut machine = Machine::new(history, false)?;
    let world = World::new(&mut machine, constraints, own, budget)?;
    let inferred = Memory::default();
    for &txn in txns.iter().filter(|&&txn| history.outcome(txn) == Outcome::Committed) {
        if budget.poll().is_err() || inferred.looked_through.get() > MAX_ROWS {
            break;
        }
        for op in machine.statements(txn)? {
            if contradiction(&mut machine, &world, &inferred, op)?.is_none() {
                continue;
            }
            // The cells of this statement alone.
            let needed = Memory::default();
            if let Some(why) = contradiction(&mut machine, &world, &needed, op)? {
                return Ok(Some(finding(&machine, needed, op, why)));
            }
        }
    }
    Ok(None)
}

fn contradiction(
    machine: &mut Machine<'_>,
    world: &World,
    memory: &Memory,
    op: OpId,
) -> Result<Option<Contradiction>, Outside> {
    let history = machine.history();
    let Some(seen) = history.statement(op).filter(|seen| seen.rows.is_some() || seen.count.is_some()) else {
        return Ok(None);
    };
    let (statement, params) = machine.bound(op)?;
    let database = machine.database();
    let expected = database.expected(&statement, &params, &Inferred { world, database, memory });
    Ok(contradicts(history, seen, &statement, &expected, database.dialect()))
}

/// What cells can be, as far as it was inferred; nothing while it is being inferred.
#[derive(Default)]
struct Memory {
    cells: RefCell<HashMap<(TableId, Key, usize), Option<Possible>>>,
    indexes: RefCell<HashMap<(TableId, usize), MaybeIndex>>,
    looked_through: Cell<u64>,
}

/// No index where a table may have rows that are not known.
type MaybeIndex = Option<Rc<Index>>;

/// The rows of a table by the integers that a column can be.
#[derive(Default)]
struct Index {
    integers: HashMap<i64, Vec<(Key, bool)>>,
    /// Those whose column can be other values.
    others: Vec<(Key, bool)>,
}

struct Inferred<'a> {
    world: &'a World,
    database: &'a Database,
    memory: &'a Memory,
}

impl Rows for Inferred<'_> {
    fn each(&self, table: TableId, visit: &mut dyn FnMut(&Key, bool)) -> bool {
        let mut count = 0;
        let closed = self.world.each(self.database, table, &mut |key, always| {
            count += 1;
            visit(key, always);
        });
        self.memory.looked_through.update(|all| all + count);
        closed
    }

    fn with(&self, table: TableId, column: usize, number: i64) -> Option<Arc<[(Key, bool)]>> {
        let known = self.memory.indexes.borrow().get(&(table, column)).cloned();
        let index = known.unwrap_or_else(|| {
            let index = self.index(table, column).map(Rc::new);
            self.memory.indexes.borrow_mut().insert((table, column), index.clone());
            index
        })?;
        let rows = index.integers.get(&number).into_iter().flatten().chain(&index.others);
        let rows: Arc<[(Key, bool)]> = rows.cloned().collect();
        self.memory.looked_through.update(|all| all + rows.len() as u64);
        Some(rows)
    }

    fn row(&self, table: TableId, key: &Key) -> Option<bool> {
        self.world.row(self.database, table, key)
    }

    fn cell(&self, table: TableId, key: &Key, column: usize) -> Possible {
        let place = (table, key.clone(), column);
        if let Some(known) = self.memory.cells.borrow().get(&place) {
            return known.clone().unwrap_or(Possible::Any);
        }
        self.memory.cells.borrow_mut().insert(place.clone(), None);
        let values = self.closed((table, key, column)).unwrap_or(Possible::Any);
        self.memory.cells.borrow_mut().insert(place, Some(values.clone()));
        values
    }
}

impl Inferred<'_> {
    /// The least set that statements do not leave, if it is found soon: what is computed from the
    /// cell itself is computed from what it can be so far, until nothing new comes.
    fn closed(&self, (table, key, column): (TableId, &Key, usize)) -> Option<Possible> {
        let mut values = Possible::nothing();
        for _ in 0..MAX_ROUNDS {
            let row = |other: usize| match other == column {
                true => values.clone(),
                false => self.cell(table, key, other),
            };
            let made = self.world.cell(self.database, (table, key, column), &row);
            self.memory.looked_through.update(|all| all + made.size());
            if values.includes(&made) {
                return Some(values);
            }
            values.join(made);
        }
        None
    }

    fn index(&self, table: TableId, column: usize) -> Option<Index> {
        let (mut index, mut rows) = (Index::default(), Vec::new());
        self.each(table, &mut |key, always| rows.push((key.clone(), always))).then_some(())?;
        for row in rows {
            match self.cell(table, &row.0, column) {
                Possible::Of(values) if values.iter().all(|value| matches!(value, Value::Int(_))) => {
                    for value in values {
                        let Value::Int(number) = value else { continue };
                        index.integers.entry(number).or_default().push(row.clone());
                    }
                }
                _ => index.others.push(row),
            }
        }
        Some(index)
    }
}

fn finding(machine: &Machine<'_>, memory: Memory, op: OpId, why: Contradiction) -> Verdict {
    let (history, database) = (machine.history(), machine.database());
    let named = |((table, key, column), values): ((TableId, Key, usize), Option<Possible>)| {
        let schema = database.schema(table);
        let (name, column) = (schema.name.clone(), schema.columns[column].name.clone());
        let values = values.filter(|values| *values != Possible::Any)?;
        Some(InvariantCell { table: name, key: key.to_vec(), column, values })
    };
    let mut cells: Vec<InvariantCell> = memory.cells.into_inner().into_iter().filter_map(named).collect();
    cells.sort_by(|a, b| (&a.table, &a.key, &a.column).cmp(&(&b.table, &b.key, &b.column)));
    let notes = notes(history, op, why, &cells);
    let certificate = Certificate::Invariant(Invariant { op, cells, notes });
    let txns = vec![history.txn_of(op)];
    Verdict::Violated(vec![Finding { anomaly: Anomaly::ResultMismatch, txns, certificate }])
}

fn notes(history: &History, op: OpId, why: Contradiction, cells: &[InvariantCell]) -> Vec<String> {
    let mut lines = vec![
        format!("{} executed {}", history.show_txn(history.txn_of(op)), show_statement(history, op)),
        format!("  and observed {}.", show_observed(history, op)),
        "Whatever the order of all transactions that may have come before,".to_owned(),
    ];
    for cell in cells.iter().take(TOLD) {
        let key: Vec<String> = cell.key.iter().map(ToString::to_string).collect();
        let row = format!("{} {}", cell.table, key.join(", "));
        lines.push(format!("  {} of {row} can only be {}", cell.column, cell.values));
    }
    match cells.len().saturating_sub(TOLD) {
        0 => {}
        more => lines.push(format!("  and so on for {more} other values")),
    }
    lines.push(match why {
        Contradiction::Impossible(row) => {
            format!("No such rows give {}: the answer itself is wrong.", history.show_value(row))
        }
        Contradiction::Twice(row) => {
            format!("{} shows a row that is there once: the answer itself is wrong.", history.show_value(row))
        }
        Contradiction::Missing => {
            "A row that is always there, and that the statement asks for, is missing: the answer itself is wrong."
                .to_owned()
        }
        Contradiction::Count => {
            "Such rows cannot be so many, or so few: the answer itself is wrong.".to_owned()
        }
    });
    lines
}
