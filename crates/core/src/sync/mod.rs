//! The synchronisation models, one file each with its configuration.
//!
//! This room decides the settings of each model, with defaults, and the possible answers to a read: a [`Gate`] and, if
//! it is closed, the reason. It does not know how the answer is found. Servers do that. Local synchronisation orders
//! the workers of one data center, remote synchronisation orders data centers (the two levels of the paper, section 3).
//! They are two types, so that one cannot be passed for the other.

mod asp;
mod axes;
mod block_shares;
mod bsp;
mod exchange;
mod gate;
mod guard;
mod local;
mod local_steps;
mod outliers;
mod overlap;
mod quorum;
mod remote;
mod ssp;
mod tap;
mod traveling;

pub use crate::codec::ValueFormat;
pub use asp::{
    AspConfig, Brake, Correction, Decay, Floor, Function, Goal, OnPartition, OverlayKind, Policy,
};
pub use axes::{Axes, Communication, Optimisation, Parallelism, Scheduling};
pub use block_shares::BlockShares;
pub use bsp::BspConfig;
pub use exchange::ExchangeKind;
pub use gate::{Gate, WaitReason};
pub use guard::GuardConfig;
pub use local::{LocalBspConfig, LocalSync};
pub use local_steps::{Combine, LocalStepsConfig, Outer};
pub use outliers::{OutlierAction, OutlierConfig};
pub use overlap::Overlap;
pub use remote::RemoteSync;
pub use ssp::SspConfig;
pub use tap::TapConfig;
pub use traveling::{CopiesDue, TravelingConfig};

use quorum::quorum_of;
