//! What `information_schema` says: tables, keys, types, and what writes without being asked to.

use std::collections::{BTreeMap, BTreeSet};

use margay_history::Table;
use margay_wire::Outcome;
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::catalog::{Catalog, KnownTable};
use crate::level::OwnLevel;
use crate::transaction::Op;

use super::address::shown;
use super::number::with_number;
use super::settings::is_usual_mode;
use super::text::{Verb, verb, words};

/// Schemas of the server itself. What stands there is read by views that open no snapshot of the
/// application's.
const SYSTEM: [&str; 4] = ["information_schema", "performance_schema", "mysql", "sys"];

/// Collations that order and compare the usual letters as [`margay_history`]'s readers assume of
/// MySQL.
const COLLATIONS: [&str; 6] = [
    "_general_ci",
    "_unicode_ci",
    "_unicode_520_ci",
    "_0900_ai_ci",
    "_uca1400_ai_ci",
    // The default before MySQL 8 and of MariaDB without settings. ASCII is ordered by its codes.
    "latin1_swedish_ci",
];

const TABLES: &str = "\
SELECT table_name, table_type, COALESCE(engine, '') FROM information_schema.tables WHERE table_schema = DATABASE()";

const COLUMNS: &str = "\
SELECT table_name, column_name, LOWER(data_type), LOWER(column_type), COALESCE(collation_name, ''),
       NULLIF(column_default, 'NULL'), LOWER(extra)
FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position";

const KEYS: &str = "\
SELECT table_name, column_name, sub_part IS NOT NULL FROM information_schema.statistics
WHERE table_schema = DATABASE() AND index_name = 'PRIMARY' ORDER BY table_name, seq_in_index";

/// Tables that something else writes.
const WRITERS: &str = "\
SELECT table_name, 'a foreign key that changes its rows' FROM information_schema.referential_constraints
WHERE constraint_schema = DATABASE()
  AND (delete_rule NOT IN ('RESTRICT', 'NO ACTION') OR update_rule NOT IN ('RESTRICT', 'NO ACTION'))
UNION ALL SELECT event_object_table, 'a trigger' FROM information_schema.triggers
WHERE event_object_schema = DATABASE()";

const ROUTINES: &str = "SELECT LOWER(routine_name) FROM information_schema.routines";

const SCHEMAS: &str =
    "SELECT LOWER(schema_name) FROM information_schema.schemata WHERE schema_name <> DATABASE()";

/// What elsewhere may write here.
const ELSEWHERE: &str = "\
SELECT CONCAT('trigger ', trigger_schema, '.', trigger_name) FROM information_schema.triggers
WHERE trigger_schema NOT IN (DATABASE(), 'sys') AND LOCATE(DATABASE(), action_statement)
UNION ALL SELECT CONCAT('view ', table_schema, '.', table_name) FROM information_schema.views
WHERE table_schema NOT IN (DATABASE(), 'sys') AND LOCATE(DATABASE(), view_definition)";

/// By what a text of this database is read.
#[derive(Clone, Default, Debug)]
pub(crate) struct Rules {
    /// The names of all tables, views and sequences, in lower case.
    relations: BTreeSet<String>,
    routines: BTreeSet<String>,
    /// The columns that the server numbers, by tables in lower case.
    counters: BTreeMap<String, String>,
    /// Other schemas.
    schemas: BTreeSet<String>,
    /// Whether a lock that did not come in time ends its transaction.
    pub timeouts_end: bool,
    /// Why nobody can be accused.
    pub doubts: Vec<String>,
}

impl Rules {
    /// Whether a query reads nothing but what belongs to the system, and can write nothing.
    pub fn is_about_the_system(&self, text: &str) -> bool {
        let words = words(text);
        let names = |word: &String| self.relations.contains(word) || self.foreign(word);
        self.only_reads(text) && !words.iter().any(names)
    }

