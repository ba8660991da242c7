//! What is left to say of a statement of which too little is understood: whether it only reads, or
//! which table it writes to.
//!
//! # Invariants
//! Nothing is said that may be wrong: a query that calls a function which is not known may write,
//! and then nothing is said at all. Triggers and foreign keys that write to other tables are not
//! seen, as they are nowhere.

use margay_history::{ReadLock, Statement, Table, TableId};
use margay_sql::Dialect;
use sqlparser::ast::{self, Assignment, SetExpr, Statement as Parsed};

use crate::fill::without_comments;
use crate::shape::{key, parsed, read_lock, skips};
use crate::split::{last, only_table, target};
use crate::statement::{Became, Run};

/// What a statement does to one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Blunt {
    /// It reads rows of this table that match, and perhaps others.
    Reads { table: usize, condition: String, lock: Option<ReadLock> },
    /// It reads something.
    Queries,
    /// It touches no table.
    Nothing,
    /// It changes rows of this table that match; how, if that is known.
    Changes { table: usize, condition: String, set: Option<String> },
}

/// Conditions that are true of every row, and of none: of a statement that touches no table, and of
/// one that reads rows which nobody knows.
const ALL: &str = "1 = 1";
const NONE: &str = "1 = 0";
const UNREAD: &str = "0 = 1";

/// Assignments, or a condition, of which nothing is known: it may be true of any row, and none is
/// locked for it.
const SOMETHING: &str = "?";

/// What can be said of a text.
pub(crate) fn blunt(text: &str, tables: &[Table], dialect: Dialect) -> Option<Blunt> {
    let find = |name: &str| tables.iter().position(|table| table.name.eq_ignore_ascii_case(name));
    match &parsed(text, dialect).ok()? {
        Parsed::Query(query) if only_reads(&query.to_string()) && !tables.is_empty() => {
            Some(reads(query, find))
        }
        Parsed::Insert(insert) if only_reads(&insert.source.as_ref()?.to_string()) => {
            let ast::TableObject::TableName(name) = &insert.table else { return None };
            let set = Some(SOMETHING.to_owned());
            Some(Blunt::Changes { table: find(last(name)?)?, condition: SOMETHING.to_owned(), set })
        }
        Parsed::Update(update) => {
            let table = find(only_table(&update.table)?)?;
            let own = update.from.is_none() && only_reads(&list(&update.assignments));
            let known = own && sets_columns(&update.assignments, &tables[table]);
            let set = if known { list(&update.assignments) } else { SOMETHING.to_owned() };
            let condition = if known { condition(update.selection.as_ref())? } else { SOMETHING.to_owned() };
            own.then_some(Blunt::Changes { table, condition, set: Some(set) })
        }
        Parsed::Delete(delete) => {
            let ast::FromTable::WithFromKeyword(from) = &delete.from else { return None };
            let ([from], None) = (from.as_slice(), &delete.using) else { return None };
            let (table, condition) = (find(only_table(from)?)?, condition(delete.selection.as_ref())?);
            let keyless = tables[table].key.is_empty();
            let condition = if keyless { SOMETHING.to_owned() } else { condition };
            Some(Blunt::Changes { table, condition, set: None })
        }
        parsed if is_nothing(parsed) && !tables.is_empty() => Some(Blunt::Nothing),
        _ => None,
    }
}

/// Whether a statement touches no table: settings and savepoints. (What is undone by ROLLBACK TO is
/// not known here, so that one is not among them.)
fn is_nothing(parsed: &Parsed) -> bool {
    matches!(
        parsed,
        Parsed::Set(_)
            | Parsed::ShowVariable { .. }
            | Parsed::ShowVariables { .. }
            | Parsed::Savepoint { .. }
            | Parsed::ReleaseSavepoint { .. }
    )
}

/// Whether a scan stands for a statement that saw no row of any table.
pub(crate) fn is_of_nothing(condition: &str) -> bool {
    condition == NONE
}

/// What a statement that is not understood may have done to tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It wrote to none.
    Nothing,
    /// It wrote to this one at most.
    Writes(usize),
    /// It may have written to any.
    Anything,
}

