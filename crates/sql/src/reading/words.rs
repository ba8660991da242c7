//! A cursor over tokens, for the forms that the SQL parser does not know.

use sqlparser::ast::Ident;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;
use crate::reading::parse::position;

/// The tokens of a text without its white space, and a place among them.
pub(crate) struct Words {
    tokens: Vec<TokenWithSpan>,
    at: usize,
}

/// A token as it is compared: words in upper case unless they are quoted.
fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        Token::Word(word) => format!("\"{}\"", word.value),
        other => other.to_string(),
    }
}

impl Words {
    pub fn new(mut tokens: Vec<TokenWithSpan>) -> Self {
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        Words { tokens, at: 0 }
    }

    pub fn peek(&self) -> Option<&Token> {
        self.ahead(0)
    }

    /// The token that stands `offset` after the next one.
    pub fn ahead(&self, offset: usize) -> Option<&Token> {
        self.tokens.get(self.at + offset).map(|token| &token.token)
    }

    pub fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += usize::from(token.is_some());
        token
    }

    pub fn done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// True if these words come next.
    pub fn is(&self, wanted: &[&str]) -> bool {
        let mut offsets = wanted.iter().enumerate();
        offsets.all(|(offset, word)| self.ahead(offset).is_some_and(|token| shown(token) == *word))
    }

    /// Takes these words if they come next.
    pub fn take(&mut self, wanted: &[&str]) -> bool {
        let found = self.is(wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }

    pub fn expect(&mut self, wanted: &[&str]) -> Result<(), SqlError> {
        if self.take(wanted) { Ok(()) } else { Err(self.expected(&wanted.join(" "))) }
    }

    /// The error of something else standing here.
    pub fn expected(&self, what: &str) -> SqlError {
        let found = self.peek().map_or("the end".to_string(), ToString::to_string);
        SqlError::Parse { message: format!("Expected: {what}, found: {found}"), at: self.place() }
    }

    /// The error of a construct outside the fragment that stands here.
    pub fn outside(&self, construct: &str) -> SqlError {
        SqlError::Unsupported { construct: construct.into(), at: self.place() }
    }

    fn place(&self) -> Option<crate::error::Position> {
        self.tokens.get(self.at).and_then(|token| position(token.span.start))
    }

    pub fn ident(&mut self) -> Result<Ident, SqlError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let ident = word.to_ident(self.tokens[self.at].span);
                self.at += 1;
                Ok(ident)
            }
            _ => Err(self.expected("a name")),
        }
    }

    /// A name of one part.
    pub fn single(&mut self) -> Result<Ident, SqlError> {
        let ident = self.ident()?;
        if self.peek() == Some(&Token::Period) {
            return Err(self.outside("a qualified name of a procedure"));
        }
        Ok(ident)
    }

    /// The tokens up to one of `stops` outside parentheses and CASE, which is not taken.
    pub fn until(&mut self, stops: &[&str]) -> Result<Vec<TokenWithSpan>, SqlError> {
        let start = self.at;
        let (mut open, mut cases) = (0usize, 0usize);
        while let Some(token) = self.peek() {
            let text = shown(token);
            if open == 0 && cases == 0 && stops.contains(&text.as_str()) {
                return Ok(self.tokens[start..self.at].to_vec());
            }
            match text.as_str() {
                "(" => open += 1,
                ")" => open = open.saturating_sub(1),
                "CASE" => cases += 1,
                "END" => cases = cases.saturating_sub(1),
                ";" => break,
                _ => {}
            }
            self.at += 1;
        }
        Err(self.expected(&stops.join(" or ")))
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> Vec<TokenWithSpan> {
        let rest = self.tokens.get(self.at..).unwrap_or_default().to_vec();
        self.at = self.tokens.len();
        rest
    }
}

/// The place of a word outside parentheses, at or after `from`.
pub(crate) fn find(tokens: &[TokenWithSpan], word: &str, from: usize) -> Option<usize> {
    let mut open = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match shown(&token.token).as_str() {
            "(" => open += 1,
            ")" => open = open.saturating_sub(1),
            text if text == word && open == 0 && at >= from => return Some(at),
            _ => {}
        }
    }
    None
}

/// The two sides of `low..high`. The tokenizer takes a point next to digits for a part of the
/// number.
pub(crate) fn range(tokens: &[TokenWithSpan]) -> Option<(Vec<TokenWithSpan>, Vec<TokenWithSpan>)> {
    let number = |text: &str| Token::Number(text.to_string(), false);
    for (at, pair) in tokens.windows(2).enumerate() {
        let (mut low, mut high) = (tokens[..at].to_vec(), Vec::new());
        let first = TokenWithSpan { token: Token::Period, span: pair[0].span };
        match (&pair[0].token, &pair[1].token) {
            (Token::Period, Token::Period) => {}
            (Token::Period, Token::Number(b, _)) if b.starts_with('.') => {
                high.push(TokenWithSpan { token: number(&b[1..]), span: pair[1].span });
            }
            (Token::Number(a, _), Token::Period) if a.ends_with('.') => {
                low.push(TokenWithSpan { token: number(a.trim_end_matches('.')), ..first });
            }
            (Token::Number(a, _), Token::Number(b, _)) if a.ends_with('.') && b.starts_with('.') => {
                low.push(TokenWithSpan { token: number(a.trim_end_matches('.')), ..first });
                high.push(TokenWithSpan { token: number(&b[1..]), span: pair[1].span });
            }
            _ => continue,
        }
        high.extend_from_slice(&tokens[at + 2..]);
        return Some((low, high));
    }
    None
}
