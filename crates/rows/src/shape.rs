//! What a statement's text says, before its parameters are known.
//!
//! # Invariants
//! A statement is rebuilt from the parts that were understood and compared with what was parsed: a
//! clause that nobody looked at cannot be read over.

use margay_history::{ReadLock, Table};
use margay_sql::Dialect;
use sqlparser::ast::{
    self, Assignment, Expr, GroupByExpr, OnConflictAction, OnInsert, OrderByKind, OrderBySort, SelectItem,
    SetExpr, Statement,
};
use sqlparser::dialect as grammar;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Tokenizer;

use crate::class::has_default;
use crate::fill::numbered;
use crate::split::{Operand, column, conjuncts, equality, last, only_table, operand, target};

/// A statement on one table, given by its number.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub table: usize,
    pub verb: Verb,
}

impl Shape {
    /// Whether it has a RETURNING clause.
    pub fn returns(&self) -> bool {
        match &self.verb {
            Verb::Insert { returning, .. } | Verb::Update { returning, .. } => returning.is_some(),
            Verb::Delete { returns, .. } => *returns,
            Verb::Select { .. } => false,
        }
    }

    /// The shape, unless it is of a read that locks: one of MySQL sees another state than the reads
    /// around it; elsewhere it sees the same, or fails.
    pub fn without_lock(self: std::sync::Arc<Self>) -> Result<std::sync::Arc<Self>, String> {
        match self.verb {
            Verb::Select { lock: Some(_), .. } => {
                Err("a locking read of a database where it sees newer versions than other reads".into())
            }
            _ => Ok(self),
        }
    }
}

/// What a statement does.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Select {
        asked: Asked,
        /// For each output the column it shows, if it is one.
        outputs: Vec<Option<usize>>,
        limit: Option<Limit>,
        /// How it locks what it returns.
        lock: Option<ReadLock>,
    },
    /// Rows with an operand for each column.
    Insert {
        rows: Vec<Vec<Operand>>,
        /// For each output of RETURNING the column it shows, if it is one.
        returning: Option<Vec<Option<usize>>>,
    },
    Update {
        asked: Asked,
        /// The columns that are set, and to what, where that does not depend on the row.
        sets: Vec<(usize, Option<Operand>)>,
        /// The text after SET.
        text: String,
        /// As for an INSERT.
        returning: Option<Vec<Option<usize>>>,
    },
    Delete {
        asked: Asked,
        returns: bool,
    },
}

/// Which rows.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The key, if it is all that is asked for.
    pub key: Option<Vec<Operand>>,
    /// The key, also if more is asked for.
    pub pinned: Option<Vec<Operand>>,
    /// The text of the condition.
    pub condition: String,
}

/// The first rows in some order.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub most: Operand,
    /// The column that orders the rows, and tells those of the condition apart.
    pub by: usize,
    pub descending: bool,
}

/// Reads a statement; says what it is that has no shape.
///
/// `partly`: what it writes need not all be known, and a locking read may see another state than
/// the reads around it.
pub(crate) fn shape(text: &str, tables: &[Table], dialect: Dialect, partly: bool) -> Result<Shape, String> {
    let reader = Reader { tables, partly };
    match &parsed(text, dialect)? {
        Statement::Query(query) => reader.select(query),
        Statement::Insert(insert) => reader.insert(insert),
        Statement::Update(update) => reader.update(update),
        Statement::Delete(delete) => reader.delete(delete),
        _ => Err("a statement of another kind".into()),
    }
}

