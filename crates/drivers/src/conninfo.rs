//! Addresses in libpq's other words: `host=h user=u password='a b'`.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// What begins such an address, in any order.
const KEYS: [&str; 8] =
    ["host", "hostaddr", "port", "user", "password", "dbname", "sslmode", "application_name"];

/// Whether a text is meant as such an address.
pub(crate) fn is_one(text: &str) -> bool {
    let key = text.split('=').next().unwrap_or_default().trim();
    text.contains('=') && KEYS.contains(&key)
}

/// The same address as a URL.
pub(crate) fn url(text: &str) -> Result<String, String> {
    let pairs = pairs(text).ok_or("this is no address in libpq's words: host=… port=… user=… password=…")?;
    if pairs.iter().any(|(key, value)| key.starts_with("host") && value.contains(',')) {
        return Err("one host at a time".to_owned());
    }
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let options: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
    Ok(format!("postgres:///?{}", options.join("&")))
}

/// The keys with their values; a value may stand in quotes, and a backslash takes the next
/// character as it is.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let (mut pairs, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let (key, value) = rest.split_once('=')?;
        let key = key.trim_end();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let (value, after) = value_of(value.trim_start())?;
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Some(pairs)
}

/// The value at the beginning of a text, and what follows it.
fn value_of(text: &str) -> Option<(String, &str)> {
    let (quoted, start) = match text.strip_prefix('\'') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut value = String::new();
    let mut characters = start.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => value.extend(characters.next().map(|(_, c)| c)),
            '\'' if quoted => return Some((value, &start[at + 1..])),
            c if !quoted && c.is_whitespace() => return Some((value, &start[at..])),
            c => value.push(c),
        }
    }
    (!quoted).then_some((value, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libpq_reads() {
        let url = |text| url(text).expect("an address");
        assert_eq!(url("host=h user=u"), "postgres:///?host=h&user=u");
        assert_eq!(url("host = h  password='a b\\'c'"), "postgres:///?host=h&password=a%20b%27c");
        assert_eq!(url("host=/run/x dbname=a\\ b"), "postgres:///?host=%2Frun%2Fx&dbname=a%20b");
        for wrong in ["host=h port", "host='h", "host=h =x", "host=a,b"] {
            assert!(super::url(wrong).is_err(), "{wrong}");
        }
        assert!(is_one("user=x") && !is_one("sqlite:x?begin=now") && !is_one("host"));
    }
}
