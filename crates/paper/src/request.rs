//! The request: which parts of the evaluation to run.

use std::collections::BTreeSet;

use super::EvaluationError;
use super::experiment::Experiment;
use super::suite::{BSP, CENTRALIZE, Changes, LAN, OURS, PUBLISHED_ASP, Suite, WORST};
use super::{brakes, rates, skew, systems};
use gaia_report::paper::PaperFile;

/// The parts of the evaluation to run, and their rows. An empty list means all.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The parts.
    pub sections: BTreeSet<Section>,
    /// The names of applications.
    pub apps: Vec<String>,
    /// The names of WANs.
    pub wans: Vec<String>,
    /// The names of models.
    pub models: Vec<String>,
    /// The changes of all runs.
    pub changes: Changes,
}

/// One part of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Applications × the paper's WANs × models.
    Cells,
    /// The same over other WANs.
    Elsewhere,
    /// This project's ASP with one setting changed.
    Ablation,
    /// The share of insignificant updates.
    Insignificant,
    /// ASP with and without its brakes.
    Brakes,
    /// Label-skewed data.
    Skew,
    /// Label-skewed data, each remote model at its best learning rate.
    Rates,
    /// Claims of other systems.
    Systems,
}

impl Section {
    /// The names of all parts, for `--only`.
    pub const NAMES: [&str; 8] =
        ["cells", "elsewhere", "ablation", "insignificant", "brakes", "skew", "rates", "systems"];

    const ALL: [Self; 8] = [
        Self::Cells,
        Self::Elsewhere,
        Self::Ablation,
        Self::Insignificant,
        Self::Brakes,
        Self::Skew,
        Self::Rates,
        Self::Systems,
    ];

    /// The part with a name. `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self::ALL[at])
    }
}