/// The one statement of a text.
pub(crate) fn parsed(text: &str, dialect: Dialect) -> Result<Statement, String> {
    let text = numbered(text).ok_or("parameters of two kinds")?;
    let text = share_mode(&text);
    let tokens = Tokenizer::new(rules(dialect), &text).tokenize_with_location();
    let tokens = tokens.map_err(|error| error.to_string())?;
    margay_sql::check_depth(&tokens).map_err(|error| error.to_string())?;
    let mut parser = Parser::new(rules(dialect)).with_tokens_with_locations(tokens);
    let mut parsed = parser.parse_statements().map_err(|error| error.to_string())?;
    match (parsed.pop(), parsed.is_empty()) {
        (Some(statement), true) => Ok(statement),
        _ => Err("more than one statement".into()),
    }
}

/// MySQL's older word for FOR SHARE.
fn share_mode(text: &str) -> String {
    const OLD: &str = "lock in share mode";
    let end = text.trim_end_matches(|end: char| end.is_whitespace() || end == ';');
    match end.len().checked_sub(OLD.len()).and_then(|at| end.split_at_checked(at)) {
        Some((rest, word)) if word.eq_ignore_ascii_case(OLD) => format!("{rest}FOR SHARE"),
        _ => text.to_owned(),
    }
}

/// The table of a statement that asks for rows by the values of columns and nothing else, and these
/// columns.
pub(crate) fn keyless(text: &str, tables: &[Table], dialect: Dialect) -> Option<(usize, Vec<String>)> {
    let statement = parsed(text, dialect).ok()?;
    let (name, selection) = match &statement {
        Statement::Query(query) => {
            let SetExpr::Select(select) = query.body.as_ref() else { return None };
            (only_table(select.from.first()?)?, select.selection.as_ref()?)
        }
        Statement::Update(update) => (only_table(&update.table)?, update.selection.as_ref()?),
        Statement::Delete(delete) => {
            let ast::FromTable::WithFromKeyword(from) = &delete.from else { return None };
            (only_table(from.first()?)?, delete.selection.as_ref()?)
        }
        _ => return None,
    };
    let reader = Reader { tables, partly: true };
    let table = tables.iter().position(|table| table.name.eq_ignore_ascii_case(name))?;
    let fixed = reader.fixed(Some(selection), table);
    let mut columns: Vec<usize> = fixed.iter().map(|(column, _)| *column).collect();
    columns.sort_unstable();
    columns.dedup();
    let whole = columns.len() == conjuncts(selection).len();
    whole.then(|| (table, columns.into_iter().map(|at| tables[table].columns[at].0.clone()).collect()))
}

fn rules(dialect: Dialect) -> &'static dyn grammar::Dialect {
    match dialect {
        // In MySQL's grammar `$1` is a name.
        Dialect::Generic | Dialect::MySql | Dialect::TiDb => &grammar::GenericDialect {},
        Dialect::Postgres | Dialect::Cockroach => &grammar::PostgreSqlDialect {},
        Dialect::Sqlite => &grammar::SQLiteDialect {},
    }
}

struct Reader<'a> {
    tables: &'a [Table],
    partly: bool,
}

