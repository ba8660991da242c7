//! Histories of every shape through both native forms, plain and compressed.

use margay_formats::{Format, Source, Target};
use margay_history::{
    Access, History, HistoryBuilder, Interval, NameId, ObjectId, OpDetail, OpKind, Table, Unit, ValueId,
};
use proptest::prelude::*;

/// A value to make.
#[derive(Clone, Debug)]
enum Model {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Text(String),
    List(Vec<Model>),
    Row(Vec<(String, Model)>),
}

fn value() -> impl Strategy<Value = Model> {
    let scalar = prop_oneof![
        Just(Model::Null),
        any::<bool>().prop_map(Model::Bool),
        (0_i64..20).prop_map(Model::Int),
        any::<i64>().prop_map(Model::Int),
        any::<u64>().prop_map(Model::UInt),
        any::<f64>().prop_map(Model::Float),
        any::<String>().prop_map(Model::Text),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Model::List),
            proptest::collection::vec(("[a-c]|\\PC", inner), 0..4).prop_map(Model::Row),
        ]
    })
}

fn intern(builder: &mut HistoryBuilder, model: &Model) -> ValueId {
    match model {
        Model::Null => ValueId::NULL,
        Model::Bool(bool) => builder.values().bool(*bool),
        Model::Int(int) => builder.values().int(*int),
        Model::UInt(uint) => builder.values().uint(*uint),
        Model::Float(float) => builder.values().float(*float),
        Model::Text(text) => builder.values().text(text),
        Model::List(items) => {
            let items: Vec<ValueId> = items.iter().map(|item| intern(builder, item)).collect();
            builder.values().list(&items)
        }
        Model::Row(columns) => {
            let mut row: Vec<(NameId, ValueId)> = Vec::new();
            for (name, value) in columns {
                let value = intern(builder, value);
                row.push((builder.values().intern_name(name), value));
            }
            builder.values().row(&row)
        }
    }
}

/// An operation to add to the transaction that a session is in.
#[derive(Clone, Debug)]
struct RandomStep {
    session: u64,
    kind: usize,
    at: Option<(u32, u32)>,
    accesses: Vec<(u8, Model)>,
    texts: (String, String),
    seen: bool,
}

fn step() -> impl Strategy<Value = RandomStep> {
    let accesses = proptest::collection::vec((any::<u8>(), value()), 1..4);
    let at = proptest::option::of(any::<(u32, u32)>());
    (0_u64..4, 0_usize..12, at, accesses, any::<(String, String)>(), any::<bool>()).prop_map(
        |(session, kind, at, accesses, texts, seen)| RandomStep { session, kind, at, accesses, texts, seen },
    )
}

fn object(builder: &mut HistoryBuilder, number: u8) -> ObjectId {
    let small = builder.values().int(i64::from(number / 5));
    let text = builder.values().text("k");
    let both = builder.values().list(&[small, text]);
    let table = builder.table("accounts");
    match number % 5 {
        0 => builder.object(None, small),
        1 => builder.object(None, text),
        2 => builder.object(Some(table), small),
        3 => builder.object(Some(table), both),
        _ => builder.object(None, both),
    }
}

/// The history of the steps; each session goes on in its transaction until an end comes.
fn build(steps: &[RandomStep], stamps: &[(u8, i64)]) -> History {
    let mut builder = HistoryBuilder::new();
    builder.header().unit = Unit::Milliseconds;
    // So much skew that no clock can contradict the order of a session.
    builder.header().skew = i64::MAX;
    let columns = vec![("id".to_string(), "int".to_string()), ("v \"x\"".to_string(), "text".to_string())];
    let table = Table { name: "accounts".into(), key: vec!["id".into()], columns, ..Table::default() };
    let flag = |at: usize| stamps.get(at).is_some_and(|(which, _)| which % 2 == 1);
    let open = if flag(2) { vec!["v \"x\"".to_string()] } else { Vec::new() };
    let table =
        Table { initial_unknown: flag(0), written_by_anything: flag(1), columns_by_anything: open, ..table };
    builder.declare_table(table).unwrap();
    let mut current: [Option<u64>; 4] = [None; 4];
    let mut labels = Vec::new();
    for step in steps {
        let slot = &mut current[step.session as usize];
        let is_new = slot.is_none();
        let label = *slot.get_or_insert_with(|| {
            labels.push(labels.len() as u64 * 7);
            labels[labels.len() - 1]
        });
        if is_new && step.at.is_some() {
            let level = step.seen.then_some(step.texts.0.as_str());
            let unit = (step.accesses.len() > 1).then_some(step.texts.1.as_str());
            let detail = OpDetail::Begin { level, read_only: step.accesses.is_empty(), unit };
            builder.push(step.session, label, None, OpKind::Begin, &[], detail).unwrap();
        }
        if push(&mut builder, step, label) {
            *slot = None;
        }
    }
    for &(which, ts) in stamps {
        if let Some(label) = labels.pop() {
            match which % 3 {
                0 => builder.snapshot(label, ts),
                1 => builder.commit(label, ts),
                _ => builder.serialization(label, ts),
            }
        }
    }
    builder.finish().unwrap()
}

