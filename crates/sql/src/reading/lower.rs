//! From sqlparser's tree to expressions.
//!
//! # Invariants
//! - Every node that is not understood is an error that names it.
//! - Where the dialects bind operators differently and the text has no parentheses, lowering
//!   refuses, because the parser knows one precedence for all.

use std::sync::Arc;

use sqlparser::ast::{self, BinaryOperator, Spanned, UnaryOperator};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::arith::Arith;
use crate::reading::cast::Type;
use crate::reading::expr::{Class, Cmp, Expr, Like, Slot};
use crate::reading::literal;
use crate::reading::parse::position;
use crate::reading::plan::Select;

/// The names in scope of an expression.
pub(crate) trait Names {
    /// Resolves a column, with its table if the text names one.
    fn column(&mut self, table: Option<&ast::Ident>, column: &ast::Ident) -> Result<(Slot, Class), SqlError>;

    /// Lowers a subquery that stands in this scope.
    fn subquery(&mut self, query: &ast::Query) -> Result<Arc<Select>, SqlError> {
        Err(outside(&format!("the subquery {query}"), query))
    }

    /// What the scope puts in place of a whole expression: the columns of a group.
    fn replace(&mut self, _: &ast::Expr) -> Result<Option<Typed>, SqlError> {
        Ok(None)
    }

    /// The variable of a procedure that a name means, as a parameter.
    fn variable(&self, _: Option<&ast::Ident>, _: &ast::Ident) -> Result<Option<Typed>, SqlError> {
        Ok(None)
    }

    /// The class of a parameter, where the parameter stands for a literal of the text.
    fn param_class(&self, _: usize) -> Class {
        Class::Unknown
    }
}

/// An expression with what is known of its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub expr: Expr,
    pub class: Class,
}

impl Typed {
    pub(crate) fn new(expr: Expr, class: Class) -> Self {
        Typed { expr, class }
    }
}

/// Lowers the expressions of one scope.
pub(crate) struct Lowerer<'n> {
    pub dialect: Dialect,
    pub names: &'n mut dyn Names,
}

type Lowered = Result<Typed, SqlError>;

