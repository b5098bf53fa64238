//! The source tree as a test sees it: files, their words, and the modules those words name.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// One file of `src/`.
pub(crate) struct SourceFile {
    /// From the repository's root, with forward slashes.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A word or a sign outside comments and literals.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A module path that a file names, from the root of the crate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Naming {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
}

impl SourceFile {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// The room it belongs to; nothing for `lib.rs` and `main.rs`.
    pub(crate) fn room(&self) -> Option<&str> {
        let (room, _) = self.name.strip_prefix("src/")?.split_once('/')?;
        Some(room)
    }

    /// Where its module stands in the crate: empty for `lib.rs` and `main.rs`.
    pub(crate) fn module(&self) -> Vec<String> {
        let inner = self.name.strip_prefix("src/").unwrap_or(&self.name);
        let inner = inner.strip_suffix(".rs").unwrap_or(inner);
        let mut module: Vec<String> = inner.split('/').map(str::to_owned).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            module.pop();
        }
        module
    }

    /// Every path that starts at the crate's root or at a module above or here, with `use` groups taken apart.
    pub(crate) fn namings(&self) -> Vec<Naming> {
        let tokens = tokens(&self.text);
        let mut namings = Vec::new();
        let mut module = self.module();
        // What each open brace opened: the name of an inline module, or nothing.
        let mut braces: Vec<bool> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let word = |offset: usize| tokens.get(at + offset).map_or("", |token| &token.text);
            match word(0) {
                "mod" if word(2) == "{" => {
                    module.push(word(1).to_owned());
                    braces.push(true);
                    at += 3;
                    continue;
                }
                "{" => braces.push(false),
                "}" if braces.pop() == Some(true) => drop(module.pop()),
                "crate" | "gaia" | "super" | "self"
                    if word(1) == "::" && (at == 0 || tokens[at - 1].text != "::") =>
                {
                    at = expand(&tokens, at, &module, &[], &mut namings);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        namings
    }
}

/// Every Rust file of `src/`, in order of its name.
pub(crate) fn source_files() -> Vec<SourceFile> {
    let mut paths = Vec::new();
    collect(&root().join("src"), &mut paths);
    paths.sort();
    let name = |path: &Path| {
        let inner = path.strip_prefix(root()).expect("a source file lies in the repository");
        inner.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    paths
        .iter()
        .map(|path| SourceFile {
            name: name(path),
            text: fs::read_to_string(path).expect("a source file is UTF-8"),
        })
        .collect()
}

/// The folders of `src/`: one room each.
pub(crate) fn rooms() -> Vec<String> {
    let entries = fs::read_dir(root().join("src")).expect("src is a folder");
    let mut rooms: Vec<String> = entries
        .map(|entry| entry.expect("an entry can be read"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    rooms.sort();
    rooms
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Words and signs, without comments, strings and characters.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let end = match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => line_end(&chars, at),
            ('/', Some('*')) => block_comment_end(&chars, at),
            ('"', _) => string_end(&chars, at + 1),
            ('r', Some('"' | '#')) => raw_string_end(&chars, at + 1).unwrap_or(at + 1),
            ('b', Some('"')) => string_end(&chars, at + 2),
            ('b', Some('r')) => raw_string_end(&chars, at + 2).unwrap_or(at + 1),
            ('\'', _) => character_end(&chars, at),
            _ => at,
        };
        if end > at + 1 {
            line += chars[at..end].iter().filter(|char| **char == '\n').count();
            at = end;
            continue;
        }
        let end = match (chars[at], chars.get(at + 1)) {
            (':', Some(':')) => at + 2,
            (first, _) if is_word(first) => {
                at + chars[at..].iter().take_while(|char| is_word(**char)).count()
            }
            _ => at + 1,
        };
        if !chars[at].is_whitespace() {
            tokens.push(Token { text: chars[at..end].iter().collect(), line });
        } else if chars[at] == '\n' {
            line += 1;
        }
        at = end;
    }
    tokens
}

/// Follows one path from `at`, branch by branch, and returns where it ended.
fn expand(
    tokens: &[Token],
    mut at: usize,
    module: &[String],
    prefix: &[String],
    namings: &mut Vec<Naming>,
) -> usize {
    let mut path = prefix.to_vec();
    let line = tokens[at].line;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "crate" | "gaia" if path.is_empty() => {}
            "self" if path.is_empty() => path = module.to_vec(),
            "self" => {}
            "super" if path.is_empty() => path = parent(module),
            "super" => path = parent(&path),
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    if tokens[at].text == "," {
                        at += 1;
                    } else {
                        at = expand(tokens, at, module, &path, namings);
                    }
                }
                return at + 1;
            }
            word => path.push(word.to_owned()),
        }
        at += 1;
        if tokens.get(at).is_none_or(|token| token.text != "::") {
            break;
        }
        at += 1;
    }
    while tokens.get(at).is_some_and(|token| token.text == "as") {
        at += 2;
    }
    namings.push(Naming { line, path });
    at
}

fn parent(module: &[String]) -> Vec<String> {
    module[..module.len().saturating_sub(1)].to_vec()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a source folder can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn line_end(chars: &[char], from: usize) -> usize {
    from + chars[from..].iter().take_while(|char| **char != '\n').count()
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let (mut depth, mut at) = (0, from);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Just behind the quote that closes a string whose inside begins at `at`.
fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Just behind a raw string whose hashes or quote begin at `at`, if one is there.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|char| **char == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let inside = at + hashes + 1;
    let length = chars[inside..].windows(close.len()).position(|window| window == close)?;
    Some(inside + length + close.len())
}

/// Just behind a character literal; `at` itself where the quote opens a lifetime.
fn character_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            let close = chars[at + 3..].iter().take_while(|char| **char != '\'').count();
            at + 3 + close + 1
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}
