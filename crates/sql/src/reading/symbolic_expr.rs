//! Expressions over values that are not known: each value a term, and whether it is NULL another.
//!
//! What depends on nothing unknown is evaluated by [`eval`], so that constants have the
//! interpreter's meaning. The rest is a fragment: integers with `+`, `-`, `*` and comparisons,
//! truth values, dates by their order, text by equality, CASE, COALESCE, IN, NULL tests. Integers
//! have no bounds inside of an expression; the interpreter would fail where they overflow, so that
//! a term may have a value where it has none, never the other way round.

use std::borrow::Cow;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::arith::Arith;
use crate::reading::cast::{Type, coerce_like};
use crate::reading::coerce::store;
use crate::reading::eval::{Env, eval};
use crate::reading::expr::{Class, Cmp, Expr, Slot};
use crate::reading::plan::is_flexible;
use crate::term::{Term, Terms};
use crate::value::Value;

/// What the integer of a cell stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing: the cell is NULL.
    Null,
    /// Itself.
    Int,
    /// 1 for true and 0 for false.
    Bool,
    /// A text, by its number among the values of the arena.
    Text,
    /// Days since 1970.
    Date,
    /// Microseconds since 1970.
    Timestamp,
    /// Another value, by its number among the values of the arena.
    Other,
}

impl Kind {
    /// The kind of a column's values.
    #[must_use]
    pub fn of(column: Type, dialect: Dialect) -> Kind {
        match column {
            Type::Bool if dialect.is_strict() => Kind::Bool,
            Type::Bool | Type::Int(_) => Kind::Int,
            Type::Text(_) => Kind::Text,
            Type::Date => Kind::Date,
            Type::Timestamp => Kind::Timestamp,
            Type::Decimal(_) | Type::Float | Type::Bytes => Kind::Other,
        }
    }

    /// Whether the integers are ordered as the values are.
    fn is_ordered(self) -> bool {
        matches!(self, Kind::Int | Kind::Bool | Kind::Date | Kind::Timestamp)
    }
}

/// A value that need not be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Whether it is NULL.
    pub null: Term,
    /// Its integer, where it is not NULL.
    pub value: Term,
    /// What the integer stands for.
    pub kind: Kind,
}

/// Where a condition is true and where it is false; else it is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth3 {
    pub is_true: Term,
    pub is_false: Term,
}

impl Cell {
    /// NULL.
    #[must_use]
    pub fn null(terms: &mut Terms) -> Cell {
        Cell { null: Term::TRUE, value: terms.int(0), kind: Kind::Null }
    }

    /// A known value.
    pub fn known(value: &Value, terms: &mut Terms) -> Cell {
        let (number, kind) = match value {
            Value::Null => return Cell::null(terms),
            Value::Int(number) => (terms.int((*number).into()), Kind::Int),
            Value::Bool(truth) => (terms.int((*truth).into()), Kind::Bool),
            Value::Date(days) => (terms.int((*days).into()), Kind::Date),
            Value::Timestamp(micros) => (terms.int((*micros).into()), Kind::Timestamp),
            Value::Text(_) => (terms.intern(value), Kind::Text),
            other => (terms.intern(other), Kind::Other),
        };
        Cell { null: Term::FALSE, value: number, kind }
    }

    /// The value, if it is known.
    #[must_use]
    pub fn value(&self, terms: &Terms) -> Option<Value> {
        if self.null == Term::TRUE {
            return Some(Value::Null);
        }
        let number = terms.known_int(self.value).filter(|_| self.null == Term::FALSE)?;
        match self.kind {
            Kind::Null => Some(Value::Null),
            Kind::Int => i64::try_from(number).ok().map(Value::Int),
            Kind::Bool => Some(Value::Bool(number != 0)),
            Kind::Date => i32::try_from(number).ok().map(Value::Date),
            Kind::Timestamp => i64::try_from(number).ok().map(Value::Timestamp),
            Kind::Text | Kind::Other => {
                usize::try_from(number).ok().and_then(|at| terms.interned().get(at).cloned())
            }
        }
    }

