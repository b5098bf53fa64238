//! What is done about nodes that are lost, and data centers that are not there: for the real driver.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::document::Problem;
use crate::range::{self, Checks};
use crate::run::{DriverKind, Plan};
use gaia_core::types::DurationSetting;
use gaia_ml::apps::AppConfig;

/// The keys of `[failures]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailuresConfig {
    /// How long a node that was lost is waited for.
    pub give_up_after: DurationSetting,
    /// What becomes of the run after that, or at once where it is 0.
    pub on_give_up: OnGiveUp,
    /// Data centers that the run begins without, by name. Each joins once all its nodes are there.
    pub late: Vec<String>,
    pub lost_workers: LostWorkers,
    /// How long a lost worker is waited for before another takes over its work; less than `give_up_after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_over_after: Option<DurationSetting>,
}

/// What becomes of a run that waits for a node no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnGiveUp {
    /// It ends.
    #[default]
    End,
    /// It goes on without the node's data center, which has left for good.
    Leave,
}

/// What becomes of the data of a worker that is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LostWorkers {
    /// It waits for the worker, and so does what may not go on without it.
    #[default]
    Wait,
    /// Another worker of the data center stands in for the lost one until that is back.
    TakeOver,
}

impl FailuresConfig {
    /// The keys with what they leave out, or the first mistake in them.
    pub(crate) fn resolve(self, checks: &Checks<'_>, app: &AppConfig) -> Result<Self, Problem> {
        let Self { give_up_after, lost_workers, take_over_after, .. } = self;
        checks.time("failures.give_up_after", give_up_after, range::GIVE_UP_MAX)?;
        if lost_workers == LostWorkers::Wait {
            return take_over_after.map_or(Ok(self), |after| {
                let expected = "no such key: with `lost_workers = \"wait\"` nobody takes over";
                Err(checks.wrong("failures.take_over_after", after, expected))
            });
        }
        if app.deltas_are_counts() {
            let expected = format!(
                "`wait`: the deltas of {} are counts, and who takes over would count again what is counted",
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

/// The first mistake in what a plan says of data centers that join late, or leave.
pub(crate) fn members(plan: &Plan, checks: &Checks<'_>) -> Result<(), Problem> {
    let FailuresConfig { on_give_up, late, .. } = &plan.failures;
    let topology = &plan.topology;
    // Without that, nobody else has what a data center had, or has yet to pass on.
    let goes_without = |key: &str, found: &str| match plan.needs_all() {
        Some(why) => Err(checks.wrong(key, found, why)),
        None => Ok(()),
    };
    if *on_give_up == OnGiveUp::Leave {
        goes_without("failures.on_give_up", "leave")?;
    }
    let names = topology.data_centers.iter().map(|dc| dc.name.as_str());
    for name in late {
        if !names.clone().any(|known| known == name) {
            let names: Vec<&str> = names.collect();
            let expected = format!("names of data centers: {}", names.join(", "));
            return Err(checks.wrong("failures.late", name, expected));
        }
        goes_without("failures.late", name)?;
    }
    if plan.late().len() == topology.data_centers.len() {
        let expected = "one data center less: who joins takes the copy of one that is there";
        return Err(checks.wrong("failures.late", late.join(", "), expected));
    }
    if !late.is_empty() && plan.driver != DriverKind::Real {
        let driver = plan.driver.name();
        let expected = format!("none: with the {driver} driver all begin together");
        return Err(checks.wrong("failures.late", late.join(", "), expected));
    }
    Ok(())
}

impl Plan {
    /// What would have to be otherwise for data centers to join late and leave; nothing where they can.
    pub fn needs_all(&self) -> Option<String> {
        let name = self.remote.name();
        let lacks = self.topology.dc_ids().any(|dc| self.copy_source(dc, 0, |_| true).is_none());
        let alone = self.topology.data_centers.len() == 1;
        (lacks && !alone).then(|| match name {
            "asp" => "`overlay = \"mesh\"`: what a hub had yet to pass on, nobody else has".into(),
            _ => format!("`tap` or `asp`: under {name} every clock needs all data centers"),
        })
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

/// Where nothing else is said: longer than whoever starts nodes takes to start one again.
const TAKE_OVER_AFTER: DurationSetting = DurationSetting(Duration::from_secs(30));
