//! The suite: the applications, the WANs and the contenders.
//!
//! Each application is a run file that `gaia train` accepts. Each contender is a `[sync.remote]` table that replaces
//! that of the run file.

use std::path::PathBuf;

use super::EvaluationError;
use gaia_config::{ConfigError, Override, Plan, RunFile};
use gaia_core::types::Bandwidth;

/// All runs that an evaluation can make.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The applications.
    pub apps: Vec<App>,
    /// The paper's WANs, each with a fitted bandwidth scale.
    pub wans: Vec<WanSpec>,
    /// The paper's WANs and others, with each application's scale on the worst of the paper's WANs. The worst one is
    /// not among them, because its rows would be the same.
    pub elsewhere: Vec<WanSpec>,
    /// The names of the models that run over these WANs.
    pub elsewhere_models: Vec<&'static str>,
    /// The contenders over the paper's WANs.
    pub contenders: Vec<Contender>,
    /// The changes of this project's ASP in the ablation.
    pub ablation: Vec<Change>,
    /// The cells of the ablation: application and WAN.
    pub ablation_cells: Vec<(&'static str, &'static str)>,
    /// The runs over label-skewed data, if any.
    pub skew: Option<SkewSuite>,
    /// The runs with each learning rate of a grid, if any.
    pub rates: Option<RatesSuite>,
    /// The checks of other systems' claims, if any.
    pub systems: Option<SystemsSuite>,
}

/// One application.
#[derive(Clone, Copy, Debug)]
pub struct App {
    /// The name in tables and flags.
    pub name: &'static str,
    /// The path of its run file in the repository.
    pub file: &'static str,
    /// The text of its run file.
    pub text: &'static str,
    /// Settings that override the run file, in the form of `--set`.
    pub settings: &'static [&'static str],
    /// Settings that make it small enough for `--quick`.
    pub quick: &'static [&'static str],
    /// The file of `--data` on which it trains, and settings for that file.
    pub data: Option<(&'static str, &'static [&'static str])>,
}

/// One WAN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WanSpec {
    /// The name in tables and flags.
    pub name: &'static str,
    /// The name of a shipped topology.
    pub topology: &'static str,
    /// The bandwidth of each machine's network card within its data center, in Mbit/s. `None` for that of the topology.
    pub lan_mbit: Option<f64>,
}

/// A synchronisation model in the comparison: a name and its `[sync.remote]` table.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// The name in tables and flags.
    pub name: &'static str,
    /// The `[sync.remote]` table as TOML.
    pub settings: &'static str,
    /// Settings for single cells: application, WAN, and settings of `[sync.remote]`. If there are any, other cells have
    /// no row of this contender.
    pub tuned: &'static [(&'static str, &'static str, &'static [&'static str])],
}

/// A change of some settings of this project's ASP.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Settings of `[sync.remote]`, in the form of `--set` without that prefix.
    pub set: Vec<String>,
    /// A short description.
    pub what: String,
}

/// Training over label-skewed data.
#[derive(Clone, Copy, Debug)]
pub struct SkewSuite {
    /// Applications, each on the WAN and for the clocks of its run file.
    pub apps: &'static [App],
    /// Models beside those of all cells.
    pub contenders: &'static [Contender],
    /// The shares of examples that are assigned to data centers by label, 0 to 1.
    pub skews: &'static [f64],
}

/// Training over label-skewed data with each learning rate of a grid.
#[derive(Clone, Copy, Debug)]
pub struct RatesSuite {
    /// Applications, each on the WAN of its run file, until its target or for its clocks.
    pub apps: &'static [App],
    /// The remote models.
    pub contenders: &'static [Contender],
    /// The grid, the same for all.
    pub learning_rates: &'static [f64],
    /// How many seeds each run has, from the evaluation's own on.
    pub seeds: usize,
}

/// The sizes of the runs that check claims of other systems.
#[derive(Clone, Copy, Debug)]
pub struct SystemsSuite {
    /// Parameters of the model whose exchange is timed.
    pub parameters: usize,
    /// By how much models of clusters are smaller than their own, and their network cards slower.
    pub divisor: f64,
}

