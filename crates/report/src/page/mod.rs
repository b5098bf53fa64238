//! The pages: one file each that opens with no network, in light and dark, on a phone.
//!
//! A page is made in two steps. `run`, `compare` and `report/paper` turn records into views, in which every figure
//! is already text; the templates only lay views out. They are well-formed XML as well as HTML, so that a strict
//! parser can hold them to account, and a content policy forbids them to load anything.

mod compare;
mod parts;
mod run;

use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;

pub(super) use compare::compare_page;
pub(super) use parts::{BlockedBar, Cell, Picture, Table, colour, comparison_plot, run_plot};
pub(super) use run::run_page;

use super::chart;

/// Lays a view out.
pub(super) fn render<V: Serialize>(template: &str, view: &V) -> String {
    let mut pages = Environment::new();
    for (name, text) in TEMPLATES {
        pages.add_template(name, text).expect("the templates are constant and tested");
    }
    let template = pages.get_template(template).expect("a page names a template of its own");
    let text = template.render(Serde(view)).expect("a view has every figure its template shows");
    text.chars().map(printable).collect()
}

/// XML knows no control characters but these three, and no non-characters.
fn printable(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' => c,
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// A figure with its name: a headline, or a cell of a list of facts.
#[derive(Serialize)]
struct Figure {
    label: &'static str,
    value: String,
    note: String,
}

impl Figure {
    fn new(label: &'static str, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { label, value: value.into(), note: note.into() }
    }
}

const TEMPLATES: [(&str, &str); 8] = [
    ("run.html", include_str!("templates/run.html")),
    ("compare.html", include_str!("templates/compare.html")),
    ("paper.html", include_str!("templates/paper.html")),
    ("frame.html", include_str!("templates/frame.html")),
    ("parts.html", include_str!("templates/parts.html")),
    ("definitions.html", include_str!("templates/definitions.html")),
    ("page.css", include_str!("templates/page.css")),
    ("chart.css", chart::STYLE),
];
