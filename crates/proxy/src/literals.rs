//! The literals of a statement as its parameters.
//!
//! # Problem
//! Many clients write values into the texts of their statements. Each text is new then, and would
//! be read, parsed and kept on its own.
//!
//! # Algorithm
//! One pass over the pieces of a text replaces literals by parameters. The *shape* that is left is
//! read and parsed once, and recorded with the literals as values.
//!
//! A literal is replaced only where a value must stand, and where neighbours cannot change what it
//! means: behind a comparison, `+`, `-`, BETWEEN or AND, or in a list behind VALUES or IN; and
//! before the end of that expression. Elsewhere a number may be a position (`ORDER BY 1`) or a
//! length (`char(10)`), and a string part of a type (`interval '1 day'`).
//!
//! # Invariants
//! - The shape with its parameters filled in is the text.
//! - A text that has parameters of its own, or hides something, has no shape.

use std::collections::HashMap;
use std::sync::Arc;

use margay_wire::mysql::kind as mysql;
use margay_wire::{Bound, Executed, Prepared};

use crate::pieces::{Grammar, Kind, pieces};
use crate::text::may_set_level;
use crate::values::kind;

/// A statement with more literals stays as it is.
const MAX_LITERALS: usize = 1000;

/// Statements that have shapes.
const VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE"];

/// What may follow a literal that is a whole operand.
const FOLLOWERS: [&str; 13] = [
    "AND",
    "OR",
    "WHERE",
    "ORDER",
    "GROUP",
    "LIMIT",
    "RETURNING",
    "FOR",
    "ON",
    "LOCK",
    "HAVING",
    "OFFSET",
    "UNION",
];

/// Words behind which a sign is the sign of a number.
const BEFORE_SIGN: [&str; 16] = [
    "SELECT",
    "BY",
    "LIMIT",
    "OFFSET",
    "WHERE",
    "SET",
    "WHEN",
    "THEN",
    "ELSE",
    "RETURNING",
    "DISTINCT",
    "ALL",
    "NOT",
    "OR",
    "HAVING",
    "ON",
];

/// A statement whose literals are parameters.
#[derive(Debug)]
struct Shape {
    text: String,
    literals: Vec<Literal>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Literal {
    Int(String),
    Text(String),
}

/// A piece of a text as far as it tells what may stand behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'t> {
    Word(&'t str),
    /// Signs without a blank between them.
    Operator(&'t str),
    /// Opens a list of values.
    Opens,
    /// Separates values of a list.
    Separates,
    /// Anything else that ends an operand, or begins something.
    Other,
}

impl Token<'_> {
    fn is_word(self, words: &[&str]) -> bool {
        matches!(self, Token::Word(word) if words.iter().any(|other| word.eq_ignore_ascii_case(other)))
    }

    /// Whether a value stands behind it, whatever stands before it.
    fn wants_value(self) -> bool {
        match self {
            Token::Operator(sign) => matches!(sign, "=" | "<" | ">" | "<=" | ">=" | "<>" | "!="),
            Token::Opens | Token::Separates => true,
            word => word.is_word(&["BETWEEN", "AND"]),
        }
    }
}

/// The shape of a statement; none if it has no literals that can be parameters.
fn shape(text: &str, grammar: Grammar) -> Option<Shape> {
    let mut reader = Reader::new(text, grammar);
    let mut first = true;
    for piece in pieces(text, grammar) {
        let from = reader.at;
        reader.at += piece.text.len();
        if piece.kind == Kind::Blank {
            reader.joined = false;
            continue;
        }
        if first && !Token::Word(piece.text).is_word(&VERBS) {
            return None;
        }
        first = false;
        reader.piece(piece.kind, piece.text, from)?;
        reader.joined = true;
    }
    reader.settle(true);
    reader.finish()
}

struct Reader<'t> {
    text: &'t str,
    grammar: Grammar,
    at: usize,
    out: String,
    literals: Vec<Literal>,
    /// Up to where the text is copied.
    copied: usize,
    /// The last two tokens, and where the last one begins.
    last: [Token<'t>; 2],
    begins: usize,
    /// Whether no blank came since the last piece.
    joined: bool,
    /// A literal that is a parameter if what follows allows it: where it stands.
    open: Option<(Literal, usize, usize)>,
    /// For each open parenthesis whether it is a list of values.
    lists: Vec<bool>,
    /// How deep the VALUES stands whose rows are read.
    values: Option<usize>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, grammar: Grammar) -> Self {
        Self {
            text,
            grammar,
            at: 0,
            out: String::new(),
            literals: Vec::new(),
            copied: 0,
            last: [Token::Other; 2],
            begins: 0,
            joined: false,
            open: None,
            lists: Vec::new(),
            values: None,
        }
    }

