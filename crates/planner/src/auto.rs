//! The remote model of a run that leaves it to the program: measured facts lead to a shortlist, and a short trial to
//! one of it.

use std::sync::Arc;

use super::candidates::Candidate;
use super::decision::{Form, MOMENTUM, bsp_exchange_s, default_rounds, parts, shortlist, skewed};
use super::facts::may_change_members;
use super::simulation::{Compared, compare};
use super::simulator::Simulator;
use super::{Facts, PlannerError, Request, Step};
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::sync::{AspConfig, BspConfig, Overlap, RemoteSync};
use gaia_report::figures;
use gaia_report::plan::{PlanRow, Verdict};

/// What was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The model, with its settings.
    pub remote: RemoteSync,
    /// Why, in a few sentences.
    pub reason: String,
}

/// The data that a trial trains on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialData {
    /// That of the run.
    Own,
    /// Generated data of the same sizes: that of the run is elsewhere.
    Generated,
}

/// Chooses the remote model of a run by its facts, and where these leave several by simulating each for a few
/// clocks on `data`, as `gaia plan` does. The same run has the same choice.
///
/// # Errors
/// As [`super::plan()`].
pub fn decide(
    plan: &Plan,
    application: &Arc<dyn Application>,
    data: TrialData,
    simulator: &dyn Simulator,
    on_step: impl Fn(&Step<'_>) + Sync,
) -> Result<Decided, PlannerError> {
    if application.layout().has_sparse_tables() {
        return Err(PlannerError::SparseTables);
    }
    let facts = Facts::measure(plan, application).map_err(PlannerError::Iteration)?;
    let found = said(&facts);
    let is_script = plan.external().is_some();
    // The guard measures nothing of a script's copies.
    let is_measured = |remote: &RemoteSync| !is_script || remote.guard().is_none();
    let can_tell =
        |remote: &RemoteSync| data == TrialData::Own || is_told_by_any_data(remote, &facts);
    let remotes = shortlist(&facts).into_iter();
    let remotes: Vec<RemoteSync> = remotes.filter(is_measured).filter(can_tell).collect();
    if remotes.is_empty() {
        // A script whose data centers may come and go has no other.
        let remote = RemoteSync::Asp(AspConfig::default());
        return Ok(Decided { remote, reason: format!("{found} {}", members(&facts, is_script)) });
    }
    if let [only] = remotes.as_slice()
        && (facts.has_members || matches!(only, RemoteSync::Bsp(_)))
    {
        let why = if facts.has_members {
            members(&facts, is_script)
        } else {
            "So waiting for every exchange costs next to nothing, and nothing is approximate then."
                .into()
        };
        return Ok(Decided { remote: only.clone(), reason: format!("{found} {why}") });
    }

    let cheap = application.for_trials();
    let application = cheap.as_ref().unwrap_or(application);
    let trials = Trials { plan, application, simulator, on_step: &on_step };
    let share = affordable(facts.parameters * facts.data_centers);
    let clocks_of = |clocks: f64| (clocks * share).round() as u64;
    let mut last = trials.run(&remotes, clocks_of(FIRST_CLOCKS))?;
    let (mut tried, settings, clocks) = (remotes.clone(), remotes.len(), most_clocks(&last));
    let mut told = format!("Of {settings} settings, each simulated for up to {clocks} clocks");
    for stage in &LATER {
        tried = finalists((&last.file.rows, &last.near_best_s), &tried, stage);
        let clocks = clocks_of(stage.clocks).min(plan.stop.clocks.unwrap_or(u64::MAX));
        if tried.len() < 2 || clocks <= last.file.budget_clocks {
            break;
        }
        last = trials.run(&tried, clocks)?;
        told += &format!(", the best {} for up to {}", tried.len(), most_clocks(&last));
    }

    let of_name = |named: &str| remotes.iter().find(|remote| name(remote) == named).cloned();
    let has_trained = tried.len() < settings;
    Ok(match last.file.choice {
        Some(choice) => Decided {
            remote: of_name(&choice.candidate).expect("a candidate of the shortlist was chosen"),
            reason: format!("{found} {told}, {} is chosen. {}", choice.candidate, choice.reason),
        },
        None if has_trained => Decided {
            remote: RemoteSync::Bsp(BspConfig::default()),
            reason: format!("{found} {told}: none of these has trained to the end."),
        },
        None => Decided {
            remote: RemoteSync::Bsp(BspConfig::default()),
            reason: format!("{found} No approximate setting has trained in a short simulation."),
        },
    })
}

/// The most clocks that a setting was simulated for.
fn most_clocks(compared: &Compared) -> u64 {
    let clocks = compared.file.rows.iter().map(|row| row.simulated_clocks).max();
    clocks.unwrap_or(compared.file.budget_clocks)
}

/// Whether generated data can tell how a setting does on the data of a run. It shows too little of what a copy loses that trains
/// on during rounds, where each data center has labels of its own: of perceptrons on MNIST such rounds need up to 2.5 times the
/// clocks, and on generated data they are ahead. Where each data center measures the overlap it finds that out for itself.
fn is_told_by_any_data(remote: &RemoteSync, facts: &Facts) -> bool {
    let overlap = match remote {
        RemoteSync::LocalSteps(config) => config.overlap,
        _ => Overlap::Clocks(0),
    };
    !facts.is_network() || matches!(overlap, Overlap::Auto | Overlap::Clocks(0))
}

/// Short simulations of a run.
struct Trials<'a, F> {
    plan: &'a Plan,
    application: &'a Arc<dyn Application>,
    simulator: &'a dyn Simulator,
    on_step: &'a F,
}

