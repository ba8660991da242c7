//! The law of projections: what `naive` allows of a history, it allows of every projection of it.
//!
//! `MARGAY_PROJECT_SEEDS=100000 MARGAY_PROJECT_SEED=1` tries that many histories from that seed.

use margay_history::{Access, History, HistoryBuilder, ObjectId, OpKind, Table, TxnId, Value, ValueId};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_naive::Naive;
use margay_rows::{Projection, SeenState, project};
use margay_testkit::{Rng, random};
use margay_verdict::{Budget, Checker, Question, Verdict};

/// What is changed in a copy of a random history.
struct Change {
    /// Whether some initial rows are not known, instead of unseen writers.
    initial: bool,
}

struct Copier<'h> {
    history: &'h History,
    builder: HistoryBuilder,
}

impl<'h> Copier<'h> {
    /// Keys of no table become rows of a table of their own, so that they can be left out too.
    fn new(history: &'h History) -> Self {
        let mut builder = HistoryBuilder::new();
        *builder.header() = history.header().clone();
        Self { history, builder }
    }

    fn value(&mut self, id: ValueId) -> ValueId {
        match self.history.value(id) {
            Value::Null | Value::Unknown | Value::Bool(_) => id,
            Value::Int(int) => self.builder.values().int(int),
            Value::UInt(int) => self.builder.values().uint(int),
            Value::Float(float) => self.builder.values().float(float),
            Value::Text(text) => self.builder.values().text(text),
            Value::List(items) => {
                let items: Vec<_> = items.iter().map(|&item| self.value(item)).collect();
                self.builder.values().list(&items)
            }
            Value::Row(columns) => {
                let name = |name| self.history.name(name).to_owned();
                let columns: Vec<_> = columns.iter().map(|&(n, v)| (name(n), self.value(v))).collect();
                let values = self.builder.values();
                let mut columns: Vec<_> = columns.iter().map(|(n, v)| (values.intern_name(n), *v)).collect();
                columns.sort_unstable();
                values.row(&columns)
            }
        }
    }

    fn object(&mut self, id: ObjectId) -> ObjectId {
        let object = self.history.object(id);
        let table = match object.table {
            Some(table) => self.history.table(table).name.clone(),
            None => self.history.show_object(id),
        };
        let (table, key) = (self.builder.table(&table), self.value(object.key));
        self.builder.object(Some(table), key)
    }

    fn accesses(&mut self, accesses: &[Access], hide: &mut dyn FnMut() -> bool) -> Vec<Access> {
        let mut copied = Vec::with_capacity(accesses.len());
        for access in accesses {
            // Of lists no single reads are left out: see `project`.
            let list = matches!(self.history.value(access.value), Value::List(_));
            let value = if hide() && !list { ValueId::UNKNOWN } else { self.value(access.value) };
            copied.push(Access { object: self.object(access.object), value });
        }
        copied
    }

    fn copy(mut self, rng: &mut Rng, change: &Change) -> Option<History> {
        let history = self.history;
        self.tables(rng, change);
        for &(object, value) in history.initial_values() {
            let object = self.object(object);
            let table = self.builder.object_of(object).table?;
            if !self.builder.tables()[table.index()].initial_unknown {
                let value = self.value(value);
                self.builder.initial(object, value).ok()?;
            }
        }
        for txn in history.txns() {
            let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
            for op in history.ops(txn) {
                let reads = op.kind == OpKind::Read;
                let accesses = self.accesses(op.accesses, &mut || reads && rng.chance(15));
                let observed = history.scan(op.id).is_some_and(|scan| scan.observed)
                    || history.update(op.id).is_some_and(|update| update.observed);
                let detail = self.detail(op, observed);
                self.builder.push(session, label, op.at, op.kind, &accesses, detail).ok()?;
            }
        }
        let label = |txn: TxnId| history.txn_label(txn);
        let evidence = history.evidence();
        evidence.snapshots.iter().for_each(|&(txn, ts)| self.builder.snapshot(label(txn), ts));
        evidence.commits.iter().for_each(|&(txn, ts)| self.builder.commit(label(txn), ts));
        self.builder.finish().ok()
    }

