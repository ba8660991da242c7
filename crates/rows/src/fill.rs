//! Parameters in texts.

use margay_history::{Value, ValueId, Values};

/// A text whose parameters are `$1`, `$2`, …: each `?` gets its number. `None` when it has both
/// kinds.
pub(crate) fn numbered(text: &str) -> Option<String> {
    if !text.contains('?') {
        return Some(text.to_owned());
    }
    let (mut out, mut count, mut quote) = (String::with_capacity(text.len() + 8), 0, None);
    for char in text.chars() {
        match (quote, char) {
            (None, '\'' | '"' | '`') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            (None, '$') => return None,
            (None, '?') => {
                count += 1;
                out += &format!("${count}");
                continue;
            }
            _ => {}
        }
        out.push(char);
    }
    Some(out)
}

/// A statement without the comment that comes before or after it. Tools that trace statements add
/// one (sqlcommenter, Rails' query tags). MySQL executes a comment that begins with `/*!`; that one
/// stays.
pub(crate) fn without_comments(text: &str) -> &str {
    let mut text = text.trim();
    while let Some((comment, rest)) = text.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
        if comment.starts_with('!') || comment.contains("/*") {
            return text;
        }
        text = rest.trim_start();
    }
    let bare = text.trim_end_matches([';', ' ', '\n', '\t', '\r']);
    let Some(at) = bare.strip_suffix("*/").and_then(|inner| inner.rfind("/*")) else { return text };
    let (before, comment) = bare.split_at(at);
    let quoted = ['\'', '"', '`'].iter().any(|&quote| before.matches(quote).count() % 2 == 1);
    let inside = comment[2..comment.len() - 2].contains("*/");
    if quoted
        || inside
        || comment.starts_with("/*!")
        || before.contains("--")
        || before.contains('$') && before.contains("$$")
    {
        return text;
    }
    before.trim_end()
}

/// A parameter's place, from 0 on, out of `$1`.
pub(crate) fn place(placeholder: &str) -> Option<usize> {
    placeholder.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// The text with literals for its parameters. `None` when one is missing, or has no literal that is
/// the same everywhere.
pub(crate) fn fill(text: &str, params: &[ValueId], values: &Values) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut quoted = false;
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '$']) {
        out += &rest[..at];
        let mark = &rest[at..at + 1];
        rest = &rest[at + 1..];
        if mark == "'" {
            quoted = !quoted;
            out += mark;
        } else if quoted {
            out += mark;
        } else {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let param = *params.get(rest[..digits].parse::<usize>().ok()?.checked_sub(1)?)?;
            out += &literal(values.get(param))?;
            rest = &rest[digits..];
        }
    }
    Some(out + rest)
}

/// A value as SQL writes it.
pub(crate) fn literal(value: Value<'_>) -> Option<String> {
    match value {
        Value::Null => Some("NULL".to_owned()),
        Value::Int(int) => Some(int.to_string()),
        // MySQL reads a backslash as an escape.
        Value::Text(text) if !text.contains('\\') => Some(format!("'{}'", text.replace('\'', "''"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_around_a_statement_are_cut_off() {
        let cut = without_comments;
        assert_eq!(cut("SELECT 1 /*traceparent='00-ab',route='(x)'*/;"), "SELECT 1");
        assert_eq!(cut("/* app:web */ SELECT 1"), "SELECT 1");
        for kept in ["SELECT '/* a */'", "SELECT 1 /*!99 + 1*/", "/*!1 SELECT 1 */", "SELECT 1 -- /* x */"] {
            assert_eq!(cut(kept), kept);
        }
    }

    #[test]
    fn questions_are_numbered_outside_of_quotes() {
        assert_eq!(numbered("a = ? AND b = '?' AND c = ?").as_deref(), Some("a = $1 AND b = '?' AND c = $2"));
        assert_eq!(numbered("a = $1").as_deref(), Some("a = $1"));
        assert_eq!(numbered("a = $1 AND b = ?"), None);
        assert_eq!([place("$1"), place("$0"), place("?")], [Some(0), None, None]);
    }

    #[test]
    fn parameters_become_literals() {
        let mut values = Values::default();
        let params = [values.int(-3), values.text("it's"), values.text("\\"), values.float(0.5)];
        let filled = |text| fill(text, &params, &values);
        assert_eq!(filled("a = $1 AND b = $2 OR '$9'").as_deref(), Some("a = -3 AND b = 'it''s' OR '$9'"));
        assert_eq!([filled("$3"), filled("$4"), filled("$5"), filled("$x")], [None, None, None, None]);
    }
}
