//! The drain at the end of a run: all copies become equal.
//!
//! Each participating data center is home to one block of the shard. Once each mirror has sent its last update and all
//! of them are applied, each server sends its copy of each block to the block's home. The home takes the mean, or adds
//! all residuals addressed to it, in the order of data centers, and sends the result to all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::block::Blocks;
use super::laggard::Laggard;
use crate::codec::Changes;
use crate::persist;
use crate::server::error::PeerError;
use crate::sync::ValueFormat;
use crate::types::{
    Clock, Content, DcId, Persist, Restorer, Saved, Saver, ServerId, StateError, Tightness,
};
use crate::wire::{BulkHeader, BulkKind, encode_bulk};

/// How copies become equal at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainMethod {
    /// Each copy becomes the mean of all copies.
    #[default]
    Mean,
    /// All residuals are delivered. This can degrade a network that is trained with momentum.
    Residuals,
}

/// The state of one server's drain.
#[derive(Debug)]
pub(in crate::server) struct Drain {
    method: DrainMethod,
    own: DcId,
    home: Range<usize>,
    phase: Phase,
    /// The received parts of copies, or residuals, of the home block, by data center.
    copies: BTreeMap<DcId, Vec<f32>>,
    mirrors: BTreeMap<DcId, Mirror>,
    /// A mirror whose copy is not complete.
    gathers: Laggard,
    /// A mirror whose result is not complete, or to which something is still to be sent.
    ends: Laggard,
}

/// The phase of the home block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// Mirrors may still send updates.
    Waiting,
    /// Copies are being received.
    Gathering,
    /// The result is known, and is being sent to all mirrors.
    Concluded,
}

/// The values received from and sent to one mirror.
#[derive(Debug)]
struct Mirror {
    /// The mirror's home block.
    home: Range<usize>,
    copy: Incoming,
    result: Incoming,
    outgoing: VecDeque<Outgoing>,
}

/// The received part of a block.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Incoming {
    values: usize,
    complete: bool,
}

/// Values that are being sent to a mirror.
#[derive(Debug)]
struct Outgoing {
    payload: Payload,
    /// The parameter of the first value.
    start: usize,
    values: Arc<Vec<f32>>,
    /// The number of values that were sent.
    sent: usize,
}

/// The contents of a drain frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Payload {
    /// A copy, or residuals, of the receiver's home block.
    Copy,
    /// The result for the sender's home block.
    Result,
}

impl Drain {
    /// `mirrors` are the other participating data centers. `blocks` has shares of all data centers.
    pub(in crate::server) fn new(
        method: DrainMethod,
        own: DcId,
        mirrors: impl IntoIterator<Item = DcId>,
        blocks: &Blocks,
        parameters: usize,
    ) -> Self {
        let members: BTreeSet<DcId> = mirrors.into_iter().chain([own]).collect();
        let blocks = blocks.among(&members);
        let mut homes: BTreeMap<DcId, Range<usize>> =
            members.into_iter().map(|dc| (dc, blocks.range(parameters, dc))).collect();
        let home = homes.remove(&own).expect("it takes part itself");
        let mirror = |home| Mirror {
            home,
            copy: Incoming::default(),
            result: Incoming::default(),
            outgoing: VecDeque::new(),
        };

        Self {
            method,
            own,
            home,
            phase: Phase::Waiting,
            copies: BTreeMap::new(),
            mirrors: homes.into_iter().map(|(dc, home)| (dc, mirror(home))).collect(),
            gathers: Laggard::default(),
            ends: Laggard::default(),
        }
    }

    /// Begins to send copies. All updates of mirrors must be applied to `values`.
    ///
    /// `residual(to, range)` is the residual of the link to a mirror.
    pub(in crate::server) fn start(
        &mut self,
        values: &[f32],
        residual: impl Fn(DcId, Range<usize>) -> Vec<f32>,
    ) {
        for (to, mirror) in &mut self.mirrors {
            let range = mirror.home.clone();
            let copy = match self.method {
                DrainMethod::Mean => values[range].to_vec(),
                DrainMethod::Residuals => residual(*to, range),
            };
            mirror.outgoing.push_back(Outgoing::new(Payload::Copy, mirror.home.start, copy.into()));
        }
        self.copies.insert(self.own, values[self.home.clone()].to_vec());
        self.phase = Phase::Gathering;
    }

