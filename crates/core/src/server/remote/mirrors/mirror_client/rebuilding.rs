//! What a mirror that has lost its copy gets from the others: from one a copy, from all what that copy lacks.
//!
//! The mirror that is asked for its copy takes it as it is at that moment. What another mirror's link to the lost one
//! has carried is from then on what its link to the asked one has (a *fork*), so nothing comes twice; and a word in that
//! link's data lane says where it forked. What arrives there before the word is neither in the copy nor on its way to
//! the lost mirror: the asked one owes it, and passes it on before anything of its own. Until that is done the copy is not
//! whole, so that whoever has a whole one needs nobody for what it holds.

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
    /// A mirror has lost all that it had, and begins a new incarnation: nothing is sent before it is known what it then has.
    pub(in crate::server::remote::mirrors) fn on_reset(&mut self, from: DcId, incarnation: u64) {
        let parameters = self.sources.local().len();
        self.enqueue_nothing_from(from);
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if incarnation > peer.incarnation {
            peer.forget(incarnation, parameters);
            return;
        }
        peer.begin_anew();
        if let Some(rebuild) = &mut peer.rebuild {
            rebuild.carried.clear();
        }
    }

    /// A mirror takes no part any more, or not yet: nothing is kept for it, and of its incarnations only one after
    /// this one counts.
    pub(in crate::server::remote::mirrors) fn on_left(&mut self, dc: DcId, incarnation: u64) {
        let parameters = self.sources.local().len();
        self.enqueue_nothing_from(dc);
        if let Some(peer) = self.peers.get_mut(&dc) {
            peer.forget(incarnation + 1, parameters);
        }
    }

    /// What a mirror sends from now on goes to all alike, if it sends anything.
    fn enqueue_nothing_from(&mut self, mirror: DcId) {
        for rebuild in self.peers.values_mut().filter_map(|peer| peer.rebuild.as_mut()) {
            rebuild.rest.unforked.remove(&mirror);
        }
    }

    /// Mirrors begin with what this data center begins with, but for those that take no part.
    pub(in crate::server::remote::mirrors) fn set_inactive(&mut self, inactive: &BTreeSet<DcId>) {
        for (dc, peer) in &mut self.peers {
            if let Some(route) = &mut peer.route {
                route.waits = inactive.contains(dc);
            }
        }
    }

    /// The incarnation of a mirror that counts, or the one from which on they do.
    pub(in crate::server::remote::mirrors) fn incarnation_of(&self, dc: DcId) -> u64 {
        self.peers.get(&dc).map_or(0, |peer| peer.incarnation)
    }

    /// A mirror has said hello for the first time, in this incarnation of it.
    pub(in crate::server::remote::mirrors) fn on_first(&mut self, from: DcId, incarnation: u64) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.met = incarnation;
        }
    }

    /// Whether this incarnation of a mirror is not over, and nothing has been settled yet about what the mirror has in it.
    ///
    /// Others may tell of an incarnation after it is over. Once the two have met, none before that one counts: a copy that is
    /// taken for one would count as carried to its successor.
    pub(in crate::server::remote::mirrors) fn is_open(&self, to: DcId, incarnation: u64) -> bool {
        self.peers.get(&to).is_some_and(|peer| {
            let waits = peer.route.as_ref().is_some_and(|route| route.waits);
            let is_new = incarnation > peer.incarnation;
            incarnation >= peer.met && (is_new || (incarnation == peer.incarnation && waits))
        })
    }

    /// Takes the copy that a mirror asks for, `values` and `steps` at `clock`. Of the others, updates come from those
    /// that are `present`.
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

        // A copy holds everything of this data center, released or not.
        let shared = match &self.sharing {
            Sharing::Released { .. } => self.sources.local(),
            Sharing::Everything | Sharing::PerLink { .. } => self.sources.of(clique),
        };
        let shared = shared.to_vec();
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(route) = &mut peer.route else { return };

        let carried = route.outbox.shared().to_vec();
        (route.outbox, route.waits) = (route.outbox.sharing(shared), false);
        let copying = Some(Copying::new(clock, values, steps));
        let rest = Rest { unforked, ..Rest::default() };
        let backlog = CatchUpBacklog::default();

        (peer.incarnation, peer.rebuild) =
            (incarnation, Some(Rebuild { copying, carried, backlog, rest }));
    }

    /// What the copy of a data center holds that its links have not: nothing but where gradients are shared, the step
    /// of the clock under way; and the step before it, which is to go on elsewhere.
    pub(in crate::server::remote::mirrors) fn steps(&self) -> Option<[&[f32]; 2]> {
        self.sources.steps()
    }

    /// Clocks are measured from here on.
    pub(in crate::server::remote::mirrors) fn begin_at(&mut self, now: Instant) {
        self.last_tick = now;
    }

    /// A mirror itself has asked for its copy, in this incarnation of it: frames that leave from now on reach that. One that
    /// asked in an incarnation before the one that counts gets nothing.
    pub(in crate::server::remote::mirrors) fn on_asked(&mut self, by: DcId, incarnation: u64) {
        let Some(peer) = self.peers.get_mut(&by).filter(|peer| peer.incarnation == incarnation)
        else {
            return;
        };
        let (Some(route), Some(rebuild)) = (&mut peer.route, &mut peer.rebuild) else { return };
        rebuild.rest.asked = true;
        route.has_carried(&std::mem::take(&mut rebuild.carried), !self.closed);
    }

    /// A mirror takes its copy from another one: what that one's link has carried counts as carried to both.
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
        route.has_carried(carried.shared(), !self.closed);
        (route.ranked, route.waits) = (ranked, false);

        if reported > route.reported {
            route.reported = reported;
            peer.report(reported);
        }
    }

    /// A mirror's link here has carried all that its link to `to` begins with.
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

    /// Takes note of an update that has come, for those that lack it.
    pub(in crate::server::remote::mirrors) fn enqueue(&mut self, from: DcId, changes: Changes<'_>) {
        let parameters = self.sources.local().len();
        for peer in self.peers.values_mut() {
            let Some(rebuild) = &mut peer.rebuild else { continue };
            let Some(route) = &mut peer.route else { continue };
            match rebuild.rest.unforked.contains(&from) {
                true if self.closed => route.outbox.enqueue(changes, false),
                true => rebuild.backlog.enqueue(changes, parameters),
                false => {}
            }
        }
    }

    /// What is owed and has not left is for the drain.
    pub(super) fn keep_backlogs(&mut self) {
        for peer in self.peers.values_mut() {
            let Some(rebuild) = &mut peer.rebuild else { continue };
            let Some(route) = &mut peer.route else { continue };
            let (indexes, values) = rebuild.backlog.take_all();
            route.outbox.enqueue(Changes::Sparse { indexes: &indexes, values: &values }, false);
        }
    }

    /// The next frame of what must leave on a link before updates.
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
        let frame = if let Some(copying) = &mut rebuild.copying {
            let (frame, last) = copying.next_frame(self.id, sequence, room);
            if last {
                rebuild.copying = None;
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
        Some(frame)
    }
}
