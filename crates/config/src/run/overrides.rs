//! Settings from the command line, which replace those of the run file.

use toml::de::DeValue;

use crate::document::{
    ConfigError, Entry, ErrorLocation, Fault, Node, Problem, Span, Table, Value,
};

/// One setting given on the command line, as `--set` takes it or as a flag of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The flag as it was typed, for messages.
    pub(crate) flag: String,
    pub(crate) path: Vec<String>,
    pub(crate) value: String,
}

impl Override {
    /// Reads the `key.path=value` of a `--set`.
    ///
    /// # Errors
    /// Where there is no `=` or a part of the key is empty.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let flag = format!("--set {text}");
        let wrong = || {
            let fault = Fault::Wrong {
                found: text.to_owned(),
                expected: "a key and its value, such as `sync.remote.threshold=0.02`".into(),
                help: None,
            };
            ConfigError::new(ErrorLocation::Flag(flag.clone()), "--set".into(), fault)
        };
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let path: Vec<String> = key.split('.').map(|part| part.trim().to_owned()).collect();
        if path.iter().any(String::is_empty) || path.len() > KEY_PARTS_MAX {
            return Err(wrong());
        }
        Ok(Self { flag, path, value: value.trim().to_owned() })
    }

    /// The setting behind a flag of its own: `--seed 7` is `seed=7`.
    pub fn flag(flag: &str, key: &str, value: &str) -> Self {
        Self {
            flag: format!("{flag} {value}"),
            path: key.split('.').map(str::to_owned).collect(),
            value: value.to_owned(),
        }
    }

    /// The setting behind a flag of several values, which are the strings of an array.
    pub fn flag_of_strings(flag: &str, key: &str, values: &[String]) -> Self {
        Self {
            flag: format!("{flag} {}", values.join(" ")),
            path: key.split('.').map(str::to_owned).collect(),
            value: toml::Value::from(values.to_vec()).to_string(),
        }
    }

    /// Whether this chooses what the other keys of its table are. Such a setting is applied before the others.
    pub(crate) fn is_choice(&self) -> bool {
        CHOICES.contains(&self.path.join(".").as_str())
    }

    /// Sets the value in a tree. Another choice removes the settings of the previous one; the
    /// data of an application stays.
    pub(crate) fn apply(&self, source: usize, root: &mut Node) -> Result<(), Problem> {
        let span = Span { source, start: 0, end: 0 };
        let value = self.node(source, span);
        let (last, tables) = self.path.split_last().expect("a key has at least one part");
        let mut node = root;

        for key in tables {
            node = self.step(node, key, span)?;
        }

        match &mut node.value {
            Value::Table(table) => {
                let same = table.get(last).is_some_and(|old| old.node.as_str() == value.as_str());
                if !same {
                    self.forget_settings(value.as_str(), table);
                }
                table.insert(last.clone(), Entry { key: span, node: value });
                Ok(())
            }
            Value::Array(items) => {
                let places = items.len();
                let item = last.parse::<usize>().ok().and_then(|at| items.get_mut(at));
                *item.ok_or_else(|| self.no_place(span, places))? = value;
                Ok(())
            }
            _ => Err(self
                .wrong(span, format!("keys below `{}`, which holds one value", tables.join(".")))),
        }
    }

    /// Removes from the table of this choice the settings of what was chosen before.
    fn forget_settings(&self, chosen: Option<&str>, table: &mut Table) {
        match self.path.join(".").as_str() {
            SOURCE if chosen == Some(SYNTHETIC) => {
                table.retain(|key, _| !OF_FILES.contains(&key.as_str()));
            }
            KIND => {
                table.retain(|key, _| key == DATA);
                let data = table.get_mut(DATA).and_then(|data| data.node.as_table_mut());
                if let Some(data) = data {
                    data.remove(SYNTHETIC);
                }
            }
            path if MODELS.contains(&path) => table.clear(),
            _ => {}
        }
    }

    fn step<'n>(&self, node: &'n mut Node, key: &str, span: Span) -> Result<&'n mut Node, Problem> {
        match &mut node.value {
            Value::Table(table) => {
                let empty = || Entry { key: span, node: Node::table(span) };
                Ok(&mut table.entry(key.to_owned()).or_insert_with(empty).node)
            }
            Value::Array(items) => {
                let places = items.len();
                let item = key.parse::<usize>().ok().and_then(|at| items.get_mut(at));
                item.ok_or_else(|| self.no_place(span, places))
            }
            _ => {
                Err(self
                    .wrong(span, format!("a table before `.{key}`, which follows a single value")))
            }
        }
    }

    fn no_place(&self, span: Span, places: usize) -> Problem {
        let last = places.saturating_sub(1);
        self.wrong(span, format!("a number from 0 to {last} to choose from an array of {places}"))
    }

    fn wrong(&self, span: Span, expected: String) -> Problem {
        let fault = Fault::Wrong { found: self.value.clone(), expected, help: None };
        Problem { span: Some(span), path: self.path.clone(), fault: fault.into() }
    }

    /// The value as TOML, or as a string where it is not TOML: `--set sync.remote.model=asp` needs no quotes.
    fn node(&self, source: usize, span: Span) -> Node {
        let parsed = DeValue::parse(&self.value).ok();
        let node = parsed.and_then(|value| Node::from_value(source, &value).ok());
        let mut node =
            node.unwrap_or_else(|| Node { span, value: Value::String(self.value.clone()) });
        place_at(&mut node, span);
        node
    }
}

fn place_at(node: &mut Node, span: Span) {
    node.span = span;
    match &mut node.value {
        Value::Array(items) => items.iter_mut().for_each(|item| place_at(item, span)),
        Value::Table(table) => place_table_at(table, span),
        _ => {}
    }
}

fn place_table_at(table: &mut Table, span: Span) {
    for entry in table.values_mut() {
        entry.key = span;
        place_at(&mut entry.node, span);
    }
}

const KEY_PARTS_MAX: usize = 32;

const KIND: &str = "app.kind";
const SOURCE: &str = "app.data.source";
const MODELS: [&str; 2] = ["sync.local.model", "sync.remote.model"];
const CHOICES: [&str; 5] = [KIND, SOURCE, MODELS[0], MODELS[1], "topology.file"];

/// The table of an application's data, which every kind of application has.
const DATA: &str = "data";

/// The source of data that is generated, and the table of its sizes, which belong to one kind of application.
const SYNTHETIC: &str = "synthetic";

/// The settings of data that is in files.
const OF_FILES: [&str; 3] = ["path", "vocabulary_path", "at"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_a_flag_are_an_array_of_them() {
        for strings in
            [&["--lr", "0.1"][..], &[""], &["two words", "a \"quote\"", "a\nline", "é\\"]]
        {
            let strings: Vec<String> = strings.iter().map(|one| (*one).to_owned()).collect();
            let flag = Override::flag_of_strings("--", "app.arguments", &strings);
            let span = Span { source: 0, start: 0, end: 0 };
            let Value::Array(items) = flag.node(0, span).value else { panic!("{flag:?}") };
            let found: Vec<Option<&str>> = items.iter().map(Node::as_str).collect();
            assert_eq!(found, strings.iter().map(|one| Some(one.as_str())).collect::<Vec<_>>());
        }
    }
}
