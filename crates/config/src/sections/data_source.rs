//! The format of data files where a run file leaves it out: it follows from their names.

use std::path::Path;

use crate::document::{Entry, Node, Table, Value};
use gaia_ml::apps::AppConfig;

/// Adds `data.source` to the keys of an application that name files and not their format.
///
/// A format that is stated for all data centers holds for the files of each.
pub(crate) fn add_source(kind: &str, keys: &mut Node) {
    let Some(data) = table_of(keys, "data") else { return };
    if data.contains_key(SOURCE) {
        return;
    }

    let data_centers = data.get_mut("at").and_then(|at| at.node.as_table_mut());
    for at in data_centers.into_iter().flat_map(|data_centers| data_centers.values_mut()) {
        if let Some(at) = at.node.as_table_mut() {
            add(kind, at);
        }
    }
    add(kind, data);
}

fn add(kind: &str, table: &mut Table) {
    if table.contains_key(SOURCE) {
        return;
    }
    let Some(path) = table.get("path") else { return };
    let Some(source) =
        path.node.as_str().and_then(|path| AppConfig::source_of_path(kind, Path::new(path)))
    else {
        return;
    };

    let node = Node { span: path.node.span, value: Value::String(source.into()) };
    let entry = Entry { key: path.key, node };
    table.insert(SOURCE.into(), entry);
}

fn table_of<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Table> {
    node.as_table_mut()?.get_mut(key)?.node.as_table_mut()
}

const SOURCE: &str = "source";
