//! What the tests of foreign formats share.

use margay_history::History;

use crate::{Format, FormatError, Loaded, Source, Target, read, write};

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

/// What reading a directory of these files gives.
pub(crate) fn read_folder(format: Format, files: &[(&str, &[u8])]) -> Result<Loaded, FormatError> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("inside the directory")).expect("a directory");
        std::fs::write(path, bytes).expect("a file");
    }
    read(Source::from(folder.path()), Some(format))
}

/// Reads, writes and reads again a directory; the histories must be the same.
pub(crate) fn folder_round_trip(format: Format, files: &[(&str, &[u8])]) -> History {
    let history = read_folder(format, files).unwrap_or_else(|error| panic!("{}", error.render())).history;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("out");
    write(&history, format, Target::from(path.as_path()))
        .unwrap_or_else(|error| panic!("{}", error.render()));
    let again =
        read(Source::from(path.as_path()), Some(format)).unwrap_or_else(|error| panic!("{}", error.render()));
    assert_eq!(history.difference(&again.history), None);
    history
}
