//! What SET sets, and which variables change what texts mean.

use crate::level::OwnLevel;
use crate::pieces::{Kind, Piece};

use super::text::{content_of, pieces, tokens};

/// What SET sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Setting {
    /// The level of the next transaction alone.
    NextLevel(Option<OwnLevel>),
    /// The level of later transactions.
    Level(Option<OwnLevel>),
    /// Whether texts are UTF-8 from now on.
    Unicode(bool),
    /// Something that changes no meaning.
    Harmless,
    /// Something of which nobody knows what it changes in this session.
    Unknown(String),
    /// The same for all sessions.
    Global(String),
}

/// Variables that change neither what statements mean nor what they return of tables. `TIMESTAMP`
/// columns, which a time zone changes, are left out of histories.
const HARMLESS: [&str; 36] = [
    "autocommit",
    "foreign_key_checks",
    "unique_checks",
    "time_zone",
    "wait_timeout",
    "interactive_timeout",
    "net_read_timeout",
    "net_write_timeout",
    "innodb_lock_wait_timeout",
    "lock_wait_timeout",
    "max_statement_time",
    "max_execution_time",
    "profiling",
    "optimizer_switch",
    "optimizer_search_depth",
    "join_buffer_size",
    "sort_buffer_size",
    "read_buffer_size",
    "tmp_table_size",
    "max_heap_table_size",
    "group_concat_max_len",
    "session_track_gtids",
    "session_track_schema",
    "session_track_state_change",
    "session_track_system_variables",
    "session_track_transaction_info",
    "sql_log_bin",
    "sql_notes",
    "sql_warnings",
    "sql_safe_updates",
    "query_cache_type",
    "information_schema_stats_expiry",
    "lc_messages",
    "collation_connection",
    "idle_transaction_timeout",
    "sql_quote_show_create",
];

/// Modes that change neither what a text says nor what is stored, while one of the strict ones is
/// among them.
const MODES: [&str; 10] = [
    "strict_trans_tables",
    "strict_all_tables",
    "no_zero_in_date",
    "no_zero_date",
    "error_for_division_by_zero",
    "no_engine_substitution",
    "only_full_group_by",
    "no_auto_create_user",
    "traditional",
    "no_unsigned_subtraction",
];

/// Whether texts mean under these modes what they mean here.
pub(crate) fn is_usual_mode(modes: &str) -> bool {
    let modes = modes.to_lowercase();
    let mut all = modes.split(',').map(str::trim).filter(|mode| !mode.is_empty());
    modes.contains("strict_") && all.all(|mode| MODES.contains(&mode))
}

/// What a SET sets, one after the other.
pub(crate) fn settings(text: &str) -> Vec<Setting> {
    let all: Vec<Piece<'_>> = pieces(text).filter(|piece| piece.kind != Kind::Blank).skip(1).collect();
    let mut depth = 0_i32;
    let ends = |piece: &Piece<'_>| {
        depth += i32::from(piece.text == "(") - i32::from(piece.text == ")");
        depth == 0 && piece.text == ","
    };
    // `SET TRANSACTION` has commas of its own.
    let words: Vec<String> = tokens(text, 4);
    let transaction = words.iter().skip(1).take(2).any(|word| word == "transaction");
    if transaction {
        return vec![transaction_level(text, &words)];
    }
    let parts: Vec<&[Piece<'_>]> = all
        .split({
            let mut ends = ends;
            move |piece| ends(piece)
        })
        .collect();
    parts.into_iter().map(setting).collect()
}

fn transaction_level(text: &str, words: &[String]) -> Setting {
    let level = OwnLevel::named_in_mysql(text);
    let names_level = text.to_lowercase().contains("isolation");
    match (words.get(1).map(String::as_str), names_level) {
        (Some("global"), _) => Setting::Global("transaction".to_owned()),
        (_, false) => Setting::Harmless,
        (Some("session" | "local"), true) => Setting::Level(level),
        _ => Setting::NextLevel(level),
    }
}

