//! Scalar expressions after lowering: names resolved to slots, literals to values.

use std::sync::Arc;

use crate::dialect::Dialect;
use crate::reading::arith::Arith;
use crate::reading::cast::Type;
use crate::reading::functions::Scalar;
use crate::reading::plan::Select;
use crate::value::Value;

/// Where a column's value stands: `depth` rows outwards (0 is the row at hand), at `index` in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub depth: u16,
    pub index: u16,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Cmp {
    /// Whether an ordering satisfies the operator.
    #[inline]
    pub fn accepts(self, order: std::cmp::Ordering) -> bool {
        match self {
            Cmp::Eq => order.is_eq(),
            Cmp::Ne => order.is_ne(),
            Cmp::Lt => order.is_lt(),
            Cmp::Le => order.is_le(),
            Cmp::Gt => order.is_gt(),
            Cmp::Ge => order.is_ge(),
        }
    }

    /// True if it matters which of two different values comes first.
    #[inline]
    pub fn asks_order(self) -> bool {
        !matches!(self, Cmp::Eq | Cmp::Ne)
    }

    /// The operator with its operands exchanged.
    pub fn flipped(self) -> Cmp {
        match self {
            Cmp::Lt => Cmp::Gt,
            Cmp::Le => Cmp::Ge,
            Cmp::Gt => Cmp::Lt,
            Cmp::Ge => Cmp::Le,
            same => same,
        }
    }
}

/// A `LIKE` test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Like {
    pub text: Expr,
    pub pattern: Expr,
    pub escape: Option<char>,
    pub ignore_case: bool,
    pub negated: bool,
}

/// A scalar expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Literal(Value),
    /// A text literal that takes the type of what it meets, in the dialects with static types.
    Untyped(Value),
    /// A parameter, counted from zero.
    Param(usize),
    /// The time of the transaction, as a timestamp or a date.
    Now(Type),
    Column(Slot),
    Negate(Box<Expr>),
    Arith(Arith, Box<Expr>, Box<Expr>),
    /// `/` as the outermost operator of an output expression.
    OutputDivide(Box<Expr>, Box<Expr>),
    Concat(Box<Expr>, Box<Expr>),
    Compare(Cmp, Box<Expr>, Box<Expr>),
    /// `IS NOT DISTINCT FROM`; the flag negates it.
    Same(Box<Expr>, Box<Expr>, bool),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// `IS NULL`; the flag negates it.
    IsNull(Box<Expr>, bool),
    /// `IS TRUE`, `IS FALSE`, `IS UNKNOWN`; the flag negates it.
    IsTruth(Box<Expr>, Option<bool>, bool),
    /// `IN (…)`; the flag negates it.
    In(Box<Expr>, Vec<Expr>, bool),
    Like(Box<Like>),
    /// Conditions with their results, and the ELSE.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    Coalesce(Vec<Expr>),
    /// Converts a number to the class that its context has statically.
    Promote(Box<Expr>, Class),
    Cast(Box<Expr>, Type),
    Call(Scalar, Vec<Expr>),
    /// `EXISTS (…)`; the flag negates it.
    Exists(Arc<Select>, bool),
    /// A subquery for its one value.
    Subquery(Arc<Select>),
    /// `IN (SELECT …)`; the flag negates it.
    InSelect(Box<Expr>, Arc<Select>, bool),
}

/// What is known about the type of an expression before it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The value's own type is the right one.
    Unknown,
    /// The value may have a narrower type than the database would give it.
    Mixed,
    Null,
    /// A text literal in a dialect with static types.
    Literal,
    Bool,
    Int,
    Decimal,
    Float,
    Text,
    Bytes,
    Date,
    Timestamp,
}

impl Class {
    /// The class of a literal value.
    pub fn of(value: &Value) -> Class {
        match value {
            Value::Null => Class::Null,
            Value::Bool(_) => Class::Bool,
            Value::Int(_) => Class::Int,
            Value::Decimal(_) => Class::Decimal,
            Value::Float(_) => Class::Float,
            Value::Text(_) => Class::Text,
            Value::Bytes(_) => Class::Bytes,
            Value::Date(_) => Class::Date,
            Value::Timestamp(_) => Class::Timestamp,
        }
    }

    /// The class of a column's values.
    pub fn of_type(of: Type, dialect: Dialect) -> Class {
        match of {
            Type::Bool if dialect.is_strict() => Class::Bool,
            Type::Bool | Type::Int(_) => Class::Int,
            Type::Decimal(_) => Class::Decimal,
            Type::Float => Class::Float,
            Type::Text(_) => Class::Text,
            Type::Bytes => Class::Bytes,
            Type::Date => Class::Date,
            Type::Timestamp => Class::Timestamp,
        }
    }

