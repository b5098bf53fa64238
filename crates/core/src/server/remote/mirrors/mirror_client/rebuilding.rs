//! What a mirror that has lost its copy receives from the others: a copy from one of them, the *source*, and from all
//! the updates that the copy lacks.
//!
//! The source takes the copy at the time of the request. Every other mirror *forks* its link to the source: what it has
//! sent to the source so far counts as sent to the lost mirror. So no update is applied twice. A marker in the data
//! lane of the link to the source shows the position of the fork. Updates that the source receives before the marker
//! and after it took the copy are neither in the copy nor sent to the lost mirror. They are the *backlog*: the source
//! forwards them before its own updates. Until then the rebuilt copy is incomplete. So a server with a complete copy
//! depends on no other for its contents.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::catch_up_backlog::CatchUpBacklog;
use super::copying::Copying;
use super::rebuild::{Rebuild, Rest};
use super::{MirrorClient, Sharing};
use crate::codec::Changes;
use crate::types::{Clock, DcId, Instant};
use crate::wire::{ControlMessage, encode_control};

impl MirrorClient {
    /// A mirror has lost its state and begins a new incarnation. Nothing is sent until it is known which copy it takes.
    pub(in crate::server::remote::mirrors) fn on_reset(&mut self, from: DcId, incarnation: u64) {
        let parameters = self.sources.local().len();
        self.enqueue_nothing_from(from);
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if incarnation > peer.incarnation {
            peer.forget(incarnation, parameters);
            return;
        }
        peer.reset();
        if let Some(rebuild) = &mut peer.rebuild {
            rebuild.carried.clear();
        }
    }

    /// A mirror has left or not joined. Its state is discarded, and only later incarnations of it count.
    pub(in crate::server::remote::mirrors) fn on_left(&mut self, dc: DcId, incarnation: u64) {
        let parameters = self.sources.local().len();
        self.enqueue_nothing_from(dc);
        if let Some(peer) = self.peers.get_mut(&dc) {
            peer.forget(incarnation.saturating_add(1), parameters);
        }
    }

    /// Stops adding updates of a mirror to backlogs: from here on the mirror sends its updates to all.
    fn enqueue_nothing_from(&mut self, mirror: DcId) {
        for rebuild in self.peers.values_mut().filter_map(|peer| peer.rebuild.as_mut()) {
            rebuild.rest.unforked.remove(&mirror);
        }
    }

    /// Begins with these inactive mirrors. The others begin with the same values as this data center.
    pub(in crate::server::remote::mirrors) fn set_inactive(&mut self, inactive: &BTreeSet<DcId>) {
        for (dc, peer) in &mut self.peers {
            if let Some(route) = &mut peer.route {
                route.waits = inactive.contains(dc);
            }
        }
    }

    /// The current incarnation of a mirror, or of an inactive one the first that counts.
    pub(in crate::server::remote::mirrors) fn incarnation_of(&self, dc: DcId) -> u64 {
        self.peers.get(&dc).map_or(0, |peer| peer.incarnation)
    }

