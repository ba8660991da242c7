//! Texts that were joined, as lists of what was joined.
//!
//! Porcupine's key-value store appends texts to texts. A history has lists for that: what was put
//! or appended is an element, and a read is the list of the elements that its text is made of. A
//! text that is made of nothing that was written is one element that nobody wrote.

use hashbrown::{HashMap, HashSet};
use margay_history::{HistoryBuilder, Invalid, Value, ValueId};

/// What was put to and appended to each key.
#[derive(Default)]
pub(crate) struct Texts {
    keys: HashMap<ValueId, Written>,
}

#[derive(Default)]
struct Written {
    pieces: HashMap<String, ValueId>,
    lengths: HashSet<usize>,
}

impl Texts {
    pub fn add(&mut self, builder: &mut HistoryBuilder, key: ValueId, text: ValueId) {
        if let Value::Text(piece) = builder.values().get(text) {
            let (piece, written) = (piece.to_string(), self.keys.entry(key).or_default());
            written.lengths.insert(piece.len());
            written.pieces.insert(piece, text);
        }
    }

    /// The list that a text of a key is.
    pub fn split(
        &self,
        builder: &mut HistoryBuilder,
        key: ValueId,
        text: ValueId,
        place: u64,
    ) -> Result<ValueId, Invalid> {
        let Value::Text(whole) = builder.values().get(text) else { return Ok(text) };
        let whole = whole.to_string();
        let items = match self.keys.get(&key).map(|written| written.split(&whole)) {
            Some(Split::Unique(items)) => items,
            Some(Split::Ambiguous) => {
                let what = "this text can be split into what was written in more than one way".to_string();
                return Err(Invalid { what, place });
            }
            Some(Split::Impossible) | None => vec![text],
        };
        Ok(builder.values().list(&items))
    }
}

enum Split {
    Unique(Vec<ValueId>),
    Ambiguous,
    Impossible,
}

impl Written {
    /// From the end of the text to its start: in how many ways the rest can be split, and the first
    /// piece of one.
    fn split(&self, whole: &str) -> Split {
        let mut rests: Vec<(u8, usize)> = vec![(0, 0); whole.len() + 1];
        rests[whole.len()] = (1, 0);
        for start in (0..whole.len()).rev() {
            for &length in &self.lengths {
                let end = start + length;
                let piece = whole.get(start..end).filter(|piece| self.pieces.contains_key(*piece));
                if piece.is_some() && rests[end].0 > 0 {
                    rests[start] = (rests[start].0.saturating_add(rests[end].0), length);
                }
            }
        }
        match rests[0].0 {
            0 => Split::Impossible,
            1 => {
                let (mut items, mut start) = (Vec::new(), 0);
                while start < whole.len() {
                    let end = start + rests[start].1;
                    items.push(self.pieces[&whole[start..end]]);
                    start = end;
                }
                Split::Unique(items)
            }
            _ => Split::Ambiguous,
        }
    }
}

#[cfg(test)]
mod tests {
    use margay_history::OpId;

    use crate::Format;
    use crate::foreign::testing::{fails, reads};

    fn log(lines: &[(&str, &str)]) -> String {
        let line = |(f, value): &(&str, &str)| {
            format!("{{:process 0, :type :ok, :f :{f}, :key \"k\", :value {value}}}\n")
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn gets_are_lists_of_what_was_joined() {
        let text = log(&[
            ("get", r#""""#),
            ("append", r#""x 0 1 y""#),
            ("append", r#""x 0 10 y""#),
            ("get", r#""x 0 1 yx 0 10 y""#),
            ("put", r#""z""#),
            ("get", r#""z""#),
            ("get", r#""other""#),
        ]);
        let history = reads(Format::Edn, text.as_bytes()).history;
        let shown: Vec<_> = (0..history.op_count() as u32)
            .map(|op| history.op(OpId(op)))
            .filter(|op| !op.accesses.is_empty())
            .map(|op| format!("{} {}", op.kind.name(), history.show_value(op.accesses[0].value)))
            .collect();
        assert_eq!(
            shown,
            [
                "read absent",
                r#"append "x 0 1 y""#,
                r#"append "x 0 10 y""#,
                r#"read ["x 0 1 y" "x 0 10 y"]"#,
                r#"write ["z"]"#,
                r#"read ["z"]"#,
                r#"read ["other"]"#
            ]
        );
    }

    #[test]
    fn a_text_that_can_be_split_in_two_ways_is_an_error() {
        let text = log(&[("append", r#""a""#), ("append", r#""aa""#), ("get", r#""aaa""#)]);
        let found = fails(Format::Edn, text.as_bytes());
        assert!(found.contains("more than one way"), "{found}");
    }
}
