//! Conservation: no update is lost or applied twice. Per link and parameter, the sum of what was sent and the residual
//! is the sum of all updates. A copy is its initial value, the changes of its own workers and the updates of mirrors.
//! The drain's result follows from these.

mod inheritance;

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, Checker, Seen, View};
use crate::cluster::undone::Undone;
use gaia_core::codec::{Buffers, Changes};
use gaia_core::server::DrainMethod;
use gaia_core::store::ShardDeltas;
use gaia_core::sync::{OutlierAction, RemoteSync, ValueFormat};
use gaia_core::types::{Clock, DcId, Lane, ServerId, ShardLayout, TableRows, WorkerId};
use gaia_core::wire::{BulkKind, ControlMessage, decode_bulk, decode_control, is_control};

use inheritance::Inheritance;

/// The expected sums of all servers and links.
#[derive(Debug, Default)]
pub(super) struct Conservation {
    copies: BTreeMap<ServerId, Vec<f64>>,
    /// The largest magnitude that each parameter of a copy has had: single precision rounds by a share of it.
    largest: BTreeMap<ServerId, Vec<f64>>,
    /// The sum of the changes of a data center's workers.
    own: BTreeMap<ServerId, Vec<f64>>,
    /// Per link, the sum of the sent updates.
    sent: BTreeMap<(ServerId, DcId), Vec<f64>>,
    delivered: BTreeMap<(ServerId, DcId), Vec<f64>>,
    /// Per link, the largest magnitude that each residual has had before a frame was cut.
    residuals: BTreeMap<(ServerId, DcId), Vec<f64>>,
    initial: BTreeMap<ServerId, Vec<f64>>,
    /// The clock of each worker's next update. With a quorum of workers a later one may follow.
    next: BTreeMap<(ServerId, WorkerId), Clock>,
    /// Servers that have lost their state: links to them continue from what was sent to another server.
    lost: BTreeSet<ServerId>,
    /// The changes in a copy that workers of lost servers had made before the loss.
    former: BTreeMap<ServerId, Vec<f64>>,
    /// The changes of a mirror in each copy when the mirror was last lost.
    counted: BTreeMap<(ServerId, DcId), Vec<f64>>,
    inheritance: Inheritance,
    /// Servers whose drain has begun.
    draining: BTreeMap<ServerId, bool>,
    layouts: BTreeMap<ServerId, ShardLayout>,
    buffers: Buffers,
}

impl Checker for Conservation {
    fn name(&self) -> &'static str {
        "conservation"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        self.initialise(view);

        match seen {
            Seen::Updated { server, worker, at, deltas, .. } => {
                let begins = if self.lost.contains(&server) { at } else { Clock::ZERO };
                let next = self.next.entry((server, worker)).or_insert(begins);
                let is_in_turn = at == *next || at > *next && view.plan.local.has_quorum();
                if !is_in_turn {
                    return Err(format!(
                        "{server} adds the changes of {worker} at clock {at} instead of clock {next}"
                    ));
                }
                *next = at.next();
                let layout = layout_of(view, server);
                for sums in [&mut self.own, &mut self.copies] {
                    let sums = sums.get_mut(&server).expect("the sums are initialised");
                    add_deltas(sums, deltas, layout, 1.0);
                }
                self.check_copy(view, server)
            }
            Seen::Cut { from, to, lane: Lane::Data, frame } => {
                self.measure_residuals(view, from, to);
                if self.add_frame(frame, (from, to), true, 1.0) {
                    return self.check_link(view, from, to);
                }
                Ok(())
            }
            Seen::Delivered { at, from, lane, frame } if is_copy_message(lane, frame) => {
                let dcs = view.present();
                let message = decode_control(frame).ok();
                let taken =
                    message.and_then(|message| self.inheritance.receive((at, from), &message, dcs));
                if let Some(server) = taken {
                    self.inherit(view, server, at);
                }
                Ok(())
            }
            Seen::Delivered { at, from, lane: Lane::Data, frame } => {
                self.add_frame(frame, (at, from), false, 1.0);
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
            Undone::Updated { server, worker, clock, deltas } => {
                self.next.insert((*server, *worker), *clock);
                let layout = self.layouts[server].clone();
                for sums in [&mut self.own, &mut self.copies] {
                    let sums = sums.get_mut(server).expect("the sums are initialised");
                    add_deltas(sums, deltas, &layout, -1.0);
                }
            }
            Undone::Cut { from, to, lane: Lane::Data, frame } => {
                self.add_frame(frame, (*from, *to), true, -1.0);
            }
            Undone::Delivered { at, from, lane, frame } if is_copy_message(*lane, frame) => {
                if let Ok(message) = decode_control(frame) {
                    self.inheritance.undo_receive((*at, *from), &message);
                }
            }
            Undone::Delivered { at, from, lane: Lane::Data, frame } => {
                self.add_frame(frame, (*at, *from), false, -1.0);
            }
            _ => {}
        }
    }
}

