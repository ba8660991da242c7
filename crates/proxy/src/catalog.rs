//! What the database's catalogs say: tables, keys, types, and what writes without being asked to.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use margay_history::Table;
use postgres::types::Type;
use postgres::{Client, SimpleQueryMessage};

use crate::level::OwnLevel;
use crate::mysql::Rules;
use crate::text::code;

/// The catalogs of one database.
#[derive(Clone, Default, Debug)]
pub(crate) struct Catalog {
    pub version: String,
    /// The product with its version: `postgresql-15.14`.
    pub dbms: String,
    pub database: String,
    /// The level of sessions that ask for none, if it is the same for all of them.
    pub level: Option<OwnLevel>,
    pub tables: Vec<KnownTable>,
    /// Tables whose writes may write anything else, and why.
    pub hazards: BTreeMap<String, String>,
    /// By what texts are read, if this is MySQL.
    pub mysql: Option<Rules>,
    /// The names of all relations outside of the system's schemas, in lower case.
    relations: BTreeSet<String>,
    /// The names of functions that may write.
    volatile: BTreeSet<String>,
    /// The tables that partitions belong to.
    partitions: HashMap<String, String>,
    /// Whether there is a function that may change the schema.
    pub shapes: bool,
    /// Which files tables are in: one that is written anew gets another.
    files: Vec<Vec<String>>,
    /// Whether something that may write has no name that can be found in a text: operators, casts,
    /// odd names.
    hidden: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct KnownTable {
    pub table: Table,
    /// Its name in SQL, with its schema.
    pub path: String,
    /// The numbers of its columns' types.
    pub kinds: Vec<u32>,
    /// Why its contents may change without a statement that says so.
    pub anything: Option<String>,
    /// Whether the server's log does not tell its contents either.
    pub untold: bool,
    /// Whether the log does not have its rows.
    pub unlogged: bool,
    /// The file that it is in, if rows are looked up: a table that is emptied gets another one.
    pub file: Option<String>,
}

const COLUMNS: &str = "\
SELECT c.oid::text, n.nspname, c.relname, a.attname, t.typname, a.atttypid::text, a.atttypmod::text,
       a.attgenerated <> '', coalesce(NOT l.collisdeterministic, false), a.atthasdef,
       a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false),
       c.relpersistence <> 'p'
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname <> 'information_schema'
  AND n.nspname NOT LIKE 'pg\\_%' AND c.relpersistence <> 't'
ORDER BY c.oid, a.attnum";

const KEYS: &str = "\
SELECT i.indrelid::text, a.attname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indisprimary AND i.indisvalid AND k.place <= i.indnkeyatts
ORDER BY i.indrelid, k.place";

/// Tables that something else writes: foreign keys with actions, inheritance, rules, triggers.
const WRITERS: &str = "\
SELECT conrelid::text, 'a foreign key that changes its rows'
FROM pg_constraint WHERE contype = 'f' AND (confdeltype NOT IN ('a', 'r') OR confupdtype NOT IN ('a', 'r'))
UNION ALL SELECT inhrelid::text, 'inheritance' FROM pg_inherits
UNION ALL SELECT inhparent::text, 'inheritance' FROM pg_inherits
  JOIN pg_class ON pg_class.oid = inhparent WHERE relkind = 'r'
UNION ALL SELECT ev_class::text, 'a rule' FROM pg_rewrite WHERE rulename <> '_RETURN'
UNION ALL SELECT tgrelid::text, 'a trigger' FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'
UNION ALL SELECT oid::text, 'row security' FROM pg_class WHERE relrowsecurity";

const RELATIONS: &str = "\
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')";

/// Functions that may write, and what may call them.
const VOLATILE: &str = "\
SELECT proname FROM pg_proc WHERE provolatile = 'v'
UNION SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname NOT IN ('pg_catalog', 'information_schema') AND relkind IN ('v', 'm', 'f')";

const HIDDEN: &str = "\
SELECT 1 FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode WHERE provolatile = 'v' AND o.oid >= 16384
UNION ALL SELECT 1 FROM pg_cast c JOIN pg_proc p ON p.oid = c.castfunc WHERE provolatile = 'v' AND c.oid >= 16384
UNION ALL SELECT 1 FROM pg_proc WHERE provolatile = 'v' AND proname !~ '^[A-Za-z0-9_]+$'
LIMIT 1";

const PARTITIONS: &str = "\
SELECT n.nspname, c.relname, m.nspname, r.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class r ON r.oid = pg_partition_root(c.oid) JOIN pg_namespace m ON m.oid = r.relnamespace
WHERE c.relispartition";

/// Functions of users that may make, change or hide tables.
const SHAPES: &str = "\
SELECT 1 FROM pg_proc p JOIN pg_language l ON l.oid = prolang
WHERE provolatile = 'v' AND p.oid >= 16384
  AND (lanname NOT IN ('sql', 'plpgsql') OR prosrc = '' OR prosrc ~* '\\m(create|alter|drop|truncate|temp|temporary|execute)\\M')