    /// One cell or the other; `None` where their kinds differ.
    pub fn either(condition: Term, then: Cell, otherwise: Cell, terms: &mut Terms) -> Option<Cell> {
        let kind = match (then.kind, otherwise.kind) {
            (a, b) if a == b => a,
            (Kind::Null, other) | (other, Kind::Null) => other,
            _ => return None,
        };
        let null = terms.if_truth(condition, then.null, otherwise.null);
        let value = match (then.kind, otherwise.kind) {
            (Kind::Null, _) => otherwise.value,
            (_, Kind::Null) => then.value,
            _ => terms.if_int(condition, then.value, otherwise.value),
        };
        Some(Cell { null, value, kind })
    }

    /// Whether two cells are the same, NULL included.
    pub fn same(a: Cell, b: Cell, terms: &mut Terms) -> Term {
        let (both_null, not_a, not_b) = (terms.and(&[a.null, b.null]), terms.not(a.null), terms.not(b.null));
        let equal = if a.kind == b.kind { terms.equal(a.value, b.value) } else { Term::FALSE };
        let both = terms.and(&[not_a, not_b, equal]);
        terms.or(&[both_null, both])
    }
}

/// What an expression with unknown values is evaluated in.
pub(crate) struct Symbols<'a> {
    pub terms: &'a mut Terms,
    pub dialect: Dialect,
    pub row: &'a [Cell],
    pub params: &'a [Value],
}

/// The known part of a row.
struct KnownColumns<'a> {
    dialect: Dialect,
    row: Vec<Option<Value>>,
    params: &'a [Value],
}

impl Env for KnownColumns<'_> {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn column(&self, slot: Slot) -> Result<Cow<'_, Value>, SqlError> {
        let cell = (slot.depth == 0).then(|| self.row.get(usize::from(slot.index))).flatten();
        let known = cell.and_then(Option::as_ref);
        known.map(Cow::Borrowed).ok_or_else(|| outside("a column"))
    }

    fn param(&self, index: usize) -> Result<&Value, SqlError> {
        self.params.get(index).ok_or(SqlError::MissingParameter(index + 1))
    }
}

/// That a construct has no terms.
pub(crate) fn outside(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} over values that are not known"))
}

