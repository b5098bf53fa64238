//! The layers of a run's settings: its topology file at the bottom, the run file on it, the overrides on top.

use std::path::PathBuf;

use super::Override;
use crate::document::{
    Fault, Home, Node, Problem, SourceKind, Sources, Value, nearest, one_of, shipped, tidy,
};

/// Merges the run file, its topology file and the overrides into one tree.
///
/// Overrides that choose what the other keys of a table are come before the topology file is read; of several for one
/// key the last holds.
pub(super) fn lay_out(
    sources: &mut Sources,
    source: usize,
    overrides: &[Override],
) -> Result<Node, Problem> {
    let mut root = sources.parse(source)?;
    let (choices, others): (Vec<_>, Vec<_>) =
        overrides.iter().partition(|setting| setting.is_choice());
    for setting in choices {
        let source = add_flag(sources, setting);
        setting.apply(source, &mut root)?;
    }

    mount_topology(sources, &mut root)?;

    for setting in others {
        let source = add_flag(sources, setting);
        setting.apply(source, &mut root)?;
    }

    resolve_paths(sources, &mut root)?;
    Ok(root)
}

/// Adds an override to the texts, so that errors can name it.
pub(super) fn add_flag(sources: &mut Sources, flag: &Override) -> usize {
    let home = Home::Directory(PathBuf::new());
    sources.add(flag.flag.clone(), String::new(), home, SourceKind::Flag)
}

/// Replaces `topology.file` by the contents of that file. Keys beside `file` replace those of the file.
pub(super) fn mount_topology(sources: &mut Sources, root: &mut Node) -> Result<(), Problem> {
    let Some(file) = root.at("topology.file") else { return Ok(()) };
    let file = file.clone();

    let Some(path) = file.as_str() else {
        let found = file.value.kind().to_owned();
        let expected = "a path, or the name of a shipped topology".to_owned();
        return Err(root.problem("topology.file", Fault::Wrong { found, expected, help: None }));
    };

    let (home, path) = match shipped::topology(path) {
        Some(shipped) => (Home::Shipped(String::new()), shipped),
        None => (sources.home(file.span.source).clone(), path),
    };

    let source = sources.read(&home, path, SourceKind::TopologyFile).map_err(|fault| {
        let names: Vec<&str> = shipped::topologies().collect();
        let looks_like_name = !path.contains(['/', '.']);

        let fault = if looks_like_name {
            let help = nearest(path, &names);
            let help = help.map(|name| format!("did you mean `{name}`?"));
            let shipped = one_of(&names);
            let expected = format!("a topology file, or a shipped topology: {shipped}");
            Fault::Wrong { found: path.to_owned(), expected, help }
        } else {
            fault
        };

        root.problem("topology.file", fault)
    })?;

    let mut mounted = sources.parse(source).map_err(|problem| problem.in_key("topology"))?;
    if let Some(entry) = mounted.as_table().and_then(|table| table.get("file")) {
        let expected = vec!["name".into(), "data_center".into(), "wan".into(), "link".into()];
        let problem = Problem::at(entry.key, Fault::UnknownKey { expected });
        return Err(problem.in_key("file"));
    }

    let Some(topology) = root.as_table_mut().and_then(|root| root.get_mut("topology")) else {
        return Ok(());
    };

    let span = topology.node.span;
    let mut inline = std::mem::replace(&mut topology.node, Node::table(span));
    if let Some(table) = inline.as_table_mut() {
        table.remove("file");
    }

    mounted.lay(inline);
    topology.node = mounted;

    Ok(())
}

/// Makes paths of data files, of a script and its model, of the validation set, of the initial model and of the folder for
/// examples on disk absolute. Those in the run file start at its folder, those on the command line at the working directory.
fn resolve_paths(sources: &Sources, root: &mut Node) -> Result<(), Problem> {
    let is_path = |key: &str| key == "path" || key == "scratch" || key.ends_with("_path");
    resolve_keys(sources, root, &["app", "data"], is_path)?;
    let at = root.at("app.data.at").and_then(Node::as_table);
    let names: Vec<String> = at.into_iter().flat_map(|at| at.keys().cloned()).collect();
    for name in names {
        resolve_keys(sources, root, &["app", "data", "at", &name], is_path)?;
    }
    resolve_keys(sources, root, &["app"], |key| key == "script" || key == "model")?;
    resolve_keys(sources, root, &["model"], |key| key == "init")?;
    resolve_keys(sources, root, &["evaluate"], |key| key == "data")
}

/// Makes the paths of a table absolute, which are its keys that `is_path` selects. An empty one, which would be the folder
/// that relative paths start at, is refused.
fn resolve_keys(
    sources: &Sources,
    root: &mut Node,
    table: &[&str],
    is_path: impl Fn(&str) -> bool,
) -> Result<(), Problem> {
    let keys = root.at_mut(table).and_then(Node::as_table_mut);
    for (key, entry) in keys.into_iter().flatten().filter(|(key, _)| is_path(key)) {
        if entry.node.as_str() == Some("") {
            let fault = Fault::Wrong {
                found: "empty".to_owned(),
                expected: "the path of a file or folder".to_owned(),
                help: None,
            };
            let problem = Problem::at(entry.node.span, fault).in_key(key.as_str());
            return Err(table.iter().rev().fold(problem, |problem, key| problem.in_key(*key)));
        }
        make_absolute(sources, &mut entry.node);
    }
    Ok(())
}

/// Makes a path absolute, if it is one and not the URL of an object.
fn make_absolute(sources: &Sources, node: &mut Node) {
    let Home::Directory(home) = sources.home(node.span.source) else { return };
    if let Value::String(path) = &mut node.value
        && !path.contains("://")
        && let Ok(absolute) = std::path::absolute(home.join(path.as_str()))
    {
        *path = tidy(&absolute).to_string_lossy().into_owned();
    }
}
