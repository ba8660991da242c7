//! What can be told from the text of a statement without parsing it: where it ends, and what it
//! does to its transaction.

use crate::level::OwnLevel;
use crate::pieces::{self, Grammar, Kind, Piece, pieces};

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

/// The statements of a text, without the comments around them. Empty ones are left out.
pub(crate) fn split(text: &str) -> Vec<&str> {
    pieces::split(text, Grammar::Postgres)
}

/// What stands in the comments of a text.
pub(crate) fn comments(text: &str) -> impl Iterator<Item = &str> {
    let blanks = pieces(text, Grammar::Postgres).filter(|piece| piece.kind == Kind::Blank);
    blanks.filter_map(|blank| blank.text.strip_prefix("/*")?.strip_suffix("*/"))
}

/// A text in lower case without its comments and strings: what is left names relations and
/// functions.
pub(crate) fn code(text: &str) -> String {
    let shown = |piece: Piece<'_>| match piece.kind {
        Kind::Blank | Kind::Text | Kind::End => " ".to_owned(),
        _ => piece.text.to_lowercase(),
    };
    pieces(text, Grammar::Postgres).map(shown).collect()
}

/// The first words of a statement in upper case, without comments; other characters are words of
/// their own.
fn words(text: &str, most: usize) -> Vec<String> {
    let all = pieces(text, Grammar::Postgres).filter(|piece| !matches!(piece.kind, Kind::Blank | Kind::End));
    all.take(most).map(|piece| piece.text.to_uppercase()).collect()
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
    // Most statements create nothing.
    if words(text, 1).first().is_none_or(|first| first != "CREATE") {
        return false;
    }
    let words = words(text, 16);
    is_temporary(&words.iter().map(String::as_str).collect::<Vec<_>>())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::tests::random_texts;

    #[test]
    fn reading_never_panics() {
        random_texts(
            &["'", "$$", "/*", ";", "é", "E'", "\\", "x", "SET ", "DECLARE ", "CURSOR", "FOR", " "],
            |text| {
                verb(text);
                code(text);
                comments(text).count();
            },
        );
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
}
