//! Stored procedures: what CREATE PROCEDURE keeps, what CALL compiles it to.
//!
//! # Algorithm
//! CREATE PROCEDURE keeps the tokens of its text, after a first compilation has found nothing wrong
//! with their form. CALL compiles them against the tables that are there: variables become
//! parameters of the statements in the body, by their slots in one frame of values.
//!
//! # Invariants
//! - A name in an expression that is a variable is one parameter; where it is a column too, MySQL
//!   takes the variable and PostgreSQL refuses (see [`crate::reading::scope`]).
//! - What is wrong with the names or types of one statement fails when that statement is reached,
//!   as in the databases; what is outside the fragment fails at once.

use std::sync::Arc;

use sqlparser::ast::Ident;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::body::Compiler;
use crate::reading::cast::Type;
use crate::reading::database::Catalog;
use crate::reading::expr::{Class, Expr};
use crate::reading::parse;
use crate::reading::plan::is_flexible;
use crate::reading::scope::Scope;
use crate::reading::statement::Statement;
use crate::reading::words::Words;

/// How deep procedures may call procedures.
const MAX_CALLS: u8 = 8;

/// A variable that the expressions of a procedure see.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    /// The record that it is a field of.
    pub record: Option<String>,
    pub name: String,
    pub slot: usize,
    pub class: Class,
}

/// Which way a parameter goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
    InOut,
}

/// A parameter; its slot is its place plus one.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub direction: Direction,
    pub name: Ident,
    pub of: Type,
}

/// A statement of a body, or why it fails when it is reached.
pub(crate) type Prepared = Result<Statement, SqlError>;

/// An expression of a body, or why it fails when it is reached.
pub(crate) type Formula = Result<Expr, SqlError>;

/// A compiled procedure. Slot 0 of its frame is PL/pgSQL's FOUND.
#[derive(Clone, Debug)]
pub(crate) struct Procedure {
    pub parameters: Vec<Parameter>,
    /// The declared type of each slot; a record's field takes what comes.
    pub slots: Vec<Option<Type>>,
    /// The query of each cursor, unless OPEN gives it, and the cursor's name.
    pub cursors: Vec<(String, Option<Prepared>)>,
    pub body: Block,
}

/// BEGIN … END.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// What LEAVE names.
    pub id: u32,
    /// The variables that begin here, with their first values.
    pub initial: Vec<(usize, Formula)>,
    /// The cursors that are closed when it begins.
    pub cursors: Vec<usize>,
    pub handler: Option<Handler>,
    pub body: Vec<ProcedureStep>,
}

/// MySQL's handler for NOT FOUND.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    /// EXIT: the block ends after it.
    pub exit: bool,
    pub body: Vec<ProcedureStep>,
}

/// When a loop ends.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Never,
    While(Formula),
    Until(Formula),
}

/// `FOR i IN low..high`.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub slot: usize,
    pub low: Formula,
    pub high: Formula,
    pub by: Option<Formula>,
    pub reverse: bool,
}

/// A statement of the procedural language.
#[derive(Clone, Debug)]
pub(crate) enum ProcedureStep {
    Block(Block),
    /// A statement whose rows go to the caller.
    Run(Prepared),
    /// A statement whose rows go nowhere.
    Perform(Prepared),
    /// A statement whose one row goes to variables; the flag is STRICT.
    Into(Prepared, Vec<usize>, bool),
    Assign(usize, Formula),
    If(Vec<(Formula, Vec<ProcedureStep>)>, Vec<ProcedureStep>),
    Loop(u32, Test, Vec<ProcedureStep>),
    Range(u32, Range, Vec<ProcedureStep>),
    Rows(u32, Prepared, Vec<usize>, Vec<ProcedureStep>),
    Leave(u32, Option<Formula>),
    Iterate(u32, Option<Formula>),
    Open(usize, Option<Prepared>),
    Fetch(usize, Vec<usize>),
    Close(usize),
    /// A raised error: its text, with `%` for each of the values.
    Raise(String, Vec<Formula>),
    Return,
}

