//! What can be told from the text of a statement without parsing it: where it ends, and what it
//! does to its transaction.

use crate::level::OwnLevel;

/// What a statement does to its transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    /// Begins one, at a level if it names one, and whether it only reads.
    Begin(Option<OwnLevel>, bool),
    /// Ends one, and perhaps begins the next.
    End {
        commits: bool,
        chains: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// Sets the level of this transaction.
    SetTransaction(Option<OwnLevel>, bool),
    /// Sets the level of later transactions.
    SetDefault(Option<OwnLevel>),
    /// Sets it back to what it was at the beginning.
    ResetDefault,
    /// Touches no table.
    Nothing,
    /// Opens a cursor for this query.
    Declare(String),
    /// Changes what tables there are, or what they hold whatever a transaction saw before.
    Schema,
    /// May commit or abort inside, or leaves its transaction to another session.
    Uncertain,
    /// Anything else.
    Sql,
}

/// A piece of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    /// Words, strings and all other characters that mean something.
    Code,
    /// White space and comments.
    Blank,
    /// A semicolon.
    End,
}

/// The pieces of a text, with the byte where each ends. Strings, quoted names and dollar quotes are
/// whole.
fn pieces(text: &str) -> Vec<(Piece, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (piece, length) = match rest[0] {
            b';' => (Piece::End, 1),
            byte if byte.is_ascii_whitespace() => (Piece::Blank, 1),
            b'-' if rest.starts_with(b"--") => {
                (Piece::Blank, rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()))
            }
            b'/' if rest.starts_with(b"/*") => (Piece::Blank, comment(rest)),
            b'\'' => (Piece::Code, quoted(rest, b'\'', is_escaped(&bytes[..at]))),
            b'"' => (Piece::Code, quoted(rest, b'"', false)),
            b'$' if !is_word(at.checked_sub(1).map_or(b' ', |at| bytes[at])) => (Piece::Code, dollar(rest)),
            _ => (Piece::Code, 1),
        };
        at += length.max(1);
        found.push((piece, at));
    }
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether a string is of the form `E'…'`.
fn is_escaped(before: &[u8]) -> bool {
    match before {
        [.., previous, b'e' | b'E'] => !is_word(*previous),
        [b'e' | b'E'] => true,
        _ => false,
    }
}

/// Comments nest.
fn comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' if escapes => at += 2,
            byte if byte == quote && rest.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `$tag$ … $tag$`, or a parameter `$1`.
fn dollar(rest: &[u8]) -> usize {
    let name = rest[1..].iter().take_while(|&&byte| is_word(byte)).count();
    let parameter = rest.get(1).is_some_and(u8::is_ascii_digit);
    if parameter || rest.get(name + 1) != Some(&b'$') {
        return name + 1;
    }
    let tag = &rest[..name + 2];
    let body = &rest[tag.len()..];
    let end = body.windows(tag.len()).position(|window| window == tag);
    end.map_or(rest.len(), |end| end + 2 * tag.len())
}

/// The statements of a text, without the comments around them. Empty ones are left out.
pub(crate) fn split(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut end, mut at) = (Vec::new(), None, 0, 0);
    for (piece, to) in pieces(text) {
        match piece {
            Piece::Code => {
                start.get_or_insert(at);
                end = to;
            }
            Piece::Blank => {}
            Piece::End => found.extend(start.take().map(|start| &text[start..end])),
        }
        at = to;
    }
    found.extend(start.map(|start| &text[start..end]));
    found
}

/// What stands in the comments of a text.
pub(crate) fn comments(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    let parts = pieces(text).into_iter().filter_map(move |(piece, to)| {
        let part = text.get(at..to);
        at = to;
        part.filter(|_| piece == Piece::Blank)
    });
    parts.filter_map(|part| part.strip_prefix("/*")?.strip_suffix("*/"))
}

/// A text in lower case without its comments and strings: what is left names relations and
/// functions.
pub(crate) fn code(text: &str) -> String {
    let (mut found, mut at) = (String::new(), 0);
    for (piece, to) in pieces(text) {
        let part = text.get(at..to).unwrap_or_default();
        at = to;
        let string = part.starts_with('\'') || (part.starts_with('$') && part.ends_with('$'));
        found += if piece == Piece::Code && !string { part } else { " " };
    }
    found.to_lowercase()
}