impl Lowerer<'_> {
    /// An expression whose value is shown or stored: the outermost division of MySQL is rounded
    /// there.
    pub fn output(&mut self, expr: &ast::Expr) -> Lowered {
        let lowered = self.expr(expr)?;
        Ok(match lowered.expr {
            Expr::Arith(Arith::Div, left, right) => {
                Typed::new(Expr::OutputDivide(left, right), lowered.class)
            }
            _ => lowered,
        })
    }

    /// An expression.
    pub fn expr(&mut self, expr: &ast::Expr) -> Lowered {
        use ast::Expr as E;
        let variable = match expr {
            E::Identifier(name) => self.names.variable(None, name)?,
            E::CompoundIdentifier(parts) => match parts.as_slice() {
                [record, name] => self.names.variable(Some(record), name)?,
                _ => None,
            },
            _ => None,
        };
        if let Some(variable) = variable {
            return Ok(variable);
        }
        if let Some(replacement) = self.names.replace(expr)? {
            return Ok(replacement);
        }
        match expr {
            E::Nested(inner) => self.expr(inner),
            E::Value(value) => {
                let mut lowered = literal::lower(value, self.dialect)?;
                if let Expr::Param(index) = lowered.expr {
                    lowered.class = self.names.param_class(index);
                }
                Ok(lowered)
            }
            E::Subquery(query) => self.scalar_subquery(query),
            E::TypedString(typed) => literal::lower_typed(typed, self.dialect),
            E::Identifier(column) => self.column(None, column),
            E::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => self.column(Some(table), column),
                _ => Err(outside("a name of more than two parts", expr)),
            },
            E::UnaryOp { op, expr: inner } => self.unary(*op, inner, expr),
            E::BinaryOp { left, op, right } => self.binary(left, op, right, expr),
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            E::Cast { kind, expr: inner, data_type, format: None } => self.cast(kind, inner, data_type, expr),
            E::Function(function) => self.function(function, expr),
            E::Substring { .. } | E::Trim { .. } | E::Ceil { .. } | E::Floor { .. } => self.syntax(expr),
            _ => self.test(expr),
        }
    }

    /// The forms that give a truth value.
    fn test(&mut self, expr: &ast::Expr) -> Lowered {
        use ast::Expr as E;
        let lowered = match expr {
            E::IsNull(inner) => Expr::IsNull(self.operand(inner)?, false),
            E::IsNotNull(inner) => Expr::IsNull(self.operand(inner)?, true),
            E::IsTrue(inner) => Expr::IsTruth(self.operand(inner)?, Some(true), false),
            E::IsNotTrue(inner) => Expr::IsTruth(self.operand(inner)?, Some(true), true),
            E::IsFalse(inner) => Expr::IsTruth(self.operand(inner)?, Some(false), false),
            E::IsNotFalse(inner) => Expr::IsTruth(self.operand(inner)?, Some(false), true),
            E::IsUnknown(inner) => Expr::IsTruth(self.operand(inner)?, None, false),
            E::IsNotUnknown(inner) => Expr::IsTruth(self.operand(inner)?, None, true),
            E::IsDistinctFrom(left, right) => Expr::Same(self.operand(left)?, self.operand(right)?, true),
            E::IsNotDistinctFrom(left, right) => Expr::Same(self.operand(left)?, self.operand(right)?, false),
            E::InList { expr: inner, list, negated } => {
                let inner = self.operand(inner)?;
                Expr::In(inner, self.list(list)?, *negated)
            }
            E::InSubquery { expr: inner, subquery, negated } => {
                let inner = self.operand(inner)?;
                Expr::InSelect(inner, self.one_column(subquery)?, *negated)
            }
            E::Exists { subquery, negated } => Expr::Exists(self.names.subquery(subquery)?, *negated),
            E::Between { expr: inner, negated, low, high } => self.between(inner, *negated, low, high)?,
            E::Like { negated, any: false, expr: text, pattern, escape_char } => {
                self.like(*negated, text, pattern, escape_char.as_deref(), false, expr)?
            }
            E::ILike { negated, any: false, expr: text, pattern, escape_char }
                if self.dialect.is_strict() =>
            {
                self.like(*negated, text, pattern, escape_char.as_deref(), true, expr)?
            }
            other => return Err(outside(&describe(other), other)),
        };
        Ok(Typed::new(lowered, self.truth_class()))
    }

    fn scalar_subquery(&mut self, query: &ast::Query) -> Lowered {
        let select = self.one_column(query)?;
        let class = select.outputs.first().map_or(Class::Null, |output| output.class);
        Ok(Typed::new(Expr::Subquery(select), class))
    }

    fn one_column(&mut self, query: &ast::Query) -> Result<Arc<Select>, SqlError> {
        let select = self.names.subquery(query)?;
        if select.outputs.len() != 1 {
            return Err(outside("a subquery of several columns", query));
        }
        Ok(select)
    }

    /// The class of comparisons.
    pub(crate) fn truth_class(&self) -> Class {
        if self.dialect.is_strict() { Class::Bool } else { Class::Int }
    }

    fn column(&mut self, table: Option<&ast::Ident>, column: &ast::Ident) -> Lowered {
        let (slot, class) = self.names.column(table, column)?;
        Ok(Typed::new(Expr::Column(slot), class))
    }

    /// An operand of a comparison: it must not be another test without parentheses.
    pub(crate) fn operand(&mut self, expr: &ast::Expr) -> Result<Box<Expr>, SqlError> {
        if is_test(expr) {
            return Err(outside("a comparison inside a comparison without parentheses", expr));
        }
        Ok(Box::new(self.expr(expr)?.expr))
    }

    /// An operand of arithmetic or `||`, which dialects bind differently.
    fn term(&mut self, expr: &ast::Expr, concatenating: bool) -> Lowered {
        let mixed = match expr {
            ast::Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => !concatenating,
            ast::Expr::BinaryOp { .. } => concatenating,
            _ => false,
        };
        if mixed || is_test(expr) {
            return Err(outside("|| mixed with other operators without parentheses", expr));
        }
        self.expr(expr)
    }

    fn list(&mut self, list: &[ast::Expr]) -> Result<Vec<Expr>, SqlError> {
        list.iter().map(|element| Ok(self.expr(element)?.expr)).collect()
    }

    fn unary(&mut self, op: UnaryOperator, inner: &ast::Expr, whole: &ast::Expr) -> Lowered {
        match (op, inner) {
            (UnaryOperator::Minus, ast::Expr::Value(value)) => match &value.value {
                ast::Value::Number(digits, _) => literal::number(&format!("-{digits}"), self.dialect),
                _ => Err(outside("the negation of this literal", whole)),
            },
            (UnaryOperator::Minus, _) => {
                let Typed { expr, class } = self.term(inner, false)?;
                Ok(Typed::new(Expr::Negate(Box::new(expr)), class))
            }
            (UnaryOperator::Not, _) => {
                let inner = self.expr(inner)?.expr;
                Ok(Typed::new(Expr::Not(Box::new(inner)), self.truth_class()))
            }
            (other, _) => Err(outside(&format!("the operator {other}"), whole)),
        }
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        whole: &ast::Expr,
    ) -> Lowered {
        match op {
            BinaryOperator::And | BinaryOperator::Or => self.connective(op, whole),
            BinaryOperator::StringConcat if !self.dialect.is_mysql() => {
                let (left, right) = (self.term(left, true)?, self.term(right, true)?);
                if left.class == Class::Mixed || right.class == Class::Mixed {
                    return Err(outside("the text of a value whose type depends on the row", whole));
                }
                Ok(Typed::new(Expr::Concat(Box::new(left.expr), Box::new(right.expr)), Class::Text))
            }
            BinaryOperator::Spaceship if self.dialect.is_mysql() => {
                let same = Expr::Same(self.operand(left)?, self.operand(right)?, false);
                Ok(Typed::new(same, Class::Int))
            }
            _ => match (comparison(op), self.arithmetic_operator(op)) {
                (Some(cmp), _) => {
                    let test = Expr::Compare(cmp, self.operand(left)?, self.operand(right)?);
                    Ok(Typed::new(test, self.truth_class()))
                }
                (None, Some(op)) => self.arithmetic(op, left, right, whole),
                (None, None) => Err(outside(&format!("the operator {op}"), whole)),
            },
        }
    }

    fn arithmetic_operator(&self, op: &BinaryOperator) -> Option<Arith> {
        Some(match op {
            BinaryOperator::Plus => Arith::Add,
            BinaryOperator::Minus => Arith::Sub,
            BinaryOperator::Multiply => Arith::Mul,
            BinaryOperator::Divide => Arith::Div,
            BinaryOperator::Modulo => Arith::Rem,
            BinaryOperator::MyIntegerDivide if self.dialect.is_mysql() => Arith::IntDiv,
            _ => return None,
        })
    }

    fn arithmetic(&mut self, op: Arith, left: &ast::Expr, right: &ast::Expr, whole: &ast::Expr) -> Lowered {
        let (left, right) = (self.term(left, false)?, self.term(right, false)?);
        let class = Class::arithmetic(left.class, right.class);
        if op == Arith::Div && class == Class::Mixed {
            return Err(outside("the division of a value whose type depends on the row", whole));
        }
        let class = match op {
            Arith::IntDiv => Class::Int,
            Arith::Div if self.dialect.is_mysql() => Class::Mixed,
            _ => class,
        };
        Ok(Typed::new(Expr::Arith(op, Box::new(left.expr), Box::new(right.expr)), class))
    }

    /// A conjunction or disjunction as one list, however long, without recursion along its spine.
    fn connective(&mut self, op: &BinaryOperator, whole: &ast::Expr) -> Lowered {
        let mut parts = Vec::new();
        let mut rest = whole;
        while let ast::Expr::BinaryOp { left, op: inner, right } = rest
            && inner == op
        {
            parts.push(right.as_ref());
            rest = left;
        }
        parts.push(rest);
        let parts =
            parts.into_iter().rev().map(|part| Ok(self.expr(part)?.expr)).collect::<Result<_, SqlError>>()?;
        let expr = if *op == BinaryOperator::And { Expr::And(parts) } else { Expr::Or(parts) };
        Ok(Typed::new(expr, self.truth_class()))
    }

    fn between(
        &mut self,
        inner: &ast::Expr,
        negated: bool,
        low: &ast::Expr,
        high: &ast::Expr,
    ) -> Result<Expr, SqlError> {
        let (inner, low, high) = (self.operand(inner)?, self.operand(low)?, self.operand(high)?);
        if negated {
            let below = Expr::Compare(Cmp::Lt, inner.clone(), low);
            return Ok(Expr::Or(vec![below, Expr::Compare(Cmp::Gt, inner, high)]));
        }
        let above = Expr::Compare(Cmp::Ge, inner.clone(), low);
        Ok(Expr::And(vec![above, Expr::Compare(Cmp::Le, inner, high)]))
    }

    fn like(
        &mut self,
        negated: bool,
        text: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        ignore_case: bool,
        whole: &ast::Expr,
    ) -> Result<Expr, SqlError> {
        let escape = match escape {
            None => None,
            Some(ast::Expr::Value(value)) => match &value.value {
                ast::Value::SingleQuotedString(text) if text.chars().count() == 1 => text.chars().next(),
                _ => return Err(outside("an ESCAPE that is not one character", whole)),
            },
            Some(_) => return Err(outside("an ESCAPE that is not a literal", whole)),
        };
        let (text, pattern) = (*self.operand(text)?, *self.operand(pattern)?);
        Ok(Expr::Like(Box::new(Like { text, pattern, escape, ignore_case, negated })))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Lowered {
        let operand = operand.map(|operand| self.operand(operand)).transpose()?;
        let mut tests = Vec::new();
        let mut results = Vec::new();
        for when in conditions {
            tests.push(match &operand {
                Some(operand) => Expr::Compare(Cmp::Eq, operand.clone(), self.operand(&when.condition)?),
                None => self.expr(&when.condition)?.expr,
            });
            results.push(self.expr(&when.result)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => Typed::new(Expr::Literal(crate::value::Value::Null), Class::Null),
        });
        let (mut results, class) = self.unified(results);
        let otherwise = results.pop().unwrap_or(Expr::Literal(crate::value::Value::Null));
        let branches = tests.into_iter().zip(results).collect();
        Ok(Typed::new(Expr::Case(branches, Box::new(otherwise)), class))
    }

    /// Alternatives converted to the one class that they have together.
    pub(crate) fn unified(&self, alternatives: Vec<Typed>) -> (Vec<Expr>, Class) {
        let classes: Vec<Class> = alternatives.iter().map(|typed| typed.class).collect();
        let class = Class::unify(&classes, self.dialect);
        let convert = |typed: Typed| match class {
            _ if typed.class == class => typed.expr,
            Class::Decimal | Class::Float | Class::Timestamp => Expr::Promote(Box::new(typed.expr), class),
            Class::Int | Class::Date if typed.class == Class::Literal => {
                Expr::Promote(Box::new(typed.expr), class)
            }
            _ => typed.expr,
        };
        (alternatives.into_iter().map(convert).collect(), class)
    }

    fn cast(
        &mut self,
        kind: &ast::CastKind,
        inner: &ast::Expr,
        data_type: &ast::DataType,
        whole: &ast::Expr,
    ) -> Lowered {
        if !matches!(kind, ast::CastKind::Cast | ast::CastKind::DoubleColon) {
            return Err(outside("TRY_CAST", whole));
        }
        let to = Type::lower(data_type, self.dialect)?;
        let inner = self.expr(inner)?;
        let mixed_text = inner.class == Class::Mixed && matches!(to, Type::Text(_));
        if mixed_text {
            return Err(outside("the text of a value whose type depends on the row", whole));
        }
        let class = Class::of_type(to, self.dialect);
        Ok(Typed::new(Expr::Cast(Box::new(inner.expr), to), class))
    }
}

