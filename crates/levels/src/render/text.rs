//! Plain text: wrapping and tables.

use std::fmt::Display;

/// Items separated by commas.
pub(super) fn list<T: Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// `text` in lines of at most `width` characters, each after `indent`. A longer word keeps a line
/// of its own.
pub(super) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let room = width.saturating_sub(indent.chars().count());
    lines(text, room).iter().map(|l| format!("{indent}{l}\n")).collect()
}

/// An item of a Markdown list in lines of at most 100 characters.
pub(super) fn item(text: &str) -> String {
    format!("- {}", &wrap(text, 100, "  ")[2..])
}

fn lines(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let used = lines[last].chars().count();
        if used > 0 && used + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
            continue;
        }
        if used > 0 {
            lines[last].push(' ');
        }
        lines[last].push_str(word);
    }
    lines
}

/// A table whose last column is wrapped.
pub(super) struct Table<const N: usize> {
    head: [String; N],
    /// Columns other than the last are wrapped beyond this width, at blanks.
    column: usize,
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(super) fn new(column: usize, head: &[&str; N]) -> Self {
        Self { head: head.map(str::to_owned), column, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    pub(super) fn render(&self, width: usize) -> String {
        let widths = self.widths(width);
        let mut out = draw(&self.head, &widths);
        out.push_str(&draw(&widths.map(|w| "─".repeat(w)), &widths));
        self.rows.iter().for_each(|r| out.push_str(&draw(r, &widths)));
        out
    }

    /// Columns are as wide as their widest line; the last gets the rest.
    fn widths(&self, width: usize) -> [usize; N] {
        let mut widths = [0; N];
        for cells in std::iter::once(&self.head).chain(&self.rows) {
            for (w, cell) in widths.iter_mut().zip(cells) {
                let longest = lines(cell, self.column).iter().map(|l| l.chars().count()).max().unwrap_or(0);
                *w = longest.max(*w);
            }
        }
        if let Some((last, others)) = widths.split_last_mut() {
            *last = width.saturating_sub(others.iter().map(|w| w + 2).sum());
        }
        widths
    }
}

/// One row, on as many lines as its tallest cell needs.
fn draw<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let columns: Vec<Vec<String>> = cells.iter().zip(widths).map(|(c, &w)| lines(c, w)).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    let line = |i: usize| -> String {
        let cell = |(c, w): (&Vec<String>, &usize)| format!("{:<w$}", c.get(i).map_or("", String::as_str));
        columns.iter().zip(widths).map(cell).collect::<Vec<_>>().join("  ")
    };
    (0..height).map(|i| format!("{}\n", line(i).trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_blanks() {
        assert_eq!(wrap("one two three", 8, " "), " one two\n three\n");
        assert_eq!(wrap("extraordinary", 5, ""), "extraordinary\n");
    }

    #[test]
    fn the_last_column_gets_the_rest() {
        let mut table = Table::new(9, &["a", "b"]);
        table.row(["x".to_owned(), "one two".to_owned()]);
        assert_eq!(table.render(7), "a  b\n─  ────\nx  one\n   two\n");
    }
}