/// The first words of a statement in upper case, without comments; other characters are words of
/// their own.
fn words(text: &str, most: usize) -> Vec<String> {
    let (mut found, mut at, mut joins) = (Vec::<String>::new(), 0, false);
    for (piece, to) in pieces(text) {
        let part = text.get(at..to).unwrap_or_default();
        at = to;
        let word = part.bytes().all(is_word);
        if piece != Piece::Code {
            joins = false;
            continue;
        }
        let joined = found.last_mut().filter(|_| joins && word).map(|last| last.push_str(part));
        if joined.is_none() {
            if found.len() == most {
                break;
            }
            found.push(part.to_owned());
        }
        joins = word;
    }
    found.iter().map(|word| word.to_uppercase()).collect()
}

/// What belongs to all databases of a server, and to no table.
const SHARED: [&str; 6] = ["DATABASE", "ROLE", "USER", "GROUP", "TABLESPACE", "SYSTEM"];

/// `CREATE TEMP TABLE` hides a table of the same name from its own session alone.
fn is_temporary(words: &[&str]) -> bool {
    let named = |word: &&str| matches!(*word, "TEMP" | "TEMPORARY");
    words.iter().take(5).any(named) || words.contains(&"PG_TEMP")
}

/// Whether a statement makes a relation that hides another from its own session.
pub(crate) fn hides(text: &str) -> bool {
    let words = words(text, 16);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.first() == Some(&"CREATE") && is_temporary(&words)
}

/// Whether a statement needs a database that nobody is connected to.
pub(crate) fn wants_database_alone(text: &str) -> bool {
    let words = words(text, 8);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["CREATE" | "DROP", "DATABASE", ..] => true,
        ["ALTER", "DATABASE", rest @ ..] => rest.contains(&"RENAME") || rest.contains(&"TABLESPACE"),
        _ => false,
    }
}

/// Whether a text reads and writes no row of a table, and leaves the schema as it is; or changes
/// the schema.
pub(crate) fn touches_no_row(text: &str) -> bool {
    split(text)
        .into_iter()
        .all(|statement| !matches!(verb(statement), Verb::Sql | Verb::Declare(_) | Verb::Uncertain))
}

/// Whether a query does nothing but `set_config` with literals, and not to the level. Django sends
/// one per connection.
fn is_harmless_setting(text: &str) -> bool {
    let code = code(text);
    let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let known = |word: &str| matches!(word, "select" | "set_config" | "true" | "false");
    let constant = !code.contains('$') && !code.contains('|') && words.all(known);
    constant && !text.to_ascii_lowercase().contains("isolation") && !text.contains('\\')
}

