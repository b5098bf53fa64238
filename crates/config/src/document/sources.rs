//! The texts of a run, and the errors that show a place in one of them.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use toml::de::DeTable;

use super::error::{ConfigError, ErrorLocation, Fault};
use super::shipped;
use super::tree::{Node, Problem, Span};

/// Every text that has been read. A [`Span`] names one by its position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    all: Vec<Source>,
}

#[derive(Clone, Debug)]
struct Source {
    /// A path, or a flag and its value.
    name: String,
    text: String,
    home: Home,
    kind: SourceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    RunFile,
    /// Its tree is below `topology`, a key that the file itself does not have.
    TopologyFile,
    Matrix,
    Flag,
}

/// Where relative paths written in a source start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Directory(PathBuf),
    /// A folder among the files that are part of the program.
    Shipped(String),
}

impl Sources {
    /// Reads a file that `path` names from `home`.
    pub(crate) fn read(
        &mut self,
        home: &Home,
        path: &str,
        kind: SourceKind,
    ) -> Result<usize, Fault> {
        let (name, text, home) = match home {
            Home::Directory(directory) => {
                let file = directory.join(path);
                let name = tidy(&file).to_string_lossy().into_owned();
                let text = read_bounded(&file, kind.bytes_max())
                    .map_err(|reason| Fault::Unreadable { path: name.clone(), reason })?;
                let parent = file.parent().unwrap_or_else(|| Path::new("")).to_owned();
                (name, text, Home::Directory(parent))
            }
            Home::Shipped(directory) => {
                let name = tidy(&Path::new(directory).join(path)).to_string_lossy().into_owned();
                let text = shipped::text(&name).ok_or_else(|| Fault::Unreadable {
                    path: name.clone(),
                    reason: "no such file in this program".into(),
                })?;

                let parent = Path::new(&name).parent().unwrap_or_else(|| Path::new(""));
                let parent = parent.to_string_lossy().into_owned();

                (name, text.to_owned(), Home::Shipped(parent))
            }
        };
        Ok(self.add(name, text, home, kind))
    }

    pub(crate) fn add(
        &mut self,
        name: String,
        text: String,
        home: Home,
        kind: SourceKind,
    ) -> usize {
        self.all.push(Source { name, text, home, kind });
        self.all.len() - 1
    }

    pub(crate) fn text(&self, source: usize) -> &str {
        &self.all[source].text
    }

    pub(crate) fn kind(&self, source: usize) -> SourceKind {
        self.all[source].kind
    }

    pub(crate) fn home(&self, source: usize) -> &Home {
        &self.all[source].home
    }

    /// The error that shows the place of a problem.
    pub(crate) fn error(&self, problem: Problem) -> ConfigError {
        let Problem { span, mut path, fault } = problem;
        let span = span.unwrap_or(Span { source: 0, start: 0, end: 0 });
        let source = &self.all[span.source];
        if source.kind == SourceKind::TopologyFile
            && path.first().is_some_and(|key| key == "topology")
        {
            path.remove(0);
        }
        let place = match source.kind {
            SourceKind::Flag => ErrorLocation::Flag(source.name.clone()),
            _ => ErrorLocation::in_file(&source.name, &source.text, span.start..span.end),
        };
        ConfigError::new(place, path.join("."), *fault)
    }

    /// Parses a source as TOML.
    pub(crate) fn parse(&self, source: usize) -> Result<Node, Problem> {
        let text = &self.all[source].text;
        // What a whole file lacks is shown at its end, where it can be added.
        let end = text.trim_end().len();
        let table = DeTable::parse(text).map_err(|error| {
            let range = error.span().unwrap_or(0..0);
            let span = Span { source, start: range.start, end: range.end };
            Problem::at(span, Fault::Syntax { message: error.message().to_owned() })
        })?;
        let mut node = Node::from_table(source, table.get_ref())?;
        node.span = Span { source, start: end, end };
        Ok(node)
    }
}

impl SourceKind {
    /// The longest file of this kind.
    fn bytes_max(self) -> u64 {
        match self {
            Self::RunFile | Self::TopologyFile | Self::Flag => TREE_BYTES_MAX,
            Self::Matrix => MATRIX_BYTES_MAX,
        }
    }
}

/// A path without `.` and, where the text alone is enough to resolve it, without `..`.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let mut tidied = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(tidied.components().next_back(), Some(Component::Normal(_))) =>
            {
                tidied.pop();
            }
            other => tidied.push(other),
        }
    }
    if tidied.as_os_str().is_empty() {
        tidied.push(".");
    }
    tidied
}

fn read_bounded(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("it is longer than {bytes_max} bytes"));
    }
    String::from_utf8(bytes)
        .map_err(|error| format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()))
}

/// A tree takes up to two hundred times the memory of its text. Thirty thousand entries for pairs of data centers fit.
const TREE_BYTES_MAX: u64 = 1 << 21;

/// Sixteen bytes for each pair of the largest topology.
const MATRIX_BYTES_MAX: u64 = 1 << 24;
