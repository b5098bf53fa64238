//! A small writer of SVG elements. Every name, value and text is escaped.

use std::fmt::Display;

/// The style rules of all charts. A page includes them once; a picture that stands alone carries them inside.
pub(crate) const STYLE: &str = include_str!("chart.css");

/// Where a picture is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum Medium {
    /// In a page that carries [`STYLE`].
    Page,
    /// In a file of its own.
    File,
}

/// SVG text as it grows.
#[derive(Default)]
pub(super) struct Svg {
    text: String,
}

impl Svg {
    /// A picture: its size, what it shows for screen readers, and what is drawn.
    pub(super) fn picture(
        medium: Medium,
        size: (f64, f64),
        description: &str,
        draw: impl FnOnce(&mut Self),
    ) -> String {
        match medium {
            Medium::Page => Self::inline(size, description, draw),
            Medium::File => Self::standalone(size, description, draw),
        }
    }

    fn inline(
        (width, height): (f64, f64),
        description: &str,
        draw: impl FnOnce(&mut Self),
    ) -> String {
        let mut svg = Self::default();
        let view = format!("0 0 {} {}", pixels(width), pixels(height));
        let attributes: [(&str, &dyn Display); 4] =
            [("viewBox", &view), ("class", &"gc"), ("role", &"img"), ("aria-label", &description)];
        svg.group("svg", &attributes, draw);
        svg.finish()
    }

    fn standalone(
        (width, height): (f64, f64),
        description: &str,
        draw: impl FnOnce(&mut Self),
    ) -> String {
        let mut svg = Self::default();
        let [width, height] =
            [width, height].map(|inside| pixels(2.0_f64.mul_add(PADDING, inside)));
        let view = format!("{} {} {width} {height}", -PADDING, -PADDING);
        let attributes: [(&str, &dyn Display); 6] = [
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("viewBox", &view),
            ("width", &width),
            ("height", &height),
            ("class", &"gc"),
            ("role", &"img"),
        ];
        svg.group("svg", &attributes, |svg| {
            svg.text("title", &[], description);
            svg.style(STYLE);
            let paper: [(&str, &dyn Display); 5] = [
                ("class", &"gc-paper"),
                ("x", &-PADDING),
                ("y", &-PADDING),
                ("width", &width),
                ("height", &height),
            ];
            svg.empty("rect", &paper);
            draw(svg);
        });
        svg.finish()
    }

    /// An element without content.
    pub(super) fn empty(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.open_tag(name, attributes);
        self.text.push_str("/>\n");
    }

    /// An element that holds text.
    pub(super) fn text(&mut self, name: &str, attributes: &[(&str, &dyn Display)], content: &str) {
        self.open_tag(name, attributes);
        self.text.push('>');
        escape(content, &mut self.text);
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push_str(">\n");
    }

    /// An element that holds elements.
    pub(super) fn group(
        &mut self,
        name: &str,
        attributes: &[(&str, &dyn Display)],
        content: impl FnOnce(&mut Self),
    ) {
        self.open_tag(name, attributes);
        self.text.push_str(">\n");
        content(self);
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push_str(">\n");
    }

    /// Style rules, which are constant and need no escape.
    pub(super) fn style(&mut self, rules: &'static str) {
        self.text.push_str("<style>\n");
        self.text.push_str(rules);
        self.text.push_str("</style>\n");
    }

    /// The text written so far.
    pub(super) fn finish(self) -> String {
        self.text
    }

    fn open_tag(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.text.push('<');
        self.text.push_str(name);
        for (key, value) in attributes {
            self.text.push(' ');
            self.text.push_str(key);
            self.text.push_str("=\"");
            escape(&value.to_string(), &mut self.text);
            self.text.push('"');
        }
    }
}

/// The space around a picture that stands alone.
const PADDING: f64 = 20.0;

/// A coordinate: a tenth of a pixel is enough.
pub(super) fn pixels(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// XML forbids most control characters even when escaped.
fn escape(text: &str, into: &mut String) {
    for c in text.chars() {
        match c {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => into.push('\u{fffd}'),
            c if c.is_control() => into.push('\u{fffd}'),
            c => into.push(c),
        }
    }
}