impl<F: Fn(&Step<'_>) + Sync> Trials<'_, F> {
    /// Simulates the run with each of these settings.
    fn run(&self, remotes: &[RemoteSync], budget: u64) -> Result<Compared, PlannerError> {
        let candidates = remotes.iter().map(|remote| Candidate {
            name: name(remote),
            settings: Vec::new(),
            is_own: false,
            plan: Ok(self.plan.clone().decided(remote.clone(), String::new())),
        });
        let candidates: Vec<Candidate> = candidates.collect();
        let request = Request { budget, target: None, simulator: self.simulator };
        compare(self.plan, |_, _| Ok(candidates), self.application, &request, self.on_step)
    }
}

/// The share of a trial's clocks that are simulated of a model with so many parameters in all copies together.
fn affordable(parameters: usize) -> f64 {
    (WHOLE_TRIAL / parameters.max(1) as f64).clamp(LEAST_SHARE, 1.0)
}

/// The settings that a stage compares, by the one before: the best of each form for which it has places, and then the best of all
/// others, by their time to the target of that stage, or where none is there by their time to what is near the best objective of
/// all, `near_best_s`. `rows` are those of `remotes`.
fn finalists(
    (rows, near_best_s): (&[PlanRow], &[Option<f64>]),
    remotes: &[RemoteSync],
    stage: &Stage,
) -> Vec<RemoteSync> {
    let is_any_there = rows.iter().any(|row| row.time_to_target_s.is_some());
    let time = |at: usize| {
        let time = match is_any_there {
            true => rows[at].time_to_target_s,
            false => near_best_s[at],
        };
        time.unwrap_or(f64::INFINITY)
    };
    let is_sound =
        |row: &PlanRow| !matches!(row.verdict, Verdict::Diverged | Verdict::Impossible(_));
    let mut sound: Vec<usize> = (0..rows.len()).filter(|at| is_sound(&rows[*at])).collect();
    sound.sort_by(|a, b| {
        let by_objective = || rows[*a].held_objective.total_cmp(&rows[*b].held_objective);
        time(*a).total_cmp(&time(*b)).then_with(by_objective)
    });

    let (mut first, mut others, mut forms) = (Vec::new(), Vec::new(), Vec::new());
    for remote in sound.into_iter().map(|at| &remotes[at]) {
        let form = (remote.name(), Form::of(remote));
        let places = match form {
            (_, Some(Form::Momentum)) => stage.with_momentum,
            _ => stage.of_a_form,
        };
        let before = forms.iter().filter(|earlier| **earlier == form).count();
        let of_a_form = if before < places { &mut first } else { &mut others };
        of_a_form.push(remote.clone());
        forms.push(form);
    }
    first.into_iter().chain(others).take(stage.settings).collect()
}

/// Chooses the remote model of a run whose application cannot iterate in this process: one that trains every kind of model
/// and measures for itself what matters most, unless data centers may join or leave.
///
/// # Errors
/// [`PlannerError::SparseTables`].
pub fn decide_untried(plan: &Plan, application: &dyn Application) -> Result<Decided, PlannerError> {
    if application.layout().has_sparse_tables() {
        return Err(PlannerError::SparseTables);
    }
    if may_change_members(plan) {
        return Ok(Decided {
            remote: RemoteSync::Asp(AspConfig::default()),
            reason: format!("{MEMBERS} {MAY_PART} {ROUNDS_INSTEAD}"),
        });
    }
    let remote = RemoteSync::LocalSteps(default_rounds(application.deltas_are_counts()));
    Ok(Decided { remote, reason: UNTRIED.into() })
}

/// Why data centers that may join or leave have ASP, and what that risks of a script, whose copies no guard measures.
fn members(facts: &Facts, is_script: bool) -> String {
    if is_script && parts(facts) {
        format!("{MEMBERS} {PARTS} {ROUNDS_INSTEAD}")
    } else {
        MEMBERS.into()
    }
}

/// What the choice starts from, in a sentence.
fn said(facts: &Facts) -> String {
    let slowest = if facts.slowest > 1.0 {
        let times = figures::times(facts.slowest);
        format!(" (the slowest data center takes {times} as long)")
    } else {
        String::new()
    };
    let alike = if skewed(facts) > 0.0 {
        let lost = 100.0 * facts.skew;
        format!(
            "copies that train alone lose {lost:.0} % of the initial loss on the examples of others"
        )
    } else {
        "copies that train alone lose little on the examples of others".into()
    };
    format!(
        "A clock takes {}{slowest} and a full exchange {}; a data center changes {:.0} % of {} parameters in a clock, and {alike}.",
        figures::seconds(facts.clock_s),
        figures::seconds(bsp_exchange_s(facts)),
        100.0 * facts.changed_share,
        facts.parameters,
    )
}

/// A setting in a few words. Settings of a shortlist have different ones.
fn name(remote: &RemoteSync) -> String {
    match remote {
        RemoteSync::LocalSteps(config) => {
            let overlap = match config.overlap {
                Overlap::Auto => String::new(),
                Overlap::Clocks(clocks) => format!(", overlap {clocks}"),
            };
            let percent = |density: f64| format!("{:.0} %", 100.0 * density);
            let density = match (config.density, config.total_density) {
                (1.0, 1.0) => String::new(),
                (part, total) if part == total => format!(", {}", percent(part)),
                (part, total) => format!(", {} and {}", percent(part), percent(total)),
            };
            let momentum = match config.outer_momentum {
                MOMENTUM => ", momentum",
                _ => "",
            };
            let drift = if config.drift_correction > 0.0 { ", drift" } else { "" };
            format!("rounds {}{overlap}{density}{momentum}{drift}", config.steps)
        }
        other => other.name().into(),
    }
}

const MEMBERS: &str = "Data centers may join or leave, which only models that send updates allow.";
const PARTS: &str = "Copies part on such data, and no guard measures those of a script. So training may end far from that of \
                     BSP.";
const MAY_PART: &str = "On skewed data copies may part, and no guard measures those of a script. Training may then end far from \
                        that of BSP.";
const ROUNDS_INSTEAD: &str = "Without `failures.on_give_up = \"leave\"` and without late data centers, rounds can be chosen.";
const UNTRIED: &str = "So nothing was tried: rounds with their defaults train networks, factorisation and topics on even and \
                       on skewed data, send a small part of what BSP sends, and each data center measures how many clocks a \
                       round overlaps.";

/// A stage of a trial after the first, which has all settings.
struct Stage {
    /// For how long each setting is simulated.
    clocks: f64,
    /// How many settings there are at most.
    settings: usize,
    /// How many of them are the best of each form, whatever is ahead of them.
    of_a_form: usize,
    /// The same of rounds with a large momentum. Momentum is slow to begin with and ahead later, so that a short simulation says
    /// least about how many clocks its rounds should have.
    with_momentum: usize,
}

/// For how long all settings are simulated at first.
const FIRST_CLOCKS: f64 = 40.0;
/// The stages after that, as in successive halving (Jamieson and Talwalkar, AISTATS 2016). What trains fast at first often is not
/// what ends first: overlapped rounds are ahead in the first clocks on data with labels of its own in each data center, and
/// rounds with a large momentum later. Of seven tasks on MNIST, each over links of five speeds, settings that are ahead after 240
/// clocks take 1.59 times as long to the end of training as the best of all (geometric mean), and those that are ahead after 480
/// take 1.15 times as long (`python/bench/horizons.py`).
const LATER: [Stage; 2] = [
    Stage { clocks: 240.0, settings: 7, of_a_form: 1, with_momentum: 2 },
    Stage { clocks: 480.0, settings: 3, of_a_form: 0, with_momentum: 1 },
];

/// So many parameters in the copies of all data centers have trials of all these clocks, and more have fewer clocks, so that
/// a trial takes minutes. There is no outer momentum to see in fewer than the least.
const WHOLE_TRIAL: f64 = 4e6;
const LEAST_SHARE: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::tests::row;
    use crate::decision::tests::dense;
    use gaia_core::sync::LocalStepsConfig;

    fn rounds(steps: u64, overlap: u64, outer_momentum: f64) -> RemoteSync {
        let overlap = Overlap::Clocks(overlap);
        RemoteSync::LocalSteps(LocalStepsConfig {
            steps,
            overlap,
            outer_momentum,
            ..LocalStepsConfig::default()
        })
    }

    #[test]
    fn a_script_without_a_guard_is_told_that_its_copies_may_part_and_what_to_do() {
        let even = Facts { has_members: true, ..dense(6.25e6, 0.2) };
        let skewed = Facts { skew: 0.6, ..even.clone() };
        for (facts, is_script) in [(&even, true), (&even, false), (&skewed, false)] {
            assert_eq!(members(facts, is_script), MEMBERS);
        }
        let said = members(&skewed, true);
        for part in [MEMBERS, "Copies part", "no guard", "far from", "on_give_up", "rounds"] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }

    #[test]
    fn generated_data_does_not_tell_how_overlapped_rounds_of_a_network_do() {
        let network = dense(6.25e6, 0.2);
        let counts = Facts { deltas_are_counts: true, ..network.clone() };
        let told = |remote: &RemoteSync, facts| is_told_by_any_data(remote, facts);
        assert!(!told(&rounds(8, 1, 0.5), &network) && told(&rounds(8, 1, 0.5), &counts));
        assert!(told(&rounds(8, 0, 0.5), &network));
        let measured = RemoteSync::LocalSteps(LocalStepsConfig::default());
        assert!(told(&measured, &network), "each data center measures the overlap");
        assert!(told(&RemoteSync::Bsp(BspConfig::default()), &network));
    }

    #[test]
    fn stragglers_are_among_the_facts_that_are_said() {
        let alike = dense(6.25e6, 0.2);
        assert!(!said(&alike).contains("slowest"), "{}", said(&alike));
        let said = said(&Facts { slowest: 4.0, ..alike });
        assert!(said.contains("(the slowest data center takes 4.00× as long)"), "{said}");
    }

    #[test]
    fn the_next_stage_has_the_best_of_each_form_and_the_last_of_those_with_momentum_alone() {
        let overlapped = [16, 8, 4, 2].map(|steps| rounds(steps, 1, 0.5));
        let momentum = [4, 8, 16].map(|steps| rounds(steps, 0, MOMENTUM));
        let (plain, bsp) = (rounds(8, 0, 0.5), RemoteSync::Bsp(BspConfig::default()));
        let remotes = [&overlapped[..], &momentum, &[plain.clone(), bsp.clone()]].concat();
        let rows: Vec<PlanRow> = (1..=remotes.len())
            .map(|place| row("", Verdict::Reached, place as f64, 1, 0.0))
            .collect();

        let [seven, three] = &LATER;
        let nowhere = vec![None; rows.len()];
        let all = finalists((&rows, &nowhere), &remotes, seven);
        let [best, second, third, _] = &overlapped;
        let expected = [best, &momentum[0], &momentum[1], &plain, &bsp, second, third];
        assert_eq!(all.iter().collect::<Vec<_>>(), expected);

        let last = finalists((&rows, &nowhere), &remotes, three);
        assert_eq!(last.iter().collect::<Vec<_>>(), [&momentum[0], best, second]);

        let mut diverged = rows;
        diverged[4].verdict = Verdict::Diverged;
        assert_eq!(finalists((&diverged, &nowhere), &remotes, seven)[1], momentum[1]);
    }

    #[test]
    fn where_no_setting_is_at_the_target_those_go_on_that_are_near_the_best_first() {
        let remotes: Vec<RemoteSync> = [16, 8, 4, 2].map(|steps| rounds(steps, 1, 0.5)).into();
        let rows = [0.1, 0.2, 0.3, 0.4].map(|held| row("", Verdict::NotReached, held, 1, 0.0));
        let near = [Some(90.0), None, Some(3.0), Some(40.0)];
        let found = finalists((&rows, &near), &remotes, &LATER[0]);
        let expected = [2, 3, 0, 1].map(|at: usize| remotes[at].clone());
        assert_eq!(found, expected);
    }
}
