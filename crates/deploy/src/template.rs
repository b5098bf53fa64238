//! Scripts and prose with gaps.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

/// Fills the gaps of a template of this crate.
///
/// # Panics
/// Where the template names something that `context` lacks: both are part of this crate.
pub(crate) fn fill(template: &str, context: &impl Serialize) -> String {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.expect("the usual delimiters differ"));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let filled = environment.render_str(template, Serde(context));
    filled.expect("templates of this crate name what their contexts have")
}
