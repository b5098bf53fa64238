//! The guarantees of the protocol, each in a situation that could break it: servers stepped by the test, in virtual time.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

mod barrier;
mod claims;
mod cluster;
mod conservation;
mod divergence;
mod drain;
mod exchange;
mod guard;
mod hostile;
mod hostile_worker;
mod links_to_poll;
mod local_steps;
mod mirror_clock;
mod momentum;
mod outliers;
mod overlay;
mod partial_partition;
mod peers;
mod quorum;
mod rebuilding;
mod refused_frames;
mod returning_server;
mod returning_worker;
mod sparse_tables;
mod stopping_worker;
mod worker_quorum;

use gaia_core::sync::{
    AspConfig, BlockShares, Brake, BspConfig, Combine, Decay, Floor, Goal, LocalStepsConfig, Outer,
    Overlap, Policy, RemoteSync, SspConfig, TapConfig, ValueFormat,
};
use gaia_core::types::Staleness;

fn bsp(values: ValueFormat) -> RemoteSync {
    RemoteSync::Bsp(BspConfig { values, ..BspConfig::default() })
}

fn ssp(staleness: u64) -> RemoteSync {
    let (values, blocks) = (ValueFormat::F32, BlockShares::default());
    RemoteSync::Ssp(SspConfig { staleness: Staleness(staleness), values, blocks })
}

fn tap(values: ValueFormat) -> RemoteSync {
    RemoteSync::Tap(TapConfig { values, ..TapConfig::default() })
}

/// ASP whose parameters become significant when they change by more than half, and without brakes.
fn asp(policy: Policy, values: ValueFormat) -> AspConfig {
    AspConfig {
        threshold: 0.5,
        floor: Floor::Zero,
        decay: Decay::None,
        goal: Goal::Cost,
        selective_barrier: Brake::Off,
        mirror_clock: Brake::Off,
        policy,
        values,
        ..AspConfig::default()
    }
}

/// Local steps of scripts, whose workers may keep their changes up to a round of two clocks.
fn rounds_of_scripts() -> LocalStepsConfig {
    LocalStepsConfig {
        combine: Combine::Mean,
        overlap: Overlap::Clocks(0),
        ..local_steps(2, ValueFormat::F32)
    }
}

/// Local steps that add up changes as they are.
fn local_steps(steps: u64, values: ValueFormat) -> LocalStepsConfig {
    let defaults = LocalStepsConfig::default();
    LocalStepsConfig {
        steps,
        values,
        combine: Combine::Sum,
        outer: Outer::Plain,
        outer_learning_rate: 1.0,
        overlap: Overlap::Clocks(steps - 1),
        density: 1.0,
        total_density: 1.0,
        ..defaults
    }
}

/// Shares of blocks. Of a small shard some data centers are home to nothing.
const UNEVEN: [u64; 4] = [30, 1, 600, 90];
const FORMATS: [ValueFormat; 2] = [ValueFormat::F32, ValueFormat::Bf16];
const POLICIES: [Policy; 2] = [Policy::Paper, Policy::Link];