impl Conservation {
    /// Initialises the sums at the first event, before any change.
    fn initialise(&mut self, view: &View<'_>) {
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

    /// Resets the sums of a server that has lost its copy to those of its source.
    fn lose(&mut self, view: &View<'_>, server: ServerId, source: DcId) {
        self.initialise(view);
        let zeros = vec![0.0; self.own[&server].len()];
        let dcs = view.plan.topology.dc_ids().filter(|dc| *dc != server.dc);
        for mirror in dcs.map(|dc| ServerId { dc, shard: server.shard }) {
            let has = self.has_of(mirror, server.dc);
            let counted = self.counted.entry((mirror, server.dc)).or_insert_with(|| zeros.clone());
            let former = self.former.get_mut(&mirror).expect("the sums are initialised");
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

    /// The changes in a copy by workers of data centers that have left, and of lost servers before the loss.
    fn former_of(&self, view: &View<'_>, server: ServerId) -> Vec<f64> {
        let mut former = self.former[&server].clone();
        for dc in view.inactive.iter().filter(|dc| **dc != server.dc) {
            let has = self.has_of(server, *dc);
            former.iter_mut().zip(has).for_each(|(sum, value)| *sum += value);
        }
        former
    }

    /// The changes in a copy by a data center since its server was last lost.
    fn has_of(&self, server: ServerId, dc: DcId) -> Vec<f64> {
        let mut has = self.delivered[&(server, dc)].clone();
        self.inheritance.add_to(&mut has, server, dc);
        if let Some(counted) = self.counted.get(&(server, dc)) {
            has.iter_mut().zip(counted).for_each(|(sum, value)| *sum -= value);
        }
        has
    }

    /// Records that a server takes the copy of another.
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

    /// Adds a frame to the sums if it is an update of TAP or ASP. Returns whether it is.
    fn add_frame(
        &mut self,
        frame: &[u8],
        link: (ServerId, DcId),
        is_sent: bool,
        times: f64,
    ) -> bool {
        // Before the sums are initialised, no worker has changed a parameter.
        let Some(layout) = self.layouts.get(&link.0) else { return false };
        let parameters = layout.parameters();
        let Ok((header, changes)) = decode_bulk(frame, parameters, &mut self.buffers) else {
            return false;
        };

        match header.kind {
            BulkKind::Update => {}
            BulkKind::Copy | BulkKind::Backlog if !is_sent => {
                let copy = self.copies.get_mut(&link.0).expect("the sums are initialised");
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
            add_changes(
                self.sent.get_mut(&link).expect("the sums are initialised"),
                changes,
                times,
            );
        } else {
            let delivered = self.delivered.get_mut(&link).expect("the sums are initialised");
            add_changes(delivered, changes, times);
            self.inheritance.enqueue(link, changes, times);
            let copy = self.copies.get_mut(&link.0).expect("the sums are initialised");
            add_changes(copy, changes, times);
        }

        true
    }

    /// Records how large the residuals of a link are before a frame is cut. Sums of whole numbers are exact, so they matter only
    /// where updates are clipped.
    fn measure_residuals(&mut self, view: &View<'_>, from: ServerId, to: DcId) {
        let clips = view.plan.outliers.is_some_and(|one| one.action == OutlierAction::Clip);
        if !clips || self.own.is_empty() {
            return;
        }
        let source = self.source(view, from, to);
        let sent = &self.sent[&(from, to)];
        let largest = self.residuals.entry((from, to)).or_insert_with(|| vec![0.0; sent.len()]);
        for ((largest, source), sent) in largest.iter_mut().zip(source).zip(sent) {
            *largest = largest.max((source - sent).abs());
        }
    }

    /// Checks that the source of a link is the sum of what was sent and the residual.
    fn check_link(&self, view: &View<'_>, from: ServerId, to: DcId) -> Result<(), Broken> {
        if self.lost.contains(&ServerId { dc: to, shard: from.shard }) {
            return Ok(());
        }
        let server = view.server(from);
        let residual = server.residual(to);
        let source = self.source(view, from, to);
        let sent = &self.sent[&(from, to)];
        let largest = self.residuals.get(&(from, to));
        for (place, source) in source.iter().enumerate() {
            let booked = sent[place] + f64::from(residual[place]);
            let largest = largest.map_or(0.0, |largest| largest[place]);
            if differ(*source, booked, ROUNDING * (1.0 + OF_LARGEST * largest)) {
                return Err(format!(
                    "parameter {place}: {from} has sent {} to {to} and holds back {}, but the updates are {source}",
                    sent[place], residual[place]
                ));
            }
        }
        Ok(())
    }

    /// The source of a link: the changes of the data center's workers, and on a hub the updates of other cliques.
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

    fn check_copy(&mut self, view: &View<'_>, server: ServerId) -> Result<(), Broken> {
        let shares_updates = matches!(view.plan.remote, RemoteSync::Tap(_) | RemoteSync::Asp(_));
        if !shares_updates || self.draining.contains_key(&server) {
            return Ok(());
        }
        let values = view.server(server).values();
        let largest = self.largest.entry(server).or_insert_with(|| vec![0.0; values.len()]);
        let places = values.iter().zip(&self.copies[&server]).zip(largest);
        for (place, ((value, book), largest)) in places.enumerate() {
            let found = f64::from(*value);
            *largest = largest.max(found.abs());
            if (found - book).abs() > ROUNDING * (1.0 + OF_LARGEST * *largest) {
                return Err(format!("parameter {place} is {value} at {server} instead of {book}"));
            }
        }
        Ok(())
    }

    /// Checks the values at the end of the run.
    fn check_end(&self, view: &View<'_>) -> Result<(), Broken> {
        let (expected, tolerance): (Expected, f64) = match &view.plan.remote {
            RemoteSync::Tap(_) | RemoteSync::Asp(_) => match view.plan.drain.method {
                DrainMethod::Mean => (Self::mean, ROUNDING),
                // Hubs forward the updates that a lost server had sent to some mirrors only.
                DrainMethod::Residuals if !self.lost.is_empty() && !is_mesh(view) => return Ok(()),
                DrainMethod::Residuals => (Self::total, ROUNDING),
            },
            RemoteSync::Bsp(config) => (Self::total, tolerance(config.values)),
            RemoteSync::Ssp(config) => (Self::total, tolerance(config.values)),
            // The mean of changes that no round includes is less than their sum, and outer steps scale changes.
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
                        "parameter {place} is {value} at {server} after the drain instead of {expected}"
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

    /// The sum of all changes.
    fn total(&self, server: ServerId, view: &View<'_>) -> Vec<f64> {
        let mut total = self.initial[&server].clone();
        for dc in view.present() {
            let own = &self.own[&ServerId { dc, shard: server.shard }];
            total.iter_mut().zip(own).for_each(|(sum, value)| *sum += value);
        }
        // Of the changes of lost servers, those in the copy of each block's home count.
        let blocks = view.plan.blocks().among(&view.present().collect());
        for dc in view.present() {
            let block = blocks.range(total.len(), dc);
            let former = self.former_of(view, ServerId { dc, shard: server.shard });
            for place in block {
                total[place] += former[place];
            }
        }
        total
    }
}

/// Whether a frame is a control message by which a copy is requested or a link forks.
fn is_copy_message(lane: Lane, frame: &[u8]) -> bool {
    match lane {
        Lane::Control => matches!(decode_control(frame), Ok(ControlMessage::Rebuild { .. })),
        Lane::Data => is_control(frame),
    }
}

fn is_mesh(view: &View<'_>) -> bool {
    view.overlay.cliques().len() == 1
}

/// The expected values of a server at the end.
type Expected = fn(&Conservation, ServerId, &View<'_>) -> Vec<f64>;

fn layout_of<'a>(view: &View<'a>, server: ServerId) -> &'a ShardLayout {
    view.server(server).layout()
}

fn add_deltas(sums: &mut [f64], deltas: &ShardDeltas, layout: &ShardLayout, times: f64) {
    for (table, changes) in deltas.tables() {
        let width = layout.width_of(table);
        let rows: Vec<usize> = match &changes.rows {
            TableRows::All => (0..layout.rows_of(table)).map(|row| layout.model_row(row)).collect(),
            TableRows::Listed(listed) => listed.iter().map(|row| *row as usize).collect(),
        };
        for (row, values) in rows.into_iter().zip(changes.values.chunks_exact(width)) {
            let start = layout.row_offset(table, row);
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

/// The tolerance for an exchange at the end: one rounding of the changes of a clock.
fn tolerance(format: ValueFormat) -> f64 {
    if format == ValueFormat::F32 { ROUNDING } else { 0.05 }
}

/// The tolerance for sums in single precision.
const ROUNDING: f64 = 1e-4;

/// The share of a parameter's largest magnitude that counts for [`ROUNDING`] of a copy or a residual. Clipped changes are no whole
/// numbers: each of some hundred additions rounds by up to 6·10⁻⁸ of the sum that it makes.
const OF_LARGEST: f64 = 0.1;
