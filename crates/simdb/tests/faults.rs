//! Every fault breaks what it is said to break: the naive engine confirms a violation on some seed,
//! under every protocol that it applies to. `cargo test -p margay-simdb --test faults --
//! --nocapture` prints the commands that repeat them.

use std::time::Duration;

use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Question};

const SEEDS: u64 = 500;

fn violated(config: &SimConfig, fault: Fault, level: Level) -> bool {
    let (history, report) = simulate_history(config).expect("a history");
    let budget = Budget::unlimited().with_time(Duration::from_secs(1));
    report.count(fault).1 > 0 && holds(&history, Question::new(level), &budget) == Ok(false)
}

/// The mixes in which a fault shows, best first.
fn mixes(fault: Fault) -> Vec<Mix> {
    let names: &[&str] = match fault {
        Fault::Phantom | Fault::IndexEntryMissing | Fault::WrongAggregate | Fault::WrongRowCount => &["rows"],
        Fault::WriteTwice => &["lists"],
        _ => &["lists", "registers", "mixed", "rows"],
    };
    names.iter().filter_map(|name| Mix::named(name)).collect()
}

fn find(fault: Fault, protocol: Protocol, level: Level) -> Option<SimConfig> {
    let configs = (0..SEEDS).flat_map(|seed| {
        mixes(fault).into_iter().map(move |mix| SimConfig {
            transactions: 8,
            ops: (1, 4),
            ..SimConfig::small(protocol, mix, seed).with_fault(fault, Ppm::percent(50))
        })
    });
    configs.into_iter().find(|config| violated(config, fault, level))
}

fn check(fault: Fault) {
    let mut missing = Vec::new();
    for protocol in Protocol::ALL {
        let Some(level) = fault.breaks(protocol) else { continue };
        match find(fault, protocol, level) {
            Some(config) => println!("{fault} breaks {level}: {}", config.command("OUT")),
            None => missing.push(protocol.name()),
        }
    }
    assert!(missing.is_empty(), "{fault} was not seen to break anything under {missing:?}");
}

macro_rules! breaks {
    ($($name:ident $fault:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(Fault::$fault);
            }
        )*

        #[test]
        fn no_fault_is_left_out() {
            assert_eq!([$(Fault::$fault),*], Fault::ALL);
        }
    };
}

breaks! {
    dirty_read DirtyRead
    aborted_read AbortedRead
    intermediate_read IntermediateRead
    own_write_not_read OwnWriteNotRead
    lost_update LostUpdate
    stale_snapshot StaleSnapshot
    statement_snapshot StatementSnapshot
    fractured_commit FracturedCommit
    phantom Phantom
    write_skew WriteSkew
    ssi_writer_pivot SsiWriterPivot
    ssi_reader_pivot SsiReaderPivot
    ssi_precommit SsiPrecommit
    ssi_forgotten_reads SsiForgottenReads
    lock_released_early LockReleasedEarly
    lock_not_taken LockNotTaken
    validation_skipped ValidationSkipped
    timestamp_inversion TimestampInversion
    prewrite_conflict_missed PrewriteConflictMissed
    write_lost WriteLost
    write_twice WriteTwice
    aborted_write_kept AbortedWriteKept
    version_order_inverted VersionOrderInverted
    index_entry_missing IndexEntryMissing
    wrong_aggregate WrongAggregate
    wrong_row_count WrongRowCount
    unknown_committed UnknownCommitted
    clock_skew ClockSkew
}
