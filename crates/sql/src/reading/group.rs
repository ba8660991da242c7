//! Lowering of a grouped query: its outputs see the group's keys and aggregates instead of rows.

use std::sync::Arc;

use sqlparser::ast::{self, Ident};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::calls::simple_call;
use crate::reading::cast::Type;
use crate::reading::expr::{Class, Expr, Slot};
use crate::reading::lower::{Names, Typed, outside};
use crate::reading::plan::{Aggregate, AggregateKind, Select};
use crate::reading::query;
use crate::reading::scope::Scope;

/// The scope of a grouped query's outputs, HAVING and ORDER BY.
pub(crate) struct GroupScope<'a, 's> {
    pub input: &'s mut Scope<'a>,
    pub keys: Vec<Typed>,
    pub aggregates: Vec<Aggregate>,
    /// The call at hand is a whole output, whose rounded value is what is shown.
    pub outermost: bool,
}

impl GroupScope<'_, '_> {
    fn slot(index: usize) -> Result<Slot, SqlError> {
        let index = u16::try_from(index).map_err(|_| SqlError::unsupported("this many group columns"))?;
        Ok(Slot { depth: 0, index })
    }

    fn aggregate(&mut self, call: &ast::Function, whole: &ast::Expr) -> Result<Option<Typed>, SqlError> {
        let Some((kind, arg, distinct)) = aggregate_call(call) else { return Ok(None) };
        let dialect = self.input.catalog.dialect;
        let (arg, arg_class) = match arg {
            Some(arg) => {
                let typed = self.input.expr(arg)?;
                let class = if wide_integer(&typed, self.input) { Class::Decimal } else { typed.class };
                (Some(typed), class)
            }
            None => (None, Class::Int),
        };
        if arg.as_ref().is_some_and(|arg| arg.class == Class::Mixed) && kind != AggregateKind::Count {
            return Err(outside("an aggregate of a value whose type depends on the row", whole));
        }
        let plain = arg.as_ref().map_or(Class::Int, |arg| arg.class);
        let column = arg.as_ref().is_some_and(|arg| matches!(arg.expr, Expr::Column(_)));
        let class = result_class(kind, plain, arg_class, column, dialect);
        let nested = !self.outermost;
        let aggregate = Aggregate { kind, arg: arg.map(|arg| arg.expr), distinct, class, nested };
        let known = self.aggregates.iter().position(|other| *other == aggregate);
        let index = known.unwrap_or(self.aggregates.len());
        if known.is_none() {
            self.aggregates.push(aggregate);
        }
        let class = if kind == AggregateKind::Count { Class::Int } else { class };
        Ok(Some(Typed::new(Expr::Column(Self::slot(self.keys.len() + index)?), class)))
    }
}

/// PostgreSQL's SUM of a bigint is a numeric, of a smaller integer a bigint.
fn wide_integer(typed: &Typed, input: &Scope) -> bool {
    match typed.expr {
        Expr::Column(slot) if slot.depth == 0 => {
            input.column_type(usize::from(slot.index)) == Some(Type::Int(64))
        }
        _ => false,
    }
}

fn result_class(kind: AggregateKind, plain: Class, wide: Class, column: bool, dialect: Dialect) -> Class {
    match (kind, dialect) {
        (AggregateKind::Count, _) => Class::Int,
        (AggregateKind::Min | AggregateKind::Max, _) => plain,
        (_, Dialect::Sqlite) => Class::Unknown,
        (AggregateKind::Sum | AggregateKind::Avg, Dialect::MySql | Dialect::TiDb) => Class::Mixed,
        // The width of a computed integer is not known, and with it whether its sum is an integer.
        (AggregateKind::Sum, _) if plain == Class::Int && !column => Class::Mixed,
        (AggregateKind::Sum, _) => wide,
        (AggregateKind::Avg, _) if plain == Class::Int => Class::Decimal,
        (AggregateKind::Avg, _) => plain,
    }
}

