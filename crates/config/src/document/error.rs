//! A mistake in a file or a flag: its place, and what was expected.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// One mistake in a file or a flag.
///
/// Its `Display` is one line of text. [`ConfigError::render`] also shows the line of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigError(Box<Complaint>);

#[derive(Clone, Debug, PartialEq)]
struct Complaint {
    place: ErrorLocation,
    key: String,
    fault: Fault,
}

/// Where a mistake was written.
#[derive(Clone, Debug, PartialEq)]
pub enum ErrorLocation {
    /// On the command line: the flag and its value.
    Flag(String),
    /// In a file.
    File {
        /// The path as messages show it.
        name: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// The line, with the mistake marked.
        excerpt: Excerpt,
    },
}

/// One line of a file, and the bytes of it that are marked.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
    line: String,
    marked: Range<usize>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A file cannot be read.
    Unreadable {
        /// The path as messages show it.
        path: String,
        /// The operating system's reason, or that the file is too long or not UTF-8.
        reason: String,
    },
    /// The text is not TOML, or not CSV.
    Syntax {
        /// What the parser found.
        message: String,
    },
    /// A key that the program does not know.
    UnknownKey {
        /// The keys that may stand there.
        expected: Vec<String>,
    },
    /// A required key is missing.
    MissingKey {
        /// What should be there.
        expected: String,
    },
    /// A value is not allowed.
    Wrong {
        /// The value as it was written.
        found: String,
        /// The values that are allowed.
        expected: String,
        /// A suggestion, such as a similar name.
        help: Option<String>,
    },
}

impl ConfigError {
    pub(crate) fn new(place: ErrorLocation, key: String, fault: Fault) -> Self {
        Self(Box::new(Complaint { place, key, fault }))
    }

    /// Where the mistake was written.
    pub fn place(&self) -> &ErrorLocation {
        &self.0.place
    }

    /// The dotted key, or the cell of a matrix. Empty where the mistake concerns the whole file.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// What is wrong.
    pub fn fault(&self) -> &Fault {
        &self.0.fault
    }

    /// The error for a terminal, on several lines: the line of the file, a mark under the value, and a suggestion where
    /// there is one. Styled with escape sequences where `colour` is true.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let title = Level::ERROR.primary_title(self.title());
        let help = self.help();

        let group = match self.place() {
            ErrorLocation::File { name, line, excerpt, .. } => {
                let mark = AnnotationKind::Primary.span(excerpt.marked.clone());
                let mark = match self.expected() {
                    expected if expected.is_empty() => mark,
                    expected => mark.label(format!("expected {expected}")),
                };

                title.element(
                    Snippet::source(excerpt.line.as_str())
                        .path(name.as_str())
                        .line_start(*line)
                        .annotation(mark),
                )
            }
            ErrorLocation::Flag(flag) => {
                let expected = self.expected();
                let flag = shown(flag, TEXT_CHARS_MAX);
                title.element(Level::NOTE.message(format!("in {flag}, expected {expected}")))
            }
        };

        let group = match help {
            Some(help) => group.element(Level::HELP.message(help)),
            None => group,
        };

        renderer.render(&[group])
    }

    fn title(&self) -> String {
        let text = |text: &str| shown(text, TEXT_CHARS_MAX);
        let key = text(self.key());
        let key = if key.contains('`') { key } else { format!("`{key}`") };

        match self.fault() {
            Fault::Unreadable { path, reason } if self.key().is_empty() => {
                format!("cannot read `{}`: {reason}", text(path))
            }
            Fault::Unreadable { path, reason } => {
                format!("{key}: cannot read `{}`: {reason}", text(path))
            }
            Fault::Syntax { message } => format!("this is not TOML: {message}"),
            Fault::UnknownKey { .. } => format!("unknown key {key}"),
            Fault::MissingKey { .. } => format!("missing key {key}"),
            Fault::Wrong { found, .. } if self.key().is_empty() => {
                format!("found `{}`", text(found))
            }
            Fault::Wrong { found, .. } => format!("{key} is `{}`", text(found)),
        }
    }

    fn expected(&self) -> String {
        match self.fault() {
            Fault::Unreadable { .. } => "a file that can be read".into(),
            Fault::Syntax { .. } => String::new(),
            Fault::UnknownKey { expected } if expected.is_empty() => "no keys here".into(),
            Fault::UnknownKey { expected } => one_of(expected),
            Fault::MissingKey { expected } | Fault::Wrong { expected, .. } => {
                shown(expected, EXPECTED_CHARS_MAX)
            }
        }
    }

    fn help(&self) -> Option<String> {
        match self.fault() {
            Fault::UnknownKey { expected } => {
                let key = self.key().rsplit('.').next().unwrap_or("");
                nearest(key, expected).map(|name| format!("did you mean `{name}`?"))
            }
            Fault::Wrong { help, .. } => help.as_deref().map(|help| shown(help, TEXT_CHARS_MAX)),
            _ => None,
        }
    }
}

impl ErrorLocation {
    pub(crate) fn in_file(name: &str, text: &str, span: Range<usize>) -> Self {
        let mut start = span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }

        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let line = text[line_start..line_end].trim_end_matches('\r');
        let from = (start - line_start).min(line.len());
        let mut to = span.end.saturating_sub(line_start).clamp(from, line.len());

        while !line.is_char_boundary(to) {
            to += 1;
        }

        // The text before the mark is kept whole, so that the column is right. The rest is cut.
        let cut = line[from..].char_indices().nth(TEXT_CHARS_MAX).map(|(at, _)| from + at);
        let line = &line[..cut.unwrap_or(line.len())];
        let to = to.min(line.len());

        Self::File {
            name: name.to_owned(),
            line: text[..line_start].matches('\n').count() + 1,
            column: line[..from].chars().count() + 1,
            excerpt: Excerpt { line: line.to_owned(), marked: from..to },
        }
    }
}

impl fmt::Display for ErrorLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(&shown(flag, TEXT_CHARS_MAX)),
            Self::File { name, line, column, .. } => write!(f, "{name}:{line}:{column}"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.title())?;
        match self.expected() {
            expected if expected.is_empty() => Ok(()),
            expected => write!(f, ", expected {expected}"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// "one of `a`, `b` or `c`", in the order given.
pub(crate) fn one_of<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match quoted.as_slice() {
        [] => "nothing".into(),
        [only] => only.clone(),
        [first, second] => format!("{first} or {second}"),
        [most @ .., last] => format!("one of {} or {last}", most.join(", ")),
    }
}

/// Text from the user, made safe to print: at most `most` characters, control characters escaped.
fn shown(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for character in text.chars().take(most) {
        match character {
            control if control.is_control() => shown.extend(control.escape_default()),
            other => shown.push(other),
        }
    }
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Characters of a key, a value or a line that an error shows.
const TEXT_CHARS_MAX: usize = 200;

/// Characters of the expectation, which may be a list of names.
const EXPECTED_CHARS_MAX: usize = 1500;

/// The known name that is most similar to a misspelt one.
///
/// Lengths are compared first, because the distance takes time and memory in the product of both lengths.
pub(crate) fn nearest<S: AsRef<str>>(word: &str, names: &[S]) -> Option<String> {
    let chars = word.chars().count();
    let most = |name: &str| name.len().max(word.len()) / 3;
    names
        .iter()
        .map(AsRef::as_ref)
        .filter(|name| name.chars().count().abs_diff(chars) <= most(name))
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, name)| *distance <= most(name))
        .min()
        .map(|(_, name)| name.to_owned())
}