/// A CALL.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub procedure: Procedure,
    /// For each parameter that is given a value, that value, and whether it is a literal or a
    /// parameter.
    pub args: Vec<Option<(Expr, bool)>>,
}

/// A CREATE, DROP or CALL of procedures.
#[derive(Clone, Debug)]
pub(crate) enum Procedural {
    /// The name, the tokens after it, and whether OR REPLACE stands there.
    Create(String, Arc<[TokenWithSpan]>, bool),
    /// The name, and whether IF EXISTS stands there.
    Drop(String, bool),
    Call(Arc<Call>),
}

/// Reads a statement about procedures; `None` if the text is something else.
pub(crate) fn procedural(
    tokens: &[TokenWithSpan],
    catalog: &Catalog,
    generation: u64,
) -> Result<Option<Procedural>, SqlError> {
    let mut words = Words::new(tokens.to_vec());
    let replace = words.take(&["CREATE", "OR", "REPLACE", "PROCEDURE"]);
    if replace || words.take(&["CREATE", "PROCEDURE"]) {
        return create(&mut words, replace, catalog, generation).map(Some);
    }
    if words.take(&["DROP", "PROCEDURE"]) {
        let if_exists = words.take(&["IF", "EXISTS"]);
        let name = known_as(&words.single()?, catalog.dialect);
        end(&mut words)?;
        return Ok(Some(Procedural::Drop(name, if_exists)));
    }
    if words.take(&["CALL"]) {
        let (call, _) = call(&mut words, catalog, generation)?;
        return Ok(Some(Procedural::Call(Arc::new(call))));
    }
    Ok(None)
}

/// The names of the parameters that a call gives back.
pub(crate) fn outs(procedure: &Procedure) -> Arc<[String]> {
    let outs = procedure.parameters.iter().filter(|parameter| parameter.direction != Direction::In);
    outs.map(|parameter| parameter.name.value.clone()).collect()
}

