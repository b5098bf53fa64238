//! Rebuilding a lost copy from a mirror's copy.

use std::collections::BTreeSet;

use super::Mirrors;
use crate::codec::Changes;
use crate::server::blocks::Drain;
use crate::server::error::PeerError;
use crate::server::remote::RemoteModel;
use crate::store::ShardStore;
use crate::types::{DcId, Instant};
use crate::wire::{BulkHeader, BulkKind, ControlMessage};

impl Mirrors {
    /// Begins a rebuild: this data center has no state and takes the copy of a mirror. Its values are the sum of the
    /// frames that mirrors send. `inactive` mirrors send none.
    pub(super) fn take_copy_of(
        &mut self,
        from: DcId,
        incarnation: u64,
        inactive: &BTreeSet<DcId>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        // The updates that a hub has not forwarded are lost with it.
        let is_hub = self.neighbours.len() > 1;
        if is_hub || self.client.clique_of(from).is_none() {
            return Err(self.cannot_rebuild(from));
        }
        store.values_mut().fill(0.0);

        (self.rebuilding, self.settling) = (Some(from), Some(from));
        self.server.begin_anew();
        self.set_inactive(inactive);

        let peers: Vec<DcId> = self.server.present().collect();
        for peer in peers {
            self.client.push_control(peer, ControlMessage::Rebuild { from, incarnation });
        }
        Ok(())
    }

    /// Handles the first hello of a mirror. If other mirrors have announced the mirror's incarnation before, it has
    /// lost its state before this connection: its state here is reset, although nothing was sent to it. A hello of an
    /// earlier incarnation than the known one is ignored.
    pub(super) fn on_incarnation(
        &mut self,
        from: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        self.client.on_first(from, incarnation);
        let known = self.client.incarnation_of(from);
        let drains = self.drain.as_ref().is_some_and(Drain::is_started);

        // A drain starts once all active mirrors have sent their last update, so this one is inactive.
        if known == 0 || incarnation < known || drains {
            return Ok(());
        }
        self.reset_with(from, incarnation, store)
    }

    /// Resets the state of a mirror that has lost its own.
    pub(super) fn reset_with(
        &mut self,
        from: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        let drains = self.drain.as_ref().is_some_and(Drain::is_started);
        if drains || self.settling == Some(from) {
            return Err(self.cannot_rebuild(from));
        }

        // The updates that it made since it has a state again, and before this connection, are missing.
        let was_missed = self.is_unmet(from) || self.reachability.awaits_updates_of(from);
        self.client.on_reset(from, incarnation);
        if self.drain.is_some() {
            self.client.push_control(from, ControlMessage::EndOfUpdates { sequence: 0 });
        }

        self.server.on_reset(from, self.clock, store.layout());
        self.reachability.on_reset(from);
        if was_missed {
            self.begin_behind(from);
        }
        self.decide_pause();
        if let Some(wish) = self.wishes.as_ref().and_then(|wishes| wishes.get(&self.id.dc)) {
            self.client.push_control(from, ControlMessage::Tightness { steps: wish.steps() });
        }
        Ok(())
    }

    /// Handles a mirror's message that it takes the copy of another one.
    pub(super) fn on_rebuild(
        &mut self,
        by: DcId,
        from: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) {
        if from == self.id.dc {
            self.copy_for(by, incarnation, store);
            self.client.on_asked(by, incarnation);
        } else if self.client.is_open(by, incarnation) {
            self.client.fork(by, from, incarnation);
        }
    }

    /// Handles a part of the copy that this data center has requested.
    pub(super) fn on_copy(
        &mut self,
        now: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        if self.rebuilding != Some(from) {
            return Err(self.unexpected(from, header.kind.name()));
        }

        match (header.kind, &mut self.momentum_correction) {
            (BulkKind::Copy, _) => changes.add_to(store.values_mut()),
            (_, Some(momentum_correction)) => momentum_correction.add_steps(changes),
            (_, None) => return Err(self.unexpected(from, header.kind.name())),
        }

        if header.last {
            self.rebuilding = None;
            self.clock = header.clock;
            self.server.begin_at(from, header.clock);
            self.client.begin_at(now);
        }
        Ok(())
    }

    /// Handles changes that belong to the copy and that its source received later.
    pub(super) fn on_backlog(
        &mut self,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        if self.settling != Some(from) || self.rebuilding.is_some() {
            return Err(self.unexpected(from, header.kind.name()));
        }

        changes.add_to(store.values_mut());
        if let Some(momentum_correction) = &mut self.momentum_correction {
            momentum_correction.on_received(
                from,
                self.client.clock_time(),
                changes,
                store.values_mut(),
            );
        }

        if header.last {
            self.settling = None;
        }
        Ok(())
    }

    /// Takes a copy of the values for a mirror, unless one was taken for this incarnation of it.
    pub(super) fn copy_for(&mut self, to: DcId, incarnation: u64, store: &ShardStore) {
        if !self.client.is_open(to, incarnation) {
            return;
        }

        let mut values = store.values().to_vec();
        let mut steps = self
            .momentum_correction
            .as_ref()
            .map_or_else(Vec::new, |momentum_correction| momentum_correction.step().to_vec());

        if let Some([under_way, last]) = self.client.steps() {
            // The step of this clock is sent at the end of the clock. The step before it continues at the mirror.
            values.iter_mut().zip(under_way).for_each(|(value, step)| *value -= step);
            steps.iter_mut().zip(last).for_each(|(sum, step)| *sum += step);
        }

        self.client.copy_for(to, incarnation, [values, steps], self.clock, self.server.present());
    }

    fn cannot_rebuild(&self, from: DcId) -> PeerError {
        let sync = if self.drain.is_some() { "a drain" } else { self.model.name() };
        PeerError::PeerLostCopy { from, sync }
    }
}
