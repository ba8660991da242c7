//! "Did you mean …?"

/// The candidate nearest to `word`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + word.chars().count() / 4;
    let scored = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    scored.filter(|&(d, _)| d <= limit).min().map(|(_, candidate)| candidate)
}

/// The number of single-character edits between two words.
fn distance(a: &str, b: &str) -> usize {
    // A word this long is garbage, not a typing error; comparing it would cost its length squared.
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_is_near() {
        assert_eq!(nearest("sesion", ["txn", "session"]), Some("session"));
        assert_eq!(nearest("txns", ["txn", "session"]), Some("txn"));
        assert_eq!(nearest("flavour", ["txn", "session"]), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), ["txn"]), None);
    }
}
