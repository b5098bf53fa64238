//! The figures of a picture as comma-separated values.

use std::fmt::Write as _;

/// Lines of values under a heading.
pub(super) struct Csv {
    text: String,
}

impl Csv {
    pub(super) fn new(heads: &[&str]) -> Self {
        let heads: Vec<String> = heads.iter().map(|head| quoted(head)).collect();
        Self { text: heads.join(",") + "\n" }
    }

    /// A line: names, then figures. A figure that is no number has no digits.
    pub(super) fn line(&mut self, names: &[&str], figures: &[f64]) {
        let names = names.iter().map(|name| quoted(name));
        let digits = |figure: &f64| match figure.is_finite() {
            true => figure.to_string(),
            false => String::new(),
        };
        let fields: Vec<String> = names.chain(figures.iter().map(digits)).collect();
        let _ = writeln!(self.text, "{}", fields.join(","));
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// In quotes where it holds one of the signs of the format.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_missing_figures_are_empty() {
        let mut csv = Csv::new(&["run, copy", "value"]);
        csv.line(&["a \"b\""], &[0.25]);
        csv.line(&["c"], &[f64::NAN]);
        assert_eq!(csv.finish(), "\"run, copy\",value\n\"a \"\"b\"\"\",0.25\nc,\n");
    }
}