/// The changes of all runs.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Whether applications use their small settings.
    pub quick: bool,
    /// The seed of all runs. `None` for the default.
    pub seed: Option<u64>,
    /// The folder of data files. `None` for synthetic data.
    pub data: Option<PathBuf>,
    /// Settings in the form of `--set`. Those of `sync.remote` apply to this project's ASP only.
    pub settings: Vec<String>,
}

impl Suite {
    /// The suite of the paper's evaluation. With `quick` it is smaller.
    ///
    /// # Errors
    /// If the shipped list of ablations is invalid.
    pub fn of_the_paper(quick: bool) -> Result<Self, EvaluationError> {
        Ok(Self {
            apps: APPS.to_vec(),
            wans: WANS.to_vec(),
            elsewhere: if quick { ELSEWHERE_QUICK.to_vec() } else { ELSEWHERE.to_vec() },
            elsewhere_models: if quick {
                ELSEWHERE_MODELS_QUICK.to_vec()
            } else {
                ELSEWHERE_MODELS.to_vec()
            },
            contenders: CONTENDERS.to_vec(),
            ablation: changes(ABLATION)?,
            ablation_cells: if quick { ABLATION_QUICK.to_vec() } else { ABLATION_CELLS.to_vec() },
            skew: Some(if quick { SKEW_QUICK } else { SKEW }),
            rates: Some(if quick { RATES_QUICK } else { RATES }),
            systems: Some(if quick { SYSTEMS_QUICK } else { SYSTEMS }),
        })
    }

    pub(super) fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders.iter().find(|contender| contender.name == name)
    }

    /// The names of all models, in the order of the table.
    pub fn models(&self) -> impl Iterator<Item = &'static str> {
        let ran = self.contenders.iter().map(|contender| contender.name);
        [LAN].into_iter().chain(ran).chain([CENTRALIZE])
    }
}

impl App {
    /// The plan of the application over a WAN. All bandwidths, of LAN cards and WAN links, are multiplied by `scale`,
    /// so that a small model corresponds to one that is `1 / scale` times as large.
    pub(super) fn plan(
        &self,
        wan: &WanSpec,
        scale: f64,
        remote: &[Override],
        changes: &Changes,
    ) -> Result<Plan, ConfigError> {
        let mut overrides = self.overrides(changes)?;
        overrides.push(Override::flag(SELF, "topology.bandwidth_scale", &format!("{scale:?}")));
        overrides.extend_from_slice(remote);
        let mut plan =
            RunFile::from_text(self.file, self.text, &overrides)?.with_wan(wan.topology)?.plan()?;
        for dc in &mut plan.topology.data_centers {
            let real = wan.lan_mbit.map_or(dc.lan_bandwidth, Bandwidth::from_mbit);
            dc.lan_bandwidth = real.scaled(scale);
        }
        Ok(plan)
    }

    /// The plan of the application over the WAN of its run file.
    pub(super) fn own_plan(
        &self,
        remote: &[Override],
        changes: &Changes,
    ) -> Result<Plan, ConfigError> {
        let mut overrides = self.overrides(changes)?;
        overrides.extend_from_slice(remote);
        RunFile::from_text(self.file, self.text, &overrides)?.plan()
    }

    /// The file or folder of `--data` on which it trains.
    pub(super) fn data_path(&self, changes: &Changes) -> Option<PathBuf> {
        let (file, _) = self.data?;
        changes.data.as_ref().map(|folder| folder.join(file))
    }

    fn overrides(&self, changes: &Changes) -> Result<Vec<Override>, ConfigError> {
        let mut settings = self.settings.to_vec();
        if changes.quick {
            settings.extend(self.quick);
        }
        let data_path = self.data_path(changes);

        if let (Some(_), Some((_, others))) = (&data_path, self.data) {
            settings.extend(others);
        }
        let parsed = |setting: &str| Override::parse(setting);
        let mut overrides: Vec<Override> =
            settings.into_iter().map(parsed).collect::<Result<_, _>>()?;

        if let Some(path) = data_path {
            let text = toml::Value::String(path.display().to_string()).to_string();
            overrides.push(Override::flag("--data", "app.data.path", &text));
        }

        for setting in changes.settings.iter().filter(|setting| !is_remote(setting)) {
            overrides.push(parsed(setting)?);
        }
        if let Some(seed) = changes.seed {
            overrides.push(Override::flag("--seed", "seed", &seed.to_string()));
        }
        Ok(overrides)
    }
}