impl Names for GroupScope<'_, '_> {
    fn column(&mut self, table: Option<&Ident>, column: &Ident) -> Result<(Slot, Class), SqlError> {
        match self.input.find(table, column)? {
            (slot, class) if slot.depth > 0 => Ok((slot, class)),
            _ => Err(SqlError::unsupported(format!("the column {} outside GROUP BY", column.value))),
        }
    }

    /// A subquery among the outputs may see the rows around the query, but not those that were
    /// grouped.
    fn subquery(&mut self, query: &ast::Query) -> Result<Arc<Select>, SqlError> {
        let blank = Scope { catalog: self.input.catalog, tables: Vec::new(), outer: self.input.outer };
        Ok(Arc::new(query::lower(query, self.input.catalog, Some(&blank))?))
    }

    fn replace(&mut self, expr: &ast::Expr) -> Result<Option<Typed>, SqlError> {
        if let ast::Expr::Function(call) = expr
            && let Some(typed) = self.aggregate(call, expr)?
        {
            return Ok(Some(typed));
        }
        if matches!(expr, ast::Expr::Value(_)) {
            return Ok(None);
        }
        let Ok(lowered) = self.input.expr(expr) else { return Ok(None) };
        let Some(index) = self.keys.iter().position(|key| key.expr == lowered.expr) else { return Ok(None) };
        Ok(Some(Typed::new(Expr::Column(Self::slot(index)?), self.keys[index].class)))
    }

    fn variable(&self, record: Option<&Ident>, name: &Ident) -> Result<Option<Typed>, SqlError> {
        self.input.variable(record, name)
    }

    fn param_class(&self, index: usize) -> Class {
        self.input.catalog.param_class(index)
    }
}

/// The parts of a call of an aggregate function.
pub(crate) fn aggregate_call(call: &ast::Function) -> Option<(AggregateKind, Option<&ast::Expr>, bool)> {
    let [ast::ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return None };
    let kind = match name.value.to_ascii_lowercase().as_str() {
        "count" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "avg" => AggregateKind::Avg,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        _ => return None,
    };
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let mut plain = call.clone();
    let distinct = matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
    if let ast::FunctionArguments::List(list) = &mut plain.args {
        list.duplicate_treatment = None;
    }
    let star = matches!(list.args.as_slice(), [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]);
    if star && kind == AggregateKind::Count && !distinct {
        if let ast::FunctionArguments::List(list) = &mut plain.args {
            list.args = Vec::new();
        }
        return simple_call(&plain).map(|_| (kind, None, false));
    }
    simple_call(&plain)?;
    match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))] => Some((kind, Some(arg), distinct)),
        _ => None,
    }
}

/// True if an aggregate is called somewhere in the expression, outside of subqueries.
pub(crate) fn has_aggregate(expr: &ast::Expr) -> bool {
    use ast::Expr as E;
    match expr {
        E::Function(call) => {
            aggregate_call(call).is_some()
                || simple_call(call).is_some_and(|(_, args)| args.into_iter().any(has_aggregate))
        }
        E::Nested(inner) | E::UnaryOp { expr: inner, .. } | E::Cast { expr: inner, .. } => {
            has_aggregate(inner)
        }
        E::IsNull(inner) | E::IsNotNull(inner) | E::IsTrue(inner) | E::IsFalse(inner) => has_aggregate(inner),
        E::BinaryOp { left, right, .. } => has_aggregate(left) || has_aggregate(right),
        E::Between { expr, low, high, .. } => [expr, low, high].into_iter().any(|part| has_aggregate(part)),
        E::InList { expr, list, .. } => has_aggregate(expr) || list.iter().any(has_aggregate),
        E::Case { operand, conditions, else_result, .. } => {
            let branches = conditions.iter().flat_map(|when| [&when.condition, &when.result]);
            let rest = operand.iter().chain(else_result).map(AsRef::as_ref);
            branches.chain(rest).any(has_aggregate)
        }
        _ => false,
    }
}