/// The error of a construct outside the fragment, at its place.
pub(crate) fn outside(construct: &str, at: &impl Spanned) -> SqlError {
    SqlError::Unsupported { construct: construct.into(), at: position(at.span().start) }
}

fn comparison(op: &BinaryOperator) -> Option<Cmp> {
    Some(match op {
        BinaryOperator::Eq => Cmp::Eq,
        BinaryOperator::NotEq => Cmp::Ne,
        BinaryOperator::Lt => Cmp::Lt,
        BinaryOperator::LtEq => Cmp::Le,
        BinaryOperator::Gt => Cmp::Gt,
        BinaryOperator::GtEq => Cmp::Ge,
        _ => return None,
    })
}

/// True for the forms whose precedence the dialects disagree on when one stands in another.
fn is_test(expr: &ast::Expr) -> bool {
    use ast::Expr as E;
    match expr {
        E::BinaryOp { op, .. } => {
            comparison(op).is_some()
                || matches!(op, BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Spaceship)
        }
        E::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        E::IsNull(_) | E::IsNotNull(_) | E::IsTrue(_) | E::IsNotTrue(_) | E::IsFalse(_) => true,
        E::IsNotFalse(_) | E::IsUnknown(_) | E::IsNotUnknown(_) => true,
        E::IsDistinctFrom(..) | E::IsNotDistinctFrom(..) => true,
        E::InList { .. } | E::InSubquery { .. } | E::Between { .. } | E::Like { .. } | E::ILike { .. } => {
            true
        }
        _ => false,
    }
}

/// A short name for a construct.
fn describe(expr: &ast::Expr) -> String {
    let text = expr.to_string();
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        format!("the expression {short}…")
    } else {
        format!("the expression {short}")
    }
}