impl Reader<'_> {
    fn select(&self, query: &ast::Query) -> Result<Shape, String> {
        let SetExpr::Select(select) = query.body.as_ref() else { return Err("a set operation".into()) };
        let [from] = select.from.as_slice() else { return Err("no table, or several".into()) };
        let table = self.table(only_table(from).ok_or("a join or a derived table")?)?;
        if !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty()) {
            return Err("GROUP BY".into());
        }
        let outputs = self.outputs(&select.projection, table)?;
        let selection = select.selection.as_ref();
        let mut rebuilt = format!("SELECT {} FROM {from}", list(&select.projection));
        if let Some(selection) = selection {
            rebuilt += &format!(" WHERE {selection}");
        }
        if let Some(order) = &query.order_by {
            rebuilt += &format!(" {order}");
        }
        if let Some(limit) = &query.limit_clause {
            rebuilt += &limit.to_string();
        }
        let lock = self.locks(query, &mut rebuilt)?;
        same(&rebuilt, &query.to_string())?;
        let asked = self.asked(selection, table);
        let limit = |limit: &ast::LimitClause| match (&asked.pinned, limit) {
            (Some(_), ast::LimitClause::LimitOffset { limit: Some(most), offset: None, limit_by })
                if limit_by.is_empty() =>
            {
                let most = operand(most).ok_or("a LIMIT that is computed")?;
                Ok(Limit { most, by: self.key(table)[0], descending: false })
            }
            (_, limit) => self.limit(limit, query, table),
        };
        let limit = query.limit_clause.as_ref().map(limit).transpose()?;
        Ok(Shape { table, verb: Verb::Select { asked, outputs, limit, lock } })
    }

    /// How it locks.
    fn locks(&self, query: &ast::Query, rebuilt: &mut String) -> Result<Option<ReadLock>, String> {
        if query.locks.iter().any(skips) {
            return Err("rows that others have locked are left out".into());
        }
        query.locks.iter().for_each(|lock| *rebuilt += &format!(" {lock}"));
        Ok(read_lock(query))
    }

    fn outputs(&self, items: &[SelectItem], table: usize) -> Result<Vec<Option<usize>>, String> {
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::Wildcard(_) => outputs.extend((0..self.tables[table].columns.len()).map(Some)),
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    match (column(expr), operand(expr)) {
                        (Some(name), _) => outputs.push(Some(self.column(table, name)?)),
                        (None, Some(_)) => outputs.push(None),
                        (None, None) => return Err(format!("the output {expr}")),
                    }
                }
                other => return Err(format!("the output {other}")),
            }
        }
        Ok(outputs)
    }

    fn limit(&self, limit: &ast::LimitClause, query: &ast::Query, table: usize) -> Result<Limit, String> {
        let refused = || "a LIMIT whose rows its order does not tell".to_owned();
        let ast::LimitClause::LimitOffset { limit: Some(most), offset: None, limit_by } = limit else {
            return Err(refused());
        };
        let order = query.order_by.as_ref().ok_or_else(refused)?;
        let OrderByKind::Expressions(by) = &order.kind else { return Err(refused()) };
        let ([by], true) = (by.as_slice(), limit_by.is_empty()) else { return Err(refused()) };
        let column = self.column(table, column(&by.expr).ok_or_else(refused)?)?;
        let SetExpr::Select(select) = query.body.as_ref() else { return Err(refused()) };
        let fixed = self.fixed(select.selection.as_ref(), table);
        let told = |key: usize| key == column || fixed.iter().any(|(fixed, _)| *fixed == key);
        if !self.key(table).into_iter().all(told) || !self.key(table).contains(&column) {
            return Err(refused());
        }
        let descending = by.options.sort == Some(OrderBySort::Desc);
        Ok(Limit { most: operand(most).ok_or_else(refused)?, by: column, descending })
    }

    fn insert(&self, insert: &ast::Insert) -> Result<Shape, String> {
        let ast::TableObject::TableName(name) = &insert.table else { return Err("no table".into()) };
        let table = self.table(last(name).ok_or("no table")?)?;
        let source = insert.source.as_ref().ok_or("INSERT without VALUES")?;
        let SetExpr::Values(values) = source.body.as_ref() else { return Err("INSERT … SELECT".into()) };
        let columns: Vec<usize> = match insert.columns.as_slice() {
            [] => (0..self.tables[table].columns.len()).collect(),
            named => named
                .iter()
                .map(|name| self.column(table, last(name).unwrap_or_default()))
                .collect::<Result<_, _>>()?,
        };
        let mut rebuilt = format!("INSERT INTO {name}");
        if !insert.columns.is_empty() {
            rebuilt += &format!(" ({})", list(&insert.columns));
        }
        rebuilt += &format!(" {values}");
        if let Some(on) = &insert.on {
            self.upsert(on, table, &columns)?;
            rebuilt += &on.to_string();
        }
        let returning = self.returning(insert.returning.as_deref(), table, &mut rebuilt)?;
        same(&rebuilt, &insert.to_string())?;
        let rows = values.rows.iter().map(|row| self.insert_row(row, table, &columns));
        let rows = rows.collect::<Result<_, _>>()?;
        Ok(Shape { table, verb: Verb::Insert { rows, returning } })
    }

    /// The columns that RETURNING shows.
    fn returning(
        &self,
        items: Option<&[SelectItem]>,
        table: usize,
        rebuilt: &mut String,
    ) -> Result<Option<Vec<Option<usize>>>, String> {
        let Some(items) = items else { return Ok(None) };
        *rebuilt += &format!(" RETURNING {}", list(items));
        self.outputs(items, table).map(Some)
    }

    /// Columns that are not given are NULL, unless they have a value of their own.
    fn insert_row(&self, row: &[Expr], table: usize, columns: &[usize]) -> Result<Vec<Operand>, String> {
        let own =
            |column| if has_default(&self.tables[table], column) { Operand::Unknown } else { Operand::Null };
        let mut all: Vec<Operand> = (0..self.tables[table].columns.len()).map(own).collect();
        if row.len() != columns.len() {
            return Err("a row that is too short or too long".into());
        }
        for (&column, expr) in columns.iter().zip(row) {
            all[column] = match operand(expr) {
                Some(operand) => operand,
                None if self.partly || is_default(expr) => Operand::Unknown,
                None => return Err(format!("the value {expr}")),
            };
        }
        Ok(all)
    }

    /// An upsert writes the row that it gives, if on a conflict it sets all columns but the key to
    /// what was given.
    fn upsert(&self, on: &OnInsert, table: usize, given: &[usize]) -> Result<(), String> {
        let sets = match on {
            OnInsert::DuplicateKeyUpdate(sets) => sets,
            OnInsert::OnConflict(conflict) => match &conflict.action {
                OnConflictAction::DoUpdate(update) if update.selection.is_none() => &update.assignments,
                _ => return Err("an INSERT that may do nothing".into()),
            },
            _ => return Err(format!("INSERT{on}")),
        };
        let mut rest: Vec<usize> = (0..self.tables[table].columns.len()).collect();
        rest.retain(|column| !self.key(table).contains(column));
        for set in sets {
            let name = target(&set.target).ok_or("an assignment of several columns")?;
            let value = set.value.to_string().to_ascii_lowercase();
            let low = name.to_ascii_lowercase();
            if value != format!("excluded.{low}") && value != format!("values({low})") {
                return Err(format!("the assignment {set}"));
            }
            let column = self.column(table, name)?;
            rest.retain(|other| *other != column);
        }
        let whole = rest.is_empty() && given.len() == self.tables[table].columns.len();
        if whole { Ok(()) } else { Err("an upsert that leaves columns as they are".into()) }
    }

    fn update(&self, update: &ast::Update) -> Result<Shape, String> {
        let table = self.table(only_table(&update.table).ok_or("a join")?)?;
        let sets = list(&update.assignments);
        let mut rebuilt = format!("UPDATE {} SET {sets}", update.table);
        if let Some(selection) = &update.selection {
            rebuilt += &format!(" WHERE {selection}");
        }
        let returning = self.returning(update.returning.as_deref(), table, &mut rebuilt)?;
        if returning.is_some() && !self.partly {
            return Err("RETURNING, which shows more than what was written".into());
        }
        same(&rebuilt, &update.to_string())?;
        let asked = self.asked(update.selection.as_ref(), table);
        let set = |assignment: &Assignment| {
            let name = target(&assignment.target).ok_or("an assignment of several columns")?;
            Ok((self.column(table, name)?, operand(&assignment.value)))
        };
        let set: Vec<_> = update.assignments.iter().map(set).collect::<Result<_, String>>()?;
        if set.iter().any(|(column, _)| self.key(table).contains(column)) {
            return Err("an UPDATE of a key".into());
        }
        Ok(Shape { table, verb: Verb::Update { asked, sets: set, text: sets, returning } })
    }

    fn delete(&self, delete: &ast::Delete) -> Result<Shape, String> {
        let ast::FromTable::WithFromKeyword(from) = &delete.from else { return Err("DELETE".into()) };
        let [from] = from.as_slice() else { return Err("DELETE from several tables".into()) };
        let table = self.table(only_table(from).ok_or("a join")?)?;
        let mut rebuilt = format!("DELETE FROM {from}");
        if let Some(selection) = &delete.selection {
            rebuilt += &format!(" WHERE {selection}");
        }
        let returns =
            self.partly && self.returning(delete.returning.as_deref(), table, &mut rebuilt)?.is_some();
        same(&rebuilt, &delete.to_string())?;
        let asked = self.asked(delete.selection.as_ref(), table);
        Ok(Shape { table, verb: Verb::Delete { asked, returns } })
    }

    fn table(&self, name: &str) -> Result<usize, String> {
        let found = self.tables.iter().position(|table| table.name.eq_ignore_ascii_case(name));
        let declared = |table: &usize| {
            let table = &self.tables[*table];
            !table.key.is_empty() && !table.columns.is_empty()
        };
        found.filter(declared).ok_or_else(|| format!("table {name} is not declared with its key and columns"))
    }

    fn column(&self, table: usize, name: &str) -> Result<usize, String> {
        let table = &self.tables[table];
        let found = table.columns.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("table {} has no column {name}", table.name))
    }

    /// The numbers of the key's columns.
    fn key(&self, table: usize) -> Vec<usize> {
        key(&self.tables[table])
    }

    /// The columns that a condition fixes.
    fn fixed(&self, selection: Option<&Expr>, table: usize) -> Vec<(usize, Operand)> {
        let parts = selection.map(conjuncts).unwrap_or_default();
        let fixed = parts.into_iter().filter_map(equality);
        fixed.filter_map(|(name, value)| Some((self.column(table, name).ok()?, value))).collect()
    }

    fn asked(&self, selection: Option<&Expr>, table: usize) -> Asked {
        let Some(selection) = selection else {
            return Asked { key: None, pinned: None, condition: "1 = 1".to_owned() };
        };
        let (parts, fixed) = (conjuncts(selection).len(), self.fixed(Some(selection), table));
        let operand = |column: &usize| {
            let mut found = fixed.iter().filter(|(fixed, _)| fixed == column);
            found.next().filter(|_| found.next().is_none()).map(|(_, operand)| operand.clone())
        };
        let key = self.key(table);
        let whole = parts == key.len();
        let pinned = key.iter().map(operand).collect::<Option<Vec<_>>>();
        Asked { key: pinned.clone().filter(|_| whole), pinned, condition: selection.to_string() }
    }
}

/// Whether a value is the word DEFAULT.
fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}

/// How a query locks what it returns.
pub(crate) fn read_lock(query: &ast::Query) -> Option<ReadLock> {
    let strength = |lock: &ast::LockClause| match lock.lock_type {
        ast::LockType::Share => ReadLock::Share,
        ast::LockType::Update => ReadLock::Exclusive,
    };
    query.locks.first().map(strength)
}

/// Whether a lock clause leaves out what others have locked.
pub(crate) fn skips(lock: &ast::LockClause) -> bool {
    matches!(lock.nonblock, Some(ast::NonBlock::SkipLocked))
}

/// The numbers of the columns of a table's key.
pub(crate) fn key(table: &Table) -> Vec<usize> {
    let place = |name: &String| table.columns.iter().position(|(column, _)| column == name);
    table.key.iter().filter_map(place).collect()
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn same(rebuilt: &str, whole: &str) -> Result<(), String> {
    if rebuilt == whole { Ok(()) } else { Err(format!("a clause of {whole}")) }
}