impl Contender {
    /// The override of a run file's `[sync.remote]`. `None` if this contender has no row in a cell.
    pub(super) fn remote(
        &self,
        app: &str,
        wan: &str,
        changes: &Changes,
    ) -> Result<Option<Vec<Override>>, EvaluationError> {
        let own = self.tuned.iter().find(|(of, over, _)| *of == app && *over == wan);
        if own.is_none() && !self.tuned.is_empty() {
            return Ok(None);
        }
        let mut overrides = vec![table(self.name, self.settings)?];
        overrides.extend(remote_settings(own.map_or(&[][..], |(_, _, settings)| *settings))?);
        if self.name == OURS {
            for setting in changes.settings.iter().filter(|setting| is_remote(setting)) {
                overrides.push(Override::parse(setting)?);
            }
        }
        Ok(Some(overrides))
    }
}

impl Change {
    /// The overrides of this project's ASP.
    pub(super) fn overrides(&self) -> Result<Vec<Override>, ConfigError> {
        remote_settings(&self.set)
    }

    /// The name of the change in reports.
    pub(super) fn name(&self) -> String {
        self.set.join(", ")
    }
}

/// The overrides for settings of `[sync.remote]`, in the form of `--set` without that prefix.
pub(super) fn remote_settings(settings: &[impl AsRef<str>]) -> Result<Vec<Override>, ConfigError> {
    let parse = |setting: &str| Override::parse(&format!("{REMOTE}{setting}"));
    settings.iter().map(|setting| parse(setting.as_ref())).collect()
}

/// An override that replaces a run file's `[sync.remote]` table.
fn table(name: &str, settings: &str) -> Result<Override, EvaluationError> {
    let read: Result<toml::Table, _> = settings.parse();
    let table = read.map_err(|error| EvaluationError::Settings {
        name: name.to_owned(),
        problem: error.message().to_owned(),
    })?;
    Ok(Override::flag(SELF, "sync.remote", &toml::Value::Table(table).to_string()))
}

/// Parses the list of changes in a file.
fn changes(text: &str) -> Result<Vec<Change>, EvaluationError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        change: Vec<Change>,
    }
    let read: Result<List, _> = toml::from_str(text);
    let list = read.map_err(|error| EvaluationError::Settings {
        name: "the list of ablations".to_owned(),
        problem: error.message().to_owned(),
    })?;
    Ok(list.change)
}

fn is_remote(setting: &str) -> bool {
    setting.trim_start().starts_with(REMOTE)
}

/// The same machines in one data center, with BSP.
pub(super) const LAN: &str = "lan";
/// BSP with blocks of one size, in which the published comparison is made.
pub(super) const BSP: &str = "bsp";
/// BSP with blocks by the bandwidth of links, which is the best BSP of this project.
const BETTER_BSP: &str = "bsp-bandwidth";
/// ASP as published, with its two brakes and without.
pub(super) const PUBLISHED_ASP: &str = "asp-paper";
pub(super) const PUBLISHED_ASP_WITHOUT_BRAKES: &str = "asp-async";
/// This project's ASP, with the same settings in all cells.
pub(super) const OURS: &str = "asp";
/// Centralisation: all data is sent to one region first. Computed, not run.
pub(super) const CENTRALIZE: &str = "centralize";
/// The worst WAN of the paper. It determines the volume of the data, and each application's scale on other WANs.
pub(super) const WORST: &str = "ss";
/// The WAN of the paper's Figure 12.
pub(super) const WIDEST: &str = "ec2-all";

pub(super) const LOCAL_STEPS: &str = "local-steps";
pub(super) const SPARSE_ROUNDS: &str = "sparse-rounds";
/// The source of this evaluation's overrides in error messages.
pub(super) const SELF: &str = "gaia paper";
const REMOTE: &str = "sync.remote.";

