//! Programs: the same seed gives the same procedures, and their tables are what their rows say.

use std::collections::HashSet;

use margay_workloads::{Distribution, Options, Program, WORKLOADS, Workload};

fn programs() -> impl Iterator<Item = (&'static Workload, Box<dyn Program>)> {
    WORKLOADS.iter().filter_map(|workload| Some((workload, workload.program()?)))
}

fn drawn(program: &dyn Program, seed: u64, client: u32) -> Vec<String> {
    let mut script = program.client(seed, client, 3);
    (0..200).map(|_| format!("{:?}", script.next())).collect()
}

#[test]
fn same_seed_same_procedures() {
    for (workload, program) in programs() {
        let program = program.as_ref();
        assert_eq!(drawn(program, 7, 1), drawn(program, 7, 1), "{workload}");
        assert_ne!(drawn(program, 7, 1), drawn(program, 8, 1), "{workload}");
        assert_ne!(drawn(program, 7, 1), drawn(program, 7, 2), "{workload}");
    }
    assert!(programs().count() >= 7);
}

#[test]
fn rows_are_as_wide_as_their_tables_and_keys_are_unique() {
    for (workload, program) in programs() {
        let schema = program.schema();
        let mut keys = HashSet::new();
        for (table, row) in &schema.rows {
            let def = &schema.tables[*table];
            assert_eq!(row.len(), def.columns.len(), "{workload}: {}", def.name);
            assert!(keys.insert((table, &row[..def.key])), "{workload}: {row:?} twice in {}", def.name);
        }
        for def in &schema.tables {
            assert!(def.name.starts_with("margay_"), "nobody else's table is touched: {}", def.name);
            assert!(def.key >= 1 && def.key <= def.columns.len());
        }
    }
}

#[test]
fn keys_and_distribution_can_be_changed() {
    for workload in WORKLOADS {
        let few = workload.with(Options { keys: Some(10), distribution: Some(Distribution::Hotspot) });
        let Some(program) = few.program() else { continue };
        let own = workload.program().expect("a program");
        assert!(program.schema().rows.len() < own.schema().rows.len(), "{workload}");
        assert_ne!(drawn(program.as_ref(), 1, 0), drawn(own.as_ref(), 1, 0), "{workload}");
    }
}
