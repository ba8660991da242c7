//! `docs/WORKLOADS.md` says of every workload what the catalogue says.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use margay_workloads::{Body, Steps, WORKLOADS, WorkloadStep, coo, hermitage};

/// The table of the document. `MARGAY_BLESS=1` writes it.
#[test]
fn the_document_is_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/WORKLOADS.md");
    let text = fs::read_to_string(&path).expect("the document");
    let (before, rest) = text.split_once("<!-- table -->\n").expect("where the table begins");
    let (_, after) = rest.split_once("<!-- end -->").expect("where the table ends");
    let expected = format!("{before}<!-- table -->\n{}<!-- end -->{after}", table());
    if std::env::var_os("MARGAY_BLESS").is_some() {
        fs::write(&path, &expected).expect("the document can be written");
    }
    assert!(
        text == expected,
        "docs/WORKLOADS.md is not what the catalogue says; MARGAY_BLESS=1 rewrites its table"
    );
}

fn table() -> String {
    let mut out = String::from("| name | what clients do | parameters | source |\n|---|---|---|---|\n");
    for workload in WORKLOADS.iter().filter(|workload| workload.body != Body::List) {
        let parameters = match workload.body {
            Body::Steps(steps) => parameters(steps),
            Body::Program(_) => {
                let schema = workload.program().expect("a program").schema();
                format!("{}, {} rows at first", tables(schema.tables.len()), schema.rows.len())
            }
            Body::Scripted(_) => format!(
                "{} interleavings",
                if workload.name == "coo" { coo::PATTERNS.len() } else { hermitage::TESTS.len() }
            ),
            Body::List => String::new(),
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {parameters} | {} |",
            workload.name, workload.description, workload.source
        );
    }
    out
}

fn tables(count: usize) -> String {
    if count == 1 { "1 table".to_owned() } else { format!("{count} tables") }
}

fn parameters(steps: Steps) -> String {
    let length = match steps.length {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    };
    let kinds: Vec<String> =
        steps.kinds.iter().map(|(weight, kind)| format!("{weight}: {}", mix(kind))).collect();
    let rollbacks = match steps.rollbacks {
        0 => String::new(),
        some => format!(", {some} % rolled back"),
    };
    let kinds = if let [(_, only)] = steps.kinds { mix(only) } else { kinds.join("; ") };
    format!("{} keys, {}, {length} steps{rollbacks}; {kinds}", steps.keys, steps.distribution)
}

fn mix(kind: &[(WorkloadStep, u32)]) -> String {
    kind.iter().map(|(step, weight)| format!("{step:?} {weight}")).collect::<Vec<_>>().join(", ")
}
