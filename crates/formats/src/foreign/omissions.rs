//! What a foreign format leaves out of a history without changing what its clients did and saw.
//!
//! An operation, value or outcome that a format cannot carry is an error of its writer. Around them
//! stands what many formats have no place for at all: times, evidence, names. Leaving those out
//! must not go unsaid.

use margay_history::{Header, History, OpKind, Unit};

use crate::Format;

/// What writing `history` in `format` leaves out, for people. Nothing for the native forms.
#[must_use]
pub fn omissions(history: &History, format: Format) -> Vec<String> {
    let foreign = !matches!(format, Format::Margay | Format::MargayBin);
    let registers = matches!(format, Format::Text | Format::Awdit | Format::Dbcop | Format::Cobra);
    let jepsen = matches!(format, Format::Edn | Format::ElleJson);
    let header = Header { unit: history.header().unit, ..Header::default() };
    let said = [
        (foreign && *history.header() != header, "the header: database, level, skew of the clocks"),
        (foreign && history.begins().next().is_some(), "levels and units of transactions"),
        (registers && history.is_timed() && !cobra_times(history, format), "the times of the operations"),
        (
            jepsen && history.header().unit != Unit::Index,
            "the times of the operations, but for the order of the transactions",
        ),
        (format == Format::Vbox && history.header().unit != Unit::Nanoseconds, "the unit of the times"),
        (foreign && loses_evidence(history, format), "the evidence"),
        ((registers && format != Format::Cobra || jepsen) && history.has_kind(OpKind::Begin), "begins"),
        ((registers || jepsen) && has_wide_op(history), "which reads or writes were one statement"),
        (
            matches!(format, Format::Text | Format::Awdit) && has_empty_txn(history),
            "transactions without operations",
        ),
        (
            matches!(format, Format::Awdit | Format::Dbcop) && is_labelled(history),
            "the numbers of sessions and transactions",
        ),
        (
            matches!(format, Format::Awdit | Format::Cobra) && !history.initial_values().is_empty(),
            "initial values that nobody read",
        ),
        (
            format == Format::Vbox && !history.initial_values().is_empty(),
            "initial values, but for the fact that they were read",
        ),
    ];
    said.iter().filter(|(left_out, _)| *left_out).map(|(_, what)| (*what).to_string()).collect()
}

fn cobra_times(history: &History, format: Format) -> bool {
    format == Format::Cobra && super::cobra_write::is_timed(history)
}

/// Cobra's logs and Vbox's name the versions that reads saw; nobody else says anything.
fn loses_evidence(history: &History, format: Format) -> bool {
    let evidence = history.evidence();
    let versions_only = evidence.version_orders.is_empty()
        && evidence.snapshots.is_empty()
        && evidence.commits.is_empty()
        && evidence.serializations.is_empty();
    !(evidence.is_empty() || versions_only && format == Format::Cobra)
}

fn has_wide_op(history: &History) -> bool {
    let plain = |kind| matches!(kind, OpKind::Read | OpKind::Write | OpKind::Append);
    history.txns().flat_map(|txn| history.ops(txn)).any(|op| plain(op.kind) && op.accesses.len() > 1)
}

fn has_empty_txn(history: &History) -> bool {
    history.txns().any(|txn| history.ops(txn).all(|op| op.accesses.is_empty()))
}

/// Whether sessions and transactions have other numbers than a reader would give them.
fn is_labelled(history: &History) -> bool {
    let sessions =
        history.sessions().enumerate().any(|(at, session)| history.session_label(session) != at as u64);
    sessions || history.txns().enumerate().any(|(at, txn)| history.txn_label(txn) != at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::testing::reads;

    #[test]
    fn says_what_is_left_out() {
        let text = br#"{"margay":1,"dbms":"postgresql-15"}
            {"session":3,"txn":1,"at":[1,2],"begin":true}
            {"session":3,"txn":1,"at":[3,4],"read":[[1,null],[2,null]]}
            {"session":3,"txn":1,"at":[5,6],"commit":true}
            {"evidence":"commit","txn":1,"ts":57}"#;
        let history = reads(Format::Margay, text).history;
        assert_eq!(omissions(&history, Format::Margay), [""; 0]);
        assert_eq!(omissions(&history, Format::MargayBin), [""; 0]);
        assert_eq!(
            omissions(&history, Format::Dbcop),
            [
                "the header: database, level, skew of the clocks",
                "the times of the operations",
                "the evidence",
                "begins",
                "which reads or writes were one statement",
                "the numbers of sessions and transactions",
            ]
        );
        assert_eq!(omissions(&history, Format::Vbox).len(), 2);
    }

    #[test]
    fn what_came_from_a_format_goes_back_whole() {
        for (format, bytes) in [
            (Format::Text, &b"r(1,0,1,1)\nw(1,1,1,1)\n"[..]),
            (Format::Awdit, b"w 0 0\n=====\nr 0 0\n"),
            (Format::Edn, b"{:type :ok :process 0 :value [[:w 1 1]]}"),
        ] {
            assert_eq!(omissions(&reads(format, bytes).history, format), [""; 0], "{format}");
        }
    }
}