    /// Whether a statement is a query that can write nothing.
    pub fn only_reads(&self, text: &str) -> bool {
        let calls = |word: &String| self.routines.contains(word);
        verb(text) == Verb::Query && !words(text).iter().any(calls)
    }

    fn foreign(&self, word: &str) -> bool {
        self.schemas.contains(word) && !SYSTEM.contains(&word)
    }

    /// Whether a statement names something in another schema.
    fn is_foreign(&self, text: &str) -> bool {
        let words = words(text);
        words.windows(2).any(|pair| pair[1] == "." && self.schemas.contains(&pair[0]))
    }

    /// Statements of this database as histories have them.
    pub fn adapt(&self, ops: &mut Vec<Op>) {
        self.hide(ops);
        for op in ops {
            if let Some(text) = self.numbered(op) {
                op.text = text.into();
            }
        }
    }

    /// An INSERT with the number that the server chose.
    fn numbered(&self, op: &Op) -> Option<String> {
        let Outcome::Done(tag) = &op.executed.as_ref()?.outcome else { return None };
        let number = tag.strip_prefix("INSERT ")?.strip_suffix(" 1")?.parse().ok()?;
        with_number(&op.text, number, |table| self.counters.get(table).map(String::as_str))
    }

    /// Statements about other schemas, whose tables may have the names of those here: queries are
    /// left out, and others may have done anything.
    fn hide(&self, ops: &mut Vec<Op>) {
        ops.retain(|op| !self.is_foreign(&op.text) || !self.only_reads(&op.text));
        for op in ops.iter_mut().filter(|op| op.executed.is_some() && self.is_foreign(&op.text)) {
            *op = Op { changes_schema: op.changes_schema, ..Op::opaque(op.times) };
        }
    }
}

/// What `@@` knows.
fn variable(conn: &mut Conn, name: &str) -> Option<String> {
    let row: Option<(String, String)> =
        conn.query_first(format!("SHOW GLOBAL VARIABLES LIKE '{name}'")).ok()?;
    row.map(|(_, value)| value)
}

/// `mariadb-10.11.19`, `mysql-8.0.46`.
fn identity(conn: &mut Conn) -> Result<(String, String), String> {
    let told: Option<String> = conn.query_first("SELECT VERSION()").map_err(shown)?;
    let told = told.unwrap_or_default();
    if ["TiDB", "OceanBase", "Vitess"].iter().any(|other| told.contains(other)) {
        return Err(format!("the proxy knows MariaDB and MySQL, not {told}"));
    }
    let mut version = told.split('-').next().unwrap_or_default().to_owned();
    let dbms = if told.contains("MariaDB") { "mariadb" } else { "mysql" };
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    // Without this variable, later versions do what the last one before them did.
    if dbms == "mariadb"
        && numbers >= vec![11, 6, 2]
        && variable(conn, "innodb_snapshot_isolation").as_deref() != Some("ON")
    {
        "11.6.1".clone_into(&mut version);
    }
    Ok((dbms.to_owned(), version))
}

impl Catalog {
    /// Asks the database that a connection is in.
    pub fn of_mysql(conn: &mut Conn) -> Result<Self, String> {
        let database: Option<Option<String>> = conn.query_first("SELECT DATABASE()").map_err(shown)?;
        let database = database.flatten().ok_or("the address names no database")?;
        let (dbms, version) = identity(conn)?;
        let level = variable(conn, "transaction_isolation").or_else(|| variable(conn, "tx_isolation"));
        let level = level.as_deref().and_then(OwnLevel::named_in_mysql);
        let mut catalog = Self::default();
        (catalog.dbms, catalog.version) = (format!("{dbms}-{version}"), version);
        (catalog.database, catalog.level) = (database, level);
        let rules = catalog.read_mysql(conn).map_err(shown)?;
        catalog.mysql = Some(rules);
        catalog.find_namesakes();
        Ok(catalog)
    }

