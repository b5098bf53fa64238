//! Which remote models a run tries that leaves its own to the program (`model = "auto"`): arithmetic over its facts.
//!
//! Every setting that may be chosen has two figures. What a clock takes follows from the clocks within data centers,
//! the bytes that the setting sends over the slowest link, and the round trip. How many clocks it needs, relative to
//! BSP, follows from nothing that is known before a run: measured comparisons give it roughly, which are named beside
//! the constants. Settings whose product is far above the least are left out. Where the first figure alone decides, one
//! is left.

use super::candidates::least_overlap;
use super::exchange::Changes;
use super::{Facts, SECONDS_MAX};
use gaia_core::sync::{
    AspConfig, BlockShares, BspConfig, Combine, GuardConfig, LocalStepsConfig, Outer, Overlap,
    RemoteSync, SspConfig, ValueFormat,
};
use gaia_core::types::Staleness;
use std::time::Duration;

/// A setting that may be chosen.
struct Estimate {
    remote: RemoteSync,
    /// Seconds of a clock.
    clock_s: f64,
    /// Clocks to the target, relative to those of BSP.
    clocks: f64,
}

/// The remote models to try for a run, the one that is expected to be fastest first. One where no trial is needed.
///
/// Whoever waits for all data centers waits for stragglers, too, so BSP costs nothing only where there are none.
///
/// A dense model whose copies would part has no ASP without a guard among them.
pub fn shortlist(facts: &Facts) -> Vec<RemoteSync> {
    let (bsp, asp) = (bsp(facts), asp(facts));
    if facts.has_members {
        return vec![asp.remote];
    }
    if bsp.clock_s <= BSP_FREE * facts.clock_s * facts.pace {
        return vec![bsp.remote];
    }

    let is_ruinous = facts.skew > RUINOUS;
    let (forms, steps): (&[Form], &[u64]) = if is_ruinous {
        (&[Form::Plain, Form::Momentum], &STEPS[..RUINOUS_STEPS])
    } else {
        (&[Form::Plain, Form::Overlapped, Form::Momentum], &STEPS)
    };
    let mut rounds_of_all = Vec::new();
    for form in forms {
        // A round that is over at once needs no overlap, and counts have no momentum.
        let is_of_form = |estimate: &Estimate| Form::of(&estimate.remote) == Some(*form);
        let of_steps = steps.iter().map(|steps| rounds(facts, *steps, *form));
        let mut of_form: Vec<Estimate> = of_steps.filter(is_of_form).collect();
        of_form.sort_by(|a, b| a.time().total_cmp(&b.time()));
        of_form.truncate(TRIED_OF_A_FORM);
        rounds_of_all.extend(of_form);
    }
    if !is_ruinous {
        rounds_of_all.push(measured_rounds(facts));
    }

    let ssp = ssp(facts);
    let least = rounds_of_all.iter().chain([&bsp, &ssp, &asp]).map(Estimate::time);
    let most = FAR * least.fold(f64::INFINITY, f64::min);
    let is_near = |estimate: &Estimate| estimate.time() <= most;
    // How long ASP takes where copies ruin each other is not known from clocks and links, so it rules out nothing there.
    let is_tried = |estimate: &Estimate| is_ruinous || is_near(estimate);
    let mut all: Vec<Estimate> = rounds_of_all.into_iter().filter(is_tried).collect();
    all.extend(Some(ssp).filter(is_near));
    // Where copies ruin each other nothing but an exact model is sure to train.
    all.extend(Some(bsp).filter(is_tried));
    // What waits for nobody is tried in any case: how much its lateness costs is known least.
    all.push(asp);
    all.sort_by(|a, b| a.time().total_cmp(&b.time()));

    all.into_iter().map(|estimate| estimate.remote).collect()
}

impl Estimate {
    /// Seconds for the progress of one clock of BSP.
    fn time(&self) -> f64 {
        self.clock_s * self.clocks
    }
}

/// How much of the changes rounds send.
struct Density {
    /// The share of the parameters that a part has.
    part: f64,
    /// The same of a total.
    total: f64,
    /// Clocks to the target, relative to those of rounds that send all changes.
    clocks: f64,
}

/// How rounds are had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Training waits for a round.
    Plain,
    /// Training continues during a round, for as few clocks as hide it.
    Overlapped,
    /// Training waits for a round, and the outer momentum is large.
    Momentum,
}

