//! Colours of a terminal, where they are wanted.

/// Whether and how to colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paint {
    /// Whether to colour at all.
    pub on: bool,
}

impl Paint {
    /// No colours.
    pub const OFF: Paint = Paint { on: false };

    /// All that is ever printed to colour something.
    pub const CODES: [&str; 10] = [
        "\x1b[0m",
        "\x1b[1m",
        "\x1b[2m",
        "\x1b[33m",
        "\x1b[34m",
        "\x1b[35m",
        "\x1b[36m",
        "\x1b[1;31m",
        "\x1b[1;32m",
        "\x1b[1;33m",
    ];

    /// A verdict's word in its colour.
    #[must_use]
    pub fn verdict(self, word: &str) -> String {
        match word {
            "holds" | "clean" | "accepted" => self.paint("1;32", word),
            "violated" | "rejected" => self.paint("1;31", word),
            _ => self.paint("1;33", word),
        }
    }

    /// A name that should be found by the eye.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What matters less.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// An arrow, by its kind.
    #[must_use]
    pub fn arrow(self, kind: &str, text: &str) -> String {
        let code = match kind {
            "rw" => "33",
            "wr" => "34",
            "ww" => "35",
            _ => "36",
        };
        self.paint(code, text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_codes_is_complete() {
        let on = Paint { on: true };
        let mut all = ["holds", "violated", "unknown"].map(|word| on.verdict(word)).to_vec();
        all.extend([on.bold("x"), on.dim("x")]);
        all.extend(["rw", "wr", "ww", "so"].map(|kind| on.arrow(kind, "x")));
        for text in all {
            for code in text.split_inclusive('m').filter(|part| part.contains('\x1b')) {
                let code = &code[code.find('\x1b').expect("it is there")..];
                assert!(Paint::CODES.contains(&code), "{code:?}");
            }
        }
    }
}