/// What a statement may have done. A table that is not declared may be a view of one that is.
#[must_use]
pub fn effect(text: &str, tables: &[Table], dialect: Dialect) -> Effect {
    let find = |name: Option<&str>| {
        let name = name?;
        tables.iter().position(|table| table.name.eq_ignore_ascii_case(name))
    };
    let writes = |table: Option<usize>| table.map_or(Effect::Anything, Effect::Writes);
    let text = without_comments(text);
    let Ok(parsed) = parsed(text, dialect) else { return Effect::Anything };
    if !calls_what_is_known(text, tables) {
        return Effect::Anything;
    }
    match &parsed {
        Parsed::Query(query) if only_reads(&query.to_string()) => Effect::Nothing,
        Parsed::Insert(insert) => {
            let reads = insert.source.as_ref().is_none_or(|source| only_reads(&source.to_string()));
            let ast::TableObject::TableName(name) = &insert.table else { return Effect::Anything };
            writes(find(last(name).filter(|_| reads)))
        }
        parsed if is_nothing(parsed) => Effect::Nothing,
        Parsed::Update(update) => writes(find(only_table(&update.table))),
        Parsed::Delete(delete) => {
            let ast::FromTable::WithFromKeyword(from) = &delete.from else { return Effect::Anything };
            let [from] = from.as_slice() else { return Effect::Anything };
            writes(find(only_table(from)))
        }
        _ => Effect::Anything,
    }
}

/// Whether every assignment is of one declared column, spelled as declared, that is not of the key:
/// rows stay what they are.
fn sets_columns(assignments: &[Assignment], table: &Table) -> bool {
    let keys = key(table);
    let fine = |name: &str| {
        let place = table.columns.iter().position(|(column, _)| column == name);
        place.is_some_and(|place| !keys.contains(&place))
    };
    !keys.is_empty() && assignments.iter().all(|set| target(&set.target).is_some_and(fine))
}

fn condition(selection: Option<&ast::Expr>) -> Option<String> {
    let text = selection.map_or_else(|| ALL.to_owned(), ToString::to_string);
    only_reads(&text).then_some(text)
}

fn reads(query: &ast::Query, find: impl Fn(&str) -> Option<usize>) -> Blunt {
    if !words(&query.to_string()).iter().any(|word| matches!(word.as_str(), "from" | "table")) {
        return Blunt::Nothing;
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return Blunt::Queries };
    let ([from], None, None) = (select.from.as_slice(), &query.limit_clause, &query.with) else {
        return Blunt::Queries;
    };
    let skipped = query.locks.iter().any(skips) || needs_few_rows(query);
    match (only_table(from).and_then(find), condition(select.selection.as_ref())) {
        (Some(table), Some(condition)) if !skipped && !condition.to_ascii_uppercase().contains("SELECT") => {
            Blunt::Reads { table, condition, lock: read_lock(query) }
        }
        _ => Blunt::Queries,
    }
}

/// Whether a database may answer the query without reading every row that matches: the least and the
/// greatest value stand at the ends of an index, and one entry of it tells of each distinct value.
fn needs_few_rows(query: &ast::Query) -> bool {
    let few = ["min", "max", "distinct", "group"];
    words(&query.to_string()).iter().any(|word| few.contains(&word.as_str()))
}