impl Form {
    /// That of a setting. `None` if it has no rounds.
    pub(crate) fn of(remote: &RemoteSync) -> Option<Self> {
        let RemoteSync::LocalSteps(config) = remote else { return None };
        Some(match config.overlap {
            _ if config.outer_momentum == MOMENTUM => Self::Momentum,
            Overlap::Clocks(0) => Self::Plain,
            Overlap::Auto | Overlap::Clocks(_) => Self::Overlapped,
        })
    }
}

fn bsp(facts: &Facts) -> Estimate {
    Estimate {
        remote: RemoteSync::Bsp(BspConfig::default()),
        clock_s: facts.clock_s * facts.slowest + bsp_exchange_s(facts),
        clocks: 1.0,
    }
}

/// The exchange of a clock has until the end of the next one, so that each clock waits for half of both together at the most.
fn ssp(facts: &Facts) -> Estimate {
    let clock_s = facts.clock_s * facts.slowest;
    let late = if facts.is_dense { DENSE_LATE } else { SPARSE_LATE };
    let (staleness, values, blocks) = (Staleness(1), ValueFormat::F32, BlockShares::default());
    Estimate {
        remote: RemoteSync::Ssp(SspConfig { staleness, values, blocks }),
        clock_s: clock_s.max(f64::midpoint(clock_s, bsp_exchange_s(facts))),
        clocks: 1.0 + late,
    }
}

/// ASP waits for nobody; what it sends is late. Lateness is the clocks that the round trip takes, and those that the
/// slowest link takes for the whole model.
fn asp(facts: &Facts) -> Estimate {
    let clock_s = (facts.clock_s * facts.pace).max(f64::MIN_POSITIVE);
    let round_trip = facts.rtt_s / 2.0 / clock_s;
    let whole = facts.parameters as f64 * ValueFormat::Bf16.bytes_per_value() * facts.changed_share
        / facts.slowest_bytes_per_second
        / clock_s;
    let clocks = match (facts.is_dense, facts.has_momentum) {
        (false, _) => 1.0 + SPARSE_LATE * (round_trip + whole),
        (true, false) => 1.1 + DENSE_LATE * (round_trip + whole),
        (true, true) => 1.3 + DENSE_LATE * (round_trip + whole),
    };
    let guard = parts(facts).then(GuardConfig::default);
    // Beyond what the slowest link carries, mirror clocks hold reads back.
    let share = facts.changed_share * ASP_SIGNIFICANT;
    let sent = share * facts.parameters as f64 * (ValueFormat::Bf16.bytes_per_value() + 1.0);
    Estimate {
        remote: RemoteSync::Asp(AspConfig { guard, ..AspConfig::default() }),
        clock_s: clock_s.max(sent / facts.slowest_bytes_per_second),
        clocks,
    }
}

/// Rounds of so many clocks, with the density with which they are expected to be fastest.
fn rounds(facts: &Facts, steps: u64, form: Form) -> Estimate {
    let clock = facts.clock_s * facts.slowest;
    let sent_s = round_s(facts, steps, &DENSE) - facts.rtt_s;
    let is_slow = sent_s > BYTES_FREE * clock * steps as f64;
    let densities: &[Density] = if facts.is_network() && is_slow { &SPARSE } else { &[DENSE] };
    let estimates = densities.iter().map(|density| rounds_with(facts, steps, form, density));
    let fastest = estimates.min_by(|a, b| a.time().total_cmp(&b.time()));
    fastest.expect("rounds have a density")
}

fn rounds_with(facts: &Facts, steps: u64, form: Form, density: &Density) -> Estimate {
    let clock = facts.clock_s * facts.slowest;
    let round = round_s(facts, steps, density);
    let seconds = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, SECONDS_MAX));
    let overlap = match form {
        Form::Overlapped => least_overlap(seconds(round), seconds(clock), steps),
        Form::Plain | Form::Momentum => 0,
    };
    let waited = (round - overlap as f64 * clock).max(0.0) / steps as f64;

    let skew = skewed(facts);
    let (base, by_step, by_overlap) = if facts.is_dense {
        let between = |even: f64, skewed: f64| even + (skewed - even) * skew;
        (BASE, between(STEP, SKEWED_STEP), between(OVERLAP, SKEWED_OVERLAP))
    } else {
        // Rows that several data centers change at once overshoot, the more of them there are.
        let crowd = facts.data_centers as f64 / CROWD;
        (BASE, STEP * crowd, OVERLAP * crowd)
    };
    let has_momentum = form == Form::Momentum && !facts.deltas_are_counts;
    let gain = if has_momentum { MOMENTUM_GAIN } else { 1.0 };
    let share = overlap as f64 / steps as f64;
    let by_steps = 1.0 + by_step * (steps - 1) as f64;
    let clocks = base * gain * density.clocks * by_steps * (1.0 + by_overlap * share);

    let overlap = Overlap::Clocks(overlap);
    let defaults = default_rounds(facts.deltas_are_counts);
    let mut config = LocalStepsConfig {
        steps,
        density: density.part,
        total_density: density.total,
        overlap,
        ..defaults
    };
    if has_momentum {
        config.outer_momentum = MOMENTUM;
    } else if facts.is_network() && skew > 0.0 && steps > 1 {
        config.drift_correction = DRIFT_CORRECTION;
    }
    Estimate { remote: RemoteSync::LocalSteps(config), clock_s: clock + waited, clocks }
}

