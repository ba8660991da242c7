//! Aggregates over the rows of one table: a condition, and what is computed from the rows that
//! satisfy it.
//!
//! `SELECT COUNT(*), SUM(v) FROM t WHERE v > $1` reads a table by a predicate and shows none of its
//! rows. Whoever knows the rows, or the versions of them that the statement saw, computes its
//! answer again.
//!
//! # Invariants
//! The statement is rebuilt from the parts that were understood and compared with what was parsed:
//! a clause that nobody looked at cannot be read over.

use std::collections::HashSet;

use sqlparser::ast::{self, Expr, SelectItem, SetExpr};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::aggregate::Accumulator;
use crate::reading::expr::Class;
use crate::reading::group::aggregate_call;
use crate::reading::parse;
use crate::reading::plan::{Aggregate, AggregateKind};
use crate::row::SummaryKind;
use crate::value::Value;

/// A SELECT of MIN, MAX, COUNT and SUM over the rows of one table that satisfy a condition.
#[derive(Clone, Debug)]
pub struct Summary {
    table: String,
    condition: Option<String>,
    outputs: Vec<Output>,
    dialect: Dialect,
}

#[derive(Clone, Debug)]
struct Output {
    aggregate: Aggregate,
    /// None for `COUNT(*)`.
    column: Option<String>,
}

impl Summary {
    /// Reads a statement with its parameters filled in.
    ///
    /// # Errors
    /// When it is another statement, or cannot be read.
    pub fn parse(text: &str, params: &[Value], dialect: Dialect) -> Result<Summary, SqlError> {
        let mut tokens = filled(parse::tokenize(text, dialect)?, params)?;
        while let Some(Token::SemiColon | Token::Whitespace(_) | Token::EOF) = tokens.last().map(|t| &t.token)
        {
            tokens.pop();
        }
        match parse::run(tokens, dialect, Parser::parse_statement)? {
            ast::Statement::Query(query) => of_query(&query, dialect),
            other => Err(SqlError::unsupported(format!("{other} as a summary"))),
        }
    }

    /// The table's name, without its schema.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The text of the condition, if there is one.
    pub fn condition(&self) -> Option<&str> {
        self.condition.as_deref()
    }

    /// The outputs: what each is, and the column that it is about.
    pub fn outputs(&self) -> impl Iterator<Item = (SummaryKind, Option<&str>)> {
        self.outputs.iter().map(|output| (output.kind(), output.column.as_deref()))
    }

    /// Whether each output counts or adds equal values once.
    pub fn distinct(&self) -> impl Iterator<Item = bool> {
        self.outputs.iter().map(|output| output.aggregate.distinct)
    }

    /// What comes out of these rows, which satisfy the condition: for each row the values of the
    /// outputs' columns, NULL for an output without one.
    ///
    /// # Errors
    /// When the values have no such sum, or no order.
    pub fn of_rows<'v>(&self, rows: impl Iterator<Item = &'v [Value]>) -> Result<Vec<Value>, SqlError> {
        let rows: Vec<&[Value]> = rows.collect();
        for (at, output) in self.outputs.iter().enumerate() {
            let texts = rows.iter().filter_map(|row| row.get(at)).filter(|v| matches!(v, Value::Text(_)));
            if output.is_open(texts.collect(), self.dialect) {
                return refused("the order of text, or which texts are equal,");
            }
        }
        let mut all = vec![Accumulator::default(); self.outputs.len()];
        for row in rows {
            for ((output, accumulator), value) in self.outputs.iter().zip(&mut all).zip(row) {
                let value = if output.column.is_some() { value } else { &Value::Int(1) };
                accumulator.add(&output.aggregate, value, self.dialect)?;
            }
        }
        let finish = |(output, all): (&Output, &Accumulator)| all.finish(&output.aggregate, self.dialect);
        self.outputs.iter().zip(&all).map(finish).collect()
    }
}

impl Output {
    /// Whether the output depends on a collation, which nobody tells: which text comes first, and
    /// which of them MySQL takes for equal.
    fn is_open(&self, texts: HashSet<&Value>, dialect: Dialect) -> bool {
        let equal = || texts.iter().map(|text| text.group_key(dialect)).collect::<HashSet<_>>().len();
        match self.aggregate.kind {
            AggregateKind::Min | AggregateKind::Max => texts.len() > 1,
            _ => self.aggregate.distinct && equal() < texts.len(),
        }
    }

