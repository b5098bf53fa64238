//! The templates, and how a view is laid out by one.

use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;

use crate::chart;

/// Lays a view out. Characters that XML forbids are replaced.
///
/// # Panics
/// Where there is no such template, or the view lacks a value that it shows.
pub(crate) fn render<V: Serialize>(template: &str, view: &V) -> String {
    let mut pages = Environment::new();
    for (name, text) in TEMPLATES {
        pages.add_template(name, text).expect("the templates are constant and tested");
    }

    let template = pages.get_template(template).expect("a page names a template of its own");
    let text = template.render(Serde(view)).expect("a view has every figure its template shows");
    text.chars().map(printable).collect()
}

/// XML allows three control characters and no non-characters.
fn printable(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' => c,
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

const TEMPLATES: [(&str, &str); 11] = [
    ("run.html", include_str!("templates/run.html")),
    ("waiting.html", include_str!("templates/waiting.html")),
    ("compare.html", include_str!("templates/compare.html")),
    ("seeds.html", include_str!("templates/seeds.html")),
    ("paper.html", include_str!("templates/paper.html")),
    ("frame.html", include_str!("templates/frame.html")),
    ("parts.html", include_str!("templates/parts.html")),
    ("definitions.html", include_str!("templates/definitions.html")),
    ("page.css", include_str!("templates/page.css")),
    ("png.js", include_str!("templates/png.js")),
    ("chart.css", chart::STYLE),
];
