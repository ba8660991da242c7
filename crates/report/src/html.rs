//! The report as one HTML file that needs nothing else: no network, no other file.
//!
//! # Design
//! The page is a frame, our style sheet, our script, and the report as JSON in an element that is
//! no script. The script makes the page from the data and puts texts into it as text, never as
//! markup. Drawings are laid out here, so that the script only draws.
//!
//! # Invariants
//! - The policy of the page allows exactly the one style sheet and the one script, by their hashes,
//!   and no connection (the live page: to its own server).
//! - Nothing of the history stands in the page outside of the escaped JSON and the escaped title
//!   and text for browsers without scripts.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::escape::{script_json, xml};
use crate::graph::{Drawing, draw, draw_narrow};
use crate::paint::Paint;
use crate::text;
use crate::view::{Anomaly, Report};

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = concat!(
    include_str!("../assets/dom.js"),
    include_str!("../assets/graph.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/plots.js"),
    include_str!("../assets/page.js"),
);

/// Anomalies that a page lists; the report itself has all of them.
const LISTED: usize = 500;

/// Characters of the explanation of an anomaly without a picture.
const EXPLAINED: usize = 800;
/// Transactions of one anomaly that a page names.
const NAMED: usize = 60;

/// What the script gets.
#[derive(Serialize)]
pub struct Data<'a> {
    report: &'a Report,
    /// For each case the drawings of its cycles.
    drawings: Vec<Vec<Drawings>>,
    /// How many of the anomalies there are in the report.
    extent: Option<String>,
    /// How many anomalies are not listed.
    unlisted: usize,
}

/// One cycle, for wide and for narrow pages.
#[derive(Serialize)]
struct Drawings {
    wide: Drawing,
    narrow: Drawing,
}

/// Where a page lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A file: it connects to nothing.
    File,
    /// A live server: it follows the events of that server.
    Live,
}

/// The page of a report.
#[must_use]
pub fn page(report: &Report, place: Place) -> String {
    let title = xml(&text::one_line(report));
    let plain = xml(&text::text(report, Paint::OFF, 100)).replace("&#10;", "\n");
    let policy = policy(place);
    let live = if place == Place::Live { " data-live" } else { "" };
    let data = script_json(&data(report));
    format!(
        "<!doctype html>\n<html lang=\"en\"{live}>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<noscript><pre>{plain}</pre></noscript>\n<div id=\"page\"></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// What the script gets, as JSON: also what a live server sends.
#[must_use]
pub fn data(report: &Report) -> String {
    let cases = report.report.iter().flat_map(|details| &details.cases);
    let drawings = cases.map(|case| {
        let pictures = case.picture.iter();
        let both =
            |picture, cycle| Drawings { wide: draw(picture, cycle), narrow: draw_narrow(picture, cycle) };
        pictures.flat_map(|picture| picture.cycles.iter().map(move |cycle| both(picture, cycle))).collect()
    });
    let drawings = drawings.collect();
    let listed = listed(report);
    let unlisted = report.anomalies.len() - listed.anomalies.len();
    let extent = text::extent(report, report.anomalies.len());
    let data = Data { report: &listed, drawings, extent, unlisted };
    serde_json::to_string(&data).expect("strings and numbers always serialise")
}

/// The report with no more anomalies than a page lists; explanations stand where no case tells
/// more.
fn listed(report: &Report) -> Report {
    let cases = report.report.as_ref().map_or(0, |details| details.cases.len());
    let anomalies = report.anomalies.iter().take(LISTED).enumerate().map(|(i, anomaly)| Anomaly {
        explanation: if i < cases {
            String::new()
        } else {
            anomaly.explanation.chars().take(EXPLAINED).collect()
        },
        transactions: anomaly.transactions.iter().copied().take(NAMED).collect(),
        name: anomaly.name.clone(),
    });
    Report { anomalies: anomalies.collect(), ..report.clone() }
}

/// The policy of a page.
#[must_use]
pub fn policy(place: Place) -> String {
    let connect = if place == Place::Live { "'self'" } else { "'none'" };
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

fn hash(text: &str) -> String {
    base64(&Sha256::digest(text.as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, &byte| (word << 8) | u32::from(byte)) << (8 * (3 - chunk.len()));
        let digit = |place: usize| char::from(DIGITS[(word >> (18 - 6 * place)) as usize & 63]);
        out.extend((0..=chunk.len()).map(digit));
        out.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_base64() {
        assert_eq!(
            [&b""[..], b"f", b"fo", b"foo", b"foob", b"fooba", b"foobar"].map(base64),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]
        );
    }

    #[test]
    fn the_script_cannot_end_its_own_element() {
        assert!(!SCRIPT.contains("</") && !STYLE.contains("</") && !SCRIPT.contains("<!--"));
    }

    #[test]
    fn the_script_never_makes_markup_of_texts() {
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!SCRIPT.contains(way), "{way}");
        }
    }
}