impl Request {
    pub(super) fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }

    /// Rejects names that the suite lacks, and a data folder without the required files.
    pub fn check(&self, suite: &Suite) -> Result<(), EvaluationError> {
        let apps: Vec<&str> = suite.apps.iter().map(|app| app.name).collect();
        let mut wans: Vec<&str> = Vec::new();
        for wan in suite.wans.iter().chain(&suite.elsewhere) {
            if !wans.contains(&wan.name) {
                wans.push(wan.name);
            }
        }
        let models: Vec<&str> = suite.models().collect();
        known("--apps", &self.apps, &apps)?;
        known("--wans", &self.wans, &wans)?;
        known("--models", &self.models, &models)?;
        self.check_data(suite)?;
        self.check_settings(suite)
    }

    /// Checks settings in the plans that they become part of, before anything is fitted. Links as fast as they are suit every WAN.
    fn check_settings(&self, suite: &Suite) -> Result<(), EvaluationError> {
        let Changes { settings, .. } = &self.changes;
        let experiments = self.experiments(suite);
        let of_topology = settings.iter().find(|setting| is_of_topology(setting));
        if let (Some(setting), false) = (of_topology, experiments.is_empty()) {
            let sections = "skew, rates or systems";
            return Err(EvaluationError::Fitted { setting: setting.clone(), sections });
        }

        for Experiment { app, wan, .. } in &experiments {
            for contender in [BSP, OURS].iter().filter_map(|name| suite.contender(name)) {
                if let Some(remote) = contender.remote(app.name, wan.name, &self.changes)? {
                    app.plan(wan, 1.0, &remote, &self.changes)?;
                }
            }
        }
        if self.wants(Section::Skew) {
            skew::jobs(suite, &self.changes)?;
        }
        if self.wants(Section::Rates) {
            rates::jobs(suite, &self.changes)?;
        }
        if suite.systems.is_some() && self.wants(Section::Systems) {
            systems::check_settings(&self.changes)?;
        }
        Ok(())
    }

    fn check_data(&self, suite: &Suite) -> Result<(), EvaluationError> {
        let files: Vec<&str> =
            suite.apps.iter().filter_map(|app| app.data).map(|(file, _)| file).collect();
        let paths = self
            .experiments(suite)
            .into_iter()
            .filter_map(|experiment| experiment.app.data_path(&self.changes));
        for path in paths {
            if !path.exists() {
                return Err(EvaluationError::Unknown {
                    flag: "--data",
                    found: path.display().to_string(),
                    expected: format!("a folder that holds {}", files.join(", ")),
                });
            }
        }
        Ok(())
    }

    /// Reads the data that runs train on: a file that is broken is refused before anything was made or written.
    ///
    /// # Errors
    /// [`EvaluationError::Data`].
    pub fn check_files(&self, suite: &Suite) -> Result<(), EvaluationError> {
        let mut read = BTreeSet::new();
        for Experiment { app, wan, .. } in self.experiments(suite) {
            if app.data_path(&self.changes).is_none() || !read.insert(app.name) {
                continue;
            }
            let plan = app.plan(wan, 1.0, &[], &self.changes)?;
            gaia_data::build(plan.app.as_ref(), &plan.topology.data_homes(), plan.seed)
                .map_err(|error| EvaluationError::Data { run: app.name.into(), error })?;
        }
        Ok(())
    }

    /// All pairs of application and WAN with runs, each once: the paper's WANs and the others.
    pub(super) fn experiments<'s>(&self, suite: &'s Suite) -> Vec<Experiment<'s>> {
        let mut experiments: Vec<Experiment<'s>> = Vec::new();
        let mut parts: Vec<(bool, bool)> = Vec::new();
        let on_the_papers =
            [Section::Cells, Section::Brakes, Section::Insignificant, Section::Ablation];

        if on_the_papers.iter().any(|section| self.wants(*section)) {
            parts.push((false, true));
        }
        if self.wants(Section::Elsewhere) {
            parts.push((true, true));
        }

        for (elsewhere, compete) in parts {
            let wans = if elsewhere { &suite.elsewhere } else { &suite.wans };
            for app in suite.apps.iter().filter(|app| chosen(&self.apps, app.name)) {
                for wan in wans.iter().filter(|wan| chosen(&self.wans, wan.name)) {
                    experiments.push(Experiment { app, wan, elsewhere, compete });
                }
            }
        }

        // The worst WAN determines the volume of the data and the scale of other WANs.
        let needs_worst =
            |experiment: &Experiment<'_>| experiment.elsewhere || chosen(&self.models, CENTRALIZE);
        let Some(worst) = suite.wans.iter().find(|wan| wan.name == WORST) else {
            return experiments;
        };
        let wanting: Vec<_> = experiments
            .iter()
            .filter(|experiment| needs_worst(experiment))
            .map(|experiment| experiment.app)
            .collect();

        for app in wanting {
            let own = |experiment: &Experiment<'_>| {
                experiment.app.name == app.name
                    && experiment.wan.name == WORST
                    && !experiment.elsewhere
            };
            if !experiments.iter().any(own) {
                experiments.push(Experiment { app, wan: worst, elsewhere: false, compete: false });
            }
        }

        experiments
    }

    /// The models that run on an experiment, except BSP and the LAN, which run on all.
    pub(super) fn contenders(
        &self,
        suite: &Suite,
        experiment: &Experiment<'_>,
    ) -> Vec<&'static str> {
        let asked = if experiment.elsewhere {
            self.wants(Section::Elsewhere)
        } else {
            self.wants(Section::Cells)
        };
        let braked = self.wants(Section::Brakes) && brakes::are_taken_off(experiment);
        let ablated = self.wants(Section::Ablation) && experiment.is_ablated(suite);
        let runs = |model: &&str| {
            let alone =
                braked && brakes::COMPETITORS.contains(model) || ablated && ENDS.contains(model);
            let invited = !experiment.elsewhere || suite.elsewhere_models.contains(model);
            asked && invited && chosen(&self.models, model) || alone
        };
        let ran = suite.contenders.iter().map(|contender| contender.name);
        ran.filter(|model| *model != BSP).filter(runs).collect()
    }

    /// The number of runs after those of the baselines.
    pub(super) fn runs(&self, suite: &Suite, experiments: &[Experiment<'_>]) -> usize {
        let competing = experiments.iter().filter(|experiment| experiment.compete);
        let cells: usize =
            competing.map(|experiment| self.contenders(suite, experiment).len()).sum();
        let ablation = if self.wants(Section::Ablation) {
            experiments.iter().filter(|experiment| experiment.is_ablated(suite)).count()
                * suite.ablation.len()
        } else {
            0
        };
        let brakes = if self.wants(Section::Brakes) {
            experiments.iter().filter(|experiment| brakes::are_taken_off(experiment)).count()
        } else {
            0
        };
        cells + ablation + brakes
    }

    /// Whether the rows of a model are shown.
    pub(super) fn shows(&self, model: &str) -> bool {
        [LAN, BSP].contains(&model) || chosen(&self.models, model)
    }

    pub(super) fn empty_file(&self, seed: u64) -> PaperFile {
        PaperFile {
            version: env!("CARGO_PKG_VERSION").into(),
            seed,
            quick: self.changes.quick,
            scales: Vec::new(),
            cells: Vec::new(),
            elsewhere: Vec::new(),
            ablation: Vec::new(),
            hubs: Vec::new(),
            insignificant: Vec::new(),
            brakes: Vec::new(),
            skew: Vec::new(),
            rates: Vec::new(),
            systems: Vec::new(),
            speed: Vec::new(),
        }
    }
}

/// Whether a list contains a name. An empty list contains all.
fn chosen(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

fn is_of_topology(setting: &str) -> bool {
    setting.split(['.', '=']).next().is_some_and(|table| table.trim() == "topology")
}

fn known(flag: &'static str, asked: &[String], there: &[&str]) -> Result<(), EvaluationError> {
    match asked.iter().find(|name| !there.contains(&name.as_str())) {
        None => Ok(()),
        Some(found) => Err(EvaluationError::Unknown {
            flag,
            found: found.clone(),
            expected: format!("one of {}", there.join(", ")),
        }),
    }
}

/// The two ends of the ablation.
const ENDS: [&str; 2] = [OURS, PUBLISHED_ASP];
