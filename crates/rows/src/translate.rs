//! The history of rows.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use margay_history::{
    Access, History, HistoryBuilder, ObjectId, OpDetail, OpKind, Outcome, ReadLock, Statement, Table, TxnId,
    Version,
};
use margay_sql::Dialect;

use crate::blunt::{Blunt, blunt, calls_what_is_known};
use crate::fill::without_comments;
use crate::shape::{Shape, keyless, shape};
use crate::statement::{Became, KnownRows, Run};

/// What a transaction sees in the course of its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeenState {
    /// One state and its own writes, as at the serializable and snapshot levels.
    Stable,
    /// Each statement may see another.
    Changing,
}

/// A history without the statements that could be translated.
#[derive(Debug)]
pub struct Rows {
    /// The history.
    pub history: History,
    /// The first statement that is left in a transaction that may have committed.
    pub left: Option<Left>,
    /// How many predicate updates of such transactions there are, whose rows nobody saw.
    pub unseen: usize,
}

/// A statement that stays one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Its text.
    pub text: Arc<str>,
    /// Why.
    pub why: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no operation on rows: {}", self.text, self.why)
    }
}

/// Translates the statements of a history; nothing when it has none.
#[must_use]
pub fn translate(history: &History, sight: SeenState) -> Option<Rows> {
    rows(history, Translator::new(history.tables(), history.header().dbms.as_deref(), sight))
}

/// Translates the statements of a history as far as something is known of them, for engines that
/// can do with that: columns that were written to a value that nobody saw are unknown, a write of
/// rows that nobody saw is a predicate update, and what a query that is not understood returned is
/// not observed. Nothing when there are no statements.
#[must_use]
pub fn translate_partly(history: &History, sight: SeenState) -> Option<Rows> {
    let Rows { history, left, unseen } = partly(history, sight)?;
    Some(Rows { history: opened(history)?, left, unseen })
}

/// The same, and the tables say what was not seen of them.
pub(crate) fn partly(history: &History, sight: SeenState) -> Option<Rows> {
    rows(history, Translator::new(history.tables(), history.header().dbms.as_deref(), sight).partly())
}

/// A history whose initial rows are all given, those of tables that were not seen with a value that
/// is not known.
fn opened(history: History) -> Option<History> {
    let tables = history.tables();
    if tables.iter().any(Table::has_unseen_writers) || !tables.iter().any(|table| table.initial_unknown) {
        return Some(history);
    }
    let open = |&object: &ObjectId| {
        let given = history.initial_values().binary_search_by_key(&object, |&(o, _)| o).is_ok();
        !given && history.object(object).table.is_some_and(|table| history.table(table).initial_unknown)
    };
    let initial: Vec<ObjectId> = history.objects().filter(open).collect();
    history.with_unknown_initial(&initial).ok()
}

fn rows(history: &History, translator: Translator) -> Option<Rows> {
    if !history.has_kind(OpKind::Sql) {
        return None;
    }
    let builder = HistoryBuilder::like(history);
    let mut copy = Copy { history, translator, known: KnownRows::default(), builder, left: None, unseen: 0 };
    history.txns().try_for_each(|txn| copy.txn(txn))?;
    copy.evidence();
    let (left, unseen) = (copy.left, copy.unseen);
    copy.builder.finish().ok().map(|history| Rows { history, left, unseen })
}

/// SingleStore has no dialect here. Its locking reads are those of MySQL.
pub(crate) fn is_singlestore(dbms: &str) -> bool {
    let dbms = dbms.to_ascii_lowercase();
    dbms.starts_with("singlestore") || dbms.starts_with("memsql")
}

/// So many texts are remembered. Where values are part of texts, each text is new.
const MAX_SHAPES: usize = 20_000;

/// Translates statements one by one, as they come.
#[derive(Debug)]
pub struct Translator {
    tables: Vec<Table>,
    /// Whose keys are made up.
    keyless: Vec<bool>,
    dialect: Dialect,
    sight: SeenState,
    partly: bool,
    /// Whether locking reads see newer versions than the reads around them.
    newer: bool,
    shapes: HashMap<Arc<str>, Read>,
}