/// What a statement does to its transaction.
pub(crate) fn verb(text: &str) -> Verb {
    let words = words(text, 16);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has = |word: &str| words.contains(&word);
    let level = || OwnLevel::named(&words.join(" "));
    let reads = words.windows(2).any(|pair| pair == ["READ", "ONLY"]);
    let chains = has("CHAIN") && !has("NO");
    match words.as_slice() {
        ["BEGIN", ..] | ["START", "TRANSACTION", ..] => Verb::Begin(level(), reads),
        ["COMMIT" | "ROLLBACK", "PREPARED", ..] | ["PREPARE", "TRANSACTION", ..] => Verb::Uncertain,
        ["COMMIT" | "END", ..] => Verb::End { commits: true, chains },
        ["ROLLBACK", "TO", "SAVEPOINT", name, ..]
        | ["ROLLBACK", "TRANSACTION" | "WORK", "TO", "SAVEPOINT", name, ..]
        | ["ROLLBACK", "TRANSACTION" | "WORK", "TO", name, ..]
        | ["ROLLBACK", "TO", name, ..] => Verb::RollbackTo((*name).to_owned()),
        ["ROLLBACK" | "ABORT", ..] => Verb::End { commits: false, chains },
        ["SAVEPOINT", name, ..] => Verb::Savepoint((*name).to_owned()),
        ["RELEASE", "SAVEPOINT", name, ..] | ["RELEASE", name, ..] => Verb::Release((*name).to_owned()),
        ["SET", "LOCAL", "DEFAULT_TRANSACTION_ISOLATION", ..] => Verb::Nothing,
        ["SET", "TRANSACTION", "SNAPSHOT", ..] => Verb::Uncertain,
        ["SET", "TRANSACTION", ..]
        | ["SET", "TRANSACTION_ISOLATION", ..]
        | ["SET", "LOCAL" | "SESSION", "TRANSACTION_ISOLATION", ..] => Verb::SetTransaction(level(), reads),
        ["SET", "SESSION", "CHARACTERISTICS", ..] if !has("ISOLATION") => Verb::Nothing,
        ["SET", ..] if words.iter().any(|word| word.contains("ISOLATION")) => Verb::SetDefault(level()),
        ["RESET", "DEFAULT_TRANSACTION_ISOLATION" | "ALL" | "ROLE", ..]
        | ["DISCARD", ..]
        | ["SET", "SESSION", "AUTHORIZATION", ..]
        | ["RESET", "SESSION", ..] => Verb::ResetDefault,
        ["EXPLAIN", ..] if !has("ANALYZE") && !has("ANALYSE") => Verb::Nothing,
        [
            "SET" | "SHOW" | "RESET" | "LISTEN" | "UNLISTEN" | "NOTIFY" | "DEALLOCATE" | "CLOSE"
            | "CHECKPOINT" | "LOCK" | "ANALYZE" | "VACUUM" | "FETCH" | "MOVE",
            ..,
        ] => Verb::Nothing,
        ["COMMENT" | "GRANT" | "REVOKE", ..] => Verb::Nothing,
        ["CREATE" | "ALTER" | "DROP", what, ..] if SHARED.contains(what) => {
            if may_set_level(text) {
                Verb::Schema
            } else {
                Verb::Nothing
            }
        }
        ["CREATE", ..] if is_temporary(&words) => Verb::Sql,
        ["CREATE" | "ALTER" | "DROP" | "TRUNCATE" | "REFRESH" | "IMPORT" | "REINDEX", ..] => Verb::Schema,
        ["SELECT", "SET_CONFIG", ..] if is_harmless_setting(text) => Verb::Nothing,
        ["DECLARE", ..] => declared(text).map_or(Verb::Sql, Verb::Declare),
        ["CALL" | "DO", ..] => Verb::Uncertain,
        _ => Verb::Sql,
    }
}

/// The query of `DECLARE name … CURSOR … FOR query`.
fn declared(text: &str) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    let cursor = upper.find("CURSOR")?;
    let query = cursor + upper[cursor..].find("FOR")? + 3;
    text.get(query..).map(|query| query.trim().to_owned())
}

/// Whether a text may change the level by other means.
pub(crate) fn may_set_level(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("set_config") || text.contains("isolation")
}

