//! That a statement's result is what a client observed, as a term.

use margay_history::{History, OpId, Value as Seen, ValueId};
use margay_sql::{Answer, Cell, Dialect, Kind, ShownRow, SqlError, Term, Terms, Value};
use margay_verdict::Outside;
use margay_verdict::compare::same_value;

use crate::machine::Machine;

/// Whether a result is what was observed of a statement.
///
/// # Errors
/// When the order of the rows has no terms.
pub fn fits(
    machine: &mut Machine<'_>,
    op: OpId,
    answer: &Answer,
    terms: &mut Terms,
) -> Result<Term, Outside> {
    let (statement, _) = machine.bound(op)?;
    let history = machine.history();
    let Some(seen) = history.statement(op) else { return Ok(Term::TRUE) };
    let mut parts = Vec::new();
    if let Some(rows) = &seen.rows {
        let fit = rows_fit(history, rows, answer, machine.database().dialect(), terms);
        parts.push(fit.map_err(|error| machine.outside(op, &error))?);
    }
    if let Some(count) = seen.count.filter(|_| statement.is_write() && statement.columns().is_empty()) {
        parts.push(count_fits(count, answer, machine.database().dialect(), terms));
    }
    Ok(terms.and(&parts))
}

fn count_fits(count: u64, answer: &Answer, dialect: Dialect, terms: &mut Terms) -> Term {
    let count = terms.int(count.into());
    let matched = terms.equal(answer.matched, count);
    if !dialect.is_mysql() {
        return matched;
    }
    let both = terms.add(answer.matched, answer.changed);
    let (changed, both) = (terms.equal(answer.changed, count), terms.equal(both, count));
    terms.or(&[matched, changed, both])
}

/// Each row of the result stands for one of those that were observed, and in their order.
fn rows_fit(
    history: &History,
    observed: &[ValueId],
    answer: &Answer,
    dialect: Dialect,
    terms: &mut Terms,
) -> Result<Term, SqlError> {
    let rows: Vec<&ShownRow> = answer.rows.iter().filter(|row| row.when != Term::FALSE).collect();
    if observed.len() > rows.len() {
        return Ok(Term::FALSE);
    }
    let stands = stands(history, observed, &rows, terms);
    let mut parts = Vec::new();
    for (row, line) in rows.iter().zip(&stands) {
        let (one, not) = (exactly_one(line, terms), terms.not(row.when));
        let any = terms.or(line);
        let none = terms.not(any);
        parts.push(terms.if_truth(row.when, one, none));
        parts.push(terms.or(&[any, not]));
    }
    for at in 0..observed.len() {
        let column: Vec<Term> = stands.iter().map(|line| line[at]).collect();
        parts.push(exactly_one(&column, terms));
    }
    // How a database sorts text is not known, and rows with text among them may come in any order.
    let text = rows.iter().flat_map(|row| &row.cells).any(|cell| cell.kind == Kind::Text);
    if !answer.order.is_empty() && observed.len() > 1 && !text {
        in_order(&rows, &stands, &answer.order, dialect, &mut parts, terms)?;
    }
    Ok(terms.and(&parts))
}

/// For each row of the result and each observed one, whether the first stands for the second: a
/// choice, wherever there is one.
fn stands(history: &History, observed: &[ValueId], rows: &[&ShownRow], terms: &mut Terms) -> Vec<Vec<Term>> {
    let alone = rows.len() == 1 && observed.len() == 1;
    let mut stands = Vec::new();
    for row in rows {
        let mut line = Vec::new();
        for &id in observed {
            let same = same_row(history, id, &row.cells, terms);
            let chosen = if alone || same == Term::FALSE { Term::TRUE } else { terms.choice() };
            line.push(terms.and(&[row.when, same, chosen]));
        }
        stands.push(line);
    }
    stands
}

fn exactly_one(parts: &[Term], terms: &mut Terms) -> Term {
    let mut all = vec![terms.or(parts)];
    for (at, &a) in parts.iter().enumerate() {
        for &b in &parts[at + 1..] {
            let both = terms.and(&[a, b]);
            all.push(terms.not(both));
        }
    }
    terms.and(&all)
}

fn same_row(history: &History, observed: ValueId, cells: &[Cell], terms: &mut Terms) -> Term {
    match history.value(observed) {
        Seen::Unknown => Term::TRUE,
        Seen::List(values) if values.len() == cells.len() => {
            let parts: Vec<Term> =
                values.iter().zip(cells).map(|(&id, &cell)| same_cell(history, id, cell, terms)).collect();
            terms.and(&parts)
        }
        _ => Term::FALSE,
    }
}

