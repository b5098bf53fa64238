//! The remote model of a run that leaves it to the program: measured facts lead to a shortlist, and a short trial to
//! one of it.

use std::sync::Arc;

use super::candidates::Candidate;
use super::decision::{MOMENTUM, exchange_s, shortlist, skewed};
use super::simulation::compare;
use super::{Facts, PlannerError, Request, Step};
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::sync::{BspConfig, Overlap, RemoteSync, ValueFormat};
use gaia_report::figures;

/// What was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The model, with its settings.
    pub remote: RemoteSync,
    /// Why, in a few sentences.
    pub reason: String,
}

/// Chooses the remote model of a run by its facts, and where these leave several by simulating each for a few
/// clocks, as `gaia plan` does. The same run has the same choice. `threads` is that of [`Request`].
///
/// # Errors
/// As [`super::plan()`].
pub fn decide(
    plan: &Plan,
    application: &Arc<dyn Application>,
    threads: usize,
    on_step: impl Fn(&Step<'_>) + Sync,
) -> Result<Decided, PlannerError> {
    if application.layout().has_sparse_tables() {
        return Err(PlannerError::SparseTables);
    }
    let facts = Facts::measure(plan, application).map_err(PlannerError::Iteration)?;
    let found = said(&facts);
    // The guard measures nothing of a script's copies.
    let is_measured = |remote: &RemoteSync| plan.external().is_none() || remote.guard().is_none();
    let remotes: Vec<RemoteSync> = shortlist(&facts).into_iter().filter(is_measured).collect();
    if let [only] = remotes.as_slice() {
        let why = if facts.has_members {
            "Data centers may join or leave, which only models that send updates allow."
        } else {
            "So waiting for every exchange costs next to nothing, and nothing is approximate then."
        };
        return Ok(Decided { remote: only.clone(), reason: format!("{found} {why}") });
    }

    let candidates = remotes.iter().map(|remote| Candidate {
        name: name(remote),
        settings: Vec::new(),
        is_own: false,
        plan: Ok(plan.clone().decided(remote.clone(), String::new())),
    });
    let candidates: Vec<Candidate> = candidates.collect();
    let request = Request { budget: TRIAL_CLOCKS, target: None, threads, interrupted: None };
    let tried = compare(plan, |_, _| Ok(candidates), application, &request, on_step)?;

    let of_name = |named: &str| remotes.iter().find(|remote| name(remote) == named).cloned();
    Ok(match tried.choice {
        Some(choice) => Decided {
            remote: of_name(&choice.candidate).expect("a candidate of the shortlist was chosen"),
            reason: format!(
                "{found} Of {} settings, each simulated for up to {} clocks, {} is chosen. {}",
                remotes.len(),
                tried.budget_clocks,
                choice.candidate,
                choice.reason
            ),
        },
        None => Decided {
            remote: RemoteSync::Bsp(BspConfig::default()),
            reason: format!("{found} No approximate setting has trained in a short simulation."),
        },
    })
}

/// What the choice starts from, in a sentence.
fn said(facts: &Facts) -> String {
    let alike = if skewed(facts) > 0.0 {
        let lost = 100.0 * facts.skew;
        format!(
            "copies that train alone lose {lost:.0} % of the initial loss on the examples of others"
        )
    } else {
        "copies that train alone lose little on the examples of others".into()
    };
    format!(
        "A clock takes {} and a full exchange {}; a data center changes {:.0} % of {} parameters in a clock, and {alike}.",
        figures::seconds(facts.clock_s),
        figures::seconds(exchange_s(facts, ValueFormat::F32, 1, 1.0)),
        100.0 * facts.changed_share,
        facts.parameters,
    )
}

/// A setting in a few words. Settings of a shortlist have different ones.
fn name(remote: &RemoteSync) -> String {
    match remote {
        RemoteSync::LocalSteps(config) => {
            let momentum = match config.outer_momentum {
                MOMENTUM => ", momentum",
                _ => "",
            };
            match config.overlap {
                Overlap::Auto => format!("rounds {}", config.steps),
                Overlap::Clocks(clocks) => {
                    format!("rounds {}, overlap {clocks}{momentum}", config.steps)
                }
            }
        }
        other => other.name().into(),
    }
}

/// The clocks of a trial.
const TRIAL_CLOCKS: u64 = 80;