LIMIT 1";

const FILES: &str = "\
SELECT oid::text, pg_relation_filenode(oid)::text FROM pg_class
WHERE relkind = 'r' AND oid >= 16384 AND relpersistence <> 't' ORDER BY oid";

/// The server's version.
pub(crate) fn version(client: &mut Client) -> Result<String, String> {
    let shown = rows(client, "SHOW server_version")?.into_iter().flatten().next().unwrap_or_default();
    Ok(shown.split_whitespace().next().unwrap_or_default().to_owned())
}

impl Catalog {
    /// Asks the database.
    pub fn read(client: &mut Client) -> Result<Self, String> {
        let about = rows(
            client,
            "SELECT current_database(), current_setting('default_transaction_isolation'),
                    EXISTS (SELECT FROM pg_db_role_setting WHERE setconfig::text LIKE '%transaction_isolation%')",
        )?;
        let about = about.into_iter().next().ok_or("the server does not say who it is")?;
        let level = if about[2] == "t" { None } else { OwnLevel::named(&about[1]) };
        let version = version(client)?;
        let dbms = format!("postgresql-{version}");
        let mut catalog = Self { version, dbms, database: about[0].clone(), level, ..Self::default() };
        catalog.read_tables(client)?;
        Ok(catalog)
    }

    fn read_tables(&mut self, client: &mut Client) -> Result<(), String> {
        let mut by_oid: BTreeMap<String, usize> = BTreeMap::new();
        for row in rows(client, COLUMNS)? {
            let at = *by_oid.entry(row[0].clone()).or_insert_with(|| {
                let path = format!("{}.{}", quoted(&row[1]), quoted(&row[2]));
                let table = Table { name: row[2].clone(), ..Table::default() };
                let (kinds, unlogged) = (Vec::new(), row[11] == "t");
                let known =
                    KnownTable { table, path, kinds, anything: None, untold: unlogged, unlogged, file: None };
                self.tables.push(known);
                self.tables.len() - 1
            });
            let known = &mut self.tables[at];
            let [generated, folds, default, counts] = [7, 8, 9, 10].map(|at| row[at] == "t");
            let mut kind = type_name(&row[4], &row[6], counts);
            if default && !generated && !counts {
                // The translator takes a column that INSERT leaves out for unknown then, not for
                // NULL.
                kind += " default";
            }
            known.table.columns.push((row[3].clone(), kind));
            known.kinds.push(row[5].parse().unwrap_or(0));
            if generated {
                known.table.columns_by_anything.push(row[3].clone());
            }
            if folds {
                known.untold = true;
                known.anything.get_or_insert_with(|| "a collation that is not deterministic".to_owned());
            }
        }
        for row in rows(client, KEYS)? {
            if let Some(&at) = by_oid.get(&row[0]) {
                self.tables[at].table.key.push(row[1].clone());
            }
        }
        for row in rows(client, WRITERS)? {
            let Some(known) = by_oid.get(&row[0]).map(|&at| &mut self.tables[at]) else { continue };
            // What these write, the log has.
            known.untold |= matches!(row[1].as_str(), "inheritance" | "row security");
            if matches!(row[1].as_str(), "a rule" | "a trigger") {
                let hazard = self.hazards.entry(known.table.name.clone()).or_default();
                // A rule may do something else instead; a trigger does it besides.
                if hazard != "a rule" {
                    hazard.clone_from(&row[1]);
                }
            }
            known.anything.get_or_insert_with(|| row[1].clone());
        }
        for KnownTable { table, anything, .. } in &mut self.tables {
            let Table { key, columns_by_anything: open, .. } = table;
            open.retain(|column| !key.contains(column));
            open.sort_unstable();
            table.written_by_anything = anything.is_some();
        }
        self.find_namesakes();
        let names = |found: Vec<Vec<String>>| found.into_iter().map(|row| row[0].to_lowercase()).collect();
        self.relations = names(rows(client, RELATIONS)?);
        self.hidden = !rows(client, HIDDEN)?.is_empty();
        self.volatile = names(rows(client, VOLATILE)?);
        self.shapes = !rows(client, SHAPES)?.is_empty();
        self.files = rows(client, FILES)?;
        // Servers before version 12 do not know roots.
        for row in rows(client, PARTITIONS).unwrap_or_default() {
            let path = |at: usize| format!("{}.{}", quoted(&row[at]), quoted(&row[at + 1]));
            self.partitions.insert(path(0), path(2));
        }
        Ok(())
    }

