//! Invariants of SQL transactions: they contain what was there, survive every statement, and
//! contradict a result.
//!
//! # Algorithm
//! One pass over the statements of all transactions that can come before the one with the result
//! collects what they can do to rows ([`World`]). For every cell of the certificate, what is there
//! initially, what is stored and what is computed from cells within their sets, plus all sums of
//! what is added, has to be in its set. Then what the statement can answer is made from these sets.
//! Nothing is executed, and no order is looked at. Why this proves anything:
//! [`mod@margay_executions::invariant`].
//!
//! # Cost
//! Linear in the log, and in the rows of the tables that the statement looks through.

use hashbrown::HashMap;
use margay_executions::{Constraints, Machine, Rules, World, contradicts};
use margay_history::{History, Outcome};
use margay_sql::{Database, Key, Possible, Rows, TableId};
use margay_verdict::execution::{Invariant, Reading};
use margay_verdict::{Budget, Question};

use crate::{Rejected, reject};

/// Whether the invariant is one, and the result contradicts it.
pub(crate) fn audit(
    history: &History,
    question: Question,
    invariant: &Invariant,
    budget: &Budget,
) -> Result<(), Rejected> {
    let Some(rules) = Rules::of(question, Reading::Item) else {
        return reject(format!("{} is not defined by executions", question.level.name()));
    };
    let own = history.txn_of(invariant.op);
    if history.outcome(own) != Outcome::Committed {
        return reject(format!("{} need not have committed", history.show_txn(own)));
    }
    let mut machine = Machine::new(history, false)?;
    let constraints = Constraints::new(history, rules);
    let world = World::new(&mut machine, &constraints, Some(own), budget)?;
    if !machine.statements(own)?.contains(&invariant.op) {
        return reject("the operation is no statement on rows");
    }
    let (statement, params) = machine.bound(invariant.op)?;
    let database = machine.database();
    let claimed = Claimed { bounds: bounds(database, invariant)?, world: &world, database };
    claimed.survives()?;
    let expected = database.expected(&statement, &params, &claimed);
    let seen = history.statement(invariant.op);
    match seen.and_then(|seen| contradicts(history, seen, &statement, &expected, database.dialect())) {
        Some(_) => Ok(()),
        None => reject("the invariant allows what was observed"),
    }
}

type Bounds = HashMap<(TableId, Key, usize), Possible>;

/// The cells of the certificate.
fn bounds(database: &Database, invariant: &Invariant) -> Result<Bounds, Rejected> {
    let mut bounds = Bounds::new();
    for cell in &invariant.cells {
        let table = database.table(&cell.table);
        let column = table.and_then(|table| {
            let columns = &database.schema(table).columns;
            columns.iter().position(|column| column.name == cell.column)
        });
        let (Some(table), Some(column)) = (table, column) else {
            return reject(format!("there is no column {} of a table {}", cell.column, cell.table));
        };
        if bounds.insert((table, cell.key.clone().into(), column), cell.values.clone()).is_some() {
            return reject(format!("{} of a row of {} is named twice", cell.column, cell.table));
        }
    }
    Ok(bounds)
}

/// What the certificate claims of rows; what it does not name can be anything.
struct Claimed<'a> {
    bounds: Bounds,
    world: &'a World,
    database: &'a Database,
}

impl Claimed<'_> {
    /// Every cell is in its set, whatever statements do, if all of them are.
    fn survives(&self) -> Result<(), Rejected> {
        for ((table, key, column), values) in &self.bounds {
            let row = |other: usize| self.cell(*table, key, other);
            let made = self.world.cell(self.database, (*table, key, *column), &row);
            if !values.includes(&made) {
                let schema = self.database.schema(*table);
                let (name, column) = (&schema.name, &schema.columns[*column].name);
                return reject(format!("{column} of a row of {name} can be {made}, not only {values}"));
            }
        }
        Ok(())
    }
}

impl Rows for Claimed<'_> {
    fn each(&self, table: TableId, visit: &mut dyn FnMut(&Key, bool)) -> bool {
        self.world.each(self.database, table, visit)
    }

    fn row(&self, table: TableId, key: &Key) -> Option<bool> {
        self.world.row(self.database, table, key)
    }

    fn cell(&self, table: TableId, key: &Key, column: usize) -> Possible {
        self.bounds.get(&(table, key.clone(), column)).cloned().unwrap_or(Possible::Any)
    }
}
