//! Nothing is lost, nothing doubled. Per link and parameter, what was sent and what is still at home are what there was
//! to send; a copy is what it began with, what its own workers changed and what mirrors sent; and what the drain agrees on
//! is made of these.

mod inheritance;

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, Checker, Seen, Undone, View};
use gaia_core::codec::{Buffers, Changes};
use gaia_core::server::DrainMethod;
use gaia_core::store::ShardDeltas;
use gaia_core::sync::{RemoteSync, ValueFormat};
use gaia_core::types::{Clock, DcId, Lane, ServerId, ShardLayout, WorkerId};
use gaia_core::wire::{BulkKind, ControlMessage, decode_bulk, decode_control, is_control};

use inheritance::Inheritance;

/// The books.
#[derive(Debug, Default)]
pub(super) struct Conservation {
    copies: BTreeMap<ServerId, Vec<f64>>,
    /// What all workers of a data center changed.
    own: BTreeMap<ServerId, Vec<f64>>,
    /// Per link, in updates.
    sent: BTreeMap<(ServerId, DcId), Vec<f64>>,
    delivered: BTreeMap<(ServerId, DcId), Vec<f64>>,
    initial: BTreeMap<ServerId, Vec<f64>>,
    /// The clock whose update of each worker is next.
    next: BTreeMap<(ServerId, WorkerId), Clock>,
    /// Servers that have lost all they had: what links to them carry begins with what another's has.
    lost: BTreeSet<ServerId>,
    /// What a copy holds of what lost servers' workers had changed.
    former: BTreeMap<ServerId, Vec<f64>>,
    /// What each copy had of a mirror when that was lost last.
    counted: BTreeMap<(ServerId, DcId), Vec<f64>>,
    inheritance: Inheritance,
    /// Servers whose copies the drain has begun to change.
    draining: BTreeMap<ServerId, bool>,
    layouts: BTreeMap<ServerId, ShardLayout>,
    buffers: Buffers,
}

impl Checker for Conservation {
    fn name(&self) -> &'static str {
        "conservation"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        self.open(view);

        match seen {
            Seen::Updated { server, worker, clock, deltas } => {
                let begins = if self.lost.contains(&server) { clock } else { Clock::ZERO };
                let next = self.next.entry((server, worker)).or_insert(begins);
                if clock != *next {
                    return Err(format!(
                        "{server} adds what {worker} changed at clock {clock}, where clock {next} was due"
                    ));
                }
                *next = next.next();
                let layout = layout_of(view, server);
                for sums in [&mut self.own, &mut self.copies] {
                    let sums = sums.get_mut(&server).expect("the books are open");
                    add_deltas(sums, deltas, layout, 1.0);
                }
                self.check_copy(view, server)
            }
            Seen::Cut { from, to, lane: Lane::Data, frame } => {
                if self.book(frame, (from, to), true, 1.0) {
                    return self.check_link(view, from, to);
                }
                Ok(())
            }
            Seen::Delivered { at, from, lane, frame } if is_word(lane, frame) => {
                let dcs = view.present();
                let word = decode_control(frame).ok();
                let taken = word.and_then(|word| self.inheritance.hear((at, from), &word, dcs));
                if let Some(server) = taken {
                    self.inherit(view, server, at);
                }
                Ok(())
            }
            Seen::Delivered { at, from, lane: Lane::Data, frame } => {
                self.book(frame, (at, from), false, 1.0);
                Ok(())
            }
            Seen::Reset { at, from } => {
                self.inheritance.settle(Some(at), from);
                Ok(())
            }
            Seen::Gone { dc } => {
                self.inheritance.settle(None, dc);
                Ok(())
            }
            Seen::Taken { at } => self.check_copy(view, at),
            Seen::Lost { server, source } => {
                self.lose(view, server, source);
                Ok(())
            }
            Seen::End => self.check_end(view),
            _ => Ok(()),
        }
    }

    fn undo(&mut self, undone: &Undone) {
        match undone {
            Undone::Updated { server, worker, deltas } => {
                let next = self.next.entry((*server, *worker)).or_default();
                *next = Clock(next.0.saturating_sub(1));
                let layout = self.layouts[server].clone();
                for sums in [&mut self.own, &mut self.copies] {
                    let sums = sums.get_mut(server).expect("the books are open");
                    add_deltas(sums, deltas, &layout, -1.0);
                }
            }
            Undone::Cut { from, to, lane: Lane::Data, frame } => {
                self.book(frame, (*from, *to), true, -1.0);
            }
            Undone::Delivered { at, from, lane, frame } if is_word(*lane, frame) => {
                if let Ok(word) = decode_control(frame) {
                    self.inheritance.unhear((*at, *from), &word);
                }
            }
            Undone::Delivered { at, from, lane: Lane::Data, frame } => {
                self.book(frame, (*at, *from), false, -1.0);
            }
            _ => {}
        }
    }
}

