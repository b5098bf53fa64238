//! Tips for flags that the program does not have, because they are settings of the run file.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// Adds to the refusal of an unknown flag how the setting of that name is given.
pub(super) fn with_tip(mut refusal: clap::Error) -> clap::Error {
    let flag = match refusal.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.trim_start_matches('-').replace('-', "_"),
        _ => return refusal,
    };
    if refusal.get(ContextKind::SuggestedArg).is_none()
        && let Some(setting) = setting(&flag)
    {
        let tip = format!("settings of a run file are given as '--set {setting}=VALUE'");
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        refusal.insert(ContextKind::Suggested, tips);
    }
    refusal
}

/// The full key of the first setting of this name in the reference of all settings.
fn setting(name: &str) -> Option<String> {
    let mut table = "";
    for line in REFERENCE.lines() {
        let line = line.strip_prefix("#: ").unwrap_or(line);
        if let Some(header) = line.strip_prefix('[') {
            table = header.trim_start_matches('[').split(']').next().unwrap_or_default();
        } else if line.split_once(" = ").is_some_and(|(key, _)| key == name) {
            return Some(if table.is_empty() { name.into() } else { format!("{table}.{name}") });
        }
    }
    None
}

const REFERENCE: &str = include_str!("../../config/reference.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_by_its_own_name_with_its_table() {
        assert_eq!(setting("workers").as_deref(), Some("topology.defaults.workers"));
        assert_eq!(setting("rank").as_deref(), Some("app.rank"));
        assert_eq!(setting("bandwidth_scale").as_deref(), Some("topology.bandwidth_scale"));
        assert_eq!(setting("sauce"), None);
    }
}