    fn kind(&self) -> SummaryKind {
        match self.aggregate.kind {
            AggregateKind::Count if self.column.is_none() => SummaryKind::Rows,
            AggregateKind::Count => SummaryKind::Count,
            AggregateKind::Min => SummaryKind::Min,
            AggregateKind::Max => SummaryKind::Max,
            AggregateKind::Sum | AggregateKind::Avg => SummaryKind::Sum,
        }
    }
}

fn refused<T>(what: &str) -> Result<T, SqlError> {
    Err(SqlError::unsupported(format!("{what} in a summary of one table")))
}

fn of_query(query: &ast::Query, dialect: Dialect) -> Result<Summary, SqlError> {
    let SetExpr::Select(select) = query.body.as_ref() else { return refused("a set operation") };
    let [from] = select.from.as_slice() else { return refused("no table, or several,") };
    let ast::TableFactor::Table { name, alias, .. } = &from.relation else {
        return refused("a derived table");
    };
    if !from.joins.is_empty() {
        return refused("a join");
    }
    let known_as = alias.as_ref().map_or(String::new(), |alias| alias.to_string());
    let plain = [name.to_string(), format!("{name} {known_as}"), format!("{name} AS {known_as}")];
    if !plain.contains(&from.to_string()) {
        return refused("a part or a past of a table");
    }
    let list: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    let mut rebuilt = format!("SELECT {} FROM {from}", list.join(", "));
    let condition = select.selection.as_ref().map(ToString::to_string);
    if let Some(condition) = &condition {
        rebuilt += &format!(" WHERE {condition}");
    }
    if rebuilt != query.to_string() {
        return refused("another clause");
    }
    let last = name.0.last().and_then(|part| part.as_ident());
    let Some(table) = last else { return refused("a table without a name") };
    let outputs = select.projection.iter().map(output).collect::<Result<_, _>>()?;
    Ok(Summary { table: table.value.clone(), condition, outputs, dialect })
}

fn output(item: &SelectItem) -> Result<Output, SqlError> {
    let (SelectItem::UnnamedExpr(Expr::Function(call))
    | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. }) = item
    else {
        return refused(&format!("the output {item}"));
    };
    let (kind, column, distinct) = match aggregate_call(call) {
        Some((AggregateKind::Avg, ..)) | None => return refused(&format!("the output {item}")),
        Some((kind, None, distinct)) => (kind, None, distinct),
        Some((kind, Some(Expr::Identifier(name)), distinct)) => (kind, Some(name.value.clone()), distinct),
        Some((AggregateKind::Count, Some(Expr::Value(value)), false))
            if matches!(value.value, ast::Value::Number(..)) =>
        {
            (AggregateKind::Count, None, false)
        }
        Some(_) => return refused(&format!("the output {item}")),
    };
    let aggregate = Aggregate { kind, arg: None, distinct, class: Class::Unknown, nested: false };
    Ok(Output { aggregate, column })
}

/// Literals instead of parameters.
fn filled(tokens: Vec<TokenWithSpan>, params: &[Value]) -> Result<Vec<TokenWithSpan>, SqlError> {
    let mut out = Vec::with_capacity(tokens.len());
    for token in tokens {
        match place(&token.token) {
            None => out.push(token),
            Some(number) => {
                let missing = SqlError::MissingParameter(number);
                let value = number.checked_sub(1).and_then(|at| params.get(at)).ok_or(missing)?;
                let span = token.span;
                out.extend(literal(value)?.into_iter().map(|token| TokenWithSpan { token, span }));
            }
        }
    }
    out.push(TokenWithSpan { token: Token::EOF, span: Span::empty() });
    Ok(out)
}

/// The number of a parameter. In MySQL's grammar `$1` is a word.
fn place(token: &Token) -> Option<usize> {
    let name = match token {
        Token::Placeholder(name) => name,
        Token::Word(word) if word.quote_style.is_none() => &word.value,
        _ => return None,
    };
    name.strip_prefix(['$', '?'])?.parse().ok()
}

