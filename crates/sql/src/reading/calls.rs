//! Lowering of function calls, including those with a syntax of their own.

use sqlparser::ast;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::cast::Type;
use crate::reading::expr::{Class, Expr};
use crate::reading::functions::Scalar;
use crate::reading::lower::{Lowerer, Typed, outside};
use crate::value::Value;

impl Lowerer<'_> {
    /// A call in ordinary notation.
    pub(crate) fn function(
        &mut self,
        function: &ast::Function,
        whole: &ast::Expr,
    ) -> Result<Typed, SqlError> {
        if let Some(clock) = clock(function, self.dialect) {
            return Ok(clock);
        }
        let Some((name, args)) = simple_call(function) else {
            return Err(outside(&format!("the call {function}"), whole));
        };
        let args = args.into_iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>, _>>()?;
        self.call(&name, args, whole)
    }

    /// SUBSTRING, TRIM, CEIL and FLOOR, which the parser knows.
    pub(crate) fn syntax(&mut self, whole: &ast::Expr) -> Result<Typed, SqlError> {
        use ast::Expr as E;
        let (name, args) = match whole {
            E::Substring { expr, substring_from: Some(from), substring_for, .. } => {
                ("substring", [Some(expr), Some(from), substring_for.as_ref()])
            }
            E::Trim { trim_where: None, trim_what: None, expr, trim_characters: None } => {
                ("trim", [Some(expr), None, None])
            }
            E::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                ("ceil", [Some(expr), None, None])
            }
            E::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                ("floor", [Some(expr), None, None])
            }
            other => return Err(outside(&format!("the form {other}"), other)),
        };
        let args = args.into_iter().flatten().map(|arg| self.expr(arg)).collect::<Result<Vec<_>, _>>()?;
        self.call(name, args, whole)
    }

    fn call(&mut self, name: &str, args: Vec<Typed>, whole: &ast::Expr) -> Result<Typed, SqlError> {
        let dialect = self.dialect;
        match (name, args.len()) {
            ("coalesce", 1..) => return Ok(self.coalesce(args)),
            ("ifnull", 2) if !dialect.is_strict() => return Ok(self.coalesce(args)),
            ("if", 3) if dialect.is_mysql() => return Ok(self.if_function(args)),
            ("iif", 3) if dialect == Dialect::Sqlite => return Ok(self.if_function(args)),
            _ => {}
        }
        let Some((function, arity)) = Scalar::named(name, dialect) else {
            return Err(outside(&format!("the function {name}"), whole));
        };
        if !arity.contains(&args.len()) {
            return Err(outside(&format!("the function {name} with {} arguments", args.len()), whole));
        }
        self.scalar(function, args, whole)
    }

    fn coalesce(&self, args: Vec<Typed>) -> Typed {
        let (options, class) = self.unified(args);
        Typed::new(Expr::Coalesce(options), class)
    }

    fn if_function(&self, args: Vec<Typed>) -> Typed {
        let mut args = args.into_iter();
        let condition = args.next().map_or(Expr::Literal(Value::Null), |typed| typed.expr);
        let (mut results, class) = self.unified(args.collect());
        let otherwise = results.pop().unwrap_or(Expr::Literal(Value::Null));
        let result = results.pop().unwrap_or(Expr::Literal(Value::Null));
        Typed::new(Expr::Case(vec![(condition, result)], Box::new(otherwise)), class)
    }

    fn scalar(&mut self, function: Scalar, args: Vec<Typed>, whole: &ast::Expr) -> Result<Typed, SqlError> {
        let mixed = args.iter().any(|arg| arg.class == Class::Mixed);
        let class = match function {
            Scalar::Greatest | Scalar::Least => {
                let (args, class) = self.unified(args);
                return Ok(Typed::new(Expr::Call(function, args), class));
            }
            Scalar::Abs | Scalar::Nullif => args[0].class,
            Scalar::Length | Scalar::Bytes => Class::Int,
            Scalar::Mod => Class::arithmetic(args[0].class, args[1].class),
            _ if mixed => return Err(outside("a function of a value whose type depends on the row", whole)),
            Scalar::Ceil | Scalar::Floor | Scalar::Round | Scalar::Sign => Class::Unknown,
            _ => Class::Text,
        };
        Ok(Typed::new(Expr::Call(function, args.into_iter().map(|arg| arg.expr).collect()), class))
    }
}

/// The functions of the current time. SQLite's give text in formats of their own.
fn clock(function: &ast::Function, dialect: Dialect) -> Option<Typed> {
    if dialect == Dialect::Sqlite {
        return None;
    }
    let mut plain = function.clone();
    if matches!(plain.args, ast::FunctionArguments::None) {
        let list =
            ast::FunctionArgumentList { duplicate_treatment: None, args: Vec::new(), clauses: Vec::new() };
        plain.args = ast::FunctionArguments::List(list);
    }
    let (name, args) = simple_call(&plain)?;
    let to = match name.as_str() {
        "now" | "current_timestamp" | "localtimestamp" => Type::Timestamp,
        "current_date" => Type::Date,
        "curdate" if dialect.is_mysql() => Type::Date,
        _ => return None,
    };
    args.is_empty().then(|| Typed::new(Expr::Now(to), Class::of_type(to, dialect)))
}

/// The name and the arguments of a call without any of the clauses that calls can have.
pub(crate) fn simple_call(function: &ast::Function) -> Option<(String, Vec<&ast::Expr>)> {
    let plain = function.filter.is_none()
        && function.over.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && matches!(function.parameters, ast::FunctionArguments::None);
    let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    if !plain || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let args = list.args.iter().map(|arg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    Some((name.value.to_ascii_lowercase(), args.collect::<Option<_>>()?))
}
