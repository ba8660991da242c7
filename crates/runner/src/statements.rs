//! What the mirror is told of an operation: statements as reads and writes of rows, and conditions
//! by numbers.
//!
//! # Algorithm
//! A statement is translated as it comes, with what its own transaction has seen of rows before.
//! Its condition, and that of every scan and predicate update, gets a number of the mirror's; rows
//! are declared when they are first met.
//!
//! # Invariants
//! What is told follows from what clients saw. Of a statement that is not understood at all the
//! mirror hears that anything may have been written.

use std::collections::HashMap;

use margay_history::{Access, HistoryBuilder, OpDetail, OpKind, PredicateId, ReadLock, TableId};
use margay_mirror::{Asked, Mechanisms, Searches, changes};
use margay_rows::{KnownRows, SeenState, Translator};

/// What the mirror is told.
pub struct MirrorInput {
    /// What the operation is.
    pub kind: OpKind,
    /// What it touched.
    pub accesses: Vec<Access>,
    /// What it asked.
    pub asked: Asked,
}

/// Translates the statements of clients as they come.
pub struct Statements {
    translator: Translator,
    /// What the transaction of each client has seen.
    known: Vec<KnownRows>,
    conditions: HashMap<(TableId, Box<str>), PredicateId>,
}

impl Statements {
    /// The tables must have been declared.
    #[must_use]
    pub fn new(builder: &HistoryBuilder, dbms: &str, mechanisms: &Mechanisms, clients: usize) -> Self {
        let sight = if mechanisms.sees_one_state() { SeenState::Stable } else { SeenState::Changing };
        let translator = Translator::new(builder.tables(), Some(dbms), sight).partly();
        Self { translator, known: vec![KnownRows::default(); clients], conditions: HashMap::new() }
    }

    /// Declares the tables and rows that there are.
    pub fn declare(builder: &HistoryBuilder, searches: &mut Searches) {
        for table in builder.tables() {
            searches.table(table.key.clone());
        }
        builder.initial_values().for_each(|access| declare(builder, access, searches));
    }

    /// What the mirror is told of the statement of a client that was pushed last.
    pub fn statement(
        &mut self,
        client: usize,
        builder: &mut HistoryBuilder,
        searches: &mut Searches,
    ) -> MirrorInput {
        let statement = builder.last_statement().cloned();
        let translate =
            |statement| self.translator.statement(&mut self.known[client], &statement, builder).ok();
        let Some(became) = statement.and_then(translate) else {
            return MirrorInput { kind: OpKind::Sql, accesses: Vec::new(), asked: Asked::default() };
        };
        let (kind, accesses, detail, lock) = became.operation();
        let asked = self.asked(&detail, lock, builder, searches);
        accesses.iter().for_each(|access| declare(builder, *access, searches));
        MirrorInput { kind, accesses: accesses.to_vec(), asked }
    }

    /// A client's transaction has ended.
    pub fn ended(&mut self, client: usize) {
        self.known[client].clear();
    }

    /// What an operation asked, with the numbers of the mirror.
    pub fn asked(
        &mut self,
        detail: &OpDetail<'_>,
        lock: Option<ReadLock>,
        builder: &mut HistoryBuilder,
        searches: &mut Searches,
    ) -> Asked {
        let (table, condition, observed) = match detail {
            OpDetail::Scan { table, condition, observed } => (*table, *condition, *observed),
            OpDetail::Update { table, condition, observed, .. } => (*table, *condition, *observed),
            OpDetail::None | OpDetail::Begin { .. } | OpDetail::Sql { .. } => {
                return Asked { lock, ..Asked::default() };
            }
        };
        let dialect = self.translator.dialect();
        let new = || searches.condition(table, condition, dialect);
        let search = *self.conditions.entry((table, condition.into())).or_insert_with(new);
        let unseen = match detail {
            OpDetail::Update { set, observed: false, .. } => {
                Some(changes(*set, dialect, |name| Some(builder.values().intern_name(name))))
            }
            _ => None,
        };
        Asked { search: Some(search), observed, changes: unseen, lock }
    }
}

/// Says what an object is, if it is a row.
pub fn declare(builder: &HistoryBuilder, access: Access, searches: &mut Searches) {
    let object = builder.object_of(access.object);
    if let (Some(table), None) = (object.table, searches.table_of(access.object)) {
        searches.object(access.object, table, object.key);
    }
}

#[cfg(test)]
mod tests {
    use margay_history::{Interval, Table};
    use margay_levels::profile::Found;

    use super::*;

    #[test]
    fn statements_are_told_as_reads_and_writes() {
        let Found(profile) = "postgresql/read-committed".parse().expect("a profile");
        let mut builder = HistoryBuilder::new();
        let column = |name: &str| (name.to_owned(), "bigint".to_owned());
        let columns = vec![column("id"), column("v")];
        let table = Table { name: "t".to_owned(), key: vec!["id".to_owned()], columns, ..Table::default() };
        builder.declare_table(table).expect("a table");
        let mut statements = Statements::new(&builder, "postgresql-15", &Mechanisms::of(profile), 1);
        let mut searches = Searches::default();
        Statements::declare(&builder, &mut searches);
        let mut tell = |text: &str, count| {
            let detail = OpDetail::Sql { text, params: &[], rows: None, count };
            let at = Some(Interval::new(1, 2));
            builder.push(0, 1, at, OpKind::Sql, &[], detail).expect("a statement");
            statements.statement(0, &mut builder, &mut searches)
        };
        let counted = tell("UPDATE t SET v = v + 1 WHERE id = 3", Some(1));
        assert_eq!((counted.kind, counted.accesses.len()), (OpKind::Write, 1));
        let unseen = tell("UPDATE t SET v = 1 WHERE v > 3", Some(2));
        assert!(unseen.kind == OpKind::Update && unseen.asked.changes.is_some() && !unseen.asked.observed);
        let same = tell("DELETE FROM t WHERE v > 3", Some(1));
        assert_eq!(same.asked.search, unseen.asked.search);
        assert_eq!(tell("VACUUM", None).kind, OpKind::Sql);
    }
}
