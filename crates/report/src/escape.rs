//! One function for each language that a text is put into.

/// Text of XML and HTML, in elements and in attributes; what XML cannot hold becomes U+FFFD.
#[must_use]
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            _ if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}')
            }
            _ => out.push(character),
        }
    }
    out
}

/// JSON that may stand inside a `<script>` element: no character of it can end the element or a
/// line of JavaScript.
#[must_use]
pub fn script_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", character as u32))
            }
            _ => out.push(character),
        }
    }
    out
}

/// A quoted string of DOT.
#[must_use]
pub fn dot(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            _ if character.is_control() => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_through() {
        assert_eq!(xml("<a b='\"'>&\u{0}\n"), "&lt;a b=&#39;&quot;&#39;&gt;&amp;\u{fffd}&#10;");
        assert_eq!(
            script_json("\"</script><!--\u{2028}&\""),
            "\"\\u003c/script\\u003e\\u003c!--\\u2028\\u0026\""
        );
        assert_eq!(dot("a\"b\\c\n"), "\"a\\\"b\\\\c\\n\"");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({"a": "</script>\u{2028}&amp;", "<b>": [1.5, null]});
        let text = script_json(&value.to_string());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }
}
