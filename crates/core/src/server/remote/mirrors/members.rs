//! Membership: a data center may join late, and leave permanently.
//!
//! A data center that joins begins like one that has lost its state: it takes a mirror's copy, and each link to it
//! continues from what that copy contains. Updates that a leaving data center has not sent are lost. Updates received
//! from it stay.

use std::collections::BTreeSet;

use super::Mirrors;
use crate::server::remote::RemoteModel;
use crate::store::ShardStore;
use crate::types::DcId;

impl Mirrors {
    /// Begins with these inactive data centers.
    pub(super) fn set_inactive(&mut self, inactive: &BTreeSet<DcId>) {
        self.client.set_inactive(inactive);
        for dc in self.first_hops.keys() {
            self.server.begin(*dc, inactive.contains(dc));
        }
        self.decide_pause();
    }

    /// Adopts the coordinator's set of inactive data centers, in case this data center has missed a change.
    pub(super) fn agree_on(&mut self, inactive: &BTreeSet<DcId>, store: &ShardStore) {
        let present = self.present();
        for dc in self.first_hops.keys().copied().collect::<Vec<_>>() {
            match (inactive.contains(&dc), present.contains(&dc)) {
                (true, true) => self.leave(dc, self.client.incarnation_of(dc), store),
                (false, false) => self.activate_unheard(dc),
                _ => {}
            }
        }
        self.decide_pause();
    }

    /// Marks a mirror as active of which nothing but the coordinator's set has told. If the link to it is dead, its
    /// updates since it joined are missing.
    fn activate_unheard(&mut self, dc: DcId) {
        let is_link_dead = self.is_unmet(dc) || self.server.is_disconnected(dc);
        self.server.set_inactive(dc, false);
        if is_link_dead {
            self.server.set_disconnected(dc);
            self.on_link_failed(dc);
        }
    }

    /// Marks a mirror as active that has sent a message.
    pub(super) fn activate(&mut self, dc: DcId) {
        let was_unmet = self.is_unmet(dc);
        self.server.set_inactive(dc, false);
        if was_unmet {
            self.begin_behind(dc);
        }
        self.decide_pause();
    }

    /// Marks a mirror as inactive, from this incarnation of it on.
    pub(super) fn leave(&mut self, dc: DcId, incarnation: u64, store: &ShardStore) {
        self.client.on_left(dc, incarnation);
        self.server.on_reset(dc, self.clock, store.layout());
        self.server.set_inactive(dc, true);
        self.reachability.on_reset(dc);
        if let Some(wishes) = &mut self.wishes {
            wishes.remove(&dc);
            self.client.tighten(self.tightness());
        }
        self.decide_pause();
    }
}