fn literal(value: &Value) -> Result<Vec<Token>, SqlError> {
    match value {
        Value::Null => Ok(vec![Token::make_keyword(&format!("{:?}", Keyword::NULL))]),
        Value::Int(int) if *int < 0 => {
            let digits = Token::Number(int.unsigned_abs().to_string(), false);
            Ok(vec![Token::LParen, Token::Minus, digits, Token::RParen])
        }
        Value::Int(int) => Ok(vec![Token::Number(int.to_string(), false)]),
        // MySQL reads a backslash as an escape.
        Value::Text(text) if !text.contains('\\') => Ok(vec![Token::SingleQuotedString(text.to_string())]),
        other => Err(SqlError::unsupported(format!("the parameter {other} of a summary"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Summary, SqlError> {
        Summary::parse(text, &[Value::Int(-3), Value::text("it's")], Dialect::Postgres)
    }

    #[test]
    fn a_summary_has_a_table_a_condition_and_outputs() {
        let text =
            "select count(*), Sum(v) AS total, min(w), max(w), count(w) from s.t WHERE v > $1 AND n = $2;";
        let summary = parsed(text).expect("a summary");
        assert_eq!((summary.table(), summary.condition()), ("t", Some("v > (-3) AND n = 'it''s'")));
        let kinds: Vec<_> = summary.outputs().collect();
        use SummaryKind as K;
        let w = Some("w");
        assert_eq!(kinds, [(K::Rows, None), (K::Sum, Some("v")), (K::Min, w), (K::Max, w), (K::Count, w)]);
    }

    #[test]
    fn rows_are_summed_up() {
        let summary = parsed("SELECT COUNT(*), SUM(v), MIN(v), MAX(v), COUNT(v) FROM t").expect("a summary");
        let row = |v: Value| vec![Value::Null, v.clone(), v.clone(), v.clone(), v];
        let rows = [row(Value::Int(4)), row(Value::Null), row(Value::Int(-1))];
        let told = summary.of_rows(rows.iter().map(Vec::as_slice)).expect("sums");
        let shown: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["3", "3", "-1", "4", "2"]);
        let none = summary.of_rows(std::iter::empty()).expect("sums");
        assert_eq!(none[0].to_string(), "0");
        assert!(none[1..4].iter().all(Value::is_null) && none[4].to_string() == "0");
    }

    #[test]
    fn collations_are_not_guessed() {
        let text = "SELECT MIN(w), COUNT(DISTINCT w) FROM t";
        let asked = |dialect, texts: &[&str]| {
            let summary = Summary::parse(text, &[], dialect).expect("a summary");
            let rows: Vec<Vec<Value>> = texts.iter().map(|&w| vec![Value::text(w); 2]).collect();
            summary.of_rows(rows.iter().map(Vec::as_slice)).is_ok()
        };
        assert!(asked(Dialect::Postgres, &["a", "a"]) && !asked(Dialect::Postgres, &["a", "B"]));
        let distinct = |dialect, texts: &[&str]| {
            let summary = Summary::parse("SELECT COUNT(DISTINCT w) FROM t", &[], dialect).expect("a summary");
            let rows: Vec<Vec<Value>> = texts.iter().map(|&w| vec![Value::text(w)]).collect();
            summary.of_rows(rows.iter().map(Vec::as_slice)).is_ok()
        };
        assert!(distinct(Dialect::Postgres, &["a", "A"]) && !distinct(Dialect::MySql, &["a", "A"]));
    }

    #[test]
    fn other_statements_are_refused() {
        for text in [
            "SELECT v FROM t",
            "SELECT COUNT(*) FROM t GROUP BY v",
            "SELECT COUNT(*) FROM t, u",
            "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k",
            "SELECT COUNT(*) FROM (SELECT 1) AS t",
            "SELECT COUNT(*) FROM t HAVING COUNT(*) > 1",
            "SELECT COUNT(*) FROM t LIMIT 1",
            "SELECT SUM(v + 1) FROM t",
            "SELECT AVG(v) FROM t",
            "SELECT COUNT(*) FROM t WHERE v = $3",
            "UPDATE t SET v = 1",
            "SELECT COUNT(*) FILTER (WHERE v > 1) FROM t",
            "SELECT COUNT(*) FROM t TABLESAMPLE BERNOULLI (10)",
            "SELECT COUNT(*) FROM t(1)",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
