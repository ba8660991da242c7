//! Predicate regions: the rows that a predicate can be true of, as a union of boxes over columns.
//!
//! # Problem
//! Without record identifiers, two operations are told apart by their predicates: do they touch the
//! same rows, whatever rows there are [Leopard, appendix B]?
//!
//! # Algorithm
//! The rows of which a predicate is true and those of which it is false are computed side by side,
//! each a union of boxes: AND intersects the first and unites the second, OR the other way round,
//! NOT exchanges them. NULL is a value of its own in each column, so that three-valued logic comes
//! out right. A part that is no comparison of a column with a constant may be true of every row:
//! the union is then an upper bound. Inclusion is tested by subtracting boxes.
//!
//! # Invariants
//! - The union contains every row of which the predicate is true; if `exact`, no other row.
//! - A relation other than `Overlapping` is a theorem about all rows on which both predicates have
//!   a value.
//!
//! # Differs from the paper
//! Negation is not the complement of the region, which would count rows whose predicate is unknown.
//! A complex part does not make the whole region complex: `a = 1 AND f(b)` is still disjoint from
//! `a = 2`.
//!
//! # Cost
//! Exponential in the number of columns at worst, and cut off at [`MAX_BOXES`] boxes: then
//! `Overlapping`.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::compare::number_prefix;
use crate::dialect::Dialect;
use crate::reading::cast::{Type, cast};
use crate::reading::expr::{Cmp, Expr, Slot};
use crate::reading::interval::{Domain, Incomparable, Interval, Side};
use crate::reading::predicate::Predicate;
use crate::value::Value;

/// Unions with more boxes are too complex.
const MAX_BOXES: usize = 256;

/// The integers that a double holds exactly, and the digits that it can tell apart.
const EXACT_DOUBLE: u64 = 1 << 53;
const EXACT_DECIMAL: u128 = 1_000_000_000_000_000;

/// How two regions lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// They contain the same rows.
    Identical,
    /// The first contains the second.
    Subsumes,
    /// The second contains the first.
    SubsumedBy,
    /// No row is in both.
    Disjoint,
    /// Neither of these, or not known.
    Overlapping,
}

/// The rows that a predicate can be true of.
#[derive(Clone, Debug)]
pub struct Region {
    boxes: Vec<Cell>,
    exact: bool,
}

/// A box: the columns that it restricts, with their values.
type Cell = BTreeMap<String, Side>;

impl Region {
    /// Every row.
    pub fn everything() -> Self {
        Region { boxes: vec![Cell::new()], exact: true }
    }

    /// True if no row is in the region.
    pub fn is_empty(&self) -> bool {
        self.boxes.is_empty()
    }

    /// True if the region holds exactly the rows of its predicate, and not perhaps more.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// How the region lies to another of the same table.
    pub fn relation(&self, other: &Region) -> Relation {
        self.try_relation(other).unwrap_or(Relation::Overlapping)
    }

    fn try_relation(&self, other: &Region) -> Result<Relation, Incomparable> {
        if intersect(&self.boxes, &other.boxes)?.is_empty() {
            return Ok(Relation::Disjoint);
        }
        let within = other.exact && minus(&self.boxes, &other.boxes)?.is_empty();
        let contains = self.exact && minus(&other.boxes, &self.boxes)?.is_empty();
        Ok(match (within, contains) {
            (true, true) => Relation::Identical,
            (true, false) => Relation::SubsumedBy,
            (false, true) => Relation::Subsumes,
            (false, false) => Relation::Overlapping,
        })
    }
}

impl Predicate {
    /// The predicate's region. `types` gives the types of the columns that are known: with them,
    /// integers count as integers and text literals get their type.
    pub fn region(&self, types: impl Fn(&str) -> Option<Type>) -> Region {
        Region::of(self.expr(), self.dialect(), &|column| self.column_key(column), &types)
    }

    /// Whether every row of which another predicate on the same table is true satisfies this one,
    /// whatever rows there are. False if that is not known.
    pub fn contains(&self, other: &Predicate) -> bool {
        let (own, others) = (self.region(|_| None), other.region(|_| None));
        matches!(own.relation(&others), Relation::Identical | Relation::Subsumes)
    }
}

impl Region {
    /// The region of an expression, whose columns have these names.
    pub(crate) fn of(
        expr: &Expr,
        dialect: Dialect,
        names: &dyn Fn(u16) -> String,
        types: &dyn Fn(&str) -> Option<Type>,
    ) -> Region {
        let builder = Builder { dialect, names, types };
        let parts = builder.parts(expr).unwrap_or_else(|_| Parts::unknown());
        Region { boxes: parts.yes, exact: parts.exact }
    }

    /// The region as an upper bound only.
    pub(crate) fn inexact(self) -> Region {
        Region { exact: false, ..self }
    }
}

/// The rows of which an expression is true, and those of which it is false.
struct Parts {
    yes: Vec<Cell>,
    no: Vec<Cell>,
    exact: bool,
}

