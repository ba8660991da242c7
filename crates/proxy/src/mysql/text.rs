//! What can be told from a text of MySQL's SQL without parsing it: where statements end, what they
//! do to their transaction, and what names they have.
//!
//! # Invariants
//! A text that hides something is never guessed at: comments that MySQL executes, and statements
//! whose text is in a string, make [`Verb::Uncertain`].

use crate::pieces::{Grammar, Kind, Piece, Pieces};

use super::settings::{Setting, settings};

/// What a statement does to its transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    /// Begins one, after committing the one before: whether it only reads.
    Begin(bool),
    /// Ends one, and perhaps begins the next.
    End {
        commits: bool,
        chains: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// Sets something, for its session or for all.
    Set(Vec<Setting>),
    /// Chooses a database.
    Use(String),
    /// Touches no table.
    Nothing,
    /// Commits what came before, and touches no row.
    Commits,
    /// Commits what came before, and changes what tables there are or what they hold.
    Schema,
    /// A query.
    Query,
    /// Anything else that may write.
    Sql,
    /// May commit inside, or do anything.
    Uncertain,
}

/// The pieces of a text.
pub(crate) fn pieces(text: &str) -> Pieces<'_> {
    crate::pieces::pieces(text, Grammar::Mysql)
}

/// The statements of a text, without the comments around them. Empty ones are left out.
pub(crate) fn split(text: &str) -> Vec<&str> {
    crate::pieces::split(text, Grammar::Mysql)
}

/// What stands in a string, or a name.
fn content(text: &str) -> String {
    let quote = text.chars().next().unwrap_or_default();
    let inner = text.strip_prefix(quote).unwrap_or(text);
    let (mut found, mut rest) = (String::new(), inner.strip_suffix(quote).unwrap_or(inner).chars());
    while let Some(c) = rest.next() {
        found.push(match c {
            '\\' if quote != '`' => match rest.next() {
                Some('0') => '\0',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('b') => '\u{8}',
                Some('Z') => '\u{1a}',
                // In patterns these two stay.
                Some('%' | '_') | None => '\\',
                Some(other) => other,
            },
            c if c == quote => {
                rest.next();
                c
            }
            c => c,
        });
    }
    found
}

/// What a piece says.
pub(crate) fn content_of(piece: Piece<'_>) -> String {
    match piece.kind {
        Kind::Text | Kind::Name => content(piece.text),
        _ => piece.text.to_owned(),
    }
}

/// The text with strings in standard SQL and without comments, for readers who know no backslash.
/// None if a string has a backslash in it.
pub(crate) fn plain(text: &str) -> Option<String> {
    let mut found = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece.kind {
            Kind::Text if piece.text.contains('\\') || piece.text.starts_with('"') => {
                let content = content(piece.text);
                if content.contains(['\\', '\0']) {
                    return None;
                }
                found += &format!("'{}'", content.replace('\'', "''"));
            }
            Kind::Blank if !found.ends_with(' ') => found.push(' '),
            Kind::Blank => {}
            Kind::Hidden => return None,
            _ => found += piece.text,
        }
    }
    Some(found.trim().to_owned())
}

/// The words and names of a statement in lower case, and `.`, `=`, `@`, `,`, `(`, `)` and other
/// characters as they are; a string is `'`.
pub(crate) fn tokens(text: &str, most: usize) -> Vec<String> {
    let pieces = pieces(text).filter(|piece| piece.kind != Kind::Blank).take(most);
    let shown = |piece: Piece<'_>| match piece.kind {
        Kind::Name => content(piece.text).to_lowercase(),
        Kind::Text => "'".to_owned(),
        Kind::Hidden => "/*!".to_owned(),
        _ => piece.text.to_lowercase(),
    };
    pieces.map(shown).collect()
}

/// All words and names of a statement, as [`tokens`] gives them.
pub(crate) fn words(text: &str) -> Vec<String> {
    tokens(text, usize::MAX)
}

/// What belongs to the server, and to no table.
const SHARED: [&str; 7] = ["database", "schema", "user", "role", "server", "tablespace", "logfile"];

/// Whether a text is one statement that makes a procedure, a function or a trigger.
pub(crate) fn makes_routine(text: &str) -> bool {
    let words = tokens(text, 16);
    let makes = ["procedure", "function", "trigger", "event", "package"];
    words.first().is_some_and(|first| first == "create")
        && words.iter().any(|word| makes.contains(&word.as_str()))
        && !words.iter().take(5).any(|word| word == "table")
}

