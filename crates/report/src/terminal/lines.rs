//! Lines of a block, and figures that fit a narrow column.

use std::path::Path;

use super::paint::Paint;
use crate::text::{WIDTH, numbers, plain, wrapped};

/// Appends a line to a block, without the spaces at its end.
pub(crate) fn line(block: &mut String, text: &str) {
    block.push_str(text.trim_end());
    block.push('\n');
}

/// Appends what several runs trained for, after the word `Target`.
pub(super) fn target_lines(block: &mut String, target: &str, paint: Paint) {
    for (at, text) in wrapped(&format!("Target {target}"), WIDTH).iter().enumerate() {
        let text = match text.strip_prefix("Target").filter(|_| at == 0) {
            Some(rest) => format!("{}{rest}", paint.bold("Target")),
            None => text.clone(),
        };
        line(block, &text);
    }
}

/// Appends what a block of several runs ends with: its sentences, and where its page is.
pub(super) fn closing(block: &mut String, sentences: &[String], page: Option<&Path>, paint: Paint) {
    for text in sentences.iter().flat_map(|sentence| wrapped(sentence, WIDTH)) {
        line(block, &text);
    }
    if let Some(page) = page {
        let path = plain(&page.display().to_string());
        line(block, &format!("{} {path}", paint.dim("report")));
    }
}

/// A length of time in at most six columns.
pub(super) fn short_seconds(value: f64) -> String {
    match value {
        ..=0.0 => "0 s".into(),
        ..0.001 => "<1 ms".into(),
        ..0.9995 => format!("{:.0} ms", value * 1e3),
        ..1_000.0 => format!("{} s", numbers::trim(&numbers::significant(value, 3))),
        ..100_000.0 => format!("{} min", (value / 60.0).round()),
        _ => format!("{} h", (value / 3_600.0).round()),
    }
}
