//! Tables for the terminal: aligned, within a width, with control characters in names made visible.

use console::{Alignment, measure_text_width, pad_str, truncate_str};

/// How many columns a terminal block may fill.
pub(crate) const WIDTH: usize = 80;

/// Rows of cells under headings. Where the table is too wide, its columns move together; then the first is shortened.
pub(crate) struct TextTable {
    heads: Vec<(&'static str, Alignment)>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(crate) fn new(heads: &[(&'static str, Alignment)]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.heads.len(), "a row has a cell for each heading");
        self.rows.push(cells.iter().map(|cell| plain(cell)).collect());
    }

    /// The heading line and the rows, each at most `width` columns wide where shortening the first column allows it.
    pub(crate) fn lines(&self, width: usize) -> (String, Vec<String>) {
        let mut widths: Vec<usize> = self
            .heads
            .iter()
            .enumerate()
            .map(|(column, (head, _))| {
                let cells = self.rows.iter().map(|row| measure_text_width(&row[column]));
                cells.chain([measure_text_width(head)]).max().unwrap_or(0)
            })
            .collect();
        let total = |gutter: &str| widths.iter().sum::<usize>() + gutter.len() * (widths.len() - 1);
        let gutter = if total(GUTTER) <= width { GUTTER } else { NARROW_GUTTER };
        let over = total(gutter).saturating_sub(width);
        widths[0] = widths[0].saturating_sub(over).max(FIRST_MIN.min(widths[0]));

        let heads: Vec<String> = self.heads.iter().map(|(head, _)| (*head).to_owned()).collect();
        let rows = self.rows.iter().map(|row| self.line(row, &widths, gutter)).collect();
        (self.line(&heads, &widths, gutter), rows)
    }

    fn line(&self, cells: &[String], widths: &[usize], gutter: &str) -> String {
        let cells: Vec<_> = cells
            .iter()
            .zip(widths)
            .zip(&self.heads)
            .map(|((cell, width), (_, align))| pad_str(cell, *width, *align, Some("…")))
            .collect();
        cells.join(gutter).trim_end().to_owned()
    }
}

/// The text with control characters replaced, so that no name can send commands to the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The text, cut to a number of columns.
pub(crate) fn fitted(text: &str, width: usize) -> String {
    truncate_str(&plain(text), width, "…").into_owned()
}

/// The text in lines of at most so many columns, broken between words.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in plain(text).split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last] = fitted(word, width);
        } else if measure_text_width(&lines[last]) + 1 + measure_text_width(word) <= width {
            lines[last] = format!("{} {word}", lines[last]);
        } else {
            lines.push(fitted(word, width));
        }
    }
    lines
}

const GUTTER: &str = "  ";
const NARROW_GUTTER: &str = " ";

/// Names of this length are never cut: a row that is too wide can still be read.
const FIRST_MIN: usize = 22;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_name_gives_way_to_the_figures() {
        let mut table = TextTable::new(&[("link", Alignment::Left), ("bytes", Alignment::Right)]);
        table.row(vec!["a data center with a very long name".into(), "14.2 MB".into()]);
        let (head, rows) = table.lines(20);
        assert_eq!(head, "link                     bytes");
        assert_eq!(rows, ["a data center with a … 14.2 MB"]);
    }

    #[test]
    fn columns_move_together_before_a_name_is_cut() {
        let mut table = TextTable::new(&[("", Alignment::Left), ("bytes", Alignment::Right)]);
        table.row(vec!["local-steps over a wide area".into(), "14.2 MB".into()]);
        assert_eq!(table.lines(37).1, ["local-steps over a wide area  14.2 MB"]);
        assert_eq!(table.lines(36).1, ["local-steps over a wide area 14.2 MB"]);
    }

    #[test]
    fn a_long_sentence_is_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 5), ["unbr…"]);
    }

    proptest! {
        #[test]
        fn no_name_breaks_the_table(names in prop::collection::vec(any::<String>(), 0..5)) {
            let mut table = TextTable::new(&[("name", Alignment::Left), ("bytes", Alignment::Right)]);
            for name in &names {
                table.row(vec![name.clone(), "1 B".into()]);
            }
            for line in table.lines(40).1 {
                prop_assert!(measure_text_width(&line) <= 40);
                prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }
}