impl Conservation {
    /// Begins the books with the first event there is: nothing has changed by then.
    fn open(&mut self, view: &View<'_>) {
        if !self.own.is_empty() {
            return;
        }
        for server in view.nodes.servers() {
            let initial: Vec<f64> = server.values().iter().map(|value| f64::from(*value)).collect();
            let zeros = vec![0.0; initial.len()];
            self.own.insert(server.id(), zeros.clone());
            self.layouts.insert(server.id(), server.layout().clone());
            self.former.insert(server.id(), zeros.clone());
            self.copies.insert(server.id(), initial.clone());
            self.initial.insert(server.id(), initial);
            for dc in view.plan.topology.dc_ids().filter(|dc| *dc != server.id().dc) {
                self.sent.insert((server.id(), dc), zeros.clone());
                self.delivered.insert((server.id(), dc), zeros.clone());
            }
        }
    }

    /// A server has lost its books with its copy: it begins with what its source has.
    fn lose(&mut self, view: &View<'_>, server: ServerId, source: DcId) {
        self.open(view);
        let zeros = vec![0.0; self.own[&server].len()];
        let dcs = view.plan.topology.dc_ids().filter(|dc| *dc != server.dc);
        for mirror in dcs.map(|dc| ServerId { dc, shard: server.shard }) {
            let has = self.has_of(mirror, server.dc);
            let counted = self.counted.entry((mirror, server.dc)).or_insert_with(|| zeros.clone());
            let former = self.former.get_mut(&mirror).expect("the books are open");
            for ((former, has), counted) in former.iter_mut().zip(has).zip(counted) {
                *former += has;
                *counted += has;
            }
            self.sent.insert((server, mirror.dc), zeros.clone());
            self.delivered.insert((server, mirror.dc), zeros.clone());
        }

        let source = ServerId { dc: source, shard: server.shard };
        self.former.insert(server, self.former[&source].clone());
        self.inheritance.lose(server);
        self.counted.retain(|(at, _), _| *at != server);
        self.own.insert(server, zeros.clone());
        self.copies.insert(server, zeros);
        self.next.retain(|(at, _), _| *at != server);

        self.lost.insert(server);
    }

    /// What a copy holds of what was changed by workers of data centers that have left, or by those of lost servers before
    /// they were.
    fn former_of(&self, view: &View<'_>, server: ServerId) -> Vec<f64> {
        let mut former = self.former[&server].clone();
        for dc in view.inactive.iter().filter(|dc| **dc != server.dc) {
            let has = self.has_of(server, *dc);
            former.iter_mut().zip(has).for_each(|(sum, value)| *sum += value);
        }
        former
    }

    /// What a copy has of what a data center has changed since its server was lost last.
    fn has_of(&self, server: ServerId, dc: DcId) -> Vec<f64> {
        let mut has = self.delivered[&(server, dc)].clone();
        self.inheritance.add_to(&mut has, server, dc);
        if let Some(counted) = self.counted.get(&(server, dc)) {
            has.iter_mut().zip(counted).for_each(|(sum, value)| *sum -= value);
        }
        has
    }

    /// The copy of a server is taken for one that has none.
    fn inherit(&mut self, view: &View<'_>, server: ServerId, source: ServerId) {
        if self.own.is_empty() {
            return;
        }
        for dc in view.plan.topology.dc_ids().filter(|dc| *dc != server.dc) {
            let of =
                if dc == source.dc { self.own[&source].clone() } else { self.has_of(source, dc) };
            self.inheritance.begin(server, dc, of);
        }
    }

