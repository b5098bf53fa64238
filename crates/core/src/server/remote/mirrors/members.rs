//! Who takes part in the run: a data center may join late, and leave for good.
//!
//! One that joins begins as one that has lost everything does: it takes a mirror's copy, and every link to it goes on
//! from what that copy holds. One that leaves takes with it what it has not sent; what has come from it stays.

use std::collections::BTreeSet;

use super::Mirrors;
use crate::server::remote::RemoteModel;
use crate::store::ShardStore;
use crate::types::DcId;

impl Mirrors {
    /// Begins with these data centers taking no part.
    pub(super) fn set_inactive(&mut self, inactive: &BTreeSet<DcId>) {
        self.client.set_inactive(inactive);
        for dc in self.first_hops.keys() {
            self.server.begin(*dc, inactive.contains(dc));
        }
        self.judge_partition();
    }

    /// Takes up what the coordinator says of who takes part, in case that this data center has heard otherwise or nothing.
    pub(super) fn agree_on(&mut self, inactive: &BTreeSet<DcId>, store: &ShardStore) {
        let present: BTreeSet<DcId> = self.server.present().collect();
        for dc in self.first_hops.keys().copied().collect::<Vec<_>>() {
            match (inactive.contains(&dc), present.contains(&dc)) {
                (true, true) => self.leave(dc, self.client.incarnation_of(dc), store),
                (false, false) => self.server.set_inactive(dc, false),
                _ => {}
            }
        }
        self.judge_partition();
    }

    /// A mirror takes no part any more, from this incarnation of it on.
    pub(super) fn leave(&mut self, dc: DcId, incarnation: u64, store: &ShardStore) {
        self.client.on_left(dc, incarnation);
        self.server.on_reset(dc, store.layout());
        self.server.set_inactive(dc, true);
        self.reachability.on_reset(dc);
        if let Some(wishes) = &mut self.wishes {
            wishes.remove(&dc);
            self.client.tighten(self.tightness());
        }
        self.judge_partition();
    }
}