/// What is known of a text.
#[derive(Clone, Debug)]
struct Read {
    shape: Result<Arc<Shape>, String>,
    blunt: Option<Arc<Blunt>>,
}

impl Translator {
    /// A translator of statements on these tables, of this database.
    #[must_use]
    pub fn new(tables: &[Table], dbms: Option<&str>, sight: SeenState) -> Self {
        let tables = tables.to_vec();
        let keyless = tables.iter().map(|table| table.key.is_empty() && !table.columns.is_empty()).collect();
        let dialect = Dialect::of_dbms(dbms);
        let newer = dialect.is_mysql() || dbms.is_some_and(is_singlestore);
        Self { tables, keyless, dialect, sight, partly: false, newer, shapes: HashMap::new() }
    }

    /// As [`translate_partly`] does.
    #[must_use]
    pub fn partly(mut self) -> Self {
        self.partly = true;
        self
    }

    /// The rules that statements are read by.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// What a statement becomes. Its values are those of `builder`, where objects and new values
    /// go.
    ///
    /// # Errors
    /// Why it stays a statement.
    pub fn statement(
        &mut self,
        known: &mut KnownRows,
        statement: &Statement,
        builder: &mut HistoryBuilder,
    ) -> Result<Became, String> {
        let Read { shape, blunt } = self.read(&statement.text);
        let mut run = Run {
            tables: &self.tables,
            keyless: &self.keyless,
            dialect: self.dialect,
            sight: self.sight,
            partly: self.partly,
            returns: false,
            known,
            builder,
        };
        let became = shape.and_then(|shape| run.became(&shape, statement));
        match (became, blunt) {
            (Ok(became), _) => Ok(became),
            (Err(_), Some(blunt)) => Ok(run.bluntly(&blunt, statement)),
            (Err(why), None) => {
                known.clear();
                Err(why)
            }
        }
    }

    fn read(&mut self, text: &Arc<str>) -> Read {
        // Comments for tracing differ from statement to statement.
        let text: &str = without_comments(text);
        if let Some(read) = self.shapes.get(text) {
            return read.clone();
        }
        if self.shapes.len() >= MAX_SHAPES {
            self.shapes.clear();
        }
        if self.partly && !calls_what_is_known(text, &self.tables) {
            let why = "a call of a function that may do anything".to_owned();
            let read = Read { shape: Err(why), blunt: None };
            self.shapes.insert(text.into(), read.clone());
            return read;
        }
        if self.partly {
            self.make_up_keys(text);
        }
        let refused = self.newer && !self.partly;
        let shape = shape(text, &self.tables, self.dialect, self.partly).map(Arc::new);
        let shape = shape.and_then(|shape| if refused { shape.without_lock() } else { Ok(shape) });
        let blunt = if self.partly { blunt(text, &self.tables, self.dialect).map(Arc::new) } else { None };
        let read = Read { shape, blunt };
        self.shapes.insert(text.into(), read.clone());
        read
    }

    /// A table without a key gets one when the first statement asks for rows by the values of
    /// columns: whoever asks for the same values means the same rows.
    fn make_up_keys(&mut self, text: &str) {
        if let Some((table, columns)) = keyless(text, &self.tables, self.dialect)
            && self.keyless[table]
            && self.tables[table].key.is_empty()
        {
            self.tables[table].key = columns;
        }
    }
}

struct Copy<'h> {
    history: &'h History,
    translator: Translator,
    known: KnownRows,
    builder: HistoryBuilder,
    left: Option<Left>,
    unseen: usize,
}

