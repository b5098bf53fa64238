//! `[failures]`: what the real driver does about lost nodes and absent data centers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::document::Problem;
use crate::range::{self, Checks};
use gaia_core::types::DurationSetting;
use gaia_ml::apps::AppConfig;

/// The keys of `[failures]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailuresConfig {
    /// How long the run waits for a lost node.
    pub give_up_after: DurationSetting,
    /// What happens after that time; at once where the time is 0.
    pub on_give_up: OnGiveUp,
    /// The names of data centers that the run starts without. Each joins when all its nodes have connected.
    pub late: Vec<String>,
    /// What happens to the work of a lost worker.
    pub lost_workers: LostWorkers,
    /// How long the run waits for a lost worker before another takes over its work; less than `give_up_after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_over_after: Option<DurationSetting>,
}

/// What happens when a lost node is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnGiveUp {
    /// The run ends.
    #[default]
    End,
    /// The run continues without the node's data center, which cannot join again.
    Leave,
}

/// What happens to the work of a lost worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LostWorkers {
    /// It waits until the worker is back, and so does everything that depends on it.
    #[default]
    Wait,
    /// Another worker of the data center does it until the lost one is back.
    TakeOver,
}

impl FailuresConfig {
    /// The keys with their defaults resolved, or the first mistake in them.
    pub(crate) fn resolve(
        self,
        checks: &Checks<'_>,
        app: Option<&AppConfig>,
    ) -> Result<Self, Problem> {
        let Self { give_up_after, lost_workers, take_over_after, .. } = self;
        checks.time("failures.give_up_after", give_up_after, range::GIVE_UP_MAX)?;

        if lost_workers == LostWorkers::Wait {
            return take_over_after.map_or(Ok(self), |after| {
                let expected = "no such key: with `lost_workers = \"wait\"` no worker takes over";
                Err(checks.wrong("failures.take_over_after", after, expected))
            });
        }

        if let Some(app) = app.filter(|app| app.deltas_are_counts()) {
            let expected = format!(
                "`wait`: the deltas of {} are counts, and a worker that takes over would count them twice",
                app.kind()
            );
            return Err(checks.found("failures.lost_workers", "take-over".into(), expected));
        }

        let after = take_over_after.unwrap_or(TAKE_OVER_AFTER);
        if after >= give_up_after {
            let expected = format!("less than `give_up_after`, which is {give_up_after}");
            return Err(checks.wrong("failures.take_over_after", after, expected));
        }

        Ok(Self { take_over_after: Some(after), ..self })
    }
}

impl Default for FailuresConfig {
    fn default() -> Self {
        Self {
            give_up_after: DurationSetting(Duration::from_secs(30 * 60)),
            on_give_up: OnGiveUp::End,
            late: Vec::new(),
            lost_workers: LostWorkers::Wait,
            take_over_after: None,
        }
    }
}

/// The default of `take_over_after`: longer than a scheduler takes to restart a node.
const TAKE_OVER_AFTER: DurationSetting = DurationSetting(Duration::from_secs(30));
