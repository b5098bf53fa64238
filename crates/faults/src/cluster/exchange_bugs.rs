//! Planted bugs of exchanges and rounds: sparse rounds, rings, trees, and blocks by bandwidth.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::bugs::Bug;
use gaia_core::codec::{Buffers, Changes, ValueFormat};
use gaia_core::sync::{BlockShares, ExchangeKind, RemoteSync};
use gaia_core::types::{Clock, ServerId, State};
use gaia_core::wire::{BulkHeader, BulkKind, decode_bulk, encode_bulk};

/// Injects one of these bugs into runs of the remote model that it is a bug of.
pub(crate) struct ExchangeBugs {
    bug: Option<Bug>,
    remote: RemoteSync,
    /// The first changes that an ancestor in a tree has received of a clock, by parameter.
    partials: BTreeMap<(ServerId, Clock), BTreeMap<u32, f32>>,
}

impl ExchangeBugs {
    pub(super) fn new(bug: Option<Bug>, remote: &RemoteSync) -> Self {
        Self { bug, remote: remote.clone(), partials: BTreeMap::new() }
    }

    /// The remote model of the servers of the first data center, if it is another than that of the others.
    pub(crate) fn odd_remote(&self) -> Option<RemoteSync> {
        if self.bug != Some(Bug::BlocksDisagree) || self.remote.blocks() == BlockShares::Equal {
            return None;
        }
        let mut odd = self.remote.clone();
        match &mut odd {
            RemoteSync::Bsp(bsp) => bsp.blocks = BlockShares::Equal,
            RemoteSync::Ssp(ssp) => ssp.blocks = BlockShares::Equal,
            RemoteSync::Tap(tap) => tap.blocks = BlockShares::Equal,
            RemoteSync::Asp(asp) => asp.blocks = BlockShares::Equal,
            RemoteSync::LocalSteps(local_steps) => local_steps.blocks = BlockShares::Equal,
        }
        Some(odd)
    }

    /// Changes a data frame that the core of a server has cut.
    pub(super) fn on_made(&self, from: ServerId, frame: Bytes) -> Bytes {
        match self.bug {
            Some(Bug::SendsMoreThanCut) if self.is_sparse() => {
                with_values(&frame, |header, values| {
                    if header.kind == BulkKind::Partial
                        && let Some((_, value)) = values.first_mut()
                    {
                        *value *= 2.0;
                    }
                })
            }
            Some(Bug::DrainsWithoutOwed) if self.is_sparse() => {
                with_values(&frame, |header, values| {
                    if header.kind == BulkKind::DrainCopy {
                        values.iter_mut().for_each(|(_, value)| *value = 0.0);
                    }
                })
            }
            Some(Bug::AppliesTotalBeforeItIsWhole)
                if self.exchange() == Some(ExchangeKind::Tree) =>
            {
                with_values(&frame, |header, values| {
                    let missing = self.partials.get(&(from, header.clock));
                    let Some(missing) = missing.filter(|_| header.kind == BulkKind::Total) else {
                        return;
                    };
                    for (parameter, value) in values {
                        *value -= missing.get(parameter).copied().unwrap_or_default();
                    }
                })
            }
            _ => frame,
        }
    }

    /// The data frame that the core handles in place of another.
    pub(super) fn on_taken(&self, frame: Bytes) -> Bytes {
        let factor = match self.bug {
            Some(Bug::AddsChunkTwice) => 2.0,
            Some(Bug::ForgetsChunk) => 0.0,
            _ => return frame,
        };
        if !matches!(self.exchange(), Some(ExchangeKind::Ring | ExchangeKind::Tree)) {
            return frame;
        }
        with_values(&frame, |header, values| {
            if header.kind == BulkKind::Partial {
                values.iter_mut().for_each(|(_, value)| *value *= factor);
            }
        })
    }

    /// Records a data frame that a server has received from another data center.
    pub(super) fn on_arrival(&mut self, at: ServerId, frame: &Bytes) {
        if self.bug != Some(Bug::AppliesTotalBeforeItIsWhole) {
            return;
        }
        let mut buffers = Buffers::default();
        let Ok((header, changes)) = decode_bulk(frame, PARAMETERS_MAX, &mut buffers) else {
            return;
        };
        if header.kind == BulkKind::Partial {
            let partial = || changed(changes).into_iter().collect();
            self.partials.entry((at, header.clock)).or_insert_with(partial);
        }
    }

    /// Changes a checkpoint before a server restores it.
    pub(super) fn on_recovery(&self, state: &mut State) {
        if self.bug == Some(Bug::DropsErrorFeedback) && self.is_sparse() {
            let tensors = state.tensors.iter_mut();
            let owed = tensors.filter(|(name, _)| name.ends_with("owed"));
            owed.for_each(|(_, tensor)| tensor.values.fill(0.0));
        }
    }

    fn is_sparse(&self) -> bool {
        matches!(&self.remote, RemoteSync::LocalSteps(local_steps) if local_steps.is_sparse())
    }

    /// The way of BSP's exchange. `None` for other models.
    fn exchange(&self) -> Option<ExchangeKind> {
        match &self.remote {
            RemoteSync::Bsp(bsp) => Some(bsp.exchange),
            _ => None,
        }
    }
}

/// A bulk frame with changed values, each with its parameter.
fn with_values(frame: &Bytes, change: impl Fn(&BulkHeader, &mut [(u32, f32)])) -> Bytes {
    let mut buffers = Buffers::default();
    let Ok((header, changes)) = decode_bulk(frame, PARAMETERS_MAX, &mut buffers) else {
        return frame.clone();
    };
    let before = changed(changes);
    let mut after = before.clone();
    change(&header, &mut after);
    if after == before {
        return frame.clone();
    }

    let values: Vec<f32> = after.iter().map(|(_, value)| *value).collect();
    let changes = match changes {
        Changes::Dense { start, .. } => Changes::Dense { start, values: &values },
        Changes::Sparse { indexes, .. } => Changes::Sparse { indexes, values: &values },
    };
    let mut out = Vec::new();
    encode_bulk(&header, changes, ValueFormat::F32, &mut out);
    out.into()
}

/// Each change, with its parameter.
fn changed(changes: Changes<'_>) -> Vec<(u32, f32)> {
    let mut changed = Vec::new();
    changes.for_each(|parameter, value| changed.push((parameter as u32, value)));
    changed
}

/// No shard of a schedule has more.
const PARAMETERS_MAX: usize = 1 << 20;