    pub(in crate::server) fn is_started(&self) -> bool {
        self.phase != Phase::Waiting
    }

    /// Handles a part of a mirror's copy of the home block.
    pub(in crate::server) fn on_copy(
        &mut self,
        from: DcId,
        changes: Changes<'_>,
        last: bool,
    ) -> Result<(), PeerError> {
        let mirror = self.mirrors.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        let values = mirror.copy.take(from, changes, last, &self.home)?;
        self.copies.entry(from).or_default().extend_from_slice(values);
        Ok(())
    }

    /// If all copies of the home block are received, computes the result, writes it to `values` and schedules it for
    /// all mirrors. Returns whether it has.
    pub(in crate::server) fn conclude(&mut self, values: &mut [f32]) -> bool {
        if self.phase != Phase::Gathering
            || !self.gathers.all(&self.mirrors, |mirror| mirror.copy.complete)
        {
            return false;
        }

        self.phase = Phase::Concluded;
        let copies = std::mem::take(&mut self.copies);
        let result: Vec<f32> = (0..self.home.len())
            .map(|index| match self.method {
                DrainMethod::Mean => {
                    let sum: f64 = copies.values().map(|copy| f64::from(copy[index])).sum();
                    (sum / copies.len() as f64) as f32
                }
                DrainMethod::Residuals => copies.values().map(|copy| copy[index]).sum(),
            })
            .collect();

        values[self.home.clone()].copy_from_slice(&result);
        let result = Arc::new(result);
        for mirror in self.mirrors.values_mut() {
            mirror.outgoing.push_back(Outgoing::new(
                Payload::Result,
                self.home.start,
                result.clone(),
            ));
        }
        true
    }

    /// Handles a part of the result of a mirror's home block, and writes it to `values`.
    pub(in crate::server) fn on_result(
        &mut self,
        from: DcId,
        changes: Changes<'_>,
        last: bool,
        values: &mut [f32],
    ) -> Result<(), PeerError> {
        let mirror = self.mirrors.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        let start = mirror.home.start + mirror.result.values;
        let result = mirror.result.take(from, changes, last, &mirror.home)?;
        values[start..start + result.len()].copy_from_slice(result);
        Ok(())
    }

    /// The next frame for a mirror, of at most about `room` bytes. `next_sequence` assigns its sequence number.
    pub(in crate::server) fn next_frame(
        &mut self,
        to: DcId,
        from: ServerId,
        room: usize,
        next_sequence: impl FnOnce() -> u64,
    ) -> Option<Bytes> {
        let queue = &mut self.mirrors.get_mut(&to)?.outgoing;
        let outgoing = queue.front_mut()?;
        let kind = match outgoing.payload {
            Payload::Copy => BulkKind::DrainCopy,
            Payload::Result => BulkKind::DrainResult,
        };

        let (start, values, last) = outgoing.take((room / 4).max(64));
        let header = BulkHeader {
            kind,
            origin: from.dc,
            shard: from.shard,
            sequence: next_sequence(),
            clock: Clock::ZERO,
            last,
            relayed: false,
            tightness: Tightness::NONE,
        };
        let mut frame = Vec::with_capacity(values.len() * 4 + 64);
        encode_bulk(&header, Changes::Dense { start, values }, ValueFormat::F32, &mut frame);
        if last {
            queue.pop_front();
            queue.shrink_to_fit();
        }
        Some(Bytes::from(frame))
    }

    /// Whether all results are received and all frames of this server are sent.
    pub(in crate::server) fn is_done(&mut self) -> bool {
        let done = |mirror: &Mirror| mirror.result.complete && mirror.outgoing.is_empty();
        self.phase == Phase::Concluded && self.ends.all(&self.mirrors, done)
    }
}

