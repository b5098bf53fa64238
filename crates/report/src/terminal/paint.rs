//! Whether text on the terminal is styled.

use console::Style;

/// Whether headings are styled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// No escape sequence is written.
    Plain,
    /// Headings are bold, labels are dim.
    Styled,
}

impl Paint {
    /// [`Paint::Styled`] where standard output is a terminal that shows colours and `NO_COLOR` is not set.
    pub fn for_stdout() -> Self {
        if console::colors_enabled() { Self::Styled } else { Self::Plain }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.apply(Style::new().bold(), text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.apply(Style::new().dim(), text)
    }

    fn apply(self, style: Style, text: &str) -> String {
        style.force_styling(self == Self::Styled).apply_to(text).to_string()
    }
}