    fn detail(&mut self, op: margay_history::Op<'h>, observed: bool) -> margay_history::OpDetail<'h> {
        use margay_history::OpDetail;
        let history = self.history;
        let table = |builder: &mut HistoryBuilder, table| builder.table(&history.table(table).name);
        match history.detail(op, observed) {
            OpDetail::Scan { table: of, condition, observed } => {
                OpDetail::Scan { table: table(&mut self.builder, of), condition, observed }
            }
            OpDetail::Update { table: of, condition, set, observed } => {
                OpDetail::Update { table: table(&mut self.builder, of), condition, set, observed }
            }
            other => other,
        }
    }

    /// Declares all tables, with what was not seen of them.
    fn tables(&mut self, rng: &mut Rng, change: &Change) {
        let history = self.history;
        let keys = history.objects().filter(|&o| history.object(o).table.is_none());
        let own: Vec<String> = keys.map(|o| history.show_object(o)).collect();
        let names = history.tables().iter().map(|table| table.name.clone()).chain(own);
        for name in names {
            let columns = ["k", "a", "b", "v", "w"].map(|column| (column.to_owned(), "int".to_owned()));
            let open = ["a", "b", "v", "w"].iter().filter(|_| !change.initial && rng.chance(30));
            let open: Vec<String> = open.map(ToString::to_string).collect();
            let table = Table {
                name,
                key: vec!["k".to_owned()],
                columns: columns.to_vec(),
                initial_unknown: change.initial && rng.chance(70),
                written_by_anything: !change.initial && rng.chance(30),
                columns_by_anything: open,
            };
            self.builder.declare_table(table).unwrap();
        }
    }
}

fn allows(history: &History, level: Level, real_time: bool) -> Option<bool> {
    let question = Question { level, real_time, instants: false };
    match Naive.check(history, question, &Budget::unlimited()) {
        Verdict::Holds(_) => Some(true),
        Verdict::Violated(_) => Some(false),
        Verdict::Clean | Verdict::Unknown(_) => None,
    }
}

fn sight(level: Level) -> SeenState {
    match level.family() {
        Family::Serial | Family::Snapshot => SeenState::Stable,
        _ => SeenState::Changing,
    }
}

#[derive(Default, Debug)]
struct Tally {
    allowed: usize,
    still_violated: usize,
    whole: usize,
    less: usize,
}

fn try_seed(seed: u64, change: &Change, tally: &mut Tally) {
    let original = random(seed);
    let mut rng = Rng::new(seed);
    let Some(changed) = Copier::new(&original).copy(&mut rng, change) else { return };
    for &level in &Level::ALL {
        let real_time = original.is_timed() && rng.chance(20);
        let Some(Projection { history, coverage }) = project(&changed, sight(level)) else { continue };
        let (before, after) = (allows(&original, level, real_time), allows(&history, level, real_time));
        match (before, after) {
            (Some(true), Some(false)) => panic!(
                "seed {seed}, {level}: allowed\n{}\nbut not its projection\n{}",
                margay_testkit::show(&original),
                margay_testkit::show(&history)
            ),
            (Some(true), Some(true)) => tally.allowed += 1,
            (Some(false), Some(false)) => tally.still_violated += 1,
            _ => {}
        }
        if coverage.whole() { tally.whole += 1 } else { tally.less += 1 }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn law(change: &Change) -> Tally {
    let (first, count) = (number("MARGAY_PROJECT_SEED", 1), number("MARGAY_PROJECT_SEEDS", 300));
    let mut tally = Tally::default();
    (first..first + count).for_each(|seed| try_seed(seed, change, &mut tally));
    println!("{tally:?}");
    tally
}

#[test]
fn what_is_allowed_is_allowed_of_what_is_left() {
    let tally = law(&Change { initial: false });
    assert!(tally.allowed > 100 && tally.still_violated > 10 && tally.less > 100, "{tally:?}");
}

#[test]
fn what_some_initial_rows_allow_is_allowed_of_the_settled_ones() {
    let tally = law(&Change { initial: true });
    assert!(tally.allowed > 100 && tally.still_violated > 10, "{tally:?}");
    assert!(tally.whole > 10 && tally.less > 100, "{tally:?}");
}
