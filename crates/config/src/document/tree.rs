//! Parsed text with every value's place in it.
//!
//! A run is put together from several texts: the run file, the topology file it names, and each `--set`. They are
//! merged into one tree of [`Node`]s, and each node remembers which text it came from and where, so that whatever
//! is found wrong later, however late, can be shown where it was written.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Fault, Place};
use super::shipped;

/// A part of one source's text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) source: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(String),
    Integer(i64),
    /// Always finite: no setting takes `nan` or `inf`.
    Float(f64),
    Boolean(bool),
    Datetime(String),
    Array(Vec<Node>),
    Table(Table),
}

pub(crate) type Table = BTreeMap<String, Entry>;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Span,
    pub(crate) node: Node,
}

/// Something wrong, before its place has been looked up.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) span: Option<Span>,
    /// The dotted key, outermost first.
    pub(crate) path: Vec<String>,
    pub(crate) fault: Box<Fault>,
}

/// Every text that has been read, and the errors about them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    all: Vec<Source>,
}

#[derive(Clone, Debug)]
struct Source {
    /// As the user would name it: a path, or a flag and its value.
    name: String,
    text: String,
    home: Home,
    kind: SourceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    RunFile,
    /// Its tree hangs below `topology`; its own keys do not say so.
    TopologyFile,
    Matrix,
    Flag,
}