    /// Records the first hello of a mirror, which is of this incarnation.
    pub(in crate::server::remote::mirrors) fn on_first(&mut self, from: DcId, incarnation: u64) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.met = incarnation;
        }
    }

    /// Whether this incarnation of a mirror has not ended, and it is not decided yet which updates the mirror has in it.
    ///
    /// Messages of other mirrors about an incarnation may arrive after its end. Incarnations before that of the mirror's
    /// first hello do not count: a copy taken for one would be counted as received by its successor.
    pub(in crate::server::remote::mirrors) fn is_open(&self, to: DcId, incarnation: u64) -> bool {
        self.peers.get(&to).is_some_and(|peer| {
            let waits = peer.route.as_ref().is_some_and(|route| route.waits);
            let is_new = incarnation > peer.incarnation;
            incarnation >= peer.met && (is_new || (incarnation == peer.incarnation && waits))
        })
    }

    /// Begins a rebuild for a mirror with a copy of `values` and `steps` at `clock`. The `present` mirrors send
    /// updates.
    pub(in crate::server::remote::mirrors) fn copy_for(
        &mut self,
        to: DcId,
        incarnation: u64,
        [values, steps]: [Vec<f32>; 2],
        clock: Clock,
        present: impl Iterator<Item = DcId>,
    ) {
        let Some(clique) = self.clique_of(to) else { return };
        let unforked = present.filter(|dc| *dc != to && self.clique_of(*dc) == Some(clique));
        let unforked = unforked.collect();

        // A copy includes all changes of this data center, whether the filter has selected them or not.
        let shared = match &self.sharing {
            Sharing::Released { .. } => self.sources.local(),
            Sharing::Everything | Sharing::PerLink { .. } => self.sources.of(clique),
        };
        let shared = shared.to_vec();
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(route) = &mut peer.route else { return };

        let carried = route.outbox.shared().to_vec();
        (route.outbox, route.waits) = (route.outbox.sharing(shared.into()), false);
        let copying = Some(Copying::new(clock, values, steps));
        let rest = Rest { unforked, ..Rest::default() };
        let backlog = CatchUpBacklog::default();

        (peer.incarnation, peer.rebuild) =
            (incarnation, Some(Box::new(Rebuild { copying, carried, backlog, rest })));
    }

    /// If gradients are sent: the step of the current clock, which the copy includes and links do not, and the step
    /// before it, which continues at the mirror. `None` otherwise.
    pub(in crate::server::remote::mirrors) fn steps(&self) -> Option<[&[f32]; 2]> {
        self.sources.steps()
    }

    /// Starts the measurement of clocks.
    pub(in crate::server::remote::mirrors) fn begin_at(&mut self, now: Instant) {
        self.last_tick = now;
    }

    /// Handles the request of a mirror for its copy, in this incarnation of it. Frames sent from here on reach this
    /// incarnation. The request of an earlier incarnation is ignored.
    pub(in crate::server::remote::mirrors) fn on_asked(&mut self, by: DcId, incarnation: u64) {
        let Some(peer) = self.peers.get_mut(&by).filter(|peer| peer.incarnation == incarnation)
        else {
            return;
        };
        let (Some(route), Some(rebuild)) = (&mut peer.route, &mut peer.rebuild) else { return };
        rebuild.rest.asked = true;
        route.has_carried(&std::mem::take(&mut rebuild.carried), !self.closed);
    }

    /// Forks a link: the mirror `to` takes the copy of `source`. What was sent to the source counts as sent to both.
    pub(in crate::server::remote::mirrors) fn fork(
        &mut self,
        to: DcId,
        source: DcId,
        incarnation: u64,
    ) {
        let clique = self.clique_of(to);
        let Some(like) = self.peers.get_mut(&source) else { return };
        let Some(route) = like.route.as_ref().filter(|route| Some(route.clique) == clique) else {
            return;
        };
        let (outbox, ranked, reported) = (route.outbox.fork(), route.ranked, route.reported);
        like.forks.push_back((to, incarnation));
        let Some(peer) = self.peers.get_mut(&to) else { return };
        peer.incarnation = incarnation;

        let Some(route) = &mut peer.route else { return };
        let carried = std::mem::replace(&mut route.outbox, outbox);
        route.has_carried(&carried.shared().to_vec(), !self.closed);
        (route.ranked, route.waits) = (ranked, false);

        if reported > route.reported {
            route.reported = reported;
            peer.queue_mirror_clock(reported);
        }
    }

    /// Handles the marker of a mirror's fork: its later updates are sent to the mirror `to` as well.
    pub(in crate::server::remote::mirrors) fn on_fork(
        &mut self,
        from: DcId,
        to: DcId,
        incarnation: u64,
    ) {
        let peer = self.peers.get_mut(&to).filter(|peer| peer.incarnation == incarnation);
        if let Some(rebuild) = peer.and_then(|peer| peer.rebuild.as_mut()) {
            rebuild.rest.unforked.remove(&from);
        }
    }

    /// Adds a received update to the backlogs of the mirrors that lack it. Returns whether there are any.
    pub(in crate::server::remote::mirrors) fn enqueue(
        &mut self,
        from: DcId,
        changes: Changes<'_>,
    ) -> bool {
        let parameters = self.sources.local().len();
        let mut enqueued = false;
        for to in &self.neighbours {
            let Some(peer) = self.peers.get_mut(to) else { continue };
            let Some(rebuild) = &mut peer.rebuild else { continue };
            let Some(route) = &mut peer.route else { continue };
            match rebuild.rest.unforked.contains(&from) {
                true if self.closed => route.outbox.enqueue(changes, false),
                true => rebuild.backlog.enqueue(changes, parameters),
                false => continue,
            }
            enqueued = true;
        }
        enqueued
    }

    /// Moves the unsent backlogs to the residuals, for the drain.
    pub(super) fn keep_backlogs(&mut self) {
        for peer in self.peers.values_mut() {
            let Some(rebuild) = &mut peer.rebuild else { continue };
            let Some(route) = &mut peer.route else { continue };
            let (indexes, values) = rebuild.backlog.take_all();
            route.outbox.enqueue(Changes::Sparse { indexes: &indexes, values: &values }, false);
        }
    }

    /// The next frame that must precede updates on a link: markers, the copy, the backlog.
    pub(super) fn next_before_updates(&mut self, to: DcId, room: usize) -> Option<Bytes> {
        let peer = self.peers.get_mut(&to)?;
        if let Some((to, incarnation)) = peer.forks.pop_front() {
            let mut frame = Vec::new();
            encode_control(&ControlMessage::Fork { to, incarnation }, &mut frame);
            peer.stats.control_bytes += frame.len() as u64;
            return Some(frame.into());
        }

        let rebuild = peer.rebuild.as_mut().filter(|rebuild| rebuild.rest.asked)?;
        let (rest, sequence) = (&mut rebuild.rest, peer.sequence + 1);
        let mut is_copied = false;
        let frame = if let Some(copying) = &mut rebuild.copying {
            let (frame, last) = copying.next_frame(self.id, sequence, room);
            if last {
                (rebuild.copying, is_copied) = (None, true);
            }
            frame
        } else {
            let ends = rest.unforked.is_empty();
            let is_due = !rebuild.backlog.is_empty() || (ends && !rest.paid);
            if self.closed || !is_due {
                return None;
            }
            let (frame, last) = rebuild.backlog.next_frame(self.id, sequence, room, ends);
            rest.paid = last;
            frame
        };

        peer.sequence = sequence;
        peer.stats.frames += 1;
        peer.stats.data_bytes += frame.len() as u64;
        if is_copied {
            peer.report(self.sharing.has_mirror_clocks());
        }
        Some(frame)
    }
}
