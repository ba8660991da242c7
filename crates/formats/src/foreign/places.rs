//! Places in a directory of binary logs: a file and a byte of it, in the one number that a builder
//! keeps.

use margay_history::Invalid;

use crate::FormatError;

const OFFSET_BITS: u32 = 44;

/// The names of the files read so far.
#[derive(Default)]
pub(crate) struct Places {
    names: Vec<String>,
}

impl Places {
    /// Begins with a file; answers the place of its first byte.
    pub fn begin(&mut self, name: &str) -> u64 {
        self.names.push(name.to_string());
        (self.names.len() as u64) << OFFSET_BITS
    }

    /// An error at a place.
    pub fn error(&self, place: u64, what: impl Into<String>) -> FormatError {
        let error = FormatError::new(what);
        let file = (place >> OFFSET_BITS) as usize;
        match file.checked_sub(1).and_then(|file| self.names.get(file)) {
            Some(name) => error.in_file(name).at_offset(place & ((1 << OFFSET_BITS) - 1)),
            None => error,
        }
    }

    /// A broken rule of the model.
    pub fn invalid(&self, invalid: Invalid) -> FormatError {
        self.error(invalid.place, invalid.what)
    }
}

/// The number in a file's name (`T12.log`), which is its session, unless another file has it.
pub(crate) fn session_number(name: &str, taken: &mut hashbrown::HashSet<u64>) -> u64 {
    let digits: String =
        name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    let mut number = digits.parse().unwrap_or(0);
    while !taken.insert(number) {
        number = number.wrapping_add(1);
    }
    number
}