impl Copy<'_> {
    fn txn(&mut self, txn: TxnId) -> Option<()> {
        self.known.clear();
        let history = self.history;
        let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
        for op in history.ops(txn) {
            let Some(statement) = history.statement(op.id) else {
                let observed = history.scan(op.id).is_some_and(|scan| scan.observed)
                    || history.update(op.id).is_some_and(|update| update.observed);
                // What other operations do to rows is not followed.
                if op.kind.writes() {
                    self.known.clear();
                }
                let detail = history.detail(op, observed);
                self.builder.push(session, label, op.at, op.kind, op.accesses, detail).ok()?;
                history.read_lock(op.id).into_iter().for_each(|lock| self.builder.lock(lock));
                continue;
            };
            let became = self.translator.statement(&mut self.known, statement, &mut self.builder);
            let became = self.keeps_count(statement, became);
            self.count(txn, statement, &became);
            let (kind, accesses, detail, lock) = match &became {
                Ok(became) => became.operation(),
                Err(_) => (OpKind::Sql, &[][..], history.detail(op, true), None),
            };
            self.builder.push(session, label, op.at, kind, accesses, detail).ok()?;
            lock.into_iter().for_each(|lock| self.builder.lock(lock));
        }
        Some(())
    }

    /// An update whose rows nobody saw says nothing of how many there were, and neither does a write
    /// of rows that are fewer than were counted. Where that was observed, rows would explain less
    /// than what happened: the statement stays.
    fn keeps_count(&self, statement: &Statement, became: Result<Became, String>) -> Result<Became, String> {
        match (&became, statement.count) {
            (Ok(_), _) if self.translator.partly => became,
            (Ok(Became::Update { nothing: false, .. }), Some(_)) => {
                Err("only the number of rows that it changed is known".to_owned())
            }
            (Ok(Became::Write(accesses)), Some(count)) if !self.can_be(count, accesses.len() as u64) => {
                Err("it cannot have changed so many rows".to_owned())
            }
            _ => became,
        }
    }

    /// Whether a write of so many rows can be counted like this: MySQL counts rows that changed, or
    /// those twice.
    fn can_be(&self, count: u64, rows: u64) -> bool {
        count == rows || self.translator.dialect.is_mysql() && count <= 2 * rows
    }

    fn count(&mut self, txn: TxnId, statement: &Statement, became: &Result<Became, String>) {
        if self.history.outcome(txn) == Outcome::Aborted {
            return;
        }
        match became {
            Ok(Became::Update { nothing: false, .. }) => self.unseen += 1,
            Err(why) if self.left.is_none() => {
                self.left = Some(Left { text: Arc::clone(&statement.text), why: why.clone() });
            }
            _ => {}
        }
    }

    fn evidence(&mut self) {
        let history = self.history;
        let label = |txn: TxnId| history.txn_label(txn);
        let version = |version: Version| match version {
            Version::Initial => None,
            Version::Of(txn) => Some(label(txn)),
        };
        let (evidence, builder) = (history.evidence(), &mut self.builder);
        for order in &evidence.version_orders {
            builder.version_order(order.object, order.versions.iter().map(|&v| version(v)).collect());
        }
        for set in &evidence.version_sets {
            let versions = set.versions.iter().map(|&(object, v)| (object, version(v))).collect();
            builder.version_set(label(history.txn_of(set.op)), history.op_index(set.op), versions);
        }
        evidence.snapshots.iter().for_each(|&(txn, ts)| builder.snapshot(label(txn), ts));
        evidence.commits.iter().for_each(|&(txn, ts)| builder.commit(label(txn), ts));
        evidence.serializations.iter().for_each(|&(txn, ts)| builder.serialization(label(txn), ts));
    }
}

impl Became {
    /// The operation's kind, its accesses, what else it says, and its lock.
    #[must_use]
    pub fn operation(&self) -> (OpKind, &[Access], OpDetail<'_>, Option<ReadLock>) {
        match self {
            Became::Read { accesses, lock } => (OpKind::Read, accesses, OpDetail::None, *lock),
            Became::Write(accesses) => (OpKind::Write, accesses, OpDetail::None, None),
            Became::Scan { table, condition, rows, lock } => {
                let detail = OpDetail::Scan { table: *table, condition, observed: rows.is_some() };
                (OpKind::Scan, rows.as_deref().unwrap_or_default(), detail, *lock)
            }
            Became::Update { table, condition, set, nothing } => {
                let (set, observed) = (set.as_deref(), *nothing);
                let detail = OpDetail::Update { table: *table, condition, set, observed };
                (OpKind::Update, &[], detail, None)
            }
        }
    }
}