fn setting(part: &[Piece<'_>]) -> Setting {
    let lower: Vec<String> = part.iter().map(|piece| piece.text.to_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let (scope, name, value) = match lower.as_slice() {
        ["names" | "charset", ..] | ["character", "set", ..] => {
            let at = if lower[0] == "character" { 2 } else { 1 };
            let name = part.get(at).map(|piece| content_of(*piece)).unwrap_or_default();
            return Setting::Unicode(is_utf8(&name));
        }
        // A variable of the user.
        ["@", first, ..] if *first != "@" => return Setting::Harmless,
        [
            "@",
            "@",
            scope @ ("session" | "local" | "global" | "persist" | "persist_only"),
            ".",
            name,
            rest @ ..,
        ] => (*scope, *name, rest),
        ["@", "@", name, rest @ ..] => ("@@", *name, rest),
        [scope @ ("session" | "local" | "global" | "persist" | "persist_only"), name, rest @ ..] => {
            (*scope, *name, rest)
        }
        [name, rest @ ..] => ("", *name, rest),
        [] => return Setting::Harmless,
    };
    let value: Vec<&str> = value.iter().copied().filter(|sign| !matches!(*sign, "=" | ":")).collect();
    let given = part.last().map(|piece| content_of(*piece)).unwrap_or_default();
    if matches!(scope, "global" | "persist" | "persist_only") {
        return Setting::Global(name.to_owned());
    }
    match name {
        "transaction_isolation" | "tx_isolation" => {
            let level = OwnLevel::named_in_mysql(&given).filter(|_| value.len() == 1);
            // `SET @@transaction_isolation` is about the next transaction alone.
            if scope == "@@" { Setting::NextLevel(level) } else { Setting::Level(level) }
        }
        "transaction_read_only" | "tx_read_only" => Setting::Harmless,
        "sql_mode" if value.len() == 1 && is_usual_mode(&given) => Setting::Harmless,
        "sql_auto_is_null" if value == ["0"] => Setting::Harmless,
        "character_set_client" | "character_set_results" | "character_set_connection" => {
            Setting::Unicode(is_utf8(&given) || given.eq_ignore_ascii_case("null"))
        }
        name if HARMLESS.contains(&name) => Setting::Harmless,
        name => Setting::Unknown(name.to_owned()),
    }
}

fn is_utf8(name: &str) -> bool {
    matches!(name.to_lowercase().as_str(), "utf8" | "utf8mb3" | "utf8mb4")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        use OwnLevel::{ReadCommitted, RepeatableRead, Serializable};
        let unknown = |name: &str| vec![Setting::Unknown(name.to_owned())];
        let cases = [
            (
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                vec![Setting::Level(Some(ReadCommitted))],
            ),
            (
                "set transaction isolation level serializable, read only",
                vec![Setting::NextLevel(Some(Serializable))],
            ),
            (
                "SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED",
                vec![Setting::Global("transaction".into())],
            ),
            (
                "SET @@session.transaction_isolation = 'REPEATABLE-READ'",
                vec![Setting::Level(Some(RepeatableRead))],
            ),
            ("SET tx_isolation='READ-COMMITTED'", vec![Setting::Level(Some(ReadCommitted))]),
            ("SET @@tx_isolation='READ-COMMITTED'", vec![Setting::NextLevel(Some(ReadCommitted))]),
            ("SET SESSION transaction_isolation = @x", vec![Setting::Level(None)]),
            ("SET TRANSACTION READ ONLY", vec![Setting::Harmless]),
            ("SET NAMES 'utf8mb4' COLLATE utf8mb4_bin", vec![Setting::Unicode(true)]),
            ("SET character_set_results = latin1", vec![Setting::Unicode(false)]),
            ("SET autocommit=0, @x := f(1, 2)", vec![Setting::Harmless, Setting::Harmless]),
            ("SET sql_mode='STRICT_TRANS_TABLES,NO_ZERO_DATE'", vec![Setting::Harmless]),
            ("SET sql_mode='ANSI_QUOTES,STRICT_TRANS_TABLES'", unknown("sql_mode")),
            ("SET sql_mode=''", unknown("sql_mode")),
            ("SET @@SESSION.sql_mode = CONCAT(@@sql_mode, ',ANSI')", unknown("sql_mode")),
            ("SET sql_select_limit = 5", unknown("sql_select_limit")),
            ("SET @@global.max_connections = 5", vec![Setting::Global("max_connections".into())]),
        ];
        for (text, expected) in cases {
            assert_eq!(settings(text), expected, "{text}");
        }
    }
}