impl Parts {
    /// Nothing is known.
    fn unknown() -> Self {
        Parts { yes: vec![Cell::new()], no: vec![Cell::new()], exact: false }
    }

    fn constant(truth: Option<bool>) -> Self {
        let all = |on: bool| if on { vec![Cell::new()] } else { Vec::new() };
        Parts { yes: all(truth == Some(true)), no: all(truth == Some(false)), exact: true }
    }

    fn negated(self) -> Self {
        Parts { yes: self.no, no: self.yes, exact: self.exact }
    }
}

struct Builder<'a> {
    dialect: Dialect,
    names: &'a dyn Fn(u16) -> String,
    types: &'a dyn Fn(&str) -> Option<Type>,
}

impl Builder<'_> {
    fn parts(&self, expr: &Expr) -> Result<Parts, Incomparable> {
        match expr {
            Expr::And(parts) => self.all(parts),
            Expr::Or(parts) => Ok(self.all_negated(parts)?.negated()),
            Expr::Not(inner) => Ok(self.parts(inner)?.negated()),
            Expr::Literal(Value::Bool(truth)) => Ok(Parts::constant(Some(*truth))),
            Expr::Literal(Value::Null) => Ok(Parts::constant(None)),
            Expr::Literal(Value::Int(number)) if !self.strict() => Ok(Parts::constant(Some(*number != 0))),
            Expr::IsNull(inner, negated) => self.is_null(inner, *negated),
            Expr::Compare(op, left, right) => self.comparison(*op, left, right),
            Expr::In(inner, list, negated) => {
                let tests: Result<Vec<Parts>, _> =
                    list.iter().map(|element| self.comparison(Cmp::Ne, inner, element)).collect();
                let none = self.conjoin(tests?)?;
                Ok(if *negated { none } else { none.negated() })
            }
            _ => Ok(Parts::unknown()),
        }
    }

    fn strict(&self) -> bool {
        self.dialect.is_strict()
    }

    fn all(&self, parts: &[Expr]) -> Result<Parts, Incomparable> {
        self.conjoin(parts.iter().map(|part| self.parts(part)).collect::<Result<_, _>>()?)
    }

    /// By De Morgan: a disjunction is the negation of this.
    fn all_negated(&self, parts: &[Expr]) -> Result<Parts, Incomparable> {
        let parts: Result<Vec<Parts>, _> = parts.iter().map(|part| self.parts(part)).collect();
        self.conjoin(parts?.into_iter().map(Parts::negated).collect())
    }

    fn conjoin(&self, parts: Vec<Parts>) -> Result<Parts, Incomparable> {
        let mut whole = Parts::constant(Some(true));
        for part in parts {
            whole.yes = intersect(&whole.yes, &part.yes)?;
            whole.no.extend(part.no);
            whole.exact &= part.exact;
            limit(&whole.no)?;
        }
        Ok(whole)
    }

    fn is_null(&self, inner: &Expr, negated: bool) -> Result<Parts, Incomparable> {
        let Expr::Column(slot) = inner else { return Ok(Parts::unknown()) };
        let null = self.cell(*slot, Side::Null(self.domain(*slot)));
        let present = self.cell(*slot, Side::Values(Interval::all(self.domain(*slot))));
        let parts = Parts { yes: vec![null], no: vec![present], exact: true };
        Ok(if negated { parts.negated() } else { parts })
    }

    fn comparison(&self, op: Cmp, left: &Expr, right: &Expr) -> Result<Parts, Incomparable> {
        let (op, slot, constant) = match (left, right) {
            (Expr::Column(slot), Expr::Literal(value) | Expr::Untyped(value)) => (op, *slot, value),
            (Expr::Literal(value) | Expr::Untyped(value), Expr::Column(slot)) => (op.flipped(), *slot, value),
            _ => return Ok(Parts::unknown()),
        };
        if constant.is_null() {
            return Ok(Parts::constant(None));
        }
        let Some(value) = self.bound(slot, constant) else { return Ok(Parts::unknown()) };
        let collated = !self.dialect.orders_text() && matches!(value, Value::Text(_));
        if collated && op.asks_order() {
            return Ok(Parts::unknown());
        }
        let (yes, no) = (self.cells(slot, op, &value)?, self.cells(slot, negation(op), &value)?);
        Ok(Parts { yes, no, exact: true })
    }

    /// The boxes of `column op value`.
    fn cells(&self, slot: Slot, op: Cmp, value: &Value) -> Result<Vec<Cell>, Incomparable> {
        let (at, beyond) = (|| Bound::Included(value.clone()), || Bound::Excluded(value.clone()));
        let open = || Bound::Unbounded;
        let bounds = match op {
            Cmp::Eq => vec![(at(), at())],
            Cmp::Ne => vec![(open(), beyond()), (beyond(), open())],
            Cmp::Lt => vec![(open(), beyond())],
            Cmp::Le => vec![(open(), at())],
            Cmp::Gt => vec![(beyond(), open())],
            Cmp::Ge => vec![(at(), open())],
        };
        let mut cells = Vec::new();
        for (low, high) in bounds {
            let interval = Interval::all(self.domain(slot)).between(low, high)?;
            cells.extend(interval.map(|interval| self.cell(slot, Side::Values(interval))));
        }
        Ok(cells)
    }

    fn cell(&self, slot: Slot, side: Side) -> Cell {
        Cell::from([((self.names)(slot.index), side)])
    }

    fn domain(&self, slot: Slot) -> Domain {
        let integer = matches!(self.column_type(slot), Some(Type::Int(_)));
        Domain { integer, dialect: self.dialect }
    }

    fn column_type(&self, slot: Slot) -> Option<Type> {
        (self.types)(&(self.names)(slot.index))
    }

    /// The constant as a bound on the column's values, or `None` if its order against them is not
    /// that of the constants among themselves.
    fn bound(&self, slot: Slot, constant: &Value) -> Option<Value> {
        let column_type = self.column_type(slot);
        match (constant, column_type) {
            (Value::Text(_), Some(Type::Text(_))) => Some(constant.clone()),
            (Value::Text(_), Some(to)) if self.strict() => cast(constant, to, Dialect::Postgres).ok(),
            (Value::Text(text), None) if self.strict() && !reads_as_other(text) => Some(constant.clone()),
            (Value::Text(_), _) | (_, Some(Type::Text(_))) => None,
            (Value::Int(number), None | Some(Type::Float)) if number.unsigned_abs() > EXACT_DOUBLE => None,
            (Value::Decimal(number), None | Some(Type::Float))
                if number.mantissa().unsigned_abs() >= EXACT_DECIMAL =>
            {
                None
            }
            (Value::Float(number), _) if number.is_nan() || number.abs() >= EXACT_DOUBLE as f64 => None,
            // A double among decimals is compared after rounding.
            (Value::Float(_), Some(Type::Decimal(_))) => None,
            _ => Some(constant.clone()),
        }
    }
}