    /// Books a frame, where it is an update of TAP or ASP; says whether it is.
    fn book(&mut self, frame: &[u8], link: (ServerId, DcId), is_sent: bool, times: f64) -> bool {
        // Until the books are open no worker has changed anything.
        let Some(layout) = self.layouts.get(&link.0) else { return false };
        let parameters = layout.parameters();
        let Ok((header, changes)) = decode_bulk(frame, parameters, &mut self.buffers) else {
            return false;
        };

        match header.kind {
            BulkKind::Update => {}
            BulkKind::Copy | BulkKind::Backlog if !is_sent => {
                let copy = self.copies.get_mut(&link.0).expect("the books are open");
                add_changes(copy, changes, times);
                return false;
            }
            BulkKind::DrainCopy | BulkKind::DrainResult => {
                self.draining.insert(link.0, true);
                return false;
            }
            _ => return false,
        }

        if is_sent {
            add_changes(self.sent.get_mut(&link).expect("the books are open"), changes, times);
        } else {
            let delivered = self.delivered.get_mut(&link).expect("the books are open");
            add_changes(delivered, changes, times);
            self.inheritance.enqueue(link, changes, times);
            let copy = self.copies.get_mut(&link.0).expect("the books are open");
            add_changes(copy, changes, times);
        }

        true
    }

    /// What a link was to carry is what it has carried and what is at home.
    fn check_link(&self, view: &View<'_>, from: ServerId, to: DcId) -> Result<(), Broken> {
        if self.lost.contains(&ServerId { dc: to, shard: from.shard }) {
            return Ok(());
        }
        let server = view.server(from);
        let residual = server.residual(to);
        let source = self.source(view, from, to);
        let sent = &self.sent[&(from, to)];
        for (place, source) in source.iter().enumerate() {
            let booked = sent[place] + f64::from(residual[place]);
            if differ(*source, booked, ROUNDING) {
                return Err(format!(
                    "of parameter {place}, {from} has sent {} to {to} and kept {}, of {source}",
                    sent[place], residual[place]
                ));
            }
        }
        Ok(())
    }

    /// What a link is to carry: what the data center's workers changed, and on a hub what other cliques sent.
    fn source(&self, view: &View<'_>, from: ServerId, to: DcId) -> Vec<f64> {
        let mut source = self.own[&from].clone();
        for clique in view.overlay.neighbours(from.dc).iter().filter(|clique| !clique.contains(&to))
        {
            for dc in clique {
                let delivered = &self.delivered[&(from, *dc)];
                source.iter_mut().zip(delivered).for_each(|(sum, value)| *sum += value);
            }
        }
        source
    }

    fn check_copy(&self, view: &View<'_>, server: ServerId) -> Result<(), Broken> {
        let shares_updates = matches!(view.plan.remote, RemoteSync::Tap(_) | RemoteSync::Asp(_));
        if !shares_updates || self.draining.contains_key(&server) {
            return Ok(());
        }
        let values = view.server(server).values();
        let wrong = values.iter().zip(&self.copies[&server]).enumerate();
        let mut wrong =
            wrong.filter(|(_, (value, book))| differ(f64::from(**value), **book, ROUNDING));
        match wrong.next() {
            Some((place, (value, book))) => {
                Err(format!("parameter {place} is {value} at {server}, where changes make {book}"))
            }
            None => Ok(()),
        }
    }

