//! Histories out of short lines.

use margay_formats::{Source, read};
use margay_history::History;

/// A header, and operations as `session at-before at-after rest`; the transaction is the session.
pub fn timed(header: &str, lines: &[&str]) -> History {
    let mut text = format!("{header}\n");
    for line in lines {
        let mut parts = line.splitn(4, ' ');
        let mut next = || parts.next().expect("four parts");
        let (session, before, after, rest) = (next(), next(), next(), next());
        text += &format!("{{\"session\":{session},\"txn\":{session},\"at\":[{before},{after}],{rest}}}\n");
    }
    read(Source::bytes(text.as_bytes()), None).expect("a history").history
}