/// The defaults of rounds. Counts must add up.
pub(crate) fn default_rounds(deltas_are_counts: bool) -> LocalStepsConfig {
    let defaults = LocalStepsConfig::default();
    if !deltas_are_counts {
        return defaults;
    }
    LocalStepsConfig {
        combine: Combine::Sum,
        outer: Outer::Plain,
        outer_learning_rate: 1.0,
        ..defaults
    }
}

/// Rounds with the defaults: each data center measures how many clocks it overlaps.
fn measured_rounds(facts: &Facts) -> Estimate {
    let steps = LocalStepsConfig::default().steps;
    let forms = [Form::Plain, Form::Overlapped];
    let [plain, overlapped] = forms.map(|form| rounds(facts, steps, form));
    let mut faster = if plain.time() < overlapped.time() { plain } else { overlapped };
    faster.remote = RemoteSync::LocalSteps(default_rounds(facts.deltas_are_counts));
    faster
}

/// Seconds in which BSP exchanges the changes of a clock.
pub(crate) fn bsp_exchange_s(facts: &Facts) -> f64 {
    let Facts { parameters, changed_share: part, .. } = *facts;
    let total = together(facts, part);
    facts.exchange.bsp_s(&Changes { parameters, part, total, format: ValueFormat::F32 })
}

/// Seconds of a round over the changes of so many clocks, of which at most the shares of this density are sent and come back.
fn round_s(facts: &Facts, clocks: u64, density: &Density) -> f64 {
    let part = (facts.changed_share * clocks as f64).min(facts.used_share).min(density.part);
    // A step with momentum moves every parameter that has ever changed.
    let all = if facts.deltas_are_counts { together(facts, part) } else { facts.used_share };
    let total = all.min(density.total);
    let Facts { parameters, round_format: format, .. } = *facts;
    facts.exchange.round_s(&Changes { parameters, part, total, format })
}

/// The share of the parameters that change in all data centers together. Each changes rows of its own, unless these are
/// most of all.
fn together(facts: &Facts, part: f64) -> f64 {
    (part * facts.data_centers as f64).min(facts.used_share)
}

/// How skewed the data is: 0 of alike data, 1 where copies lose as much as with a label of their own in each data center.
pub(crate) fn skewed(facts: &Facts) -> f64 {
    ((facts.skew - SKEW_NOISE) / (SKEW_FULL - SKEW_NOISE)).clamp(0.0, 1.0)
}

/// Whether copies would part under ASP.
pub(crate) fn parts(facts: &Facts) -> bool {
    facts.is_dense && skewed(facts) > ASP_SKEWED_MAX
}

/// Rounds that send all changes.
const DENSE: Density = Density { part: 1.0, total: 1.0, clocks: 1.0 };
/// The densities of a dense model whose bytes matter. A tenth both ways needs as many clocks as all changes do, or up to a fifth
/// more. Parts of 3 % need 0.9 to 1.1 times those of a tenth both ways. Where totals have 3 %, too, it is 1 to 1.4 times over
/// two data centers, and 1.1 to 1.7 times over eleven (docs/src/remote-models.md).
const SPARSE: [Density; 3] = [
    Density { part: 0.1, total: 0.1, clocks: 1.0 },
    Density { part: 0.03, total: 0.1, clocks: 1.05 },
    Density { part: 0.03, total: 0.03, clocks: 1.2 },
];
/// The share of the clocks between two rounds that sending all changes may take without a density.
const BYTES_FREE: f64 = 0.1;
/// The clocks between rounds that may be chosen.
const STEPS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// The settings of a form that are tried at most.
const TRIED_OF_A_FORM: usize = 4;
/// A setting that is expected to take more than so many times the least is not tried. The clocks that a setting needs
/// are known no better.
const FAR: f64 = 3.0;