    /// Whether all tables are what they were, and in the files that they were in.
    pub fn is_same(&self, other: &Catalog) -> bool {
        let tables = |catalog: &Catalog| {
            let all = catalog.tables.iter();
            all.map(|it| (it.path.clone(), it.table.clone(), it.kinds.clone())).collect::<Vec<_>>()
        };
        self.files == other.files && self.hazards == other.hazards && tables(self) == tables(other)
    }

    /// The path of the table that a name of the log is about: `public.t`, `"a b".t`.
    pub fn root(&self, name: &str) -> String {
        let (schema, table) = match name.strip_prefix('"') {
            Some(rest) => rest.split_once("\".").unwrap_or((rest, "")),
            None => name.split_once('.').unwrap_or((name, "")),
        };
        let plain = |name: &str| quoted(&name.trim_matches('"').replace("\"\"", "\""));
        let path = format!("{}.{}", plain(schema), plain(table));
        self.partitions.get(&path).cloned().unwrap_or(path)
    }

    /// Whether `COPY … TO` can write nothing.
    pub fn only_copies(&self, code: &str) -> bool {
        self.is_query_without(&code.trim_start().replacen("copy", "select", 1), |_| false)
    }

    /// Whether a query reads nothing but what belongs to the system, and can write nothing: no
    /// relation of the database is named, and no function that may write.
    pub fn is_about_the_system(&self, text: &str) -> bool {
        match &self.mysql {
            Some(rules) => rules.is_about_the_system(text),
            None => self.is_query_without(text, |word| self.relations.contains(word)),
        }
    }

    /// Whether a statement is a query that can write nothing.
    pub fn only_reads(&self, text: &str) -> bool {
        match &self.mysql {
            Some(rules) => rules.only_reads(text),
            None => self.is_query_without(text, |_| false),
        }
    }

    /// Whether a text is a query that names nothing that may write, nor any of these.
    fn is_query_without(&self, text: &str, names: impl Fn(&str) -> bool) -> bool {
        let text = code(text);
        if self.hidden || !text.is_ascii() || text.contains("u&\"") {
            return false;
        }
        let mut words =
            text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        let queries = matches!(words.next(), Some("select" | "with"));
        let writes = ["insert", "update", "delete", "merge", "into", "share"];
        queries && !words.any(|word| writes.contains(&word) || names(word) || self.volatile.contains(word))
    }

    /// Statements name tables without their schema, in whatever case.
    pub fn find_namesakes(&mut self) {
        let mut seen = HashMap::<String, usize>::new();
        for known in &self.tables {
            *seen.entry(known.table.name.to_lowercase()).or_default() += 1;
        }
        let twice: BTreeSet<String> =
            seen.into_iter().filter(|(_, times)| *times > 1).map(|(name, _)| name).collect();
        self.tables.retain(|known| !twice.contains(&known.table.name.to_lowercase()));
    }
}

/// The types of a statement's parameters and columns, as the server sees them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Described {
    pub parameters: Vec<u32>,
    pub columns: Vec<u32>,
}

/// Has the server describe a statement; nothing if it cannot.
pub(crate) fn describe(client: &mut Client, text: &str, types: &[u32]) -> Option<Described> {
    let known = |&kind: &u32| if kind == 0 { Some(Type::UNKNOWN) } else { Type::from_oid(kind) };
    let types = types.iter().map(known).collect::<Option<Vec<_>>>()?;
    let statement = client.prepare_typed(text, &types).ok()?;
    let parameters = statement.params().iter().map(Type::oid).collect();
    let columns = statement.columns().iter().map(|column| column.type_().oid()).collect();
    Some(Described { parameters, columns })
}

/// What a query returns, as texts; NULL is empty.
pub(crate) fn rows(client: &mut Client, query: &str) -> Result<Vec<Vec<String>>, String> {
    let answers = client.simple_query(query).map_err(|error| shown(&error))?;
    let found = answers.iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect())
        }
        _ => None,
    });
    Ok(found.collect())
}

pub(crate) fn shown(error: &postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The names that the translator knows.
fn type_name(name: &str, modifier: &str, counts: bool) -> String {
    let modifier: i64 = modifier.parse().unwrap_or(-1);
    match name {
        "int2" if counts => "smallserial".to_owned(),
        "int4" if counts => "serial".to_owned(),
        "int8" if counts => "bigserial".to_owned(),
        "int2" => "smallint".to_owned(),
        "int4" => "int".to_owned(),
        "int8" => "bigint".to_owned(),
        "bool" => "boolean".to_owned(),
        "timestamp" if modifier < 0 => "timestamp without time zone".to_owned(),
        "bpchar" => format!("char({})", (modifier - 4).max(1)),
        "varchar" if modifier > 4 => format!("varchar({})", modifier - 4),
        "numeric" if modifier > 4 => format!("numeric({}, {})", (modifier - 4) >> 16, (modifier - 4) & 0x7ff),
        other if modifier >= 0 => format!("{other}({modifier})"),
        other => other.to_owned(),
    }
}
