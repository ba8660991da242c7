//! The pieces of a statement's text, in either grammar: strings, quoted names, words and comments
//! are whole.

/// Whose grammar a text follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grammar {
    Postgres,
    Mysql,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A word, or a number.
    Word,
    /// A quoted name.
    Name,
    /// A string.
    Text,
    /// Any other character.
    Sign,
    /// White space and comments.
    Blank,
    /// A comment that MySQL executes.
    Hidden,
    /// A semicolon.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece<'t> {
    pub kind: Kind,
    pub text: &'t str,
}

/// What is left of a text.
#[derive(Clone, Debug)]
pub(crate) struct Pieces<'t> {
    rest: &'t str,
    grammar: Grammar,
    /// Whether the last piece was the `E` of `E'…'`.
    escapes: bool,
}

/// The pieces of a text, one after the other.
pub(crate) fn pieces(text: &str, grammar: Grammar) -> Pieces<'_> {
    Pieces { rest: text, grammar, escapes: false }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let rest = self.rest.as_bytes();
        if rest.is_empty() {
            return None;
        }
        let (kind, length) = match self.grammar {
            Grammar::Postgres => postgres(rest, self.escapes),
            Grammar::Mysql => mysql(rest),
        };
        let (text, rest) = self.rest.split_at(length.max(1));
        (self.rest, self.escapes) = (rest, text.eq_ignore_ascii_case("e"));
        Some(Piece { kind, text })
    }
}

fn postgres(rest: &[u8], escapes: bool) -> (Kind, usize) {
    match rest {
        [b'-', b'-', ..] => (Kind::Blank, line(rest)),
        [b'/', b'*', ..] => (Kind::Blank, nested_comment(rest)),
        [b'\'', ..] => (Kind::Text, quoted(rest, b'\'', escapes)),
        [b'"', ..] => (Kind::Name, quoted(rest, b'"', false)),
        [b'$', ..] => dollar(rest),
        _ => common(rest),
    }
}

