//! Expressions over rows of which only what each column can be is known.
//!
//! # Algorithm
//! Where the columns of an expression have few values, all of them are tried with the evaluator
//! itself. Numbers beyond that are added, subtracted and compared by their bounds. Everything else
//! can be anything.
//!
//! # Invariants
//! - Whatever value an expression has on a row of these possibilities is in the set; an error of
//!   the evaluator makes the set [`Possible::Any`], and lets a condition hold and fail.

use crate::dialect::Dialect;
use crate::possible::{Numbers, Possible};
use crate::reading::arith::Arith;
use crate::reading::cast::Type;
use crate::reading::coerce::store;
use crate::reading::eval::{eval, truth};
use crate::reading::expr::{Cmp, Expr, Slot};
use crate::reading::predicate::ParamEnv;
use crate::value::Value;

/// The most combinations of values that are tried.
const MOST_TRIED: usize = 4096;

/// What an expression is evaluated in: what each column can be, and the parameters.
pub(crate) struct Supposed<'a> {
    pub dialect: Dialect,
    pub params: &'a [Value],
    pub row: &'a dyn Fn(usize) -> Possible,
}

/// Whether a condition can hold, and whether it can fail (be false or unknown).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Truth {
    pub can_hold: bool,
    pub can_fail: bool,
}

impl Truth {
    const OPEN: Truth = Truth { can_hold: true, can_fail: true };

    pub fn both(self, other: Truth) -> Truth {
        Truth { can_hold: self.can_hold && other.can_hold, can_fail: self.can_fail || other.can_fail }
    }

    fn either(self, other: Truth) -> Truth {
        Truth { can_hold: self.can_hold || other.can_hold, can_fail: self.can_fail && other.can_fail }
    }
}

impl Supposed<'_> {
    /// What an expression can be.
    pub fn value(&self, expr: &Expr) -> Possible {
        if let Expr::Column(Slot { depth: 0, index }) = expr {
            return (self.row)(usize::from(*index));
        }
        let mut all = Possible::nothing();
        let tried = self.each_row(expr, &mut |env| match eval(expr, env) {
            Ok(value) => all.join(Possible::one(value.into_owned())),
            Err(_) => all = Possible::Any,
        });
        match expr {
            _ if tried => all,
            Expr::Arith(op @ (Arith::Add | Arith::Sub), left, right) => {
                sum(&self.value(left), &self.value(right), *op == Arith::Sub)
            }
            _ => Possible::Any,
        }
    }

    /// What a column can store of an expression. What it does not store would have been an error.
    pub fn stored(&self, expr: &Expr, column: Type, flexible: bool) -> Possible {
        match self.value(expr) {
            Possible::Of(values) => {
                let mut all = Possible::nothing();
                for value in values {
                    let stored = store(value, column, flexible, self.dialect);
                    all.join(stored.map_or(Possible::Any, Possible::one));
                }
                all
            }
            Possible::Numbers(numbers) if column.keeps(numbers, self.dialect) => Possible::Numbers(numbers),
            _ => Possible::Any,
        }
    }

    /// Whether a condition can hold and fail.
    pub fn truth(&self, expr: &Expr) -> Truth {
        match expr {
            Expr::And(parts) => {
                let open = Truth { can_hold: true, can_fail: false };
                return parts.iter().fold(open, |all, part| all.both(self.truth(part)));
            }
            Expr::Or(parts) => {
                let open = Truth { can_hold: false, can_fail: true };
                return parts.iter().fold(open, |all, part| all.either(self.truth(part)));
            }
            _ => {}
        }
        let mut found = Truth { can_hold: false, can_fail: false };
        let tried = self.each_row(expr, &mut |env| match truth(expr, env) {
            Ok(Some(true)) => found.can_hold = true,
            Ok(_) => found.can_fail = true,
            Err(_) => found = Truth::OPEN,
        });
        match expr {
            _ if tried => found,
            Expr::Compare(op, left, right) => match (self.value(left).hull(), self.value(right).hull()) {
                (Some(left), Some(right)) => compared(*op, left, right),
                _ => Truth::OPEN,
            },
            _ => Truth::OPEN,
        }
    }

    /// Tries every row that the columns of an expression can make; false if these are too many, or
    /// the expression has more than columns of the row.
    fn each_row(&self, expr: &Expr, visit: &mut dyn FnMut(&ParamEnv<'_>)) -> bool {
        let (mut columns, more) = expr.uses();
        columns.sort_unstable();
        columns.dedup();
        let mut values: Vec<Vec<Value>> = Vec::with_capacity(columns.len());
        for &column in columns.iter().filter(|_| !more) {
            match (self.row)(column) {
                Possible::Of(known) => values.push(known.into_iter().collect()),
                _ => return false,
            }
        }
        let count = values.iter().try_fold(1_usize, |count, values| count.checked_mul(values.len()));
        let Some(count) = count.filter(|&count| !more && count <= MOST_TRIED) else { return false };
        let mut row = vec![Value::Null; columns.last().map_or(0, |last| last + 1)];
        for number in 0..count {
            let mut rest = number;
            for (column, values) in columns.iter().zip(&values) {
                row[*column] = values[rest % values.len()].clone();
                rest /= values.len();
            }
            visit(&ParamEnv { dialect: self.dialect, row: &row, params: self.params });
        }
        true
    }
}

/// The sums, or differences, of two sets.
fn sum(left: &Possible, right: &Possible, minus: bool) -> Possible {
    let only_null = |set: &Possible| matches!(set, Possible::Of(values) if values.iter().all(Value::is_null));
    match (left.hull(), right.hull()) {
        (Some(_), Some(right)) => {
            let bounds = match minus {
                false => (right.low, right.high),
                true => match (right.high.checked_neg(), right.low.checked_neg()) {
                    (Some(low), Some(high)) => (low, high),
                    _ => return Possible::Any,
                },
            };
            // A single number has no steps of its own.
            let step = if right.low == right.high { 0 } else { right.step };
            let mut sum = left.shifted(bounds, step, right.scale);
            if right.null {
                sum.join(Possible::one(Value::Null));
            }
            sum
        }
        _ if only_null(left) || only_null(right) => Possible::one(Value::Null),
        _ => Possible::Any,
    }
}

/// Whether a comparison of numbers can hold and fail, by their bounds.
fn compared(op: Cmp, left: Numbers, right: Numbers) -> Truth {
    let Some((a, b)) = left.aligned(right) else { return Truth::OPEN };
    let null = a.null || b.null;
    let (can_hold, can_fail) = match op {
        Cmp::Lt => (a.low < b.high, a.high >= b.low),
        Cmp::Le => (a.low <= b.high, a.high > b.low),
        Cmp::Gt => (a.high > b.low, a.low <= b.high),
        Cmp::Ge => (a.high >= b.low, a.low < b.high),
        Cmp::Eq => (a.meets(b), !a.is_one(b)),
        Cmp::Ne => (!a.is_one(b), a.meets(b)),
    };
    Truth { can_hold, can_fail: can_fail || null }
}
