//! Transaction control, and the locking forms that the parser rejects: read from tokens before
//! parsing.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;

/// An isolation level as SQL names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// `READ UNCOMMITTED`
    ReadUncommitted,
    /// `READ COMMITTED`
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SNAPSHOT`
    Snapshot,
    /// `SERIALIZABLE`
    Serializable,
}

/// The characteristics of a transaction that a text gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// The isolation level.
    pub isolation: Option<Isolation>,
    /// `READ ONLY` or `READ WRITE`.
    pub read_only: Option<bool>,
    /// `DEFERRABLE` or `NOT DEFERRABLE`.
    pub deferrable: Option<bool>,
    /// `WITH CONSISTENT SNAPSHOT`: the snapshot is taken at once.
    pub consistent_snapshot: bool,
    /// SQLite's `DEFERRED`, `IMMEDIATE`, `EXCLUSIVE` or `CONCURRENT`.
    pub kind: Option<&'static str>,
}

/// A statement that controls transactions and touches no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// `BEGIN`, `START TRANSACTION`
    Begin(Mode),
    /// `COMMIT`, `END`; true with `AND CHAIN`
    Commit(bool),
    /// `ROLLBACK`, `ABORT`; true with `AND CHAIN`
    Rollback(bool),
    /// `SAVEPOINT name`
    Savepoint(String),
    /// `RELEASE name`
    Release(String),
    /// `ROLLBACK TO name`
    RollbackTo(String),
    /// `SET TRANSACTION …`, for this transaction or (true) for the session
    SetTransaction(bool, Mode),
    /// `SET autocommit`
    Autocommit(bool),
    /// `PREPARE TRANSACTION name`
    Prepare(String),
    /// `COMMIT PREPARED name`
    CommitPrepared(String),
    /// `ROLLBACK PREPARED name`
    RollbackPrepared(String),
    /// MySQL's `XA`, its verb in upper case, and the rest
    Xa(String, String),
}

/// The words of a text in upper case; what is not a word stands as it is written.
struct Words<'a> {
    words: Vec<String>,
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl Words<'_> {
    fn take(&mut self, wanted: &[&str]) -> bool {
        let end = self.at + wanted.len();
        let found = self.words.get(self.at..end).is_some_and(|words| words == wanted);
        if found {
            self.at = end;
        }
        found
    }

    fn name(&mut self) -> Option<String> {
        let name = match &self.tokens.get(self.at)?.token {
            Token::Word(word) => word.value.clone(),
            Token::SingleQuotedString(text) => text.clone(),
            _ => return None,
        };
        self.at += 1;
        Some(name)
    }

    fn done(&self) -> bool {
        self.at >= self.words.len()
    }
}

/// Reads transaction control; `None` if the text is something else.
pub(crate) fn control(tokens: &[TokenWithSpan]) -> Result<Option<Control>, SqlError> {
    let plain: Vec<TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).cloned().collect();
    let words = plain.iter().map(|token| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        other => other.to_string(),
    });
    let mut words = Words { words: words.collect(), tokens: &plain, at: 0 };
    if matches!(words.words.last().map(String::as_str), Some(";")) {
        words.words.pop();
    }
    let Some(control) = statement(&mut words) else { return Ok(None) };
    if words.done() {
        return Ok(Some(control));
    }
    let rest = words.words[words.at..].join(" ");
    Err(SqlError::unsupported(format!("{rest} in transaction control")))
}

fn statement(words: &mut Words) -> Option<Control> {
    if words.take(&["START", "TRANSACTION"]) {
        return Some(Control::Begin(mode(words)));
    }
    if words.take(&["PREPARE", "TRANSACTION"]) {
        return words.name().map(Control::Prepare);
    }
    if words.take(&["COMMIT", "PREPARED"]) {
        return words.name().map(Control::CommitPrepared);
    }
    if words.take(&["ROLLBACK", "PREPARED"]) {
        return words.name().map(Control::RollbackPrepared);
    }
    if words.take(&["BEGIN"]) {
        let _ = words.take(&["TRANSACTION"]) || words.take(&["WORK"]);
        return Some(Control::Begin(mode(words)));
    }
    if words.take(&["COMMIT"]) || words.take(&["END"]) {
        let _ = words.take(&["TRANSACTION"]) || words.take(&["WORK"]);
        return Some(Control::Commit(chain(words)));
    }
    if words.take(&["ROLLBACK"]) || words.take(&["ABORT"]) {
        return Some(rollback(words));
    }
    if words.take(&["SAVEPOINT"]) {
        return words.name().map(Control::Savepoint);
    }
    if words.take(&["RELEASE"]) {
        let _ = words.take(&["SAVEPOINT"]);
        return words.name().map(Control::Release);
    }
    if words.take(&["XA"]) {
        let verb = words.words.get(words.at)?.clone();
        let rest = words.words.get(words.at + 1..)?.join(" ");
        words.at = words.words.len();
        return Some(Control::Xa(verb, rest));
    }
    set(words)
}

fn rollback(words: &mut Words) -> Control {
    let _ = words.take(&["TRANSACTION"]) || words.take(&["WORK"]);
    if words.take(&["TO"]) {
        let _ = words.take(&["SAVEPOINT"]);
        if let Some(name) = words.name() {
            return Control::RollbackTo(name);
        }
    }
    Control::Rollback(chain(words))
}

fn chain(words: &mut Words) -> bool {
    let _ = words.take(&["AND", "NO", "CHAIN"]);
    words.take(&["AND", "CHAIN"])
}

fn set(words: &mut Words) -> Option<Control> {
    if words.take(&["SET", "TRANSACTION"]) {
        return Some(Control::SetTransaction(false, mode(words)));
    }
    if words.take(&["SET", "SESSION", "TRANSACTION"])
        || words.take(&["SET", "SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"])
    {
        return Some(Control::SetTransaction(true, mode(words)));
    }
    if words.take(&["SET", "AUTOCOMMIT", "="]) {
        let value = words.words.get(words.at)?.clone();
        words.at += 1;
        return match value.as_str() {
            "0" | "OFF" | "FALSE" => Some(Control::Autocommit(false)),
            "1" | "ON" | "TRUE" => Some(Control::Autocommit(true)),
            _ => None,
        };
    }
    None
}

fn mode(words: &mut Words) -> Mode {
    let mut mode = Mode::default();
    while !words.done() {
        let before = words.at;
        characteristic(words, &mut mode);
        let _ = words.take(&[","]);
        if words.at == before {
            break;
        }
    }
    mode
}

fn characteristic(words: &mut Words, mode: &mut Mode) {
    for (text, level) in [
        (&["READ", "UNCOMMITTED"][..], Isolation::ReadUncommitted),
        (&["READ", "COMMITTED"], Isolation::ReadCommitted),
        (&["REPEATABLE", "READ"], Isolation::RepeatableRead),
        (&["SNAPSHOT"], Isolation::Snapshot),
        (&["SERIALIZABLE"], Isolation::Serializable),
    ] {
        let full: Vec<&str> = ["ISOLATION", "LEVEL"].iter().chain(text).copied().collect();
        if words.take(&full) {
            mode.isolation = Some(level);
        }
    }
    for (text, read_only) in [(["READ", "ONLY"], true), (["READ", "WRITE"], false)] {
        if words.take(&text) {
            mode.read_only = Some(read_only);
        }
    }
    if words.take(&["NOT", "DEFERRABLE"]) {
        mode.deferrable = Some(false);
    } else if words.take(&["DEFERRABLE"]) {
        mode.deferrable = Some(true);
    }
    if words.take(&["WITH", "CONSISTENT", "SNAPSHOT"]) {
        mode.consistent_snapshot = true;
    }
    for kind in ["DEFERRED", "IMMEDIATE", "EXCLUSIVE", "CONCURRENT"] {
        if words.take(&[kind]) {
            mode.kind = Some(kind);
            let _ = words.take(&["TRANSACTION"]);
        }
    }
}

/// Rewrites `FOR NO KEY UPDATE`, `FOR KEY SHARE` and `LOCK IN SHARE MODE` to forms that the parser
/// knows. The weaker key locks of PostgreSQL are reported as the stronger ones that they are kinds
/// of.
pub(crate) fn rewrite_locks(tokens: &mut Vec<TokenWithSpan>) {
    let is = |token: &TokenWithSpan, word: &str| match &token.token {
        Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    let plain: Vec<usize> =
        (0..tokens.len()).filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_))).collect();
    let matches_at = |from: usize, words: &[&str]| {
        let places = plain.get(from..from + words.len());
        places.is_some_and(|places| places.iter().zip(words).all(|(&at, word)| is(&tokens[at], word)))
    };
    let mut dropped: Vec<usize> = Vec::new();
    let mut renamed: Vec<(usize, &str, Keyword)> = Vec::new();
    for from in 0..plain.len() {
        if matches_at(from, &["FOR", "NO", "KEY", "UPDATE"]) {
            dropped.extend([plain[from + 1], plain[from + 2]]);
        } else if matches_at(from, &["FOR", "KEY", "SHARE"]) {
            dropped.push(plain[from + 1]);
        } else if matches_at(from, &["LOCK", "IN", "SHARE", "MODE"]) {
            renamed.extend([(plain[from], "FOR", Keyword::FOR), (plain[from + 1], "SHARE", Keyword::SHARE)]);
            dropped.extend([plain[from + 2], plain[from + 3]]);
        }
    }
    for (at, text, keyword) in renamed {
        if let Token::Word(word) = &mut tokens[at].token {
            (word.value, word.keyword) = (text.to_string(), keyword);
        }
    }
    let mut at = 0;
    tokens.retain(|_| {
        at += 1;
        !dropped.contains(&(at - 1))
    });
}
