//! Parameters in texts.

use margay_history::{Value, ValueId, Values};

/// A text whose parameters are `$1`, `$2`, …: each `?` gets its number. `None` when it has both kinds.
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

/// A parameter's place, from 0 on, out of `$1`.
pub(crate) fn place(placeholder: &str) -> Option<usize> {
    placeholder.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// The text with literals for its parameters. `None` when one is missing, or has no literal that is the same everywhere.
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