    fn read_mysql(&mut self, conn: &mut Conn) -> Result<Rules, mysql::Error> {
        let mut rules = Rules {
            routines: conn.query::<String, _>(ROUTINES)?.into_iter().collect(),
            schemas: conn.query::<String, _>(SCHEMAS)?.into_iter().collect(),
            timeouts_end: variable(conn, "innodb_rollback_on_timeout").is_some_and(|value| value != "OFF"),
            ..Rules::default()
        };
        rules.doubts = doubts(conn)?;
        let mut places = BTreeMap::new();
        for (name, kind, engine) in conn.query::<(String, String, String), _>(TABLES)? {
            rules.relations.insert(name.to_lowercase());
            if kind.contains("VIEW") || kind == "SEQUENCE" {
                continue;
            }
            let anything = match (kind.as_str(), engine.as_str()) {
                ("BASE TABLE", "InnoDB") => None,
                ("BASE TABLE", engine) => Some(format!("the engine {engine}, which has no transactions")),
                (kind, _) => Some(kind.to_lowercase()),
            };
            let path = format!("`{}`", name.replace('`', "``"));
            places.insert(name.clone(), self.tables.len());
            let table = Table { name, ..Table::default() };
            let kinds = Vec::new();
            let known =
                KnownTable { table, path, kinds, anything, untold: false, unlogged: false, file: None };
            self.tables.push(known);
        }
        type ColumnRow = (String, String, String, String, String, Option<String>, String);
        for (table, name, of, whole, collation, default, extra) in conn.query::<ColumnRow, _>(COLUMNS)? {
            let Some(&at) = places.get(&table) else { continue };
            if extra.contains("auto_increment") {
                rules.counters.insert(table.to_lowercase(), name.clone());
            }
            let column = MysqlColumn {
                of: &of,
                whole: &whole,
                collation: &collation,
                default: default.as_deref(),
                extra: &extra,
            };
            column.declare(name, &mut self.tables[at]);
        }
        for (table, column, prefix) in conn.query::<(String, String, bool), _>(KEYS)? {
            let Some(&at) = places.get(&table) else { continue };
            let known = &mut self.tables[at];
            let kind = known.table.columns.iter().find(|(name, _)| *name == column);
            let exact = kind.is_some_and(|(_, kind)| has_exact_keys(kind));
            if prefix || !exact {
                known.anything.get_or_insert_with(|| format!("a key whose type ({column}) folds values"));
            }
            known.table.key.push(column);
        }
        for (table, why) in conn.query::<(String, String), _>(WRITERS)? {
            let Some(&at) = places.get(&table) else { continue };
            if why == "a trigger" {
                self.hazards.insert(table, why.clone());
            }
            self.tables[at].anything.get_or_insert(why);
        }
        for KnownTable { table, anything, .. } in &mut self.tables {
            let Table { key, columns_by_anything: open, .. } = table;
            open.retain(|column| !key.contains(column));
            open.sort_unstable();
            table.written_by_anything = anything.is_some();
        }
        Ok(rules)
    }
}

/// Settings of the server under which statements mean something else, or are answered otherwise.
fn doubts(conn: &mut Conn) -> Result<Vec<String>, mysql::Error> {
    let mut found: Vec<String> = Vec::new();
    for elsewhere in conn.query::<String, _>(ELSEWHERE)? {
        found.push(format!("{elsewhere} may write here without being recorded"));
    }
    let modes = variable(conn, "sql_mode").unwrap_or_default();
    if !is_usual_mode(&modes) {
        found.push(format!("the server's sql_mode is {modes:?}, under which texts mean something else"));
    }
    let usual = [("init_connect", &[""][..]), ("completion_type", &["NO_CHAIN"])];
    for (name, values) in usual {
        let value = variable(conn, name).unwrap_or_default();
        if !values.contains(&value.as_str()) {
            found.push(format!("the server's variable {name} is {value:?}"));
        }
    }
    Ok(found)
}