    /// Takes the next piece; none if the text has no shape.
    fn piece(&mut self, kind: Kind, piece: &'t str, from: usize) -> Option<()> {
        match kind {
            Kind::Hidden => return None,
            Kind::Sign if piece == "?" || piece.starts_with('$') => return None,
            Kind::Word if is_number(piece) => {
                self.settle(false);
                self.open = self.number(piece, from);
                self.push(Token::Other, from);
            }
            Kind::Text => {
                self.settle(false);
                self.open = self.string(piece, from);
                self.push(Token::Other, from);
            }
            Kind::Word => {
                // `$1AND` would be one word.
                self.settle(!self.joined && Token::Word(piece).is_word(&FOLLOWERS));
                self.word(piece, from);
            }
            Kind::Name => {
                self.settle(false);
                self.push(Token::Other, from);
            }
            Kind::Sign | Kind::End | Kind::Blank => {
                self.settle(kind == Kind::End || matches!(piece, "," | ")"));
                self.sign(piece, from);
            }
        }
        Some(())
    }

    fn push(&mut self, token: Token<'t>, from: usize) {
        self.last = [self.last[1], token];
        self.begins = from;
    }

    fn word(&mut self, word: &'t str, from: usize) {
        if self.values == Some(self.lists.len()) {
            self.values = None;
        }
        if Token::Word(word).is_word(&["VALUES", "VALUE"]) && !matches!(self.last[1], Token::Operator(_)) {
            self.values = Some(self.lists.len());
        }
        self.push(Token::Word(word), from);
    }

    fn sign(&mut self, sign: &'t str, from: usize) {
        match sign {
            "(" => {
                let rows = self.values == Some(self.lists.len());
                let list = rows || self.last[1].is_word(&["IN"]);
                self.lists.push(list);
                self.push(if list { Token::Opens } else { Token::Other }, from);
            }
            ")" => {
                self.lists.pop();
                self.push(Token::Other, from);
            }
            "," => {
                let list = self.lists.last() == Some(&true);
                self.push(if list { Token::Separates } else { Token::Other }, from);
            }
            _ => match self.last[1] {
                Token::Operator(_) if self.joined => {
                    self.last[1] = Token::Operator(&self.text[self.begins..self.at]);
                }
                _ => self.push(Token::Operator(sign), from),
            },
        }
    }

    /// A number that may be a parameter.
    fn number(&self, digits: &str, from: usize) -> Option<(Literal, usize, usize)> {
        let value = |sign: &str| Literal::Int(format!("{sign}{digits}"));
        let [before, last] = self.last;
        let Token::Operator(operator) = last else {
            return last.wants_value().then(|| (value(""), from, self.at));
        };
        if last.wants_value() || operator == "+" {
            return Some((value(""), from, self.at));
        }
        // Of `=-5`, the sign belongs to the number.
        let rest = operator.strip_suffix('-')?;
        let signed = || Some((value("-"), self.begins + rest.len(), self.at));
        match rest {
            "" if before.wants_value() || before == Token::Operator("+") => signed(),
            "" if matches!(before, Token::Operator(_)) || before.is_word(&BEFORE_SIGN) => None,
            "" => Some((value(""), from, self.at)),
            rest if Token::Operator(rest).wants_value() || rest == "+" => signed(),
            _ => None,
        }
    }

    /// A string that may be a parameter.
    fn string(&self, quoted: &str, from: usize) -> Option<(Literal, usize, usize)> {
        let content = quoted.strip_prefix('\'')?.strip_suffix('\'')?;
        // A backslash means something else in each database, and settings are read from texts.
        let plain = !content.contains('\\') && !may_set_level(content);
        let whole = content.replace("''", "").find('\'').is_none() && quoted.len() > 1;
        let apart = !self.joined || !matches!(self.last[1], Token::Word(_));
        let fits = plain && whole && apart && self.last[1].wants_value();
        fits.then(|| (Literal::Text(content.replace("''", "'")), from, self.at))
    }

    /// Decides about the literal before.
    fn settle(&mut self, is_operand: bool) {
        let Some((literal, from, to)) = self.open.take() else { return };
        if !is_operand {
            return;
        }
        self.literals.push(literal);
        self.out += &self.text[self.copied..from];
        match self.grammar {
            Grammar::Postgres => self.out += &format!("${}", self.literals.len()),
            Grammar::Mysql => self.out.push('?'),
        }
        self.copied = to;
    }