impl Symbols<'_> {
    /// The value, if it depends on nothing unknown.
    fn concrete(&self, expr: &Expr) -> Option<Value> {
        let (columns, more) = expr.uses();
        if more {
            return None;
        }
        let mut row = vec![None; self.row.len()];
        for column in columns {
            row[column] = Some(self.row.get(column)?.value(self.terms)?);
        }
        let known = KnownColumns { dialect: self.dialect, row, params: self.params };
        eval(expr, &known).ok().map(Cow::into_owned)
    }

    /// The value of an expression.
    pub fn cell(&mut self, expr: &Expr) -> Result<Cell, SqlError> {
        if let Some(value) = self.concrete(expr) {
            return Ok(Cell::known(&value, self.terms));
        }
        match expr {
            Expr::Column(Slot { depth: 0, index }) => {
                self.row.get(usize::from(*index)).copied().ok_or_else(|| outside("a column"))
            }
            Expr::Negate(inner) => {
                let inner = self.number(inner)?;
                Ok(Cell { value: self.terms.negate(inner.value), ..inner })
            }
            Expr::Arith(op, left, right) => self.arithmetic(*op, left, right),
            Expr::Promote(inner, Class::Int | Class::Decimal) => self.number(inner),
            Expr::Cast(inner, Type::Int(_)) => self.number(inner),
            Expr::Case(branches, otherwise) => self.case(branches, otherwise),
            Expr::Coalesce(options) => self.coalesce(options),
            Expr::Compare(..)
            | Expr::Same(..)
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::IsNull(..)
            | Expr::IsTruth(..)
            | Expr::In(..) => {
                let truth = self.truth(expr)?;
                Ok(self.truth_cell(truth))
            }
            other => Err(outside(named(other))),
        }
    }

    fn truth_cell(&mut self, truth: Truth3) -> Cell {
        let known = self.terms.or(&[truth.is_true, truth.is_false]);
        let (one, zero) = (self.terms.int(1), self.terms.int(0));
        let kind = if self.dialect.is_strict() { Kind::Bool } else { Kind::Int };
        Cell { null: self.terms.not(known), value: self.terms.if_int(truth.is_true, one, zero), kind }
    }

    fn number(&mut self, expr: &Expr) -> Result<Cell, SqlError> {
        let cell = self.cell(expr)?;
        match cell.kind {
            Kind::Int | Kind::Null => Ok(cell),
            _ => Err(outside("arithmetic beyond integers")),
        }
    }

    fn arithmetic(&mut self, op: Arith, left: &Expr, right: &Expr) -> Result<Cell, SqlError> {
        let (a, b) = (self.number(left)?, self.number(right)?);
        let value = match op {
            Arith::Add => self.terms.add(a.value, b.value),
            Arith::Sub => self.terms.subtract(a.value, b.value),
            Arith::Mul => self.terms.times(a.value, b.value),
            Arith::Div | Arith::IntDiv | Arith::Rem => return Err(outside("division")),
        };
        Ok(Cell { null: self.terms.or(&[a.null, b.null]), value, kind: Kind::Int })
    }

    fn case(&mut self, branches: &[(Expr, Expr)], otherwise: &Expr) -> Result<Cell, SqlError> {
        let mut result = self.cell(otherwise)?;
        for (condition, value) in branches.iter().rev() {
            let (truth, value) = (self.truth(condition)?, self.cell(value)?);
            let either = Cell::either(truth.is_true, value, result, self.terms);
            result = either.ok_or_else(|| outside("CASE of several types"))?;
        }
        Ok(result)
    }

    fn coalesce(&mut self, options: &[Expr]) -> Result<Cell, SqlError> {
        let mut result = Cell::null(self.terms);
        for option in options.iter().rev() {
            let option = self.cell(option)?;
            let there = self.terms.not(option.null);
            let either = Cell::either(there, option, result, self.terms);
            result = either.ok_or_else(|| outside("COALESCE of several types"))?;
        }
        Ok(result)
    }

    /// Where a condition is true, and where false.
    pub fn truth(&mut self, expr: &Expr) -> Result<Truth3, SqlError> {
        match expr {
            Expr::And(parts) => {
                let (is_true, is_false) = self.parts(parts)?;
                Ok(Truth3 { is_true: self.terms.and(&is_true), is_false: self.terms.or(&is_false) })
            }
            Expr::Or(parts) => {
                let (is_true, is_false) = self.parts(parts)?;
                Ok(Truth3 { is_true: self.terms.or(&is_true), is_false: self.terms.and(&is_false) })
            }
            Expr::Not(inner) => {
                let inner = self.truth(inner)?;
                Ok(Truth3 { is_true: inner.is_false, is_false: inner.is_true })
            }
            Expr::IsNull(inner, negated) => {
                let null = self.cell(inner)?.null;
                Ok(self.certain(null, *negated))
            }
            Expr::IsTruth(inner, wanted, negated) => {
                let inner = self.truth(inner)?;
                let is = match wanted {
                    Some(true) => inner.is_true,
                    Some(false) => inner.is_false,
                    None => {
                        let known = self.terms.or(&[inner.is_true, inner.is_false]);
                        self.terms.not(known)
                    }
                };
                Ok(self.certain(is, *negated))
            }
            Expr::Compare(op, left, right) => self.compare(*op, left, right),
            Expr::Same(left, right, negated) => {
                let (a, b) = self.operands(left, right)?;
                self.comparable(Cmp::Eq, a, b)?;
                let same = Cell::same(a, b, self.terms);
                Ok(self.certain(same, *negated))
            }
            Expr::In(inner, list, negated) => self.member(inner, list, *negated),
            other => self.truth_of(other),
        }
    }

    fn certain(&mut self, is: Term, negated: bool) -> Truth3 {
        let not = self.terms.not(is);
        if negated { Truth3 { is_true: not, is_false: is } } else { Truth3 { is_true: is, is_false: not } }
    }

    fn parts(&mut self, parts: &[Expr]) -> Result<(Vec<Term>, Vec<Term>), SqlError> {
        let mut both = (Vec::new(), Vec::new());
        for part in parts {
            let truth = self.truth(part)?;
            both.0.push(truth.is_true);
            both.1.push(truth.is_false);
        }
        Ok(both)
    }

    fn truth_of(&mut self, expr: &Expr) -> Result<Truth3, SqlError> {
        let cell = self.cell(expr)?;
        let fits = match cell.kind {
            Kind::Null | Kind::Bool => true,
            Kind::Int => !self.dialect.is_strict(),
            _ => false,
        };
        if !fits {
            return Err(outside("a condition that is no truth value"));
        }
        let (zero, known) = (self.terms.int(0), self.terms.not(cell.null));
        let no = self.terms.equal(cell.value, zero);
        let yes = self.terms.not(no);
        Ok(Truth3 { is_true: self.terms.and(&[known, yes]), is_false: self.terms.and(&[known, no]) })
    }

    /// The operands of a comparison; a literal text takes the type of what it meets.
    fn operands(&mut self, left: &Expr, right: &Expr) -> Result<(Cell, Cell), SqlError> {
        let (a, b) = (self.cell(left)?, self.cell(right)?);
        Ok((self.meeting(left, a, b)?, self.meeting(right, b, a)?))
    }

    fn meeting(&mut self, expr: &Expr, cell: Cell, other: Cell) -> Result<Cell, SqlError> {
        let like = match other.kind {
            Kind::Int => Value::Int(0),
            Kind::Date => Value::Date(0),
            Kind::Timestamp => Value::Timestamp(0),
            Kind::Bool => Value::Bool(false),
            _ => return Ok(cell),
        };
        match cell.value(self.terms) {
            Some(text @ Value::Text(_)) if self.dialect.is_strict() && is_flexible(expr) => {
                Ok(Cell::known(&coerce_like(&text, &like, self.dialect)?, self.terms))
            }
            Some(Value::Decimal(number)) if other.kind == Kind::Int => match number.to_integer() {
                Some(number) => Ok(Cell::known(&Value::Int(number), self.terms)),
                None => Err(outside("a comparison with a fraction")),
            },
            _ => Ok(cell),
        }
    }

    /// Whether the integers of two cells compare as their values do.
    fn comparable(&self, op: Cmp, a: Cell, b: Cell) -> Result<(), SqlError> {
        let equality = matches!(op, Cmp::Eq | Cmp::Ne);
        match (a.kind, b.kind) {
            (Kind::Null, _) | (_, Kind::Null) => Ok(()),
            (a, b) if a == b && a.is_ordered() => Ok(()),
            (Kind::Text, Kind::Text) if equality && self.dialect.compares_exactly() => Ok(()),
            (Kind::Text, Kind::Text) => Err(outside("the order of text, or MySQL's collation,")),
            _ => Err(outside("a comparison of these types")),
        }
    }

    fn compare(&mut self, op: Cmp, left: &Expr, right: &Expr) -> Result<Truth3, SqlError> {
        if let Some(value) =
            self.concrete(&Expr::Compare(op, Box::new(left.clone()), Box::new(right.clone())))
        {
            let cell = Cell::known(&value, self.terms);
            let (known, zero) = (self.terms.not(cell.null), self.terms.int(0));
            let no = self.terms.equal(cell.value, zero);
            let yes = self.terms.not(no);
            return Ok(Truth3 {
                is_true: self.terms.and(&[known, yes]),
                is_false: self.terms.and(&[known, no]),
            });
        }
        let (a, b) = self.operands(left, right)?;
        self.comparable(op, a, b)?;
        Ok(self.compared(op, a, b))
    }

    fn compared(&mut self, op: Cmp, a: Cell, b: Cell) -> Truth3 {
        let terms = &mut *self.terms;
        let accepted = match op {
            Cmp::Eq => terms.equal(a.value, b.value),
            Cmp::Ne => {
                let equal = terms.equal(a.value, b.value);
                terms.not(equal)
            }
            Cmp::Lt => terms.less(a.value, b.value),
            Cmp::Le => terms.at_most(a.value, b.value),
            Cmp::Gt => terms.less(b.value, a.value),
            Cmp::Ge => terms.at_most(b.value, a.value),
        };
        let null = terms.or(&[a.null, b.null]);
        let (known, refused) = (terms.not(null), terms.not(accepted));
        Truth3 { is_true: terms.and(&[known, accepted]), is_false: terms.and(&[known, refused]) }
    }

    fn member(&mut self, inner: &Expr, list: &[Expr], negated: bool) -> Result<Truth3, SqlError> {
        let (mut is_true, mut is_false) = (Vec::new(), Vec::new());
        for element in list {
            let truth = self.compare(Cmp::Eq, inner, element)?;
            is_true.push(truth.is_true);
            is_false.push(truth.is_false);
        }
        let (found, not) = (self.terms.or(&is_true), self.terms.and(&is_false));
        Ok(match negated {
            false => Truth3 { is_true: found, is_false: not },
            true => Truth3 { is_true: not, is_false: found },
        })
    }

    /// A value as a column stores it, and where that fails.
    pub fn stored(&mut self, cell: Cell, to: Type, flexible: bool) -> Result<(Cell, Term), SqlError> {
        let kind = Kind::of(to, self.dialect);
        if let Some(value) = cell.value(self.terms) {
            return match store(value, to, flexible, self.dialect) {
                Ok(value) => Ok((self.of_column(&value, kind)?, Term::FALSE)),
                Err(SqlError::Overflow(_) | SqlError::Constraint(_)) => {
                    Ok((Cell { kind, ..cell }, Term::TRUE))
                }
                Err(error) => Err(error),
            };
        }
        match (cell.kind, to) {
            (Kind::Int, Type::Int(bits)) => {
                let fails = self.out_of_range(cell, bits);
                Ok((cell, fails))
            }
            (a, _) if a == kind && a != Kind::Other && a != Kind::Int => Ok((cell, Term::FALSE)),
            (Kind::Null, _) => Ok((Cell { kind, ..cell }, Term::FALSE)),
            _ => Err(outside("a conversion between types")),
        }
    }

    /// A known value in a column of this kind.
    pub fn of_column(&mut self, value: &Value, kind: Kind) -> Result<Cell, SqlError> {
        let cell = Cell::known(value, self.terms);
        match (cell.kind, kind) {
            (Kind::Null, _) => Ok(Cell { kind, ..cell }),
            (a, b) if a == b => Ok(cell),
            (_, Kind::Other) => Ok(Cell { value: self.terms.intern(value), null: Term::FALSE, kind }),
            _ => Err(outside("a value of another type than its column")),
        }
    }

    fn out_of_range(&mut self, cell: Cell, bits: u32) -> Term {
        let half = 1i128 << (bits.clamp(1, 64) - 1);
        let (low, high) = (self.terms.int(-half), self.terms.int(half - 1));
        let (below, above) = (self.terms.less(cell.value, low), self.terms.less(high, cell.value));
        let (outside, there) = (self.terms.or(&[below, above]), self.terms.not(cell.null));
        self.terms.and(&[there, outside])
    }
}

fn named(expr: &Expr) -> &'static str {
    match expr {
        Expr::Like(_) => "LIKE",
        Expr::Exists(..) | Expr::Subquery(_) | Expr::InSelect(..) => "a subquery",
        Expr::Concat(..) => "concatenation",
        Expr::OutputDivide(..) => "division",
        Expr::Call(..) => "a function",
        Expr::Cast(..) | Expr::Promote(..) => "a conversion between types",
        Expr::Now(_) => "the time",
        _ => "an expression",
    }
}