const APPS: [App; 3] = [
    App {
        name: "mf",
        file: "config/paper/mf.toml",
        text: include_str!("../../../config/paper/mf.toml"),
        settings: &[],
        quick: &[
            "app.data.synthetic.ratings=60000",
            "app.data.synthetic.users=1000",
            "compute.examples_per_second=240",
        ],
        data: Some((
            "movielens_latest_small/ratings.csv.gz",
            &["app.data.source=movielens", "compute.examples_per_second=400"],
        )),
    },
    App {
        name: "tm",
        file: "config/paper/tm.toml",
        text: include_str!("../../../config/paper/tm.toml"),
        settings: &[],
        quick: &[
            "app.data.synthetic.documents=1500",
            "app.data.synthetic.vocabulary=800",
            "app.data.synthetic.length=80",
            "compute.examples_per_second=1000",
        ],
        // Topics of real words stay near random for three passes. So a run has converged only if it is stable over ten
        // passes.
        data: Some((
            "uci_kos/docword.kos.txt.gz",
            &[
                "app.data.source=docword",
                "compute.examples_per_second=5300",
                "stop.change.clocks=40",
            ],
        )),
    },
    App {
        name: "ic",
        file: "config/paper/ic.toml",
        text: include_str!("../../../config/paper/ic.toml"),
        settings: &[],
        quick: &["app.evaluate_examples=1000"],
        data: Some(("mnist", &["app.data.source=idx"])),
    },
];

const WANS: [WanSpec; 3] = [
    of_the_paper(WIDEST, "gaia-2016-ec2-all"),
    of_the_paper("vc", "gaia-2016-vc"),
    of_the_paper(WORST, "gaia-2016-ss"),
];

const ELSEWHERE: [WanSpec; 4] = [WANS[0], WANS[1], EVERYWHERE_2022, SINGLE_FLOW_2022];
const ELSEWHERE_QUICK: [WanSpec; 1] = [SINGLE_FLOW_2022];
const EVERYWHERE_2022: WanSpec =
    WanSpec { name: "aws-2022", topology: "aws-2022-ec2-all", lan_mbit: None };
const SINGLE_FLOW_2022: WanSpec =
    WanSpec { name: "aws-2022-single-flow", topology: "aws-2022-single-flow", lan_mbit: None };

/// A WAN of the paper, on the platform "Emulation-Full-Speed": EC2's WAN between machines with 40 Gbit/s Ethernet. With
/// the 1 Gbit/s of EC2's own machines no model, however large, could be 54 times slower over S/S.
const fn of_the_paper(name: &'static str, topology: &'static str) -> WanSpec {
    WanSpec { name, topology, lan_mbit: Some(40_000.0) }
}

const ELSEWHERE_MODELS: [&str; 6] = [BSP, BETTER_BSP, "ssp", PUBLISHED_ASP, OURS, LOCAL_STEPS];
const ELSEWHERE_MODELS_QUICK: [&str; 2] = [BSP, OURS];

const CONTENDERS: [Contender; 7] = [
    contender(BSP, "model = 'bsp'\nblocks = 'equal'"),
    contender(BETTER_BSP, "model = 'bsp'\nblocks = 'bandwidth'"),
    contender("ssp", "model = 'ssp'\nstaleness = 1\nblocks = 'equal'"),
    contender(PUBLISHED_ASP, include_str!("../../../config/paper/asp-paper.toml")),
    contender(PUBLISHED_ASP_WITHOUT_BRAKES, include_str!("../../../config/paper/asp-async.toml")),
    contender(OURS, include_str!("../../../config/paper/asp.toml")),
    contender(LOCAL_STEPS, include_str!("../../../config/paper/local-steps.toml")),
];

const fn contender(name: &'static str, settings: &'static str) -> Contender {
    Contender { name, settings, tuned: &[] }
}

const ABLATION: &str = include_str!("../../../config/paper/ablation.toml");
const ABLATION_CELLS: [(&str, &str); 5] =
    [("mf", WIDEST), ("mf", WORST), ("tm", WORST), ("ic", WIDEST), ("ic", WORST)];
const ABLATION_QUICK: [(&str, &str); 1] = [("mf", WORST)];

