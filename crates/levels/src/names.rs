//! Unknown names, and the nearest known ones.

use std::fmt;

/// A name that nothing here bears, with the nearest names that something does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What was looked for: "level", "anomaly", …
    pub kind: &'static str,
    /// The name as it was given.
    pub name: String,
    /// Known names, nearest first; may be empty.
    pub nearest: Vec<String>,
}

impl UnknownName {
    /// The error for `name`, with suggestions from `known`.
    pub fn among(kind: &'static str, name: &str, known: impl IntoIterator<Item = &'static str>) -> Self {
        Self { kind, name: name.to_owned(), nearest: nearest(name, known) }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`", self.kind, self.name)?;
        match self.nearest.as_slice() {
            [] => Ok(()),
            near => write!(f, "; did you mean {}?", near.join(", ")),
        }
    }
}

impl std::error::Error for UnknownName {}

/// Up to three of `known` that are near `name`, nearest first.
///
/// A name is near if a third of its letters (at least two) need to change, or if it contains the
/// given one.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = fold(name);
    let limit = (wanted.chars().count() / 3).max(2);
    let mut scored: Vec<(usize, &str)> =
        known.into_iter().filter_map(|k| Some((score(&wanted, &fold(k), limit)?, k))).collect();
    scored.sort();
    scored.dedup_by_key(|s| s.1);
    scored.into_iter().take(3).map(|s| s.1.to_owned()).collect()
}

/// Case, blanks and underscores do not distinguish names.
pub(crate) fn fold(name: &str) -> String {
    name.trim().to_lowercase().replace([' ', '_'], "-")
}

fn score(wanted: &str, known: &str, limit: usize) -> Option<usize> {
    let d = distance(wanted, known);
    let contained = wanted.len() >= 3 && known.contains(wanted);
    (d <= limit || contained).then_some(d)
}

/// The edit distance (insert, delete, replace) of two strings, one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn nearest_first_and_far_ones_left_out() {
        let known = ["serializable", "strict-serializable", "causal"];
        assert_eq!(nearest("serialisable", known), ["serializable"]);
        assert_eq!(nearest("serializable", known), ["serializable", "strict-serializable"]);
        assert!(nearest("zzzzzz", known).is_empty());
    }
}
