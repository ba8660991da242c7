//! A cycle for Graphviz.

use std::fmt::Write;

use crate::escape::dot as quote;
use crate::graph::{cut, draw};
use crate::view::Report;

/// The cycles of one case (from 0) as a graph; nothing if there is no such picture.
#[must_use]
pub fn dot(report: &Report, case: usize) -> Option<String> {
    let picture = report.report.as_ref()?.cases.get(case)?.picture.as_ref()?;
    let mut out = String::from(
        "digraph margay {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n",
    );
    for (i, cycle) in picture.cycles.iter().enumerate() {
        let _ = writeln!(out, "  subgraph cluster_{i} {{\n    label={};", quote(&format!("cycle {}", i + 1)));
        for card in draw(picture, cycle).cards {
            let label = format!("T{}\n{}", card.txn, card.lines.join("\n"));
            let _ = writeln!(out, "    c{i}_t{} [label={}];", card.txn, quote(label.trim_end()));
        }
        for edge in &cycle.edges {
            let label = format!("{}: {}", edge.kind, cut(&edge.label, 60));
            let (label, reason) = (quote(&label), quote(&edge.reason));
            let _ = writeln!(
                out,
                "    c{i}_t{} -> c{i}_t{} [label={label}, tooltip={reason}];",
                edge.from, edge.to
            );
        }
        out.push_str("  }\n");
    }
    (!picture.cycles.is_empty()).then(|| out + "}\n")
}
