//! Parsed text with every value's place in it.
//!
//! A run is described by several texts: the run file, the topology file it names, and each `--set`. They are merged
//! into one tree of [`Node`]s. Each node keeps its place, so that every later error shows where the value was written.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Fault;

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

/// A mistake whose line and column have not been looked up yet.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) span: Option<Span>,
    /// The dotted key, outermost first.
    pub(crate) path: Vec<String>,
    pub(crate) fault: Box<Fault>,
}

impl Problem {
    pub(crate) fn at(span: Span, fault: Fault) -> Self {
        Self { span: Some(span), path: Vec::new(), fault: fault.into() }
    }

    /// The same problem below the key `path`. A missing key is shown at the name of its table.
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

    pub(super) fn from_table(source: usize, table: &DeTable<'_>) -> Result<Self, Problem> {
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

    /// The value under some keys of tables, one below the other.
    pub(crate) fn at_mut(&mut self, keys: &[&str]) -> Option<&mut Self> {
        keys.iter().try_fold(self, |node, key| {
            node.as_table_mut()?.get_mut(*key).map(|entry| &mut entry.node)
        })
    }

    /// A problem with the value of a dotted key, shown there or at the nearest table around it.
    pub(crate) fn problem(&self, path: &str, mut fault: Fault) -> Problem {
        let mut node = self;
        let mut span = self.span;
        for key in path.split('.') {
            match &node.value {
                Value::Table(table) => {
                    let Some(entry) = table.get(key) else { break };
                    let is_value = !matches!(entry.node.value, Value::Table(_) | Value::Array(_))
                        && !matches!(fault, Fault::UnknownKey { .. });
                    // The contents of a file are shown in that file and not at the key that names it.
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

    /// The value of a dotted key as it was written. `None` for an array or a table.
    fn written(&self, path: &str) -> Option<String> {
        match &self.at(path)?.value {
            Value::String(text) | Value::Datetime(text) => Some(text.clone()),
            Value::Integer(integer) => Some(integer.to_string()),
            Value::Float(float) => Some(format!("{float:?}")),
            Value::Boolean(boolean) => Some(boolean.to_string()),
            Value::Array(_) | Value::Table(_) => None,
        }
    }

    /// Merges another table over this one: tables key by key, arrays of links appended, everything else replaced.
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
    /// The kind of the value, as messages name it.
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