persist! {
    impl Persist<()> for Drain {
        fn walk(
            Self { method, own, home, phase, copies, mirrors, gathers: _, ends: _ },
            walk,
            (),
        ) {
            walk.record("method", method)?;
            walk.record("phase", phase)?;
            let home: &Range<usize> = home;
            walk.parts(mirrors, home)?;

            let (own, home) = (*own, home.len());
            let come = |of: &DcId| match mirrors.get(of) {
                Some(mirror) => Some(mirror.copy.values),
                None => (*of == own).then_some(home),
            };
            let fresh = |of: &DcId| come(of).map(|values| vec![0.0; values]);
            walk.entries("copies", copies, fresh, |copy, walk| {
                walk.tensor("copy", Content::Values, copy)
            })
        }

        fn restored(drain, walk, ()) {
            let has_own = drain.copies.contains_key(&drain.own);
            if drain.phase == Phase::Gathering && !has_own {
                return Err(walk.unfit("copies"));
            }
            Ok(())
        }
    }
}

persist! {
    /// The block that the data center is home to.
    impl Persist<&Range<usize>> for Mirror {
        fn walk(Self { home: own, copy, result, outgoing }, walk, home) {
            walk.record_that("copy", copy, |found, _| found.fits(home))?;
            walk.record_that("result", result, |found, _| found.fits(own))?;
            let none = || Outgoing::new(Payload::Copy, 0, Arc::new(Vec::new()));
            walk.queue("outgoing", outgoing, none, |one, walk| walk.flatten(one, ()))
        }
    }
}

impl Incoming {
    /// Handles the next values of a block. Parts are dense and in order, and the last one ends the block.
    fn take<'a>(
        &mut self,
        from: DcId,
        changes: Changes<'a>,
        last: bool,
        block: &Range<usize>,
    ) -> Result<&'a [f32], PeerError> {
        let due = block.start + self.values..block.end;
        let wrong = |found: String| {
            let expected = if self.complete { "nothing".into() } else { format!("{due:?}") };
            PeerError::PeerSentWrongPart { from, found, expected }
        };
        let Changes::Dense { start, values } = changes else {
            return Err(wrong("scattered parameters".into()));
        };

        let part = start as usize..start as usize + values.len();
        if self.complete || part.start != due.start || part.end > due.end {
            return Err(wrong(format!("{part:?}")));
        }
        if last != (part.end == due.end) {
            let claim = if last { "the last" } else { "not the last" };
            return Err(wrong(format!("{part:?} as {claim}")));
        }
        self.values += values.len();
        self.complete = last;
        Ok(values)
    }

    fn fits(&self, block: &Range<usize>) -> bool {
        self.values <= block.len() && self.complete <= (self.values == block.len())
    }
}

impl Outgoing {
    fn new(payload: Payload, start: usize, values: Arc<Vec<f32>>) -> Self {
        Self { payload, start, values, sent: 0 }
    }

    /// Takes the next `most` values. Returns their first parameter, the values, and whether they are the last.
    fn take(&mut self, most: usize) -> (u32, &[f32], bool) {
        let start = self.sent;
        self.sent = (start + most).min(self.values.len());
        let ended = self.sent == self.values.len();
        ((self.start + start) as u32, &self.values[start..self.sent], ended)
    }
}

/// By hand, since the values are shared with other mirrors until they are restored.
impl Persist for Outgoing {
    fn save(&self, walk: &mut Saver<'_>, (): ()) -> Saved {
        walk.record("content", &self.payload)?;
        walk.record("start", &self.start)?;
        walk.tensor("values", Content::Values, &self.values)?;
        walk.record("sent", &self.sent)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>, (): ()) -> Result<(), StateError> {
        walk.record("content", &mut self.payload)?;
        walk.record("start", &mut self.start)?;
        let mut values = Vec::new();
        walk.numbers("values", Content::Values, &mut values, |_| true)?;
        walk.record_that("sent", &mut self.sent, |found, _| *found <= values.len())?;

        self.values = Arc::new(values);
        Ok(())
    }
}