/// Statements that may carry a password keep their first two words.
pub(crate) fn without_secrets(text: &str) -> Option<String> {
    let words = words(text, 2);
    let plain =
        ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "BEGIN", "COMMIT", "MERGE", "TABLE", "VALUES"];
    if words.first().is_some_and(|first| plain.contains(&first.as_str())) {
        return None;
    }
    let upper = text.to_ascii_uppercase();
    let secret = upper.contains("PASSWORD") || upper.contains("IDENTIFIED");
    let plain: Vec<&str> =
        words.iter().map(String::as_str).take_while(|word| word.bytes().all(is_word)).collect();
    secret.then(|| plain.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_where_statements_end() {
        let cases: [(&str, &[&str]); 7] = [
            ("SELECT 1; SELECT 2;", &["SELECT 1", "SELECT 2"]),
            (" /* a;b */ SELECT ';' -- c;d\n ; ;", &["SELECT ';'"]),
            ("SELECT 'it''s;' ; x", &["SELECT 'it''s;'", "x"]),
            (r"SELECT E'\';' ; x", &[r"SELECT E'\';'", "x"]),
            ("DO $a$ x; $$ y; $a$; z", &["DO $a$ x; $$ y; $a$", "z"]),
            ("SELECT \"a;b\" /*c*/, $1 /* /* nested; */ ; */;", &["SELECT \"a;b\" /*c*/, $1"]),
            (" -- nothing", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn splitting_never_panics_and_loses_no_code() {
        let parts = ["'", "\"", "$$", "$a$", "--", "/*", "*/", ";", "é", "E'", "\\", "x", "\n", "$1"];
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text += parts[(seed >> 33) as usize % parts.len()];
            }
            split(&text);
            verb(&text);
        }
    }

    #[test]
    fn verbs_are_recognised() {
        use OwnLevel::{ReadCommitted, RepeatableRead, Serializable};
        let cases = [
            ("begin", Verb::Begin(None, false)),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ", Verb::Begin(Some(RepeatableRead), false)),
            (
                "START TRANSACTION ISOLATION LEVEL serializable, READ ONLY",
                Verb::Begin(Some(Serializable), true),
            ),
            ("COMMIT AND CHAIN", Verb::End { commits: true, chains: true }),
            ("commit and no chain", Verb::End { commits: true, chains: false }),
            ("END", Verb::End { commits: true, chains: false }),
            ("ROLLBACK", Verb::End { commits: false, chains: false }),
            ("ROLLBACK TO SAVEPOINT a", Verb::RollbackTo("A".into())),
            ("rollback work to a", Verb::RollbackTo("A".into())),
            ("SAVEPOINT \"s1_x2\"", Verb::Savepoint("\"S1_X2\"".into())),
            ("RELEASE SAVEPOINT \"s1_x2\"", Verb::Release("\"S1_X2\"".into())),
            (
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
                Verb::SetTransaction(Some(ReadCommitted), false),
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                Verb::SetDefault(Some(Serializable)),
            ),
            (
                "SET default_transaction_isolation TO 'repeatable read'",
                Verb::SetDefault(Some(RepeatableRead)),
            ),
            ("SET search_path = x", Verb::Nothing),
            ("DISCARD ALL", Verb::ResetDefault),
            ("DECLARE c CURSOR FOR SELECT 1", Verb::Declare("SELECT 1".into())),
            ("/* x */ CALL p()", Verb::Uncertain),
            ("PREPARE TRANSACTION 'x'", Verb::Uncertain),
            ("EXPLAIN SELECT 1", Verb::Nothing),
            ("CREATE TABLE t (id int)", Verb::Schema),
            ("create unique index i on t (v)", Verb::Schema),
            ("TRUNCATE \"t\", u CASCADE", Verb::Schema),
            ("ALTER ROLE me SET default_transaction_isolation = 'serializable'", Verb::Schema),
            ("CREATE DATABASE test_shop", Verb::Nothing),
            ("CREATE TEMP TABLE t (id int)", Verb::Sql),
            ("CREATE OR REPLACE TEMPORARY VIEW t AS SELECT 1", Verb::Sql),
            ("CREATE TABLE pg_temp.t (id int)", Verb::Sql),
            ("CREATE TABLE t (id int, celsius int, fahrenheit int, temp int)", Verb::Schema),
            ("GRANT SELECT ON t TO me", Verb::Nothing),
            ("SELECT set_config('TimeZone', 'UTC', false)", Verb::Nothing),
            ("SELECT set_config('transaction_isolation', 'serializable', false)", Verb::Sql),
            ("SELECT set_config('transaction_iso' || 'lation', 'serializable', false)", Verb::Sql),
            ("SELECT set_config($1, 'serializable', false)", Verb::Sql),
            ("SELECT set_config('a', f(), false)", Verb::Sql),
            ("EXPLAIN ANALYZE DELETE FROM t", Verb::Sql),
            ("SELECT 'COMMIT'", Verb::Sql),
        ];
        for (text, expected) in cases {
            assert_eq!(verb(text), expected, "{text}");
        }
    }

    #[test]
    fn code_has_no_strings() {
        assert_eq!(code("SELECT a/*b*/, 'c''d', $$e$$, $1 FROM \"F\""), "select a ,  ,  , $1 from \"f\"");
    }

    #[test]
    fn statements_that_want_a_database_alone() {
        for (text, alone) in [
            ("DROP DATABASE IF EXISTS x", true),
            ("/* a */ create database y template x", true),
            ("ALTER DATABASE x RENAME TO y", true),
            ("ALTER DATABASE x SET work_mem = 1", false),
            ("SELECT 'DROP DATABASE'", false),
        ] {
            assert_eq!(wants_database_alone(text), alone, "{text}");
        }
        assert!(touches_no_row("BEGIN; CREATE TABLE t (id int)") && !touches_no_row("BEGIN; SELECT 1"));
    }

    #[test]
    fn secrets_are_cut_off() {
        assert_eq!(without_secrets("ALTER ROLE x PASSWORD 'y'").as_deref(), Some("ALTER ROLE"));
        // The second word of this one used to be its whole body.
        let hidden = "DO $$ BEGIN ALTER ROLE x PASSWORD 'y'; END $$";
        assert_eq!(without_secrets(hidden).as_deref(), Some("DO"));
        assert_eq!(without_secrets("UPDATE auth_user SET password = $1"), None);
        assert_eq!(without_secrets("SET x = 1"), None);
    }
}