    fn numeric_rank(self) -> Option<u8> {
        match self {
            Class::Int => Some(0),
            Class::Decimal => Some(1),
            Class::Float => Some(2),
            _ => None,
        }
    }

    /// The class that CASE, COALESCE and their like give to alternatives of these classes.
    pub fn unify(classes: &[Class], dialect: Dialect) -> Class {
        // SQLite's values keep their own types.
        if dialect == Dialect::Sqlite {
            return Class::Unknown;
        }
        let mut present = classes.iter().copied().filter(|class| *class != Class::Null);
        let Some(first) = present.next() else { return Class::Null };
        if classes.len() == 1 {
            return first;
        }
        present.fold(first, |left, right| Class::unify_two(left, right, dialect))
    }

    fn unify_two(left: Class, right: Class, dialect: Dialect) -> Class {
        match (left, right) {
            (Class::Mixed | Class::Unknown, _) | (_, Class::Mixed | Class::Unknown) => Class::Mixed,
            // In MySQL the scale of the result is the largest of all, which values do not know.
            (Class::Decimal, Class::Decimal) if dialect.is_mysql() => Class::Mixed,
            (left, right) if left == right => left,
            (Class::Literal, other) | (other, Class::Literal) => other,
            (Class::Date, Class::Timestamp) | (Class::Timestamp, Class::Date) => Class::Timestamp,
            _ => match (left.numeric_rank(), right.numeric_rank()) {
                (Some(a), Some(b)) if dialect.is_strict() => {
                    if a > b {
                        left
                    } else {
                        right
                    }
                }
                _ => Class::Mixed,
            },
        }
    }

    /// The class of an arithmetic result.
    pub fn arithmetic(left: Class, right: Class) -> Class {
        match (left, right) {
            (Class::Mixed, _) | (_, Class::Mixed) => Class::Mixed,
            _ => match (left.numeric_rank(), right.numeric_rank()) {
                (Some(a), Some(b)) => {
                    if a > b {
                        left
                    } else {
                        right
                    }
                }
                _ => Class::Unknown,
            },
        }
    }
}

impl Expr {
    /// The columns of the row at hand that the expression uses, and whether it uses anything else
    /// than them and constants: outer rows or subqueries.
    pub fn uses(&self) -> (Vec<usize>, bool) {
        let (mut columns, mut more) = (Vec::new(), false);
        self.clone().each_mut(&mut |part| match part {
            Expr::Column(Slot { depth: 0, index }) => columns.push(usize::from(*index)),
            Expr::Column(_) | Expr::Exists(..) | Expr::Subquery(_) | Expr::InSelect(..) => more = true,
            _ => {}
        });
        (columns, more)
    }

    /// True if a subquery stands in the expression.
    pub fn has_subquery(&self) -> bool {
        let mut found = false;
        self.clone().each_mut(&mut |part| {
            found |= matches!(part, Expr::Exists(..) | Expr::Subquery(_) | Expr::InSelect(..));
        });
        found
    }

    /// Calls `visit` on the expression and everything in it but subqueries, once each.
    pub fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        visit(self);
        match self {
            Expr::Literal(_) | Expr::Untyped(_) | Expr::Param(_) | Expr::Column(_) | Expr::Now(_) => {}
            Expr::Exists(..) | Expr::Subquery(_) => {}
            Expr::InSelect(inner, _, _) => inner.each_mut(visit),
            Expr::Negate(inner) | Expr::Not(inner) | Expr::IsNull(inner, _) | Expr::IsTruth(inner, _, _) => {
                inner.each_mut(visit);
            }
            Expr::Promote(inner, _) | Expr::Cast(inner, _) => inner.each_mut(visit),
            Expr::Arith(_, left, right)
            | Expr::OutputDivide(left, right)
            | Expr::Concat(left, right)
            | Expr::Compare(_, left, right)
            | Expr::Same(left, right, _) => {
                left.each_mut(visit);
                right.each_mut(visit);
            }
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) | Expr::Call(_, parts) => {
                parts.iter_mut().for_each(|part| part.each_mut(visit));
            }
            Expr::In(inner, list, _) => {
                inner.each_mut(visit);
                list.iter_mut().for_each(|part| part.each_mut(visit));
            }
            Expr::Like(test) => {
                test.text.each_mut(visit);
                test.pattern.each_mut(visit);
            }
            Expr::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    condition.each_mut(visit);
                    result.each_mut(visit);
                }
                otherwise.each_mut(visit);
            }
        }
    }
}