/// What copies lose on others' examples where data is alike: at most 2.5 % in 24 measured runs of six applications
/// (docs/src/remote-models.md).
const SKEW_NOISE: f64 = 0.03;
/// The same where each data center has labels of its own: 16 to 180 % over three regions in the same runs.
const SKEW_FULL: f64 = 0.3;

/// Clocks of rounds relative to BSP: `BASE · (1 + STEP · (steps - 1)) · (1 + OVERLAP · overlap / steps)`. The outer
/// momentum is ahead of BSP at the rates that run files have: perceptrons and factorisation over two and three regions
/// need 0.71 to 0.93 of its clocks with 4 steps, 0.7 to 1.0 with 10, and 1.0 to 1.26 of their own with all of these
/// overlapped.
const BASE: f64 = 0.75;
const STEP: f64 = 0.03;
const OVERLAP: f64 = 0.3;
/// The same of dense networks with labels of their own in each data center: perceptrons 0.86 with 4 steps and 1.1 with
/// 10, of which
/// 1.25 (small ones here) to 2.5 times as many if all are overlapped (MNIST).
const SKEWED_STEP: f64 = 0.05;
const SKEWED_OVERLAP: f64 = 0.9;
/// A large outer momentum without overlap, and the clocks with it relative to those with the default: 0.4 to 0.65 for
/// perceptrons, while a logistic regression at a large rate diverges.
pub(crate) const MOMENTUM: f64 = 0.9;
const MOMENTUM_GAIN: f64 = 0.65;
/// Rounds of skewed networks and regressions with the default outer momentum need 0.57 to 0.97 of their clocks with it
/// (docs/src/remote-models.md). A large outer momentum is ahead by itself, and can be slower with both.
const DRIFT_CORRECTION: f64 = 0.5;
/// The data centers for which the figures of sparse models hold. Over eleven, factorisation diverges with overlapped
/// rounds of 10.
const CROWD: f64 = 3.0;
/// A clock of BSP may be this much longer than the mean one of data centers that wait for no other, and BSP is chosen
/// whatever else may be faster: it is exact.
const BSP_FREE: f64 = 1.1;

