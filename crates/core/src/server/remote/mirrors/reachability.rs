//! Which mirrors hear each other, as far as this server knows, and who must not train for it.
//!
//! Every server tells all its mirrors which of them it does not hear, or has yet to get what it missed of, whenever that
//! changes, and passes on what is new of others: a link-state protocol. So all servers of a shard that any way connects know the same, and find the same data
//! centers that must pauses ([`paused`]) without asking anybody. What is to be said is not queued but
//! looked up when it leaves, so that a link that comes and goes leaves no backlog.
//!
//! A server that has lost its state counts its versions from 1 again. Mirrors tell it what they know of itself, and it
//! goes on from there.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::topology::{LinkState, paused};
use crate::types::{DcId, StateError, Walk};
use crate::wire::ControlMessage;

/// What one server knows of who hears whom.
#[derive(Debug)]
pub(super) struct Reachability {
    own: DcId,
    /// Those of the whole overlay.
    cliques: Vec<Vec<DcId>>,
    /// What each data center has said of itself, this one included.
    rows: BTreeMap<DcId, Row>,
    /// For each mirror, whose rows it has yet to be told.
    due: BTreeMap<DcId, BTreeSet<DcId>>,
    /// The data centers that must not train, each with one that does and that it exchanges no updates with.
    paused: BTreeMap<DcId, DcId>,
}

/// Whom a data center does not hear, and of whom it has yet to get what it missed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    /// 0 until something has been said.
    version: u64,
    silent: BTreeSet<DcId>,
    behind: BTreeSet<DcId>,
}

impl Reachability {
    /// Everybody is heard by everybody.
    pub(super) fn new(
        own: DcId,
        cliques: Vec<Vec<DcId>>,
        mirrors: impl Iterator<Item = DcId> + Clone,
    ) -> Self {
        let rows = mirrors.clone().chain([own]).map(|dc| (dc, Row::default()));
        Self {
            own,
            cliques,
            rows: rows.collect(),
            due: mirrors.map(|mirror| (mirror, BTreeSet::new())).collect(),
            paused: BTreeMap::new(),
        }
    }

    /// This server does not hear a mirror, and misses what that sends: all are to be told. Gives the version of what it
    /// says.
    pub(super) fn on_disconnected(&mut self, mirror: DcId) -> u64 {
        let own = self.own_row();
        own.behind.remove(&mirror);
        own.silent.insert(mirror);
        self.say()
    }

    /// This server hears a mirror again, if it did not, and has yet to get what it missed.
    pub(super) fn on_heard(&mut self, mirror: DcId) {
        let own = self.own_row();
        if own.silent.remove(&mirror) {
            own.behind.insert(mirror);
            self.say();
        }
    }

    /// This server has what it missed of a mirror, if it missed something.
    pub(super) fn on_level(&mut self, mirror: DcId) {
        let own = self.own_row();
        if own.silent.remove(&mirror) | own.behind.remove(&mirror) {
            self.say();
        }
    }

    /// Whether this is a data center of the run.
    pub(super) fn knows(&self, dc: DcId) -> bool {
        self.rows.contains_key(&dc)
    }

    /// Takes what a mirror says of itself, or passes on of another data center of the run.
    pub(super) fn on_unheard(
        &mut self,
        from: DcId,
        (by, version): (DcId, u64),
        [silent, behind]: [BTreeSet<DcId>; 2],
    ) {
        let known = self.rows[&by].version;
        if by == self.own {
            // It is what this server said before it lost its state.
            if version > 0 && version >= known {
                self.own_row().version = version;
                self.say();
            }
            return;
        }

        if version > known {
            self.rows.insert(by, Row { version, silent, behind });
            let others = self.due.iter_mut().filter(|(to, _)| **to != from && **to != by);
            for (_, whose) in others {
                whose.insert(by);
            }
        }
    }

    /// A mirror has lost what it was told, and what it has said; of what it sent before nothing is missed any more.
    pub(super) fn on_reset(&mut self, mirror: DcId) {
        self.on_level(mirror);
        let said = self.rows.iter().filter(|(_, row)| row.version > 0);
        let said: BTreeSet<DcId> = said.map(|(dc, _)| *dc).collect();
        self.due.insert(mirror, said);
    }

    /// The next message for a mirror that waits, with what holds now.
    pub(super) fn next(&mut self, to: DcId) -> Option<ControlMessage> {
        let by = self.due.get_mut(&to)?.pop_first()?;
        let Row { version, silent, behind } = self.rows[&by].clone();
        Some(ControlMessage::Unheard { by, version, silent, behind })
    }

    /// Finds out who must not train, of those that take part.
    pub(super) fn judge(&mut self, present: &BTreeSet<DcId>) {
        let rows = &self.rows;
        self.paused = paused(&self.cliques, present, |a, b| {
            let ends = [(a, b), (b, a)];
            let any = |of: fn(&Row) -> &BTreeSet<DcId>| {
                ends.iter().any(|(at, from)| rows.get(at).is_some_and(|row| of(row).contains(from)))
            };
            match () {
                () if any(|row| &row.silent) => LinkState::Dead,
                () if any(|row| &row.behind) => LinkState::Behind,
                () => LinkState::Level,
            }
        });
    }

