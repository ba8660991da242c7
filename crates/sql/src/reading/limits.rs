//! How deep the tree of a text may be.
//!
//! The parser limits how deep it recurses, but chains of operators (`1 + 1 + …`) are loops to it,
//! and their trees lean to the left: as deep as the chain is long. Lowering, evaluating and
//! dropping such a tree recurses, and a stack that overflows ends the process. So tokens are
//! counted before a tree is made of them.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;

/// Operators that nest one level deeper each.
const MAX_OPERATORS: usize = 400;
/// Conjunctions are lists after lowering: only dropping the parser's tree recurses along them.
const MAX_CONNECTIVES: usize = 1_500;

/// An error if the tree of these tokens could be too deep for the stack.
///
/// # Errors
/// The text is outside the fragment because of its depth.
pub fn check_depth(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut chains = Chains::default();
    for token in tokens {
        chains.take(&token.token);
        let (operators, connectives) = chains.total();
        if operators > MAX_OPERATORS || connectives > MAX_CONNECTIVES {
            return Err(SqlError::unsupported("an expression with this many operators"));
        }
    }
    Ok(())
}

/// Operators in a row, within one pair of parentheses.
#[derive(Clone, Copy, Default)]
struct Chain {
    /// Since the last comma or connective, which bind less tightly.
    operators: usize,
    /// Since the last comma.
    connectives: usize,
    /// How many BETWEEN wait for their AND, which is no connective.
    betweens: usize,
    /// The most of both so far.
    most: (usize, usize),
}

impl Chain {
    fn note(&mut self) {
        self.most = (self.most.0.max(self.operators), self.most.1.max(self.connectives));
    }

    fn comma(&mut self) {
        self.note();
        (self.operators, self.connectives, self.betweens) = (0, 0, 0);
    }

    fn connect(&mut self) {
        self.note();
        self.operators = 0;
        self.connectives += 1;
    }
}

/// The chains around a token: one per open parenthesis, and what all but the last add up to.
#[derive(Default)]
struct Chains {
    outer: Vec<Chain>,
    sum: (usize, usize),
    inner: Chain,
}

impl Chains {
    fn take(&mut self, token: &Token) {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => self.open(),
            Token::RParen | Token::RBracket | Token::RBrace => self.close(),
            Token::Comma => self.inner.comma(),
            Token::SemiColon => *self = Self::default(),
            Token::Word(word) => match word.keyword {
                Keyword::AND if self.inner.betweens > 0 => self.inner.betweens -= 1,
                Keyword::AND | Keyword::OR => self.inner.connect(),
                Keyword::BETWEEN => {
                    self.inner.operators += 1;
                    self.inner.betweens += 1;
                }
                keyword if is_operator(keyword) => self.inner.operators += 1,
                _ => {}
            },
            token if is_operand(token) => {}
            _ => self.inner.operators += 1,
        }
    }

    /// What is in parentheses is a level deeper than what it is an operand of.
    fn open(&mut self) {
        self.inner.operators += 1;
        self.sum.0 += self.inner.operators;
        self.sum.1 += self.inner.connectives;
        self.outer.push(std::mem::take(&mut self.inner));
    }

    /// A chain may go on behind the parentheses, with what is in them at its far end.
    fn close(&mut self) {
        self.inner.note();
        let (operators, connectives) = self.inner.most;
        self.inner = self.outer.pop().unwrap_or_default();
        self.sum.0 -= self.inner.operators;
        self.sum.1 -= self.inner.connectives;
        self.inner.operators += operators;
        self.inner.connectives += connectives;
    }

    fn total(&self) -> (usize, usize) {
        (self.sum.0 + self.inner.operators, self.sum.1 + self.inner.connectives)
    }
}

/// Words that make a tree deeper.
fn is_operator(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::NOT
            | Keyword::IS
            | Keyword::NOTNULL
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::SIMILAR
            | Keyword::XOR
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::DIV
            | Keyword::OVERLAPS
            | Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::MINUS
    )
}

/// Tokens that are no operators. What is not listed is taken for one.
fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::EOF
            | Token::Whitespace(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
    )
}