/// What a statement does to its transaction.
pub(crate) fn verb(text: &str) -> Verb {
    let all = tokens(text, 24);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let has = |word: &str| all.contains(&word);
    if text.contains("/*!") || text.contains("/*M!") {
        return Verb::Uncertain;
    }
    let chains = has("chain") && !has("no");
    match all.as_slice() {
        ["begin"] | ["begin", "work"] => Verb::Begin(false),
        ["start", "transaction", ..] => Verb::Begin(has("only")),
        ["commit", ..] => Verb::End { commits: true, chains },
        ["rollback", "to", "savepoint", name] | ["rollback", "to", name] => {
            Verb::RollbackTo((*name).to_owned())
        }
        ["rollback", "work", "to", "savepoint", name] | ["rollback", "work", "to", name] => {
            Verb::RollbackTo((*name).to_owned())
        }
        ["rollback", ..] => Verb::End { commits: false, chains },
        ["savepoint", name] => Verb::Savepoint((*name).to_owned()),
        ["release", "savepoint", name] => Verb::Release((*name).to_owned()),
        ["set", "statement", ..] => Verb::Uncertain,
        ["set", "password" | "role" | "default" | "resource", ..] => Verb::Commits,
        ["set", ..] => Verb::Set(settings(text)),
        ["use", name] => Verb::Use((*name).to_owned()),
        ["explain" | "analyze" | "describe" | "desc", rest @ ..]
            if all[0] == "describe"
                || all[0] == "desc"
                || (all[0] == "explain" && !rest.contains(&"analyze")) =>
        {
            Verb::Nothing
        }
        ["analyze", "table" | "no_write_to_binlog" | "local", ..] => Verb::Commits,
        ["show" | "help" | "kill" | "deallocate" | "prepare" | "handler" | "checksum" | "binlog", ..] => {
            match all[0] {
                "handler" | "binlog" => Verb::Uncertain,
                _ => Verb::Nothing,
            }
        }
        [
            "lock" | "unlock" | "flush" | "grant" | "revoke" | "reset" | "cache" | "purge" | "change"
            | "check" | "repair" | "optimize" | "install" | "uninstall" | "shutdown",
            ..,
        ] => match (all[0], all.get(1)) {
            ("optimize" | "repair", _) => Verb::Schema,
            _ => Verb::Commits,
        },
        ["create" | "drop", "temporary", ..] | ["create", "or", "replace", "temporary", ..] => Verb::Sql,
        // From then on the server writes of its own accord.
        ["create" | "alter", "event", ..] => Verb::Set(vec![Setting::Global("event_scheduler".to_owned())]),
        ["create" | "alter" | "drop", what, ..] if SHARED.contains(what) => Verb::Commits,
        ["create" | "alter" | "drop" | "truncate" | "rename" | "import", ..] => Verb::Schema,
        ["select" | "(", ..] if is_query(&tokens(text, usize::MAX)) => Verb::Query,
        [
            "insert" | "update" | "delete" | "replace" | "select" | "with" | "load" | "values" | "table"
            | "(",
            ..,
        ] => Verb::Sql,
        _ => Verb::Uncertain,
    }
}

/// Whether a query writes into nothing. What its functions do is another question.
fn is_query(tokens: &[String]) -> bool {
    let writes = ["insert", "delete", "into"];
    !tokens.iter().any(|word| writes.contains(&word.as_str()))
}

/// Whether a text reads and writes no row of a table, and leaves the schema as it is; or changes
/// the schema.
pub(crate) fn touches_no_row(text: &str) -> bool {
    split(text).into_iter().all(|one| !matches!(verb(one), Verb::Query | Verb::Sql | Verb::Uncertain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::tests::random_texts;

    #[test]
    fn reading_never_panics() {
        let parts = [
            "'", "\"", "`", "-- ", "#", "/*!", "*/", ";", "é", "\\", "x", "SET ", "@@", "=", "(", ",",
            "SELECT ", "NAMES", ".",
        ];
        random_texts(&parts, |text| {
            verb(text);
            plain(text);
        });
    }

    #[test]
    fn strings_become_standard() {
        for (text, expected) in [
            (r"UPDATE t SET a = 'it\'s'", Some("UPDATE t SET a = 'it''s'")),
            ("SELECT \"a'b\" /* c */ FROM t # d", Some("SELECT 'a''b' FROM t")),
            (r"SELECT 'a\nb'", Some("SELECT 'a\nb'")),
            (r"SELECT 'a\\b'", None),
            (r"SELECT 'a\%'", None),
            ("SELECT /*!1 a */ b", None),
            ("SELECT `a` FROM t WHERE b = 'it''s'", Some("SELECT `a` FROM t WHERE b = 'it''s'")),
        ] {
            assert_eq!(plain(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn verbs_are_recognised() {
        let cases = [
            ("begin", Verb::Begin(false)),
            ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", Verb::Begin(true)),
            ("COMMIT AND CHAIN", Verb::End { commits: true, chains: true }),
            ("rollback and no chain", Verb::End { commits: false, chains: false }),
            ("ROLLBACK TO SAVEPOINT `s1_x2`", Verb::RollbackTo("s1_x2".into())),
            ("SAVEPOINT s1", Verb::Savepoint("s1".into())),
            ("RELEASE SAVEPOINT `s1`", Verb::Release("s1".into())),
            ("USE `Shop`", Verb::Use("shop".into())),
            ("CREATE TABLE t (id int)", Verb::Schema),
            ("truncate t", Verb::Schema),
            ("CREATE TEMPORARY TABLE t (id int)", Verb::Sql),
            ("DROP DATABASE test_shop", Verb::Commits),
            ("LOCK TABLES t WRITE", Verb::Commits),
            ("GRANT ALL ON x.* TO y", Verb::Commits),
            ("SELECT * FROM t FOR UPDATE", Verb::Query),
            ("SELECT * FROM t INTO @x", Verb::Sql),
            ("INSERT INTO t VALUES (1)", Verb::Sql),
            ("CALL p()", Verb::Uncertain),
            ("EXECUTE s", Verb::Uncertain),
            ("XA START 'x'", Verb::Uncertain),
            ("SELECT 1 /*! INTO @x */", Verb::Uncertain),
            ("explain select 1", Verb::Nothing),
            ("SHOW TABLES", Verb::Nothing),
        ];
        for (text, expected) in cases {
            assert_eq!(verb(text), expected, "{text}");
        }
    }
}