    /// The data centers that must not train, each with one that trains and that it exchanges no updates with.
    pub(super) fn paused(&self) -> &BTreeMap<DcId, DcId> {
        &self.paused
    }

    /// Walks over what changes as time goes on.
    pub(super) fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        walk.record_that("rows", &mut self.rows, |found, made| found.keys().eq(made.keys()))?;
        let known: BTreeSet<DcId> = self.rows.keys().copied().collect();
        walk.record_that("due", &mut self.due, |found, made| {
            found.keys().eq(made.keys()) && found.values().all(|whose| whose.is_subset(&known))
        })?;
        walk.record_that("paused", &mut self.paused, |found, _| {
            found.iter().all(|(dc, by)| known.contains(dc) && known.contains(by))
        })
    }

    /// Has all mirrors told of this server's own row, which has changed. Gives its version.
    fn say(&mut self) -> u64 {
        let own = self.own;
        for whose in self.due.values_mut() {
            whose.insert(own);
        }
        let row = self.own_row();
        row.version = row.version.saturating_add(1);
        row.version
    }

    fn own_row(&mut self) -> &mut Row {
        self.rows.entry(self.own).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The servers of one shard, of which some pairs pass messages on.
    struct Shard {
        servers: Vec<Reachability>,
        dead: BTreeSet<(u16, u16)>,
    }

    impl Shard {
        fn new(count: u16) -> Self {
            let dcs = || (0..count).map(DcId);
            let server = |own: DcId| {
                Reachability::new(own, vec![dcs().collect()], dcs().filter(move |dc| *dc != own))
            };
            Self { servers: dcs().map(server).collect(), dead: BTreeSet::new() }
        }

        fn cut(&mut self, pair: (u16, u16)) {
            self.dead.insert(pair);
            self.hear();
        }

        fn heal(&mut self, pair: (u16, u16)) {
            self.dead.remove(&pair);
            self.hear();
        }

        /// Tells every server whom it does not hear, and carries what they have to say.
        fn hear(&mut self) {
            let count = self.servers.len() as u16;
            let pairs = (0..count).flat_map(|at| (0..count).map(move |from| (at, from)));
            for (at, from) in pairs.filter(|(at, from)| at != from) {
                let is_dead = self.is_dead(at, from);
                let server = &mut self.servers[usize::from(at)];
                match server.own_row().silent.contains(&DcId(from)) {
                    false if is_dead => drop(server.on_disconnected(DcId(from))),
                    true if !is_dead => server.on_level(DcId(from)),
                    _ => {}
                }
            }
            while self.carry() {}
            let present = (0..count).map(DcId).collect();
            self.servers.iter_mut().for_each(|server| server.judge(&present));
        }

        fn carry(&mut self) -> bool {
            let count = self.servers.len() as u16;
            let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
            let mut carried = false;
            for (from, to) in pairs.filter(|(from, to)| from != to).collect::<Vec<_>>() {
                if self.is_dead(from, to) {
                    continue;
                }
                while let Some(message) = self.servers[usize::from(from)].next(DcId(to)) {
                    let ControlMessage::Unheard { by, version, silent, behind } = message else {
                        panic!("it says nothing else");
                    };
                    let server = &mut self.servers[usize::from(to)];
                    server.on_unheard(DcId(from), (by, version), [silent, behind]);
                    carried = true;
                }
            }
            carried
        }

        fn is_dead(&self, a: u16, b: u16) -> bool {
            self.dead.contains(&(a.min(b), a.max(b)))
        }

        fn check(&self, at: impl IntoIterator<Item = u16>, expect: &[(u16, u16)]) {
            let expect: BTreeMap<DcId, DcId> =
                expect.iter().map(|(dc, by)| (DcId(*dc), DcId(*by))).collect();
            for at in at {
                assert_eq!(*self.servers[usize::from(at)].paused(), expect, "at {at}");
            }
        }
    }

    #[test]
    fn all_that_any_way_connects_agree_on_who_pauses() {
        let mut shard = Shard::new(4);
        shard.cut((1, 2));
        shard.check(0..4, &[(2, 1)]);
        shard.cut((0, 3));
        // 2 hears of the other dead link from 0 or 3.
        shard.check(0..4, &[(2, 1), (3, 0)]);
        shard.heal((1, 2));
        shard.check(0..4, &[(3, 0)]);
        shard.heal((0, 3));
        shard.check(0..4, &[]);
    }

    #[test]
    fn what_was_said_while_a_link_was_dead_is_known_on_the_other_side_once_it_is_back() {
        let mut shard = Shard::new(3);
        shard.cut((0, 2));
        shard.cut((1, 2));
        shard.check(0..3, &[]);
        shard.heal((1, 2));
        shard.check(0..3, &[(2, 0)]);
    }

    #[test]
    fn one_that_has_lost_its_state_is_believed_again() {
        let mut shard = Shard::new(3);
        for _ in 0..3 {
            shard.cut((1, 2));
            shard.heal((1, 2));
        }
        shard.servers[2] = Shard::new(3).servers.remove(2);
        shard.servers[0].on_reset(DcId(2));
        shard.servers[1].on_reset(DcId(2));
        shard.hear();
        shard.cut((0, 2));
        shard.check(0..3, &[(2, 0)]);
    }
}