/// Where relative paths written in a source start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Directory(PathBuf),
    /// A folder of the files that are part of the binary.
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

    /// The error that shows a problem where it was written.
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
            SourceKind::Flag => Place::Flag(source.name.clone()),
            _ => Place::in_file(&source.name, &source.text, span.start..span.end),
        };
        ConfigError::new(place, path.join("."), *fault)
    }

    /// Parses a source as TOML.
    pub(crate) fn parse(&self, source: usize) -> Result<Node, Problem> {
        let text = &self.all[source].text;
        // What a whole file lacks is shown where it could be added.
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

impl Problem {
    pub(crate) fn at(span: Span, fault: Fault) -> Self {
        Self { span: Some(span), path: Vec::new(), fault: fault.into() }
    }

    /// What a choice within `path` found wrong: below that key, and where it is lacking, shown at its name.
    pub(crate) fn in_table(mut self, root: &Node, path: &str) -> Self {
        if matches!(*self.fault, Fault::MissingKey { .. }) && self.path.len() == 1 {
            self.span = root.problem(path, (*self.fault).clone()).span;
        }
        self.path.splice(0..0, path.split('.').map(str::to_owned));
        self
    }

    pub(crate) fn in_key(mut self, key: impl Into<String>) -> Self {
        self.path.insert(0, key.into());
        self
    }
}

impl Node {
    pub(crate) fn table(span: Span) -> Self {
        Self { span, value: Value::Table(Table::new()) }
    }

    fn from_table(source: usize, table: &DeTable<'_>) -> Result<Self, Problem> {
        let mut entries = Table::new();
        for (key, value) in table {
            let name = key.get_ref().clone().into_owned();
            let node =
                Self::from_value(source, value).map_err(|problem| problem.in_key(name.clone()))?;
            let key = Span { source, start: key.span().start, end: key.span().end };
            entries.insert(name, Entry { key, node });
        }
        Ok(Self { span: Span { source, start: 0, end: 0 }, value: Value::Table(entries) })
    }

    pub(crate) fn from_value(source: usize, value: &Spanned<DeValue<'_>>) -> Result<Self, Problem> {
        let span = Span { source, start: value.span().start, end: value.span().end };
        let wrong = |found: String, expected: &str| {
            Problem::at(span, Fault::Wrong { found, expected: expected.into(), help: None })
        };
        let value = match value.get_ref() {
            DeValue::String(text) => Value::String(text.clone().into_owned()),
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
                .map(Value::Integer)
                .map_err(|_| wrong(integer.to_string(), "a whole number of at most 63 bits"))?,
            DeValue::Float(float) => match float.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Float(number),
                _ => return Err(wrong(float.to_string(), "a finite number")),
            },
            DeValue::Boolean(boolean) => Value::Boolean(*boolean),
            DeValue::Datetime(datetime) => Value::Datetime(datetime.to_string()),
            DeValue::Array(array) => {
                let node = |(index, item)| {
                    Self::from_value(source, item)
                        .map_err(|problem| problem.in_key(usize::to_string(&index)))
                };
                Value::Array(array.iter().enumerate().map(node).collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Self::from_table(source, table)?.value,
        };
        Ok(Self { span, value })
    }

    pub(crate) fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn as_table_mut(&mut self) -> Option<&mut Table> {
        match &mut self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value under a key of a table, or at a place of an array.
    pub(crate) fn child(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(table) => table.get(key).map(|entry| &entry.node),
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// The value under a dotted key.
    pub(crate) fn at(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |node, key| node.child(key))
    }

    /// A problem with what stands under a dotted key, shown there or at the nearest table around it.
    pub(crate) fn problem(&self, path: &str, mut fault: Fault) -> Problem {
        let mut node = self;
        let mut span = self.span;
        for key in path.split('.') {
            match &node.value {
                Value::Table(table) => {
                    let Some(entry) = table.get(key) else { break };
                    let is_value = !matches!(entry.node.value, Value::Table(_) | Value::Array(_))
                        && !matches!(fault, Fault::UnknownKey { .. });
                    // A file that hangs here is shown itself, not where it was hung.
                    let is_file = entry.node.span.source != entry.key.source;
                    span = if is_value || is_file { entry.node.span } else { entry.key };
                    node = &entry.node;
                }
                Value::Array(items) => {
                    let Some(item) = key.parse::<usize>().ok().and_then(|at| items.get(at)) else {
                        break;
                    };
                    span = item.span;
                    node = item;
                }
                _ => break,
            }
        }
        if let (Fault::Wrong { found, .. }, Some(written)) = (&mut fault, self.written(path)) {
            *found = written;
        }
        let path = path.split('.').map(str::to_owned).collect();
        Problem { span: Some(span), path, fault: fault.into() }
    }

    /// The value under a dotted key as it was written, where it is a single one.
    fn written(&self, path: &str) -> Option<String> {
        match &self.at(path)?.value {
            Value::String(text) | Value::Datetime(text) => Some(text.clone()),
            Value::Integer(integer) => Some(integer.to_string()),
            Value::Float(float) => Some(format!("{float:?}")),
            Value::Boolean(boolean) => Some(boolean.to_string()),
            Value::Array(_) | Value::Table(_) => None,
        }
    }

    /// Lays one table over another: tables in them key by key, arrays of links one after the other, everything
    /// else replaced.
    pub(crate) fn lay(&mut self, over: Self) {
        let Value::Table(entries) = over.value else { return };
        let Some(table) = self.as_table_mut() else { return };
        for (name, entry) in entries {
            match table.get_mut(&name) {
                Some(Entry { node: Self { value: Value::Array(items), .. }, .. })
                    if name == "link" && matches!(entry.node.value, Value::Array(_)) =>
                {
                    if let Value::Array(more) = entry.node.value {
                        items.extend(more);
                    }
                }
                Some(Entry { node: existing @ Self { value: Value::Table(_), .. }, .. })
                    if matches!(entry.node.value, Value::Table(_)) =>
                {
                    existing.lay(entry.node);
                }
                Some(existing) => *existing = entry,
                None => {
                    table.insert(name, entry);
                }
            }
        }
    }
}

impl Value {
    /// What kind of value this is, as messages name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::Datetime(_) => "a date",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

/// A path without `.` and, where it can be told from the text alone, without `..`.
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

/// A tree takes up to two hundred times its text. Of entries for a pair of data centers thirty thousand fit.
const TREE_BYTES_MAX: u64 = 1 << 21;

/// Sixteen bytes for each of the most pairs that there are.
const MATRIX_BYTES_MAX: u64 = 1 << 24;