/// Adds a step; answers whether it was an end.
fn push(builder: &mut HistoryBuilder, step: &RandomStep, label: u64) -> bool {
    let kind = [OpKind::Read, OpKind::Write][step.kind % 2];
    let kind = OpKind::ALL.get(step.kind).copied().filter(|&kind| kind != OpKind::Begin).unwrap_or(kind);
    // All intervals meet at 0, so that no transaction ends before it begins.
    let at = step.at.map(|(before, length)| Interval::new(-i64::from(before), i64::from(length) * 2));
    let mut accesses: Vec<Access> = Vec::new();
    for (number, model) in &step.accesses {
        let value = intern(builder, model);
        let hidden = kind == OpKind::Read && *number > 200;
        let value = if hidden { ValueId::UNKNOWN } else { value };
        let object = object(builder, *number);
        // A read names an object once.
        if kind != OpKind::Read || accesses.iter().all(|access| access.object != object) {
            accesses.push(Access { object, value });
        }
    }
    let table = builder.table(if step.seen { "accounts" } else { "t" });
    let (text, set) = (step.texts.0.as_str(), step.seen.then_some(step.texts.1.as_str()));
    let params: Vec<ValueId> = accesses.iter().map(|access| access.value).collect();
    let rows = [builder.values().list(&params)];
    let observed = step.seen;
    let detail = match kind {
        OpKind::Scan => OpDetail::Scan { table, condition: text, observed },
        OpKind::Update => OpDetail::Update { table, condition: text, set, observed },
        OpKind::Sql => {
            OpDetail::Sql { text, params: &params, rows: observed.then_some(&rows), count: set.map(|_| 3) }
        }
        _ => OpDetail::None,
    };
    let bare = kind == OpKind::Sql || kind.outcome().is_some();
    if bare || (matches!(kind, OpKind::Scan | OpKind::Update) && !observed) {
        accesses.clear();
    }
    if matches!(kind, OpKind::Scan | OpKind::Update) {
        accesses.retain(|access| builder.object_of(access.object).table == Some(table));
    }
    builder.push(step.session, label, at, kind, &accesses, detail).unwrap();
    kind.outcome().is_some()
}

fn bytes(history: &History, format: Format) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    margay_formats::write(history, format, Target::Stream(Box::new(&mut out))).map_err(|e| e.what)?;
    Ok(out)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost(
        steps in proptest::collection::vec(step(), 0..25),
        stamps in proptest::collection::vec(any::<(u8, i64)>(), 0..4),
    ) {
        let history = build(&steps, &stamps);
        let binary = bytes(&history, Format::MargayBin).unwrap();
        let again = margay_formats::read(Source::bytes(&binary), None).unwrap().history;
        prop_assert_eq!(history.difference(&again), None);
        match bytes(&history, Format::Margay) {
            Ok(text) => {
                let again = margay_formats::read(Source::bytes(&text), None).unwrap().history;
                prop_assert_eq!(history.difference(&again), None);
                let second = bytes(&again, Format::Margay).unwrap();
                let third = margay_formats::read(Source::bytes(&second), None).unwrap().history;
                prop_assert_eq!(String::from_utf8(bytes(&third, Format::Margay).unwrap()), String::from_utf8(second));
            }
            Err(what) => prop_assert!(what.contains("infinite"), "{}", what),
        }
    }
}
