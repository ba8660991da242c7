//! `LIKE`: `%` stands for any text, `_` for one character.

use crate::dialect::Dialect;
use crate::error::SqlError;

/// One element of a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Element {
    Any,
    One,
    Char(char),
}

/// Whether `text` matches `pattern`.
///
/// Without an ESCAPE clause PostgreSQL and MySQL escape with a backslash, SQLite with nothing.
pub(crate) fn like(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    ignore_case: bool,
    dialect: Dialect,
) -> Result<bool, SqlError> {
    let escape = escape.or((dialect != Dialect::Sqlite).then_some('\\'));
    let ignore_case = ignore_case || dialect == Dialect::Sqlite || dialect.ignores_case();
    if ignore_case && dialect != Dialect::Sqlite && !(text.is_ascii() && pattern.is_ascii()) {
        return Err(SqlError::unsupported("LIKE without case on text beyond ASCII"));
    }
    let fold = |c: char| if ignore_case { c.to_ascii_lowercase() } else { c };
    let pattern = elements(pattern, escape, fold)?;
    let text: Vec<char> = text.chars().map(fold).collect();
    Ok(matches(&text, &pattern))
}

fn elements(
    pattern: &str,
    escape: Option<char>,
    fold: impl Fn(char) -> char,
) -> Result<Vec<Element>, SqlError> {
    let mut elements = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        elements.push(match c {
            c if Some(c) == escape => match chars.next() {
                Some(next) => Element::Char(fold(next)),
                None => {
                    return Err(SqlError::unsupported("a LIKE pattern that ends with its escape character"));
                }
            },
            '%' => Element::Any,
            '_' => Element::One,
            c => Element::Char(fold(c)),
        });
    }
    Ok(elements)
}

/// Greedy matching with one point to return to: the last `%`. At most text × pattern steps.
fn matches(text: &[char], pattern: &[Element]) -> bool {
    let (mut t, mut p) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(Element::Any) => {
                retry = Some((t, p));
                p += 1;
            }
            Some(Element::One) => (t, p) = (t + 1, p + 1),
            Some(Element::Char(c)) if *c == text[t] => (t, p) = (t + 1, p + 1),
            _ => match retry {
                Some((from, any)) => {
                    retry = Some((from + 1, any));
                    (t, p) = (from + 1, any + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|element| *element == Element::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let pg = |t, p| like(t, p, None, false, Dialect::Postgres).unwrap();
        assert!(pg("kevin", "k%n"));
        assert!(pg("", "%"));
        assert!(!pg("", "_"));
        assert!(pg("a%b", r"a\%b"));
        assert!(!pg("axb", r"a\%b"));
        assert!(pg("abcabd", "%ab_"));
        assert!(!pg("Kevin", "kevin"));
        assert!(like("Kevin", "kEVIN", None, false, Dialect::Sqlite).unwrap());
        assert!(like("50%", "50!%", Some('!'), false, Dialect::Sqlite).unwrap());
        assert!(like("a", r"a\", None, false, Dialect::Postgres).is_err());
    }
}
