//! Low-rank rounds beside sparse ones: what a data center sends until a held-out target, in as many clocks.
//!
//! A perceptron 784-1024-512-10 on MNIST (1.3 million parameters) is trained by label over two data centers with a worker
//! each, in local steps whose rounds nobody trains during (`overlap = 0`). Both kinds of rounds have error feedback and the
//! outer step of the program's defaults. A sparse round is as the program has it (`density`), with its codec. A low-rank
//! round is PowerSGD's (Vogels, Karimireddy and Jaggi, NeurIPS 2019): two sums, one after the other, of two thin matrices
//! for each wide one. Both go through the homes of blocks, so that with two data centers each sends half of its parts and
//! half of the totals. Bytes are those of the codec, without headers of frames.
//!
//! Training is the same for both: the same tasks, examples and initial values. So the clocks differ by what rounds leave out.
//! Each setting is tried at all rates of a grid. One of low rank is judged beside the sparse one, at any rate, that needs
//! the fewest bytes among those with as many clocks. Without MNIST (`GAIA_DATA_DIR`) it takes synthetic classes, and says so.
//!
//! About ten minutes; one setting and one rate: `cargo bench --bench low_rank -- "low rank 4 bf16" 0.05`.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench finds its data and prints"
)]

mod low_rank;
mod outer;
mod sparse;
mod training;

use gaia_core::codec::ValueFormat;

use low_rank::LowRank;
use sparse::Sparse;
use training::{Reached, Training};

/// What agrees on the changes of a round.
trait Exchange {
    /// Takes the changes that each data center's workers have made since the last round. Returns the step of all copies,
    /// and the bytes that a data center has sent.
    fn exchange(&mut self, own: &mut [Vec<f32>]) -> (Vec<f32>, f64);
}

/// A kind of rounds.
#[derive(Clone, Copy)]
enum Setting {
    Sparse { density: f64, values: ValueFormat },
    LowRank { rank: usize, values: ValueFormat },
}

/// A setting at a rate that reached the target.
struct Tried {
    setting: Setting,
    rate: f64,
    reached: Reached,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (only, only_rate) = (arguments.next(), arguments.next());

    let mut tried: [Vec<Tried>; TARGETS.len()] = Default::default();
    for rate in RATES {
        if only_rate.as_ref().is_some_and(|only| only.parse() != Ok(rate)) {
            continue;
        }
        let training = Training::new(rate);
        if rate == RATES[0] || only_rate.is_some() {
            println!("{}", training.describe());
            println!("{:<24} {:>5}  clocks and MB a data center to {TARGETS:?}", "", "rate");
        }

        for setting in settings() {
            let name = setting.name();
            if only.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            let reached = training.run(setting.exchange(&training), &TARGETS);
            let cell = |reached: &Option<Reached>| match reached {
                Some(Reached { clocks, megabytes }) => format!("{clocks:>4} {megabytes:>8.3}"),
                None => format!("{:>13}", "not reached"),
            };
            let cells: Vec<String> = reached.iter().map(cell).collect();
            println!("{name:<24} {rate:>5}  {}", cells.join("   "));

            for (tried, reached) in tried.iter_mut().zip(reached) {
                tried.extend(reached.map(|reached| Tried { setting, rate, reached }));
            }
        }
    }

    for (target, tried) in TARGETS.iter().zip(&tried) {
        print_verdict(*target, tried);
    }
}

/// The rule: low rank is worth its code if it needs at most 0.6 of the bytes of sparse rounds in as many clocks.
fn print_verdict(target: f64, tried: &[Tried]) {
    let (low_rank, sparse): (Vec<&Tried>, Vec<&Tried>) =
        tried.iter().partition(|tried| tried.setting.is_low_rank());
    println!(
        "\nto {target}, each low-rank setting beside the sparse one of the fewest bytes in as many clocks"
    );

    let mut least: Option<f64> = None;
    for one in low_rank {
        // Evaluations are some clocks apart: so are clocks that count as equal.
        let as_fast = sparse
            .iter()
            .filter(|other| other.reached.clocks <= one.reached.clocks + training::EVERY);
        let Some(other) =
            as_fast.min_by(|a, b| a.reached.megabytes.total_cmp(&b.reached.megabytes))
        else {
            println!("  {} at {}: no sparse rounds are as fast", one.setting.name(), one.rate);
            continue;
        };
        let ratio = one.reached.megabytes / other.reached.megabytes;
        println!(
            "  {} at {}: {} clocks, {:.3} MB; {} at {}: {} clocks, {:.3} MB; ratio {ratio:.2}",
            one.setting.name(),
            one.rate,
            one.reached.clocks,
            one.reached.megabytes,
            other.setting.name(),
            other.rate,
            other.reached.clocks,
            other.reached.megabytes,
        );
        least = Some(least.map_or(ratio, |least| least.min(ratio)));
    }

    let verdict = match least {
        Some(least) if least <= RATIO_MAX => "kept",
        _ => "not kept",
    };
    let least = least.map_or_else(|| "none".to_owned(), |least| format!("{least:.2}"));
    println!("  {verdict}: the least ratio is {least}, at most {RATIO_MAX} is the rule");
}

impl Setting {
    fn name(self) -> String {
        match self {
            Self::Sparse { density, values } => format!("sparse {density} {}", values.name()),
            Self::LowRank { rank, values } => format!("low rank {rank} {}", values.name()),
        }
    }

    fn is_low_rank(self) -> bool {
        matches!(self, Self::LowRank { .. })
    }

    fn exchange(self, training: &Training) -> Box<dyn Exchange> {
        let layout = training.layout();
        match self {
            Self::Sparse { density, values } => {
                Box::new(Sparse::new(density, values, layout.parameters()))
            }
            Self::LowRank { rank, values } => Box::new(LowRank::new(rank, values, layout)),
        }
    }
}

fn settings() -> [Setting; 6] {
    let sparse = |density| Setting::Sparse { density, values: ValueFormat::Int4 };
    let low_rank = |rank, values| Setting::LowRank { rank, values };
    [
        sparse(0.01),
        sparse(0.03),
        low_rank(4, ValueFormat::Bf16),
        low_rank(8, ValueFormat::Bf16),
        low_rank(8, ValueFormat::Int4),
        low_rank(16, ValueFormat::Int4),
    ]
}

const TARGETS: [f64; 3] = [0.9, 0.93, 0.95];
const RATES: [f64; 2] = [0.05, 0.1];
const RATIO_MAX: f64 = 0.6;
