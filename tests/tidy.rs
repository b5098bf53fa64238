//! What every file of `src/` keeps to, beyond what the compiler and the lints see.

mod source;

use std::fs;

use source::{SourceFile, rooms, root, source_files, tokens};

#[test]
fn files_are_short_enough_to_be_read() {
    complain(|file| {
        let lines = file.text.lines().count();
        let code = file.text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        match () {
            () if code > LINES_MAX => vec![format!("{code} lines of code, {LINES_MAX} at most")],
            () if lines > LINES_WITH_TESTS_MAX => {
                vec![format!("{lines} lines with its tests, {LINES_WITH_TESTS_MAX} at most")]
            }
            () => Vec::new(),
        }
    });
}

#[test]
fn nothing_is_left_unfinished() {
    complain(|file| words(file, &["todo", "unimplemented", "dbg"], Some("!")));
}

#[test]
fn rooms_open_with_what_they_are() {
    complain(|file| {
        let opens = file.text.lines().next().is_some_and(|line| line.starts_with("//! "));
        if file.name.ends_with("/mod.rs") && !opens {
            return vec!["opens without a `//!` paragraph".into()];
        }
        Vec::new()
    });
}

#[test]
fn order_and_time_are_not_left_to_the_machine_below_the_drivers() {
    let above = ["driver", "data", "config", "telemetry", "report", "evaluation", "cli"];
    complain(|file| {
        if file.room().is_none_or(|room| above.contains(&room)) {
            return Vec::new();
        }
        words(file, &["HashMap", "HashSet", "SystemTime", "thread_rng", "StdRng"], None)
    });
}

#[test]
fn the_architecture_names_every_room() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is here");
    for room in rooms() {
        assert!(page.contains(&format!("`{room}/`")), "ARCHITECTURE.md does not name `{room}/`");
    }
}

#[test]
fn planted_words_are_caught() {
    let file =
        SourceFile::new("src/a.rs", "// todo!()\nlet s = \"dbg!\";\nlet dbg = 1;\n  todo!();");
    assert_eq!(words(&file, &["todo", "dbg"], Some("!")), ["line 4: `todo!`"]);
    let file = SourceFile::new("src/a.rs", "use std::collections::HashMap;");
    assert_eq!(words(&file, &["HashMap"], None), ["line 1: `HashMap`"]);
}

/// Runs `check` on every file and fails with all that it found.
fn complain(check: impl Fn(&SourceFile) -> Vec<String>) {
    let found: Vec<String> = source_files()
        .iter()
        .flat_map(|file| check(file).into_iter().map(|what| format!("{}: {what}", file.name)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Where a file uses one of `words`, followed by `sign` where one is given.
fn words(file: &SourceFile, words: &[&str], sign: Option<&str>) -> Vec<String> {
    let tokens = tokens(&file.text);
    let followed = |at: usize| match sign {
        Some(sign) => tokens.get(at + 1).is_some_and(|next| next.text == sign),
        None => true,
    };
    let used = tokens
        .iter()
        .enumerate()
        .filter(|(at, token)| words.contains(&token.text.as_str()) && followed(*at));
    used.map(|(_, token)| format!("line {}: `{}{}`", token.line, token.text, sign.unwrap_or("")))
        .collect()
}

/// Without the tests at the end.
const LINES_MAX: usize = 500;
const LINES_WITH_TESTS_MAX: usize = 600;
