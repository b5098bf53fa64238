//! Who takes part in the run: a data center may join late, and leave for good.
//!
//! One that joins begins as one that has lost everything does: it takes a mirror's copy, and every link to it goes on
//! from what that copy holds. One that leaves takes with it what it has not sent; what has come from it stays.

use std::collections::BTreeSet;

use super::Mirrors;
use crate::store::ShardStore;
use crate::types::DcId;

impl Mirrors {
    /// Begins with these data centers taking no part.
    pub(super) fn begin_beside(&mut self, absent: &BTreeSet<DcId>) {
        self.client.begin_beside(absent);
        for dc in self.first_hops.keys() {
            self.server.begin(*dc, absent.contains(dc));
        }
        self.judge_partition();
    }

    /// A mirror has left, in this life of it; or in one before, where it is back by now.
    pub(in crate::server) fn on_left(&mut self, dc: DcId, life: u64, store: &ShardStore) {
        if self.client.life_of(dc) <= life {
            self.leave(dc, life, store);
        }
    }

    /// Takes up what the coordinator says of who takes part, in case that this data center has heard otherwise or nothing.
    pub(super) fn agree_on(&mut self, absent: &BTreeSet<DcId>, store: &ShardStore) {
        let present: BTreeSet<DcId> = self.server.present().collect();
        for dc in self.first_hops.keys().copied().collect::<Vec<_>>() {
            match (absent.contains(&dc), present.contains(&dc)) {
                (true, true) => self.leave(dc, self.client.life_of(dc), store),
                (false, false) => self.server.set_absent(dc, false),
                _ => {}
            }
        }
        self.judge_partition();
    }

    fn leave(&mut self, dc: DcId, life: u64, store: &ShardStore) {
        self.client.on_left(dc, life);
        self.server.on_anew(dc, store.layout());
        self.server.set_absent(dc, true);
        if let Some(wishes) = &mut self.wishes {
            wishes.remove(&dc);
            self.client.tighten(self.tightness());
        }
        self.judge_partition();
    }
}