fn mysql(rest: &[u8]) -> (Kind, usize) {
    match rest {
        [b'#', ..] => (Kind::Blank, line(rest)),
        [b'-', b'-'] => (Kind::Blank, 2),
        [b'-', b'-', next, ..] if *next <= b' ' => (Kind::Blank, line(rest)),
        [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => (Kind::Hidden, comment(rest)),
        [b'/', b'*', ..] => (Kind::Blank, comment(rest)),
        [quote @ (b'\'' | b'"'), ..] => (Kind::Text, quoted(rest, *quote, true)),
        [b'`', ..] => (Kind::Name, quoted(rest, b'`', false)),
        [b'$', ..] => (Kind::Word, word(rest)),
        _ => common(rest),
    }
}

fn common(rest: &[u8]) -> (Kind, usize) {
    match rest[0] {
        b';' => (Kind::End, 1),
        byte if byte.is_ascii_whitespace() => (Kind::Blank, 1),
        byte if is_word(byte) => (Kind::Word, word(rest)),
        _ => (Kind::Sign, 1),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// In both grammars, a dollar sign may stand in a word.
fn word(rest: &[u8]) -> usize {
    rest.iter().take_while(|&&byte| is_word(byte) || byte == b'$').count()
}

fn line(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
}

fn comment(rest: &[u8]) -> usize {
    let end = rest[2..].windows(2).position(|pair| pair == b"*/");
    end.map_or(rest.len(), |end| end + 4)
}

/// PostgreSQL's comments nest.
fn nested_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' if escapes => at += 2,
            byte if byte == quote && rest.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `$tag$ … $tag$`, or a parameter `$1`.
fn dollar(rest: &[u8]) -> (Kind, usize) {
    let name = rest[1..].iter().take_while(|&&byte| is_word(byte)).count();
    let parameter = rest.get(1).is_some_and(u8::is_ascii_digit);
    if parameter || rest.get(name + 1) != Some(&b'$') {
        return (Kind::Sign, name + 1);
    }
    let tag = &rest[..name + 2];
    let body = &rest[tag.len()..];
    let end = body.windows(tag.len()).position(|window| window == tag);
    (Kind::Text, end.map_or(rest.len(), |end| end + 2 * tag.len()))
}

/// The statements of a text, without the comments around them. Empty ones are left out.
pub(crate) fn split(text: &str, grammar: Grammar) -> Vec<&str> {
    let (mut found, mut start, mut end, mut at) = (Vec::new(), None, 0, 0);
    for piece in pieces(text, grammar) {
        let to = at + piece.text.len();
        match piece.kind {
            Kind::Blank => {}
            Kind::End => found.extend(start.take().map(|start| &text[start..end])),
            _ => {
                start.get_or_insert(at);
                end = to;
            }
        }
        at = to;
    }
    found.extend(start.map(|start| &text[start..end]));
    found
}

/// Statements that may carry a password keep their first two words.
pub(crate) fn without_secrets(text: &str, grammar: Grammar) -> Option<String> {
    const PLAIN: [&str; 8] = ["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "TABLE", "VALUES"];
    let mut code = pieces(text, grammar).filter(|piece| piece.kind != Kind::Blank).peekable();
    let opens = code.peek().is_some_and(|first| first.text == "(");
    // The body of a DO block is a string.
    let words = code.take(2).take_while(|piece| piece.kind == Kind::Word);
    let words: Vec<String> = words.map(|piece| piece.text.to_uppercase()).collect();
    if opens || words.first().is_some_and(|first| PLAIN.contains(&first.as_str())) {
        return None;
    }
    let upper = text.to_ascii_uppercase();
    (upper.contains("PASSWORD") || upper.contains("IDENTIFIED")).then(|| words.join(" "))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Texts of eight random parts.
    pub fn random_texts(parts: &[&str], mut check: impl FnMut(&str)) {
        let mut seed = 1_u64;
        for _ in 0..30_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text += parts[(seed >> 33) as usize % parts.len()];
            }
            check(&text);
        }
    }

    #[test]
    fn texts_are_split_where_statements_end() {
        let postgres: [(&str, &[&str]); 8] = [
            ("SELECT 1; SELECT 2;", &["SELECT 1", "SELECT 2"]),
            (" /* a;b */ SELECT ';' -- c;d\n ; ;", &["SELECT ';'"]),
            ("SELECT 'it''s;' ; x", &["SELECT 'it''s;'", "x"]),
            (r"SELECT E'\';' ; x", &[r"SELECT E'\';'", "x"]),
            ("DO $a$ x; $$ y; $a$; z", &["DO $a$ x; $$ y; $a$", "z"]),
            ("SELECT \"a;b\" /*c*/, $1 /* /* nested; */ ; */;", &["SELECT \"a;b\" /*c*/, $1"]),
            // A dollar sign in a name begins no string.
            ("SELECT a$b; SELECT c$b", &["SELECT a$b", "SELECT c$b"]),
            (" -- nothing", &[]),
        ];
        let mysql: [(&str, &[&str]); 8] = [
            ("SELECT 1; SELECT 2;", &["SELECT 1", "SELECT 2"]),
            (" /* a;b */ SELECT ';' -- c;d\n ; # e;\n ;", &["SELECT ';'"]),
            (r"SELECT 'it\';' ; x", &[r"SELECT 'it\';'", "x"]),
            ("SELECT 'it''s;' ; x", &["SELECT 'it''s;'", "x"]),
            ("SELECT \"a;b\", `c;d`; x", &["SELECT \"a;b\", `c;d`", "x"]),
            ("SELECT 5--1; x", &["SELECT 5--1", "x"]),
            ("/* a /* b */ SELECT 1", &["SELECT 1"]),
            ("/*!40101 SET x = 1 */;", &["/*!40101 SET x = 1 */"]),
        ];
        for (cases, grammar) in [(postgres, Grammar::Postgres), (mysql, Grammar::Mysql)] {
            for (text, expected) in cases {
                assert_eq!(split(text, grammar), expected, "{text}");
            }
        }
    }

    #[test]
    fn pieces_are_the_whole_text() {
        let parts = [
            "'", "\"", "`", "$$", "$a$", "--", "#", "/*", "/*!", "*/", ";", "é", "E'", "\\", "x", "\n", "$1",
        ];
        random_texts(&parts, |text| {
            for grammar in [Grammar::Postgres, Grammar::Mysql] {
                let whole: String = pieces(text, grammar).map(|piece| piece.text).collect();
                assert_eq!(whole, text);
                split(text, grammar);
                without_secrets(text, grammar);
            }
        });
    }

    #[test]
    fn secrets_are_cut_off() {
        // The second word of this one used to be its whole body.
        let hidden = "DO $$ BEGIN ALTER ROLE x PASSWORD 'y'; END $$";
        for (grammar, text, kept) in [
            (Grammar::Postgres, "ALTER ROLE x PASSWORD 'y'", Some("ALTER ROLE")),
            (Grammar::Postgres, hidden, Some("DO")),
            (Grammar::Postgres, "UPDATE auth_user SET password = $1", None),
            (Grammar::Postgres, "SET x = 1", None),
            (Grammar::Mysql, "SET PASSWORD = 'x'", Some("SET PASSWORD")),
            (Grammar::Mysql, "create user a identified by 'x'", Some("CREATE USER")),
            (Grammar::Mysql, "UPDATE users SET password = 'x'", None),
        ] {
            assert_eq!(without_secrets(text, grammar).as_deref(), kept, "{text}");
        }
    }
}