const SKEW_APPS: [App; 3] = [
    App {
        name: "perceptron",
        file: "config/paper/skew-perceptron.toml",
        text: include_str!("../../../config/paper/skew-perceptron.toml"),
        settings: &[],
        quick: &["stop.clocks=200"],
        data: None,
    },
    App {
        name: "cnn",
        file: "config/paper/skew-cnn.toml",
        text: include_str!("../../../config/paper/skew-cnn.toml"),
        settings: &[],
        quick: &["stop.clocks=200"],
        data: None,
    },
    App {
        name: "cnn-group-norm",
        file: "config/paper/skew-cnn.toml",
        text: include_str!("../../../config/paper/skew-cnn.toml"),
        settings: &["app.normalization=group"],
        quick: &["stop.clocks=200"],
        data: None,
    },
];
const SKEW_CONTENDERS: [Contender; 1] =
    [contender(SPARSE_ROUNDS, "model = 'local-steps'\ndensity = 0.03")];
const SKEW: SkewSuite = SkewSuite { skews: &[0.0, 0.5, 1.0], ..SKEW_QUICK };
const SKEW_QUICK: SkewSuite =
    SkewSuite { apps: &SKEW_APPS, contenders: &SKEW_CONTENDERS, skews: &[1.0] };

const RATES_APPS: [App; 2] = [
    App {
        name: "perceptron",
        file: "config/paper/rates-perceptron.toml",
        text: include_str!("../../../config/paper/rates-perceptron.toml"),
        settings: &[],
        quick: &["stop.clocks=200"],
        data: Some(("mnist", &["app.data.source=idx", "stop.objective=0.3"])),
    },
    SKEW_APPS[1],
];
const RATES_CONTENDERS: [Contender; 9] = [
    contender(BSP, "model = 'bsp'\nblocks = 'bandwidth'"),
    contender(OURS, include_str!("../../../config/paper/asp.toml")),
    contender("rounds-2", "model = 'local-steps'\nsteps = 2"),
    contender("rounds-5", "model = 'local-steps'\nsteps = 5"),
    contender("sparse-rounds-1", "model = 'local-steps'\nsteps = 1\ndensity = 0.03"),
    contender("sparse-rounds-2", "model = 'local-steps'\nsteps = 2\ndensity = 0.03"),
    contender("sparse-rounds-5", "model = 'local-steps'\nsteps = 5\ndensity = 0.03"),
    contender(
        "sparse-rounds-1-plain",
        "model = 'local-steps'\nsteps = 1\ndensity = 0.05\nouter = 'plain'\nouter_learning_rate = 1.0",
    ),
    contender(
        "sparse-rounds-3-momentum",
        "model = 'local-steps'\nsteps = 3\ndensity = 0.03\nouter_momentum = 0.9",
    ),
];
const RATES: RatesSuite =
    RatesSuite { learning_rates: &[0.0125, 0.025, 0.05, 0.1, 0.2, 0.4], seeds: 3, ..RATES_QUICK };
const RATES_QUICK: RatesSuite = RatesSuite {
    apps: &RATES_APPS,
    contenders: &RATES_CONTENDERS,
    learning_rates: &[0.05, 0.1],
    seeds: 1,
};

