//! The order of invocations and completions, for Jepsen's list of operations.
//!
//! # Problem
//! The order of the list is real time, and a process does one thing at a time. Neither may say more
//! than the history does.
//!
//! # Algorithm
//! Events are sorted by time. At one time, invocations come before completions, so that no
//! real-time order arises that was not there; but a session's next invocation comes after its last
//! completion. If two sessions have both at one time, no list can say it: the history is refused.
//! When the unit of time is already an index, the indices are kept, so that reading gives the same
//! history back.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, Outcome, SessionId, TxnId, Unit};

use crate::FormatError;

/// An invocation or a completion.
pub(crate) struct Event {
    pub index: i64,
    /// Nanoseconds, if the history has them.
    pub time: Option<i64>,
    pub txn: TxnId,
    pub completes: bool,
}

/// From the first call to the last answer of each transaction.
type Spans = Vec<(TxnId, (i64, i64))>;

pub(crate) fn schedule(history: &History) -> Result<Vec<Event>, FormatError> {
    let mut spans = Spans::with_capacity(history.txn_count());
    for txn in history.txns() {
        spans.push((txn, span(history, txn)?));
    }
    if history.header().unit == Unit::Index
        && let Some(exact) = indexed(history, &spans).filter(|events| is_sequential(history, events))
    {
        return Ok(exact);
    }
    ranked(history, &spans)
}

fn span(history: &History, txn: TxnId) -> Result<(i64, i64), FormatError> {
    let mut all = history.ops(txn).filter_map(|op| op.at);
    let Some(first) = all.next() else { return Err(refuse(history, txn, "this one has no time")) };
    let widen = |(before, after): (i64, i64), at: margay_history::Interval| {
        (before.min(at.before), after.max(at.after))
    };
    Ok(all.fold((first.before, first.after), widen))
}

fn refuse(history: &History, txn: TxnId, what: &str) -> FormatError {
    let label = history.txn_label(txn);
    FormatError::new(format!(
        "transaction {label}: Jepsen's operations stand in the order of real time, one after the other in each process; {what}"
    ))
}

/// The events at their own indices; `None` when two of them have the same one. An unknown
/// transaction whose end is somebody else's index had no completion.
fn indexed(history: &History, spans: &Spans) -> Option<Vec<Event>> {
    let mut taken = HashSet::new();
    let mut events = Vec::new();
    let open = |txn, before, after| history.outcome(txn) == Outcome::Unknown && before < after;
    for &(txn, (before, after)) in spans {
        if before < 0 {
            return None;
        }
        if before < after {
            events.push(Event { index: before, time: None, txn, completes: false });
        }
        if !open(txn, before, after) {
            events.push(Event { index: after, time: None, txn, completes: true });
        }
    }
    if !events.iter().all(|event| taken.insert(event.index)) {
        return None;
    }
    for &(txn, (before, after)) in spans {
        if open(txn, before, after) && taken.insert(after) {
            events.push(Event { index: after, time: None, txn, completes: true });
        }
    }
    events.sort_by_key(|event| event.index);
    Some(events)
}

/// Whether every completion follows its own invocation in its session, and sessions keep their
/// order.
fn is_sequential(history: &History, events: &[Event]) -> bool {
    let mut latest: HashMap<SessionId, TxnId> = HashMap::new();
    events.iter().all(|event| {
        let session = history.session_of(event.txn);
        let before = latest.insert(session, event.txn);
        before.is_none_or(|before| before < event.txn || before == event.txn && event.completes)
    })
}

/// The events in the order of their times.
fn ranked(history: &History, spans: &Spans) -> Result<Vec<Event>, FormatError> {
    check_overlaps(history, spans)?;
    let mut events: Vec<(i64, TxnId, bool)> = Vec::with_capacity(2 * spans.len());
    for &(txn, (before, after)) in spans {
        events.push((before, txn, false));
        events.push((after, txn, true));
    }
    events.sort_unstable();
    let scale = nanoseconds(history.header().unit);
    // The initial rows take the index before the first.
    let mut index = i64::from(!history.initial_values().is_empty());
    let mut ordered = Vec::with_capacity(events.len());
    for same in events.chunk_by(|a, b| a.0 == b.0) {
        for (time, txn, completes) in at_one_time(history, same)? {
            let time = scale.and_then(|scale| time.checked_mul(scale));
            ordered.push(Event { index, time, txn, completes });
            index += 1;
        }
    }
    Ok(ordered)
}

/// A session's transactions must not overlap in time.
fn check_overlaps(history: &History, spans: &Spans) -> Result<(), FormatError> {
    for pair in spans.windows(2) {
        let [(first, (_, end)), (second, (start, _))] = pair else { continue };
        if history.session_of(*first) == history.session_of(*second) && end > start {
            return Err(refuse(history, *second, "this one begins before the one before it has ended"));
        }
    }
    Ok(())
}

/// Events of one time, given in the order of sessions and transactions.
fn at_one_time(
    history: &History,
    same: &[(i64, TxnId, bool)],
) -> Result<Vec<(i64, TxnId, bool)>, FormatError> {
    let (mut first, mut middle, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for session in same.chunk_by(|a, b| history.session_of(a.1) == history.session_of(b.1)) {
        let goes_on = session.windows(2).any(|pair| pair[0].2 && !pair[1].2);
        match goes_on {
            true if !middle.is_empty() => {
                return Err(refuse(history, session[0].1, "its clock is too coarse to tell their order"));
            }
            true => middle.extend_from_slice(session),
            false => {
                session.iter().for_each(|event| if event.2 { last.push(*event) } else { first.push(*event) })
            }
        }
    }
    first.append(&mut middle);
    first.append(&mut last);
    Ok(first)
}

fn nanoseconds(unit: Unit) -> Option<i64> {
    match unit {
        Unit::Nanoseconds => Some(1),
        Unit::Microseconds => Some(1_000),
        Unit::Milliseconds => Some(1_000_000),
        Unit::Seconds => Some(1_000_000_000),
        Unit::Index => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::foreign::testing::{reads, written};

    /// The events of a native history in which transaction `n` has the `n`-th interval and session.
    fn events(txns: &[(u32, i64, i64)]) -> Result<Vec<String>, String> {
        let op = |(n, (session, before, after)): (usize, &(u32, i64, i64))| {
            format!("{{\"session\":{session},\"txn\":{n},\"at\":[{before},{after}],\"commit\":true}}\n")
        };
        let text: String = txns.iter().enumerate().map(op).collect();
        let history = reads(Format::Margay, format!("{{\"margay\":1}}\n{text}").as_bytes()).history;
        let events = super::schedule(&history).map_err(|error| error.to_string())?;
        let show =
            |event: &super::Event| format!("{}{}", if event.completes { "c" } else { "i" }, event.txn.0);
        assert!(!written(Format::Edn, &history).is_empty());
        Ok(events.iter().map(show).collect())
    }

    #[test]
    fn ties_are_concurrent() {
        assert_eq!(events(&[(0, 1, 5), (1, 5, 9)]).unwrap(), ["i0", "i1", "c0", "c1"]);
        assert_eq!(events(&[(0, 1, 5), (0, 5, 9), (1, 5, 5)]).unwrap(), ["i0", "i2", "c0", "i1", "c2", "c1"]);
    }

    #[test]
    fn what_no_list_can_say_is_refused() {
        assert!(events(&[(0, 1, 5), (0, 5, 9), (1, 2, 5), (1, 5, 8)]).unwrap_err().contains("too coarse"));
        assert!(events(&[(0, 1, 5), (0, 4, 9)]).unwrap_err().contains("begins before"));
    }
}
