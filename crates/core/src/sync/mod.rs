//! The synchronisation models, one file each with its configuration.
//!
//! This room decides what each model can be told, with defaults, and what the answer to a read may be: a [`Gate`]
//! and, where it is closed, the reason. It refuses to know how the answer is found; servers do that. Local sync
//! orders the workers of one data center, remote sync orders data centers (the paper's two levels). They are two
//! types, so that neither can be taken for the other.

mod asp;
mod bsp;
mod gate;
mod guard;
mod local;
mod local_steps;
mod remote;
mod ssp;
mod tap;

pub use crate::codec::ValueFormat;
pub use asp::{
    AspConfig, Brake, Correction, Decay, Floor, Function, Goal, OnPartition, OverlayKind, Policy,
};
pub use bsp::BspConfig;
pub use gate::{Gate, WaitReason};
pub use guard::GuardConfig;
pub use local::LocalSync;
pub use local_steps::{Combine, LocalStepsConfig, Outer};
pub use remote::RemoteSync;
pub use ssp::SspConfig;
pub use tap::TapConfig;