/// Words before a parenthesis that call nothing that writes to a table.
const HARMLESS: &[&str] = &[
    "abs",
    "all",
    "and",
    "any",
    "array",
    "array_agg",
    "as",
    "avg",
    "between",
    "bigint",
    "by",
    "case",
    "cast",
    "ceil",
    "char",
    "char_length",
    "clock_timestamp",
    "coalesce",
    "col_description",
    "concat",
    "conflict",
    "count",
    "current_database",
    "current_date",
    "current_schema",
    "current_setting",
    "current_timestamp",
    "current_user",
    "date",
    "date_part",
    "date_trunc",
    "decimal",
    "dense_rank",
    "distinct",
    "else",
    "end",
    "exists",
    "extract",
    "filter",
    "floor",
    "format_type",
    "found_rows",
    "from",
    "gen_random_uuid",
    "generate_series",
    "get_lock",
    "greatest",
    "group",
    "having",
    "ifnull",
    "ilike",
    "in",
    "int",
    "integer",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "json_agg",
    "jsonb_agg",
    "key",
    "lag",
    "last_insert_id",
    "lead",
    "least",
    "left",
    "length",
    "like",
    "limit",
    "localtimestamp",
    "lower",
    "lpad",
    "ltrim",
    "materialized",
    "max",
    "md5",
    "min",
    "mod",
    "nextval",
    "not",
    "now",
    "nullif",
    "numeric",
    "obj_description",
    "offset",
    "on",
    "or",
    "over",
    "partition",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_backend_pid",
    "pg_current_snapshot",
    "pg_current_xact_id_if_assigned",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_indexdef",
    "pg_is_in_recovery",
    "pg_table_is_visible",
    "pg_try_advisory_lock",
    "pg_try_advisory_xact_lock",
    "position",
    "power",
    "random",
    "range",
    "rank",
    "release_lock",
    "replace",
    "returning",
    "right",
    "round",
    "row_count",
    "row_number",
    "rows",
    "rpad",
    "rtrim",
    "select",
    "set",
    "set_config",
    "sign",
    "sqrt",
    "statement_timestamp",
    "string_agg",
    "substring",
    "sum",
    "text",
    "then",
    "timestamp",
    "timestamptz",
    "to_char",
    "to_regclass",
    "transaction_timestamp",
    "trim",
    "txid_current",
    "union",
    "unnest",
    "upper",
    "using",
    "values",
    "varchar",
    "version",
    "when",
    "where",
    "within",
];

/// The words of a text, in lower case.
pub(crate) fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    split.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect()
}

/// The last of the [`words`] of a text. It looks at no more: a text may have thousands of calls.
fn last_word(text: &str) -> Option<String> {
    let mut split = text.rsplit(|c: char| !(c.is_alphanumeric() || c == '_'));
    split.find(|word| !word.is_empty()).map(str::to_ascii_lowercase)
}

/// Whether a text calls only functions that are known, and so writes nothing but what it says.
pub(crate) fn calls_what_is_known(text: &str, tables: &[Table]) -> bool {
    let called = |before: &str| match before.trim_end().chars().next_back() {
        Some(end) if end.is_alphanumeric() || matches!(end, '_' | '"' | '`') => last_word(before),
        _ => None,
    };
    let is_known = |name: String| {
        HARMLESS.contains(&name.as_str()) || tables.iter().any(|table| table.name.eq_ignore_ascii_case(&name))
    };
    text.match_indices('(').filter_map(|(at, _)| called(&text[..at])).all(is_known)
}

/// Whether a text has no word of a writing statement.
fn only_reads(text: &str) -> bool {
    let all = words(text);
    let writes = |(place, word): (usize, &String)| match word.as_str() {
        "insert" | "delete" | "merge" | "into" => true,
        "update" => !(place > 0 && matches!(all[place - 1].as_str(), "for" | "key")),
        _ => false,
    };
    !all.iter().enumerate().any(writes)
}

fn list(assignments: &[Assignment]) -> String {
    assignments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Run<'_> {
    /// A change of a table of which nothing is known.
    pub fn something(&mut self, table: usize) -> Became {
        self.known.rows.retain(|(of, _), _| *of != table);
        let (condition, set) = (SOMETHING.to_owned(), Some(SOMETHING.to_owned()));
        Became::Update { table: TableId::at(table), condition, set, nothing: false }
    }

    /// What little is known of a statement.
    pub fn bluntly(&mut self, blunt: &Blunt, statement: &Statement) -> Became {
        match blunt {
            Blunt::Queries | Blunt::Nothing => {
                let condition = if *blunt == Blunt::Nothing { NONE } else { UNREAD }.to_owned();
                // It need not take a snapshot, as one that locks need not.
                let (table, lock) = (TableId::at(0), Some(ReadLock::Share));
                Became::Scan { table, condition, rows: None, lock }
            }
            Blunt::Reads { table, condition, lock } => {
                let filled = self.condition(*table, condition, &statement.params);
                let condition = filled.unwrap_or_else(|_| UNREAD.to_owned());
                Became::Scan { table: TableId::at(*table), condition, rows: None, lock: *lock }
            }
            Blunt::Changes { table, condition, set } => {
                self.known.rows.retain(|(of, _), _| of != table);
                let filled = self.condition(*table, condition, &statement.params);
                let condition = filled.unwrap_or_else(|_| SOMETHING.to_owned());
                Became::Update { table: TableId::at(*table), condition, set: set.clone(), nothing: false }
            }
        }
    }
}