    fn finish(mut self) -> Option<Shape> {
        self.out += &self.text[self.copied..];
        let few = (1..=MAX_LITERALS).contains(&self.literals.len());
        few.then_some(Shape { text: self.out, literals: self.literals })
    }
}

/// Whether a word is a whole number in its usual form.
fn is_number(word: &str) -> bool {
    let digits = word.len() < 19 && word.bytes().all(|byte| byte.is_ascii_digit());
    digits && (word == "0" || !word.starts_with('0'))
}

/// So many texts of a connection are remembered, and none that is longer.
const MAX_KNOWN: usize = 256;
const MAX_KNOWN_LENGTH: usize = 2048;

/// What was read of a connection's texts, once for all statements of a shape.
#[derive(Debug)]
pub(crate) struct Readings<R> {
    grammar: Grammar,
    known: HashMap<Arc<str>, Arc<R>>,
}

impl<R> Readings<R> {
    pub fn new(grammar: Grammar) -> Self {
        Self { grammar, known: HashMap::new() }
    }

    /// What is known of a text.
    pub fn get(&self, text: &str) -> Option<Arc<R>> {
        self.known.get(text).map(Arc::clone)
    }

    /// What is known of a statement's text. If it was sent without parameters, its literals become
    /// parameters.
    pub fn read(&mut self, text: &str, executed: &mut Executed, new: impl FnOnce(&str) -> R) -> Arc<R> {
        if let Some(known) = self.get(text) {
            return known;
        }
        let found = Some(text).filter(|_| has_no_parameters(executed));
        let Some(Shape { text, literals }) = found.and_then(|text| shape(text, self.grammar)) else {
            return self.remember(Arc::from(text), new).1;
        };
        let (text, reading) = match self.known.get_key_value(text.as_str()) {
            Some((text, reading)) => (Arc::clone(text), Arc::clone(reading)),
            None => self.remember(Arc::from(text), new),
        };
        bind(executed, literals, text, self.grammar);
        reading
    }

    fn remember(&mut self, text: Arc<str>, new: impl FnOnce(&str) -> R) -> (Arc<str>, Arc<R>) {
        if self.known.len() == MAX_KNOWN {
            self.known.clear();
        }
        let reading = Arc::new(new(&text));
        if text.len() <= MAX_KNOWN_LENGTH {
            self.known.insert(Arc::clone(&text), Arc::clone(&reading));
        }
        (text, reading)
    }
}

/// Whether a statement was sent without parameters.
fn has_no_parameters(executed: &Executed) -> bool {
    let none = |bound: &Arc<Bound>| bound.values.as_ref().is_some_and(Vec::is_empty);
    executed.bound.as_ref().is_none_or(none)
}