/// A column as `information_schema` tells it.
struct MysqlColumn<'a> {
    of: &'a str,
    whole: &'a str,
    collation: &'a str,
    default: Option<&'a str>,
    extra: &'a str,
}

impl MysqlColumn<'_> {
    fn declare(&self, name: String, known: &mut KnownTable) {
        let generated = self.extra.contains("generated") || self.extra.contains("virtual");
        let folds = !self.collation.is_empty() && !COLLATIONS.iter().any(|it| self.collation.ends_with(it));
        // A moment is shown in the session's time zone; a float with six digits.
        let shifts = matches!(self.of, "timestamp" | "float");
        if generated || folds || shifts || self.extra.contains("on update") {
            known.table.columns_by_anything.push(name.clone());
        }
        if self.extra.contains("invisible") {
            known.anything.get_or_insert_with(|| "an invisible column".to_owned());
        }
        let mut kind = match self.of {
            "tinyint" => "smallint".to_owned(),
            "int" | "smallint" | "mediumint" | "bigint" | "date" | "uuid" => self.of.to_owned(),
            "tinytext" | "mediumtext" | "longtext" => "text".to_owned(),
            _ => self.whole.to_owned(),
        };
        if self.extra.contains("auto_increment") {
            kind += " auto_increment";
        } else if let Some(default) = self.default.filter(|_| !generated) {
            // Other defaults are not read: what they give is not known.
            kind += " default";
            if default.parse::<i64>().is_ok() {
                kind += &format!(" {default}");
            }
        }
        known.table.columns.push((name, kind));
    }
}

/// Whether two values of a key of this type are the same if they are equal.
fn has_exact_keys(kind: &str) -> bool {
    let word = kind.split([' ', '(']).next().unwrap_or_default();
    matches!(word, "int" | "smallint" | "mediumint" | "bigint" | "date" | "uuid")
}

#[cfg(test)]
mod tests {
    use margay_wire::Times;

    use super::*;

    fn rules() -> Rules {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Rules {
            relations: set(&["stock"]),
            routines: set(&["refill"]),
            schemas: set(&["other", "information_schema", "mysql"]),
            ..Rules::default()
        }
    }

    #[test]
    fn queries_of_the_system_touch_no_table() {
        for text in
            ["SELECT 1", "SELECT @@version", "SELECT * FROM information_schema.tables", "SELECT 'stock'"]
        {
            assert!(rules().is_about_the_system(text), "{text}");
        }
        for text in [
            "SELECT * FROM `Stock`",
            "SELECT refill()",
            "UPDATE x SET a = 1",
            "SELECT * FROM other.t",
            "SELECT 1 INTO @x",
        ] {
            assert!(!rules().is_about_the_system(text), "{text}");
        }
    }

    /// A table of another schema may have the name of one here: `other.stock` is not `stock`.
    #[test]
    fn statements_about_other_schemas_are_hidden() {
        let times = Times { before: 1, after: 2 };
        let op = |text: &str| {
            let prepared = margay_wire::Prepared { text: None, types: Vec::new() };
            let executed = margay_wire::Executed {
                prepared: prepared.into(),
                bound: None,
                columns: None,
                rows: margay_wire::Rows::default(),
                complete: true,
                outcome: Outcome::Lost,
                times,
            };
            Op::new(text, executed)
        };
        let texts = [
            "SELECT * FROM stock",
            "SELECT * FROM other.stock",
            "UPDATE `other` . stock SET a = 1",
            "UPDATE stock SET a = 'other.x'",
        ];
        let mut ops: Vec<Op> = texts.map(op).into();
        rules().hide(&mut ops);
        let hidden: Vec<bool> = ops.iter().map(|op| op.executed.is_none()).collect();
        assert_eq!(hidden, [false, true, false]);
    }
}
