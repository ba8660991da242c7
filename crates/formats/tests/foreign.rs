//! Random histories through the foreign formats: what can be written reads back, gets the same
//! verdicts, and from then on does not change.

use std::time::Duration;

use margay_formats::{Format, FormatError, Source, Target, read, write};
use margay_history::{Access, History, HistoryBuilder, Interval, OpDetail, OpKind, ValueId};
use margay_levels::Level;
use margay_naive::holds;
use margay_verdict::{Budget, Question};
use proptest::prelude::*;

/// A read or write of one of a few keys; few values, so that many are equal. A negative one is
/// `null`, absent.
#[derive(Clone, Debug)]
struct Access1 {
    write: bool,
    key: i64,
    value: i64,
}

#[derive(Clone, Debug)]
struct Txn {
    end: OpKind,
    ops: Vec<Access1>,
}

fn txn() -> impl Strategy<Value = Txn> {
    let access =
        (any::<bool>(), 1..4_i64, -1..5_i64).prop_map(|(write, key, value)| Access1 { write, key, value });
    let end = prop_oneof![8 => Just(OpKind::Commit), 2 => Just(OpKind::Abort), 1 => Just(OpKind::Unknown)];
    (end, proptest::collection::vec(access, 0..5)).prop_map(|(end, ops)| Txn { end, ops })
}

fn sessions() -> impl Strategy<Value = Vec<Vec<Txn>>> {
    proptest::collection::vec(proptest::collection::vec(txn(), 1..3), 1..4)
}

/// Sessions and transactions are numbered as readers do it; times pass all by themselves.
fn build(sessions: &[Vec<Txn>], timed: bool, initial: Option<i64>) -> History {
    let mut builder = HistoryBuilder::new();
    let (mut clock, mut label) = (0, 0);
    for (session, txns) in sessions.iter().enumerate() {
        for txn in txns {
            label += 1;
            let mut push = |builder: &mut HistoryBuilder, kind, accesses: &[Access]| {
                clock += 2;
                let at = timed.then(|| Interval::new(clock, clock + 1));
                builder.push(session as u64, label, at, kind, accesses, OpDetail::None).unwrap();
            };
            for op in &txn.ops {
                let key = builder.values().int(op.key);
                let value = if op.value < 0 { ValueId::NULL } else { builder.values().int(op.value) };
                let access = Access { object: builder.object(None, key), value };
                push(&mut builder, if op.write { OpKind::Write } else { OpKind::Read }, &[access]);
            }
            push(&mut builder, txn.end, &[]);
        }
    }
    if let Some(initial) = initial {
        for key in 1..4 {
            let (key, value) = (builder.values().int(key), builder.values().int(initial));
            let object = builder.object(None, key);
            builder.initial(object, value).unwrap();
        }
    }
    builder.finish().unwrap()
}

fn through(history: &History, format: Format) -> Result<History, FormatError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    write(history, format, Target::from(path.as_path()))?;
    let loaded = read(Source::from(path.as_path()), Some(format));
    Ok(loaded.unwrap_or_else(|error| panic!("{format}: {}", error.render())).history)
}

/// The reads and writes of all transactions that have any, without the values.
fn shape(history: &History) -> Vec<Vec<(OpKind, String)>> {
    let name = |access: &Access| history.value(history.object(access.object).key);
    let accesses = |txn| {
        let ops = history.ops(txn).filter(|op| matches!(op.kind, OpKind::Read | OpKind::Write));
        ops.flat_map(|op| op.accesses.iter().map(move |access| (op.kind, format!("{:?}", name(access)))))
            .collect()
    };
    history.txns().map(accesses).filter(|ops: &Vec<_>| !ops.is_empty()).collect()
}

/// The answer of the definitions; `None` where they take too long.
fn verdict(history: &History, level: Level) -> Option<bool> {
    let budget = Budget::unlimited().with_time(Duration::from_secs(2));
    holds(history, Question::new(level), &budget).ok()
}

/// Session order, atomicity and values all count in these; time in none of them.
const LEVELS: [Level; 3] = [Level::ReadCommitted, Level::Causal, Level::StrongSessionSerializable];

const WRITABLE: [Format; 7] =
    [Format::Edn, Format::ElleJson, Format::Text, Format::Awdit, Format::Cobra, Format::Dbcop, Format::Vbox];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back(
        sessions in sessions(),
        timed in any::<bool>(),
        initial in prop_oneof![Just(None), Just(Some(0)), Just(Some(3))],
        format in proptest::sample::select(WRITABLE.to_vec()),
    ) {
        let history = build(&sessions, timed, initial);
        if let Ok(once) = through(&history, format) {
            prop_assert_eq!(shape(&history), shape(&once));
            for level in LEVELS {
                if let (Some(before), Some(after)) = (verdict(&history, level), verdict(&once, level)) {
                    prop_assert_eq!(before, after, "{} after {}", level.name(), format);
                }
            }
            let twice = through(&once, format);
            prop_assert!(twice.is_ok(), "what came from the format can go back: {:?}", twice.err());
            prop_assert_eq!(once.difference(&twice.unwrap()), None);
        }
    }
}

#[test]
fn most_formats_carry_plain_histories() {
    let ops = vec![Access1 { write: true, key: 1, value: 1 }, Access1 { write: false, key: 1, value: 1 }];
    let history = build(&[vec![Txn { end: OpKind::Commit, ops }]], true, None);
    for format in WRITABLE {
        assert!(through(&history, format).is_ok(), "{format}");
    }
}
