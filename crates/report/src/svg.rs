//! A cycle as a picture of its own.

use std::fmt::Write;

use crate::escape::xml;
use crate::graph::{Arrow, Card, draw};
use crate::picture::{Cycle, Edge, Picture};
use crate::view::Report;

const STYLE: &str = "text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1c2430}.card{fill:#fff;stroke:#8b95a5;stroke-width:1.4}\
.head{font-weight:650;font-size:14px}.op{font:12px ui-monospace,monospace;white-space:pre}.arrow{fill:none;stroke-width:2}\
.pill{fill:#fff;stroke-width:1}.rw{stroke:#c2410c}.wr{stroke:#1d4ed8}.ww{stroke:#7c3aed}.session,.real-time,.recorded,.visible{stroke:#0f766e}";

/// The first cycle of a report, or of the case of this number (from 0); nothing if there is no such
/// picture.
#[must_use]
pub fn svg(report: &Report, case: usize) -> Option<String> {
    let picture = report.report.as_ref()?.cases.get(case)?.picture.as_ref()?;
    Some(cycle(picture, picture.cycles.first()?))
}

fn cycle(picture: &Picture, cycle: &Cycle) -> String {
    let drawing = draw(picture, cycle);
    let (width, height) = (drawing.width, drawing.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#f7f8fa\"/>\n<defs><marker id=\"head\" viewBox=\"0 0 10 10\" refX=\"8\" refY=\"5\" \
         markerWidth=\"7\" markerHeight=\"7\" orient=\"auto-start-reverse\"><path d=\"M0 0L10 5L0 10z\" fill=\"#475569\"/></marker></defs>\n"
    );
    for (arrow, edge) in drawing.arrows.iter().zip(&cycle.edges) {
        push_arrow(&mut out, arrow, edge);
    }
    drawing.cards.iter().for_each(|card| push_card(&mut out, card));
    for (arrow, edge) in drawing.arrows.iter().zip(&cycle.edges) {
        push_label(&mut out, arrow, edge);
    }
    out + "</svg>\n"
}

fn push_arrow(out: &mut String, arrow: &Arrow, edge: &Edge) {
    let (kind, path) = (xml(&edge.kind), arrow.path());
    let _ = writeln!(
        out,
        "<path class=\"arrow {kind}\" d=\"{path}\" marker-end=\"url(#head)\"><title>{}</title></path>",
        xml(&edge.reason)
    );
}

fn push_label(out: &mut String, arrow: &Arrow, edge: &Edge) {
    let width = arrow.label.chars().count() as f64 * 6.9 + 20.0;
    let (x, y) = arrow.at;
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect class=\"pill {}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"24\" rx=\"12\"/>\
         <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>",
        xml(&edge.reason),
        xml(&edge.kind),
        x - width / 2.0,
        y - 12.0,
        y + 4.5,
        xml(&arrow.label)
    );
}

fn push_card(out: &mut String, card: &Card) {
    let Card { x, y, width, height, .. } = *card;
    let _ = write!(
        out,
        "<g><rect class=\"card\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"9\"/>\
         <text class=\"head\" x=\"{:.1}\" y=\"{:.1}\">T{}</text>",
        x + 12.0,
        y + 21.0,
        card.txn
    );
    for (i, line) in card.lines.iter().enumerate() {
        let below = y + 42.0 + 17.0 * i as f64;
        let _ = write!(out, "<text class=\"op\" x=\"{:.1}\" y=\"{below:.1}\">{}</text>", x + 12.0, xml(line));
    }
    out.push_str("</g>\n");
}
