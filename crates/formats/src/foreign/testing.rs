//! What the tests of foreign formats share.

use margay_history::History;

use crate::{Format, Loaded, Source, Target, read, write};

/// What reading gives, which must go well.
pub(crate) fn reads(format: Format, bytes: &[u8]) -> Loaded {
    read(Source::bytes(bytes), Some(format)).unwrap_or_else(|error| panic!("{}", error.render()))
}

/// The message of the error that reading gives.
pub(crate) fn fails(format: Format, bytes: &[u8]) -> String {
    read(Source::bytes(bytes), Some(format)).expect_err("the input is wrong").to_string()
}

/// The history in a format, as bytes.
pub(crate) fn written(format: Format, history: &History) -> Vec<u8> {
    let mut bytes = Vec::new();
    let target = Target::Stream(Box::new(&mut bytes));
    write(history, format, target).unwrap_or_else(|error| panic!("{}", error.render()));
    bytes
}

/// Reads, writes and reads again; the histories must be the same.
pub(crate) fn round_trip(format: Format, bytes: &[u8]) -> History {
    let history = reads(format, bytes).history;
    let again = reads(format, &written(format, &history)).history;
    assert_eq!(history.difference(&again), None);
    history
}