/// The name under which a procedure is known.
fn known_as(ident: &Ident, dialect: Dialect) -> String {
    let exact = ident.quote_style.is_some() && dialect.is_strict();
    if exact { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

fn end(words: &mut Words) -> Result<(), SqlError> {
    let _ = words.take(&[";"]);
    if words.done() { Ok(()) } else { Err(words.expected("the end of the statement")) }
}

fn create(
    words: &mut Words,
    replace: bool,
    catalog: &Catalog,
    generation: u64,
) -> Result<Procedural, SqlError> {
    if catalog.dialect == Dialect::Sqlite {
        return Err(words.outside("CREATE PROCEDURE in SQLite"));
    }
    let name = known_as(&words.single()?, catalog.dialect);
    let tokens = words.rest();
    if let Some(token) = tokens.iter().find(|token| matches!(token.token, Token::Placeholder(_))) {
        let construct = format!("the parameter {} in a procedure", token.token);
        return Err(SqlError::Unsupported { construct, at: parse::position(token.span.start) });
    }
    compile(&tokens, catalog, generation)?;
    Ok(Procedural::Create(name, Arc::from(tokens), replace))
}

/// Compiles what stands after a procedure's name.
pub(crate) fn compile(
    tokens: &[TokenWithSpan],
    catalog: &Catalog,
    generation: u64,
) -> Result<Procedure, SqlError> {
    // A body of one statement needs no semicolon.
    let mut tokens = tokens.to_vec();
    if tokens.last().is_some_and(|token| token.token != Token::SemiColon) {
        tokens.push(TokenWithSpan::wrap(Token::SemiColon));
    }
    let mut words = Words::new(tokens);
    let parameters = parameters(&mut words, catalog)?;
    if catalog.dialect.is_strict() {
        let body = quoted_body(&mut words)?;
        words = Words::new(parse::tokenize(&body, catalog.dialect)?);
    } else {
        characteristics(&mut words);
    }
    Compiler::new(catalog, generation, words, &parameters).procedure(parameters)
}

fn parameters(words: &mut Words, catalog: &Catalog) -> Result<Vec<Parameter>, SqlError> {
    let mut parameters: Vec<Parameter> = Vec::new();
    words.expect(&["("])?;
    if words.take(&[")"]) {
        return Ok(parameters);
    }
    loop {
        let parameter = parameter(words, catalog)?;
        let known = |other: &Parameter| other.name.value.eq_ignore_ascii_case(&parameter.name.value);
        if parameters.iter().any(known) {
            return Err(SqlError::AmbiguousColumn(parameter.name.value));
        }
        parameters.push(parameter);
        if !words.take(&[","]) {
            words.expect(&[")"])?;
            return Ok(parameters);
        }
    }
}

/// PostgreSQL allows the direction on either side of the name, and ignores what limits the type.
fn parameter(words: &mut Words, catalog: &Catalog) -> Result<Parameter, SqlError> {
    let before = direction(words);
    let name = words.ident()?;
    let after = if catalog.dialect.is_strict() && before.is_none() { direction(words) } else { None };
    let tokens = words.until(&[",", ")", "DEFAULT", "=", ":="])?;
    if !words.is(&[","]) && !words.is(&[")"]) {
        return Err(words.outside("a default of a procedure's parameter"));
    }
    let of = match type_of(tokens, catalog)? {
        Type::Decimal(_) if catalog.dialect.is_strict() => Type::Decimal(None),
        Type::Text(_) if catalog.dialect.is_strict() => Type::Text(None),
        other => other,
    };
    Ok(Parameter { direction: before.or(after).unwrap_or(Direction::In), name, of })
}

fn direction(words: &mut Words) -> Option<Direction> {
    for (word, direction) in [("IN", Direction::In), ("OUT", Direction::Out), ("INOUT", Direction::InOut)] {
        if words.take(&[word]) {
            return Some(direction);
        }
    }
    None
}

/// A type, or PL/pgSQL's `table.column%TYPE`.
pub(crate) fn type_of(tokens: Vec<TokenWithSpan>, catalog: &Catalog) -> Result<Type, SqlError> {
    if let [table, point, column, percent, word] = tokens.as_slice()
        && catalog.dialect.is_strict()
        && (&point.token, &percent.token) == (&Token::Period, &Token::Mod)
        && matches!(&word.token, Token::Word(word) if word.value.eq_ignore_ascii_case("type"))
        && let (Token::Word(table), Token::Word(column)) = (&table.token, &column.token)
    {
        let schema = catalog.schema(catalog.table(&table.clone().into_ident(point.span))?);
        let position = schema.position(&column.clone().into_ident(point.span), catalog.dialect)?;
        return Ok(schema.columns[position].data_type);
    }
    Type::lower(&parse::run(tokens, catalog.dialect, Parser::parse_data_type)?, catalog.dialect)
}

/// `LANGUAGE plpgsql AS '…'`, in either order.
fn quoted_body(words: &mut Words) -> Result<String, SqlError> {
    let (mut body, mut language) = (None, false);
    while !words.done() && !words.is(&[";"]) {
        if words.take(&["LANGUAGE"]) {
            let plpgsql = words.take(&["PLPGSQL"]) || words.take(&["'plpgsql'"]);
            if !plpgsql {
                return Err(words.outside("a procedure in another language than plpgsql"));
            }
            language = true;
        } else if words.take(&["AS"]) {
            body = match words.next() {
                Some(Token::DollarQuotedString(text)) => Some(text.value),
                Some(Token::SingleQuotedString(text)) => Some(text),
                _ => return Err(words.expected("the body as a string")),
            };
        } else {
            return Err(words.outside("this option of a procedure"));
        }
    }
    end(words)?;
    match body {
        Some(body) if language => Ok(body),
        Some(_) => Err(words.outside("a procedure without LANGUAGE plpgsql")),
        None => Err(words.expected("AS and the body")),
    }
}

/// What MySQL lets one say about a procedure, none of which changes what it does.
fn characteristics(words: &mut Words) {
    let known: [&[&str]; 9] = [
        &["LANGUAGE", "SQL"],
        &["NOT", "DETERMINISTIC"],
        &["DETERMINISTIC"],
        &["CONTAINS", "SQL"],
        &["NO", "SQL"],
        &["READS", "SQL", "DATA"],
        &["MODIFIES", "SQL", "DATA"],
        &["SQL", "SECURITY", "INVOKER"],
        &["SQL", "SECURITY", "DEFINER"],
    ];
    loop {
        let comment = words.is(&["COMMENT"]) && matches!(words.ahead(1), Some(Token::SingleQuotedString(_)));
        if comment {
            let _ = (words.next(), words.next());
        } else if !known.iter().any(|text| words.take(text)) {
            return;
        }
    }
}

/// A call, and the tokens that stand in the places of OUT and INOUT parameters.
pub(crate) fn call(
    words: &mut Words,
    catalog: &Catalog,
    generation: u64,
) -> Result<(Call, Vec<Vec<TokenWithSpan>>), SqlError> {
    let name = known_as(&words.single()?, catalog.dialect);
    let tokens = catalog.procedures.get(&name).ok_or(SqlError::UnknownProcedure(name))?;
    if catalog.depth >= MAX_CALLS {
        return Err(words.outside("procedures that call each other this deep"));
    }
    let within = Catalog { variables: &[], classes: &[], depth: catalog.depth + 1, ..*catalog };
    let procedure = compile(tokens, &within, generation)?;
    let given = arguments(words, catalog.dialect)?;
    end(words)?;
    if given.len() != procedure.parameters.len() {
        let message = format!("{} arguments for {} parameters", given.len(), procedure.parameters.len());
        return Err(SqlError::Procedure(message));
    }
    let (mut args, mut targets) = (Vec::new(), Vec::new());
    for (tokens, parameter) in given.into_iter().zip(&procedure.parameters) {
        if parameter.direction != Direction::In {
            targets.push(tokens.clone());
        }
        let value = match parameter.direction {
            Direction::Out => None,
            _ => Some(argument(tokens, parameter, catalog)?),
        };
        args.push(value);
    }
    Ok((Call { procedure, args }, targets))
}

/// The tokens of each argument; MySQL needs no parentheses where there are none.
fn arguments(words: &mut Words, dialect: Dialect) -> Result<Vec<Vec<TokenWithSpan>>, SqlError> {
    let mut given = Vec::new();
    if dialect.is_mysql() && !words.is(&["("]) {
        return Ok(given);
    }
    words.expect(&["("])?;
    if words.take(&[")"]) {
        return Ok(given);
    }
    loop {
        given.push(words.until(&[",", ")"])?);
        if !words.take(&[","]) {
            words.expect(&[")"])?;
            return Ok(given);
        }
    }
}

fn argument(
    tokens: Vec<TokenWithSpan>,
    parameter: &Parameter,
    catalog: &Catalog,
) -> Result<(Expr, bool), SqlError> {
    if let Some(Token::Word(word)) = tokens.first().map(|token| &token.token)
        && word.value.starts_with('@')
    {
        return Err(SqlError::unsupported(format!("the value of the user variable {}", word.value)));
    }
    let tree = parse::run(tokens, catalog.dialect, Parser::parse_expr)?;
    let typed = Scope::new(catalog, None).expr(&tree)?;
    if catalog.dialect.is_strict() && !implicit(typed.class, parameter.of) {
        let name = &parameter.name.value;
        return Err(SqlError::unsupported(format!("an argument of another type for the parameter {name}")));
    }
    let flexible = is_flexible(&typed.expr);
    Ok((typed.expr, flexible))
}

/// True if PostgreSQL finds a procedure with such a parameter for such an argument.
fn implicit(class: Class, of: Type) -> bool {
    match class {
        Class::Unknown | Class::Null | Class::Literal => true,
        Class::Int => matches!(of, Type::Int(32 | 64) | Type::Decimal(_) | Type::Float),
        Class::Decimal => matches!(of, Type::Decimal(_) | Type::Float),
        Class::Date => matches!(of, Type::Date | Type::Timestamp),
        Class::Mixed => false,
        class => class == Class::of_type(of, Dialect::Postgres),
    }
}