    /// What all agreed on in the end.
    fn check_end(&self, view: &View<'_>) -> Result<(), Broken> {
        let (expected, tolerance): (Expected, f64) = match &view.plan.remote {
            RemoteSync::Tap(_) | RemoteSync::Asp(_) => match view.plan.drain.method {
                DrainMethod::Mean => (Self::mean, ROUNDING),
                // Of what a lost server had told some, hubs pass on what they have heard.
                DrainMethod::Residuals if !self.lost.is_empty() && !is_mesh(view) => return Ok(()),
                DrainMethod::Residuals => (Self::total, ROUNDING),
            },
            RemoteSync::Bsp(config) => (Self::total, tolerance(config.values)),
            RemoteSync::Ssp(config) => (Self::total, tolerance(config.values)),
            // The mean of what no round has taken is less than its sum, and outer steps are what they are.
            RemoteSync::LocalSteps(config)
                if config.adds_up() && view.plan.drain.method == DrainMethod::Residuals =>
            {
                (Self::total, tolerance(config.values))
            }
            RemoteSync::LocalSteps(_) => return Ok(()),
        };

        for server in view.servers() {
            let expected = expected(self, server.id(), view);
            for (place, (value, expected)) in server.values().iter().zip(expected).enumerate() {
                if differ(f64::from(*value), expected, tolerance) {
                    let server = server.id();
                    return Err(format!(
                        "parameter {place} is {value} at {server} after the drain, where {expected} was due"
                    ));
                }
            }
        }

        Ok(())
    }

    /// The mean of all copies before the drain.
    fn mean(&self, server: ServerId, view: &View<'_>) -> Vec<f64> {
        let copies: Vec<&Vec<f64>> =
            view.present().map(|dc| &self.copies[&ServerId { dc, shard: server.shard }]).collect();
        (0..copies[0].len())
            .map(|place| copies.iter().map(|copy| copy[place]).sum::<f64>() / copies.len() as f64)
            .collect()
    }

    /// Everything that was ever changed.
    fn total(&self, server: ServerId, view: &View<'_>) -> Vec<f64> {
        let mut total = self.initial[&server].clone();
        for dc in view.present() {
            let own = &self.own[&ServerId { dc, shard: server.shard }];
            total.iter_mut().zip(own).for_each(|(sum, value)| *sum += value);
        }
        // What the copy of each block's home has of what was lost is what all agree on.
        let (count, parameters) = (view.present().count(), total.len());
        for (home, dc) in view.present().enumerate() {
            let block = parameters * home / count..parameters * (home + 1) / count;
            let former = self.former_of(view, ServerId { dc, shard: server.shard });
            for place in block {
                total[place] += former[place];
            }
        }
        total
    }
}

/// Whether a frame is one of the words by which copies are taken and links fork.
fn is_word(lane: Lane, frame: &[u8]) -> bool {
    match lane {
        Lane::Control => matches!(decode_control(frame), Ok(ControlMessage::Rebuild { .. })),
        Lane::Data => is_control(frame),
    }
}

fn is_mesh(view: &View<'_>) -> bool {
    view.overlay.cliques().len() == 1
}

/// What a server must hold in the end.
type Expected = fn(&Conservation, ServerId, &View<'_>) -> Vec<f64>;

fn layout_of<'a>(view: &View<'a>, server: ServerId) -> &'a ShardLayout {
    view.server(server).layout()
}

fn add_deltas(sums: &mut [f64], deltas: &ShardDeltas, layout: &ShardLayout, times: f64) {
    for (table, changes) in deltas.tables() {
        let width = layout.width_of(table);
        for (row, values) in changes.rows.iter().zip(changes.values.chunks_exact(width)) {
            let start = layout.row_offset(table, *row as usize);
            let places = sums[start..start + width].iter_mut();
            places.zip(values).for_each(|(sum, value)| *sum += times * f64::from(*value));
        }
    }
}

fn add_changes(sums: &mut [f64], changes: Changes<'_>, times: f64) {
    match changes {
        Changes::Dense { start, values } => {
            let places = sums[start as usize..].iter_mut();
            places.zip(values).for_each(|(sum, value)| *sum += times * f64::from(*value));
        }
        Changes::Sparse { indexes, values } => {
            for (index, value) in indexes.iter().zip(values) {
                sums[*index as usize] += times * f64::from(*value);
            }
        }
    }
}

fn differ(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() > tolerance * (1.0 + a.abs().max(b.abs()))
}

/// What an exchange may still keep at the end: one rounding of what changes in a clock.
fn tolerance(format: ValueFormat) -> f64 {
    if format == ValueFormat::F32 { ROUNDING } else { 0.05 }
}

/// Of sums of single precision.
const ROUNDING: f64 = 1e-4;