fn same_cell(history: &History, observed: ValueId, cell: Cell, terms: &mut Terms) -> Term {
    match history.value(observed) {
        Seen::Unknown => return Term::TRUE,
        Seen::Null => return cell.null,
        _ => {}
    }
    let candidates: Vec<i128> = match cell.kind {
        Kind::Null => Vec::new(),
        Kind::Bool => vec![0, 1],
        Kind::Int => whole(history.value(observed)).into_iter().collect(),
        Kind::Date | Kind::Timestamp => moment(history.value(observed), cell.kind).into_iter().collect(),
        Kind::Text | Kind::Other => (0..terms.interned().len() as i128).collect(),
    };
    let there = terms.not(cell.null);
    if cell.kind == Kind::Int && is_vague(history.value(observed)) {
        return there;
    }
    let mut equal = Vec::new();
    for number in candidates {
        let candidate = Cell { null: Term::FALSE, value: terms.int(number), kind: cell.kind };
        let fits = candidate.value(terms).is_some_and(|value| same_value(history, observed, &value));
        if fits {
            equal.push(terms.equal(cell.value, candidate.value));
        }
    }
    let equal = terms.or(&equal);
    terms.and(&[there, equal])
}

/// Doubles below this stand for one integer at most.
const EXACT: f64 = 9.0e15;

/// The integer that an observed value can be.
fn whole(observed: Seen<'_>) -> Option<i128> {
    match observed {
        Seen::Int(number) => Some(number.into()),
        Seen::Bool(truth) => Some(truth.into()),
        Seen::UInt(number) => Some(number.into()),
        Seen::Float(number) if number.fract() == 0.0 && number.abs() < EXACT => Some(number as i128),
        Seen::Text(text) => match text.parse::<margay_sql::Decimal>() {
            Ok(number) => number.to_integer().map(i128::from),
            Err(_) => text.parse::<f64>().ok().and_then(|number| whole(Seen::Float(number))),
        },
        _ => None,
    }
}

/// Whether an observed value is a double that stands for many integers: then any may be behind it.
fn is_vague(observed: Seen<'_>) -> bool {
    match observed {
        Seen::Float(number) => number.abs() >= EXACT,
        Seen::Text(text) if text.parse::<margay_sql::Decimal>().is_err() => {
            text.parse::<f64>().is_ok_and(|number| number.abs() >= EXACT)
        }
        _ => false,
    }
}

fn moment(observed: Seen<'_>, kind: Kind) -> Option<i128> {
    let Seen::Text(text) = observed else { return None };
    match (kind, Value::date(text), Value::timestamp(text)) {
        (Kind::Date, Some(Value::Date(days)), _) => Some(days.into()),
        (Kind::Timestamp, _, Some(Value::Timestamp(micros))) => Some(micros.into()),
        _ => None,
    }
}

/// Rows that stand for earlier observed rows are not sorted after those that stand for later ones.
fn in_order(
    rows: &[&ShownRow],
    stands: &[Vec<Term>],
    order: &[(bool, bool)],
    dialect: Dialect,
    parts: &mut Vec<Term>,
    terms: &mut Terms,
) -> Result<(), SqlError> {
    for a in 0..rows.len() {
        for b in (0..rows.len()).filter(|&b| b != a) {
            let after = sorted_after(&rows[a].keys, &rows[b].keys, order, dialect, terms)?;
            if after == Term::FALSE {
                continue;
            }
            for early in 0..stands[a].len() {
                for late in early + 1..stands[b].len() {
                    let swapped = terms.and(&[stands[a][early], stands[b][late], after]);
                    parts.push(terms.not(swapped));
                }
            }
        }
    }
    Ok(())
}

/// Whether the first row comes strictly after the second.
fn sorted_after(
    a: &[Cell],
    b: &[Cell],
    order: &[(bool, bool)],
    dialect: Dialect,
    terms: &mut Terms,
) -> Result<Term, SqlError> {
    let (mut after, mut equal) = (Vec::new(), Term::TRUE);
    for ((&a, &b), &(descending, nulls_first)) in a.iter().zip(b).zip(order) {
        if matches!(a.kind, Kind::Text | Kind::Other) || matches!(b.kind, Kind::Text | Kind::Other) {
            return Err(SqlError::unsupported(format!("ORDER BY of values without an order in {dialect:?}")));
        }
        let (a_there, b_there) = (terms.not(a.null), terms.not(b.null));
        let (low, high) = if descending { (a, b) } else { (b, a) };
        let greater = terms.less(low.value, high.value);
        let greater = terms.and(&[a_there, b_there, greater]);
        // NULL first: a value comes after NULL; else NULL after a value.
        let by_null = if nulls_first { terms.and(&[a_there, b.null]) } else { terms.and(&[a.null, b_there]) };
        let here = terms.or(&[greater, by_null]);
        after.push(terms.and(&[equal, here]));
        let same = Cell::same(a, b, terms);
        equal = terms.and(&[equal, same]);
    }
    Ok(terms.or(&after))
}