/// True if a text literal could also be a number, a date or a truth value for a column of that
/// type.
fn reads_as_other(text: &str) -> bool {
    let trimmed = text.trim();
    let number = trimmed.parse::<f64>().is_ok() || number_prefix(trimmed) != 0.0;
    number || Value::timestamp(trimmed).is_some()
}

fn negation(op: Cmp) -> Cmp {
    match op {
        Cmp::Eq => Cmp::Ne,
        Cmp::Ne => Cmp::Eq,
        Cmp::Lt => Cmp::Ge,
        Cmp::Le => Cmp::Gt,
        Cmp::Gt => Cmp::Le,
        Cmp::Ge => Cmp::Lt,
    }
}

fn limit(boxes: &[Cell]) -> Result<(), Incomparable> {
    if boxes.len() > MAX_BOXES { Err(Incomparable) } else { Ok(()) }
}

/// The union of the pairwise intersections.
fn intersect(left: &[Cell], right: &[Cell]) -> Result<Vec<Cell>, Incomparable> {
    let mut boxes = Vec::new();
    for a in left {
        for b in right {
            boxes.extend(intersect_cells(a, b)?);
            limit(&boxes)?;
        }
    }
    Ok(boxes)
}

fn intersect_cells(a: &Cell, b: &Cell) -> Result<Option<Cell>, Incomparable> {
    let mut cell = a.clone();
    for (column, side) in b {
        let both = match a.get(column) {
            Some(other) => other.intersect(side)?,
            None => Some(side.clone()),
        };
        match both {
            Some(both) => cell.insert(column.clone(), both),
            None => return Ok(None),
        };
    }
    Ok(Some(cell))
}

/// What is left of the boxes of `left` outside those of `right`.
fn minus(left: &[Cell], right: &[Cell]) -> Result<Vec<Cell>, Incomparable> {
    let mut rest = left.to_vec();
    for hole in right {
        let mut next = Vec::new();
        for cell in &rest {
            next.extend(minus_cell(cell, hole)?);
            limit(&next)?;
        }
        rest = next;
    }
    Ok(rest)
}

/// Cuts the box along one column of the hole after the other; what is inside all of them is gone.
fn minus_cell(cell: &Cell, hole: &Cell) -> Result<Vec<Cell>, Incomparable> {
    if intersect_cells(cell, hole)?.is_none() {
        return Ok(vec![cell.clone()]);
    }
    let mut rest = Vec::new();
    let mut inside = cell.clone();
    for (column, side) in hole {
        for outside in side.complement_in(inside.get(column))? {
            let mut part = inside.clone();
            part.insert(column.clone(), outside);
            rest.push(part);
        }
        let both = match inside.get(column) {
            Some(other) => other.intersect(side)?,
            None => Some(side.clone()),
        };
        match both {
            Some(both) => inside.insert(column.clone(), both),
            None => return Ok(rest),
        };
    }
    Ok(rest)
}