const SYSTEMS: SystemsSuite = SystemsSuite { parameters: 400_000, divisor: 1e3 };
const SYSTEMS_QUICK: SystemsSuite = SystemsSuite { parameters: 100_000, divisor: 1e4 };

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_config::load_topology;
    use gaia_ml::apps::{AppConfig, Normalization};

    /// Every run of the evaluation has a plan, in the short version too.
    #[test]
    fn every_shipped_setting_is_one() {
        for (quick, data) in [(false, None), (true, None), (false, Some("files".into()))] {
            let suite = Suite::of_the_paper(quick).unwrap();
            let changes = Changes { quick, seed: Some(7), data, ..Changes::default() };
            for app in &suite.apps {
                for wan in suite.wans.iter().chain(&suite.elsewhere) {
                    for contender in &suite.contenders {
                        let remote = contender.remote(app.name, wan.name, &changes).unwrap();
                        let Some(remote) = remote else { continue };
                        let plan = app.plan(wan, 0.01, &remote, &changes).unwrap();
                        assert_eq!(plan.topology.name, wan.topology);
                        assert_eq!(plan.seed.0, 7);
                    }
                }
            }
            let (app, ours) = (suite.apps[0], suite.contender(OURS).unwrap());
            let remote = ours.remote(app.name, WORST, &changes).unwrap().unwrap();
            let before = app.plan(&suite.wans[0], 0.01, &remote, &changes).unwrap().remote;
            for change in &suite.ablation {
                let mut remote = remote.clone();
                remote.extend(change.overrides().unwrap());
                let after = app.plan(&suite.wans[0], 0.01, &remote, &changes).unwrap().remote;
                assert_ne!(after, before, "{} changes nothing", change.name());
            }
            let skew = suite.skew.unwrap();
            for app in skew.apps {
                app.own_plan(&remote, &changes).unwrap();
                for contender in skew.contenders {
                    let remote = contender.remote(app.name, WORST, &changes).unwrap().unwrap();
                    app.own_plan(&remote, &changes).unwrap();
                }
            }
            crate::rates::jobs(&suite, &changes).unwrap();
        }
    }

    /// Batch normalisation fails over skewed labels where group normalisation holds (Hsieh et al., ICML 2020).
    #[test]
    fn skewed_data_meet_one_network_with_and_without_group_normalisation() {
        for quick in [false, true] {
            let skew = Suite::of_the_paper(quick).unwrap().skew.unwrap();
            let changes = Changes { quick, ..Changes::default() };
            let network = |name: &str| {
                let app = skew.apps.iter().find(|app| app.name == name).unwrap();
                let plan = app.own_plan(&[], &changes).unwrap();
                let Some(AppConfig::ConvolutionalNetwork(app)) = &plan.app else { unreachable!() };
                (app.clone(), plan)
            };
            let ((plain, mut plan), (mut grouped, other)) =
                (network("cnn"), network("cnn-group-norm"));
            assert_eq!(plain.normalization, Normalization::None);
            assert_eq!(grouped.normalization, Normalization::Group);
            grouped.normalization = Normalization::None;
            assert_eq!(plain, grouped);
            plan.app = other.app.clone();
            assert_eq!(plan, other, "everything else is the same");
        }
    }

    /// The settings of the run file's model are replaced completely.
    #[test]
    fn a_contender_takes_the_place_of_the_run_files_model() {
        let text = APPS[0].text.replace("model = \"asp\"", "model = \"asp\"\nthreshold = 0.77");
        let run = |settings| -> String {
            let remote = table("x", settings).unwrap();
            let file = RunFile::from_text(APPS[0].file, &text, &[remote]).unwrap();
            format!("{:?}", file.plan().unwrap().remote)
        };
        assert!(!run("model = 'asp'").contains("0.77"));
        assert!(run("model = 'asp'\nthreshold = 0.5").contains("0.5"));
        assert!(run("model = 'bsp'").contains("Bsp"));
    }

    #[test]
    fn a_folder_of_data_may_have_any_name() {
        for folder in ["/data", "/it's \"here\"", "/a=b, [c] # d", "/back\\n"] {
            let changes = Changes { data: Some(folder.into()), ..Changes::default() };
            let plan = APPS[0].plan(&WANS[0], 0.01, &[], &changes).unwrap();
            let Some(AppConfig::MatrixFactorization(app)) = plan.app else {
                unreachable!("it is MF")
            };
            let expected = PathBuf::from(folder).join("movielens_latest_small/ratings.csv.gz");
            assert_eq!(app.data.path, Some(expected));
        }
    }

    #[test]
    fn lan_cards_are_scaled_with_the_links() {
        let changes = Changes::default();
        let plan = APPS[0].plan(&WANS[2], 0.01, &[], &changes).unwrap();
        let real = load_topology(WANS[2].topology).unwrap();
        let lan = plan.topology.data_centers[0].lan_bandwidth.bits_per_second();
        assert!((lan / (0.01 * 40e9) - 1.0).abs() < 1e-9);
        let scaled = plan.topology.links[0].bandwidth.bits_per_second();
        assert!((scaled / real.links[0].bandwidth.bits_per_second() - 0.01).abs() < 1e-12);
    }
}
