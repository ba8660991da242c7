//! Words in lines and numbers in columns.

/// Text in lines of at most `width` columns: `first` stands before it, `indent` blanks before every
/// further line. Words that are too long stay whole, unless they would be longer than a line.
#[must_use]
pub fn wrap(text: &str, width: usize, first: &str, indent: usize) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    let mut used = first.chars().count();
    let mut fresh = true;
    for word in text.split(' ').flat_map(|word| pieces(word, width - indent.min(width / 2))) {
        let length = word.chars().count();
        if !fresh && used + 1 + length > width {
            lines.push(" ".repeat(indent));
            (used, fresh) = (indent, true);
        }
        let line = lines.last_mut().expect("there is one");
        if !fresh {
            line.push(' ');
            used += 1;
        }
        line.push_str(&word);
        (used, fresh) = (used + length, false);
    }
    lines
}

fn pieces(word: &str, most: usize) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    if characters.is_empty() {
        return vec![String::new()];
    }
    characters.chunks(most.max(20)).map(|piece| piece.iter().collect()).collect()
}

/// Rows under a head. Columns whose cells are all numbers stand at the right; the last column is
/// wrapped.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head.
    #[must_use]
    pub fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table's lines, indented by two.
    #[must_use]
    pub fn lines(&self, width: usize) -> Vec<String> {
        let columns = self.rows[0].len();
        let wide = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(wide).collect();
        let numbers: Vec<bool> = (0..columns).map(|column| self.is_number(column)).collect();
        self.rows.iter().flat_map(|row| line(row, &widths, &numbers, width)).collect()
    }

    fn is_number(&self, column: usize) -> bool {
        self.rows.len() > 1 && self.rows[1..].iter().all(|row| row[column].parse::<f64>().is_ok())
    }
}

fn line(row: &[String], widths: &[usize], numbers: &[bool], width: usize) -> Vec<String> {
    let (last, cells) = row.split_last().expect("a row has cells");
    let mut head = String::from("  ");
    for (column, cell) in cells.iter().enumerate() {
        let blanks = " ".repeat(widths[column] - cell.chars().count());
        head += &if numbers[column] { format!("{blanks}{cell}  ") } else { format!("{cell}{blanks}  ") };
    }
    let indent = head.chars().count();
    wrap(last, width.max(indent + 24), &head, indent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_longer_than_they_may_be() {
        let text = "one two three four five six seven";
        assert_eq!(wrap(text, 16, "- ", 4), ["- one two three", "    four five", "    six seven"]);
        let long = "x".repeat(300);
        assert!(wrap(&long, 80, "", 2).iter().all(|line| line.chars().count() <= 82));
        assert_eq!(wrap("", 80, "a", 2), ["a"]);
    }

    #[test]
    fn numbers_stand_at_the_right() {
        let mut table = Table::new(&["name", "count", "unit"]);
        table.row(["a".to_owned(), "7".to_owned(), "s".to_owned()]);
        table.row(["long".to_owned(), "123".to_owned(), "s".to_owned()]);
        assert_eq!(table.lines(80), ["  name  count  unit", "  a         7  s", "  long    123  s"]);
    }
}