/// More clocks of ASP for each clock that updates are late. Factorisation needs 1.02 to 1.2 times the clocks of BSP at
/// 1 to 6 clocks; perceptrons 1.0 to 1.4 at 7 to 13, and with momentum 1.3 to 1.6 over two regions.
const SPARSE_LATE: f64 = 0.03;
const DENSE_LATE: f64 = 0.05;
/// Copies that train alone and end so many times the initial loss worse elsewhere are not brought back by long rounds:
/// logistic regressions at a large rate with 4 to 5.5 do not come to the target of BSP with more than a few clocks between
/// rounds, perceptrons and regressions with up to 2.1 do.
const RUINOUS: f64 = 3.0;
/// How many of [`STEPS`] are left then: up to 4 clocks.
const RUINOUS_STEPS: usize = 3;
/// How skewed data may be for a dense model under ASP. Copies of perceptrons and convolutional networks part beyond it,
/// and ASP does not come to the target of BSP.
const ASP_SKEWED_MAX: f64 = 0.25;
/// The share of changes that ASP sends over a link that could carry more: 0.08 to 0.3 of what TAP does.
const ASP_SIGNIFICANT: f64 = 0.3;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::exchange::tests::alike;

    /// A dense network of a million parameters over three regions, with clocks of a second.
    pub(crate) fn dense(bytes_per_second: f64, rtt_s: f64) -> Facts {
        Facts {
            data_centers: 3,
            parameters: 1_000_000,
            clock_s: 1.0,
            slowest: 1.0,
            pace: 1.0,
            changed_share: 1.0,
            used_share: 1.0,
            is_dense: true,
            round_format: ValueFormat::Int4,
            exchange: alike(3, bytes_per_second, rtt_s),
            slowest_bytes_per_second: bytes_per_second,
            rtt_s,
            has_momentum: true,
            deltas_are_counts: false,
            skew: 0.0,
            has_members: false,
        }
    }

    /// 50 Mbit/s.
    const FAST: f64 = 6.25e6;

    fn names(facts: &Facts) -> Vec<&'static str> {
        shortlist(facts).iter().map(RemoteSync::name).collect()
    }

    fn rounds_of(facts: &Facts) -> Vec<LocalStepsConfig> {
        let of = |remote| match remote {
            RemoteSync::LocalSteps(config) => Some(config),
            _ => None,
        };
        shortlist(facts).into_iter().filter_map(of).collect()
    }

    #[test]
    fn a_tiny_model_over_near_links_has_bsp_without_a_trial() {
        let facts = Facts { parameters: 1_000, ..dense(FAST, 0.01) };
        assert_eq!(names(&facts), ["bsp"]);
        // Where all are as slow nobody waits for a straggler.
        assert_eq!(names(&Facts { slowest: 4.0, pace: 4.0, ..facts }), ["bsp"]);
    }

    #[test]
    fn a_straggler_is_a_reason_for_a_trial_whatever_the_links() {
        let facts =
            Facts { parameters: 1_000, slowest: 4.0, pace: 3.0 / 2.25, ..dense(FAST, 0.01) };
        let names = names(&facts);
        assert!(names.len() > 1 && names.contains(&"asp"), "{names:?}");
    }

    #[test]
    fn an_exchange_that_a_clock_hides_is_a_reason_to_try_ssp() {
        // 4 MB of changes: about a clock at 50 Mbit/s, ten at 5 Mbit/s.
        assert!(names(&dense(FAST, 0.1)).contains(&"ssp"));
        assert!(!names(&dense(FAST / 10.0, 0.1)).contains(&"ssp"));
    }

    #[test]
    fn rounds_take_as_long_as_the_format_that_they_send_in() {
        let slow = dense(5e5, 0.0);
        let wide = Facts { round_format: ValueFormat::Bf16, ..slow.clone() };
        let longer = round_s(&wide, 1, &DENSE) / round_s(&slow, 1, &DENSE);
        let [bf16, int4] = [ValueFormat::Bf16, ValueFormat::Int4].map(ValueFormat::bytes_per_value);
        assert!((longer - bf16 / int4).abs() < 1e-9, "{longer}");
    }

    #[test]
    fn a_dense_network_over_slow_links_tries_rounds_in_every_form_and_no_bsp() {
        let facts = dense(5e5, 0.2);
        let rounds = rounds_of(&facts);
        assert!(
            rounds.iter().any(|config| config.most_overlap() == 0 && config.outer_momentum == 0.5)
        );
        assert!(rounds.iter().any(|config| config.most_overlap() > 0));
        assert!(rounds.iter().any(|config| config.outer_momentum == 0.9));
        assert!(!names(&facts).contains(&"bsp"));
    }

    #[test]
    fn the_slower_links_are_and_the_shorter_rounds_the_fewer_changes_they_send() {
        let densities_of = |bytes_per_second: f64, steps: u64| {
            let facts = Facts { clock_s: 0.02, ..dense(bytes_per_second, 0.001) };
            match rounds(&facts, steps, Form::Plain).remote {
                RemoteSync::LocalSteps(config) => (config.density, config.total_density),
                other => panic!("{other:?} has no rounds"),
            }
        };
        let (tenth, parts, both) = ((0.1, 0.1), (0.03, 0.1), (0.03, 0.03));
        let rates = [1e9, 4.0 * FAST, FAST, FAST / 10.0];
        assert_eq!(rates.map(|rate| densities_of(rate, 4)), [(1.0, 1.0), tenth, parts, both]);
        let steps = [1, 4, 32];
        assert_eq!(steps.map(|steps| densities_of(FAST / 10.0, steps)), [both, both, parts]);
    }

    #[test]
    fn a_dense_network_under_skew_never_tries_asp_without_a_guard() {
        for parameters in [10_000, 100_000, 1_000_000, 10_000_000] {
            for rate in [1e4, 1e5, 1e6, 1e7, 1e8] {
                for (rtt_s, clock_s) in [(0.001, 0.01), (0.2, 0.1), (0.2, 10.0), (2.0, 0.01)] {
                    for has_members in [false, true] {
                        let facts = Facts {
                            parameters,
                            clock_s,
                            skew: 0.6,
                            has_members,
                            ..dense(rate, rtt_s)
                        };
                        let guarded = |remote: &RemoteSync| !matches!(remote, RemoteSync::Asp(asp) if asp.guard.is_none());
                        assert!(shortlist(&facts).iter().all(guarded), "{facts:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_sparse_model_with_round_trips_far_above_its_clock_tries_asp_and_no_bsp() {
        let sparse = Facts {
            changed_share: 0.1,
            is_dense: false,
            has_momentum: false,
            clock_s: 0.01,
            ..dense(FAST, 0.2)
        };
        let names = names(&sparse);
        assert!(names.contains(&"asp") && !names.contains(&"bsp"), "{names:?}");
    }

    #[test]
    fn members_that_come_and_go_need_updates() {
        assert_eq!(names(&Facts { has_members: true, ..dense(FAST, 0.2) }), ["asp"]);
    }

    #[test]
    fn copies_that_ruin_each_other_are_left_alone_for_a_few_clocks_at_most_and_bsp_is_tried() {
        for (changed_share, is_dense) in [(0.01, false), (1.0, true)] {
            let facts = Facts { skew: 4.0, changed_share, is_dense, ..dense(1e5, 0.2) };
            let rounds = rounds_of(&facts);
            assert!(rounds.iter().all(|config| config.steps <= 4 && config.most_overlap() == 0));
            assert!(!rounds.is_empty() && names(&facts).contains(&"bsp"));
        }
        // Links so slow that ASP would be far ahead, if it trained.
        let thin = Facts { skew: 4.0, changed_share: 0.001, is_dense: false, ..dense(1e3, 0.2) };
        assert!(!rounds_of(&thin).is_empty() && names(&thin).contains(&"bsp"));
    }

    #[test]
    fn rounds_of_a_sparse_model_are_long_since_totals_with_momentum_are_dense() {
        let sparse = Facts { changed_share: 0.001, is_dense: false, ..dense(2e4, 0.2) };
        let mut rounds = rounds_of(&sparse);
        rounds.retain(|config| config.outer_momentum == MOMENTUM);
        let steps: Vec<u64> = rounds.iter().map(|config| config.steps).collect();
        assert!(matches!(steps[..], [(8..), (8..), (8..), (4..)]), "{steps:?}");
    }

    #[test]
    fn rounds_of_a_skewed_network_correct_its_drift_unless_momentum_is_large() {
        let corrected = |facts: &Facts, form: Form| {
            let rounds = rounds_of(facts).into_iter();
            let of_form = rounds
                .filter(|config| Form::of(&RemoteSync::LocalSteps(config.clone())) == Some(form));
            let of_steps = of_form.filter(|config| config.steps > 1);
            of_steps.map(|config| config.drift_correction).collect::<Vec<f64>>()
        };
        let even = dense(1e7, 0.2);
        let skewed = Facts { skew: 0.6, ..even.clone() };
        let plain = corrected(&skewed, Form::Plain);
        assert!(!plain.is_empty() && plain.iter().all(|share| *share == DRIFT_CORRECTION));
        for uncorrected in [corrected(&skewed, Form::Momentum), corrected(&even, Form::Plain)] {
            assert!(!uncorrected.is_empty() && uncorrected.iter().all(|share| *share == 0.0));
        }
    }

    #[test]
    fn what_no_data_use_is_not_sent() {
        let sparse = Facts { changed_share: 0.001, is_dense: false, ..dense(2e4, 0.2) };
        let used = Facts { used_share: 0.05, ..sparse.clone() };
        assert!(round_s(&used, 8, &DENSE) < 0.2 * round_s(&sparse, 8, &DENSE));
        let momentum = |facts: &Facts| {
            let rounds = rounds_of(facts).into_iter();
            rounds
                .filter(|config| config.outer_momentum == MOMENTUM)
                .map(|config| config.steps)
                .min()
        };
        assert!(momentum(&used) < momentum(&sparse));
    }

    #[test]
    fn no_setting_is_tried_twice() {
        for rate in [1e3, 1e5, FAST, 1e9] {
            for (is_dense, deltas_are_counts) in [(true, false), (false, false), (false, true)] {
                for (clock_s, skew) in [(0.01, 0.0), (0.01, 0.6), (1.0, 0.0), (1.0, 4.0)] {
                    let changed_share = if is_dense { 1.0 } else { 0.05 };
                    let facts = Facts { is_dense, deltas_are_counts, clock_s, ..dense(rate, 0.05) };
                    let tried = shortlist(&Facts { skew, changed_share, ..facts });
                    for (place, remote) in tried.iter().enumerate() {
                        assert!(!tried[..place].contains(remote), "{tried:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn counts_are_added_up_and_not_averaged() {
        let counts = Facts { deltas_are_counts: true, ..dense(1e5, 0.2) };
        let rounds = rounds_of(&counts);
        assert!(!rounds.is_empty() && rounds.iter().all(LocalStepsConfig::adds_up));
    }
}
