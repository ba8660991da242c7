//! From text to sqlparser's tree, with limits that keep deep trees off the stack.

use sqlparser::ast;
use sqlparser::dialect as grammars;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::dialect::Dialect;
use crate::error::{Position, SqlError};
use crate::reading::limits::check_depth;

/// Nesting up to which the caller's stack is enough.
const SHALLOW: usize = 8;
const DEEP_STACK: usize = 32 << 20;

/// The tokens of a text. Each `?` gets its number, so that the order of lowering does not matter.
pub(crate) fn tokenize(text: &str, dialect: Dialect) -> Result<Vec<TokenWithSpan>, SqlError> {
    let tokens = Tokenizer::new(grammar(dialect), text).tokenize_with_location();
    let mut tokens =
        tokens.map_err(|e| SqlError::Parse { message: e.message.clone(), at: position(e.location) })?;
    let mut count = 0;
    for token in &mut tokens {
        if let Token::Placeholder(name) = &mut token.token
            && name == "?"
        {
            count += 1;
            *name = format!("?{count}");
        }
    }
    check_depth(&tokens)?;
    Ok(tokens)
}

/// Runs a parser over tokens to their end. What nests deeply is parsed on a stack of its own,
/// because the parser's frames are large when it is compiled without optimisation.
pub(crate) fn run<T: Send + 'static>(
    tokens: Vec<TokenWithSpan>,
    dialect: Dialect,
    parse: impl FnOnce(&mut Parser<'static>) -> Result<T, ParserError> + Send + 'static,
) -> Result<T, SqlError> {
    let deep = nesting(&tokens) > SHALLOW;
    let work = move || {
        let mut parser = Parser::new(grammar(dialect)).with_tokens_with_locations(tokens);
        let tree = parse(&mut parser).map_err(parse_error)?;
        expect_end(&mut parser)?;
        Ok(tree)
    };
    if !deep {
        return work();
    }
    let thread = std::thread::Builder::new().stack_size(DEEP_STACK).spawn(work);
    let thread = thread.map_err(|_| SqlError::unsupported("a deep expression while no thread can start"))?;
    thread.join().unwrap_or_else(|_| Err(SqlError::unsupported("a text that the parser fails on")))
}

/// The grammar that belongs to a dialect.
fn grammar(dialect: Dialect) -> &'static dyn grammars::Dialect {
    match dialect {
        Dialect::Generic => &grammars::GenericDialect {},
        Dialect::Postgres | Dialect::Cockroach => &grammars::PostgreSqlDialect {},
        Dialect::MySql | Dialect::TiDb => &grammars::MySqlDialect {},
        Dialect::Sqlite => &grammars::SQLiteDialect {},
    }
}

/// An upper bound on how deep the tree of a text is, without its left-leaning chains of operators.
fn nesting(tokens: &[TokenWithSpan]) -> usize {
    let (mut open, mut deepest, mut prefixes) = (0usize, 0, 0);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => open += 1,
            Token::RParen | Token::RBracket => open = open.saturating_sub(1),
            Token::Word(word) if matches!(word.keyword, Keyword::NOT | Keyword::CASE | Keyword::BEGIN) => {
                prefixes += 1;
            }
            Token::Minus | Token::Plus | Token::ExclamationMark | Token::Tilde => prefixes += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest + prefixes
}

/// Parses a whole text as one expression.
pub(crate) fn parse_expr(text: &str, dialect: Dialect) -> Result<ast::Expr, SqlError> {
    run(tokenize(text, dialect)?, dialect, Parser::parse_expr)
}

/// Parses a whole text as the assignments of an UPDATE.
pub(crate) fn parse_assignments(text: &str, dialect: Dialect) -> Result<Vec<ast::Assignment>, SqlError> {
    let parse = |parser: &mut Parser<'static>| parser.parse_comma_separated(Parser::parse_assignment);
    run(tokenize(text, dialect)?, dialect, parse)
}

/// Nothing may follow what was parsed.
fn expect_end(parser: &mut Parser) -> Result<(), SqlError> {
    parser.expect_token(&Token::EOF).map(|_| ()).map_err(parse_error)
}

/// The parser's error, with the place that its message ends with.
fn parse_error(error: ParserError) -> SqlError {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => return SqlError::unsupported("an expression this deep"),
    };
    let place = message.rsplit_once(" at Line: ").and_then(|(_, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some(Position { line: line.parse().ok()?, column: column.parse().ok()? })
    });
    let text = message.split(" at Line: ").next().unwrap_or_default().to_string();
    SqlError::Parse { message: text, at: place }
}

/// A place, if the parser knows it.
pub(crate) fn position(location: Location) -> Option<Position> {
    (location.line > 0).then_some(Position { line: location.line, column: location.column })
}
