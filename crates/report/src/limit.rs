//! Bounds: what a report holds does not grow with the history, and no text in it can do anything
//! but be read.

/// How much of a history goes into one picture.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Transactions of the slice.
    pub slice: usize,
    /// Transactions near it.
    pub near: usize,
    /// Operations of one transaction.
    pub ops: usize,
    /// Characters of one operation, and of one value.
    pub text: usize,
    /// Objects, and versions of each.
    pub versions: usize,
    /// Cycles, and edges of each.
    pub cycles: usize,
}

impl Limits {
    /// What a picture starts with.
    pub const FULL: Limits = Limits { slice: 60, near: 24, ops: 60, text: 240, versions: 16, cycles: 12 };

    /// Half of everything, for pictures that came out too large.
    #[must_use]
    pub fn halved(self) -> Self {
        let half = |number: usize| (number / 2).max(3);
        Limits {
            slice: half(self.slice),
            near: self.near / 2,
            ops: half(self.ops),
            text: (self.text / 2).max(40),
            versions: half(self.versions),
            cycles: half(self.cycles),
        }
    }
}

/// Longer lines of an explanation are cut.
pub const LINE: usize = 1000;

/// How large a value is in a page.
#[must_use]
pub fn bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |json| crate::escape::script_json(&json).len())
}

/// Bytes of one picture, and of all together, in a page.
pub const PICTURE_BYTES: usize = 600_000;
/// See [`PICTURE_BYTES`].
pub const ALL_BYTES: usize = 2_500_000;

/// How many anomalies get a case with a picture.
pub const CASES: usize = 20;

/// A text that is safe to print on a terminal and not longer than `most` characters: control
/// characters and those that change the direction of writing become visible, and what is cut is
/// counted.
#[must_use]
pub fn clean(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    for character in chars.by_ref().take(most) {
        push_visible(&mut out, character);
    }
    match chars.count() {
        0 => out,
        rest => format!("{out}… (and {rest} more characters)"),
    }
}

/// The same for a text of several lines.
#[must_use]
pub fn clean_lines(text: &str) -> String {
    text.split('\n').map(|line| clean(line, LINE)).collect::<Vec<_>>().join("\n")
}

/// A text that is safe to print on a terminal, whole: lines and tabs stay, other control characters
/// become visible.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => out.push(character),
            other => push_visible(&mut out, other),
        }
    }
    out
}

fn push_visible(out: &mut String, character: char) {
    let directs =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}');
    if character.is_control() || directs || breaks {
        out.extend(character.escape_default());
    } else {
        out.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(clean("a\x1b[31mb\0\u{202e}c\u{2028}", 99), "a\\u{1b}[31mb\\u{0}\\u{202e}c\\u{2028}");
        assert_eq!(clean("naïve <b>", 99), "naïve <b>");
        assert_eq!(clean_lines("a\r\nb"), "a\\r\nb");
        assert_eq!(visible("a\t\x1b[2J\u{9b}2J\nb\r"), "a\t\\u{1b}[2J\\u{9b}2J\nb\\r");
    }

    #[test]
    fn what_is_cut_is_counted() {
        assert_eq!(clean("abcdef", 4), "abcd… (and 2 more characters)");
        assert_eq!(clean("abcd", 4), "abcd");
        let long = "x".repeat(10 << 20);
        assert!(clean(&long, 240).len() < 300);
    }

    #[test]
    fn limits_shrink_to_something() {
        let mut limits = Limits::FULL;
        (0..20).for_each(|_| limits = limits.halved());
        assert!(limits.slice > 0 && limits.ops > 0 && limits.near == 0 && limits.text >= 40);
    }
}