/// A statement as if it had been sent with its literals as parameters.
fn bind(executed: &mut Executed, literals: Vec<Literal>, text: Arc<str>, grammar: Grammar) {
    let kinds = match grammar {
        Grammar::Postgres => [kind::INT8, kind::UNKNOWN],
        Grammar::Mysql => {
            [mysql::LONGLONG, mysql::VAR_STRING].map(|of| mysql::KNOWN | mysql::UNICODE | u32::from(of))
        }
    };
    let kind = |literal: &Literal| kinds[usize::from(matches!(literal, Literal::Text(_)))];
    let types = literals.iter().map(kind).collect();
    let bytes = |literal: Literal| match literal {
        Literal::Int(text) | Literal::Text(text) => Some(text.into_bytes()),
    };
    let values = Some(literals.into_iter().map(bytes).collect());
    let results = executed.bound.as_ref().map(|bound| bound.results.clone()).unwrap_or_default();
    executed.bound = Some(Arc::new(Bound { values, formats: Vec::new(), results }));
    executed.prepared = Arc::new(Prepared { text: Some(text), types });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::tests::random_texts;

    fn parts(text: &str, grammar: Grammar) -> Option<(String, Vec<String>)> {
        let shape = shape(text, grammar)?;
        let shown = |literal| match literal {
            Literal::Int(text) => text,
            Literal::Text(text) => format!("'{text}'"),
        };
        Some((shape.text, shape.literals.into_iter().map(shown).collect()))
    }

    /// The text with its literals again.
    fn filled(text: &str, grammar: Grammar) -> Option<String> {
        let (shape, literals) = parts(text, grammar)?;
        let mut literals = literals.into_iter();
        let shown = pieces(&shape, grammar).map(|piece| match piece.text {
            text if text == "?" || text.starts_with('$') => {
                let literal = literals.next().expect("a literal");
                let inner = literal.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                inner.map_or(literal.clone(), |inner| format!("'{}'", inner.replace('\'', "''")))
            }
            text => text.to_owned(),
        });
        Some(shown.collect())
    }

    #[test]
    fn literals_become_parameters_where_values_stand() {
        let postgres = [
            (
                "UPDATE t SET v = v + -5 WHERE id = 7",
                "UPDATE t SET v = v + $1 WHERE id = $2",
                &["-5", "7"][..],
            ),
            (
                "UPDATE t SET v=v-5,w=-1 WHERE id=7;",
                "UPDATE t SET v=v-$1,w=$2 WHERE id=$3;",
                &["5", "-1", "7"],
            ),
            (
                "INSERT INTO t (a, b) VALUES (1, 'it''s'), (-2, now())",
                "INSERT INTO t (a, b) VALUES ($1, $2), ($3, now())",
                &["1", "'it's'", "-2"],
            ),
            (
                "SELECT v FROM t WHERE id IN (1, 2) AND v BETWEEN 3 AND 4 ORDER BY 1 LIMIT 5",
                "SELECT v FROM t WHERE id IN ($1, $2) AND v BETWEEN $3 AND $4 ORDER BY 1 LIMIT 5",
                &["1", "2", "3", "4"],
            ),
            ("DELETE FROM t WHERE a = 'x' RETURNING 1", "DELETE FROM t WHERE a = $1 RETURNING 1", &["'x'"]),
        ];
        for (text, shape, literals) in postgres {
            let literals = literals.iter().map(|&literal| literal.to_owned()).collect();
            assert_eq!(parts(text, Grammar::Postgres), Some((shape.to_owned(), literals)), "{text}");
        }
        let mysql = parts("REPLACE INTO t VALUES (1, 'a', \"b\")", Grammar::Mysql);
        let expected =
            ("REPLACE INTO t VALUES (?, ?, \"b\")".to_owned(), vec!["1".to_owned(), "'a'".to_owned()]);
        assert_eq!(mysql, Some(expected));
    }

    #[test]
    fn what_may_be_no_value_stays() {
        for text in [
            "SELECT 1",
            "SELECT a FROM t ORDER BY 1, 2",
            "SELECT a FROM t LIMIT 10",
            "SELECT a FROM t WHERE d > interval '1 day'",
            "SELECT a FROM t WHERE d = '1'::int",
            "SELECT a FROM t WHERE d = E'1'",
            r"SELECT a FROM t WHERE d = 'a\b'",
            "SELECT a FROM t WHERE d = 'a' 'b'",
            "SELECT a FROM t WHERE d->'a' ->> 'b' IS NULL",
            "SELECT a FROM t WHERE d = 1.5",
            "SELECT a FROM t WHERE d = 007",
            "SELECT a FROM t WHERE f(5) IS NULL",
            "SELECT a FROM t WHERE a = 'x' COLLATE \"C\"",
            "SELECT a FROM t WHERE a = 'x'AND b IS NULL",
            "SELECT a FROM t WHERE a IS NULL AND'x' < 'y'::text",
            "SELECT a FROM t WHERE a = $1 AND b = 5",
            "SELECT a FROM t WHERE a = ? AND b = 5",
            "SELECT CAST(a AS char(10)) FROM t",
            "UPDATE pg_settings SET setting = 5 * 5 WHERE name = 'default_transaction_isolation'",
            "SET v = 5",
            "VALUES (1)",
        ] {
            assert_eq!(parts(text, Grammar::Postgres), None, "{text}");
        }
        assert_eq!(parts("SELECT a FROM t WHERE b = 5 /*! AND c = 6 */", Grammar::Mysql), None);
    }

    #[test]
    fn a_shape_with_its_literals_is_the_text() {
        let parts = [
            "SELECT ",
            "UPDATE t SET ",
            "a",
            " = ",
            "-",
            " - ",
            "5",
            "0",
            "'x'",
            "'it''s'",
            "''",
            ",",
            "(",
            ")",
            " IN (",
            " VALUES (",
            " AND ",
            " BETWEEN ",
            "+",
            ">",
            "::int",
            " WHERE ",
            "'",
            "\"",
            "é",
            "--",
            " ",
        ];
        let mut found = 0;
        random_texts(&parts, |rest| {
            for verb in ["SELECT a FROM t WHERE b = 5 AND ", "INSERT INTO t VALUES ("] {
                let text = format!("{verb}{rest}");
                for grammar in [Grammar::Postgres, Grammar::Mysql] {
                    if let Some(filled) = filled(&text, grammar) {
                        // `- 5` is `-5`.
                        assert_eq!(filled.replace(' ', ""), text.replace(' ', ""));
                        found += 1;
                    }
                }
            }
        });
        assert!(found > 1_000, "{found}");
    }
}
