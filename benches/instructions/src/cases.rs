//! The hot paths, each with what it works on: for the parameters of one shard, as servers call them.

use std::hint::black_box;
use std::slice::from_ref;
use std::sync::Arc;

use bytes::Bytes;
use gaia_core::codec::{
    Buffers, Changes, ValueFormat, decode, decode_indexes, encode, encode_indexes, quantise,
};
use gaia_core::node::{WorkerMessage, decode_worker_message, encode_worker_message};
use gaia_core::outbox::{Batch, Ranked, Residuals, Room};
use gaia_core::significance::{
    Measure, Parameters, Scratch, Selection, TableCriteria, Take, largest, rms, select,
};
use gaia_core::store::{ShardDeltas, ShardStore};
use gaia_core::sync::Function;
use gaia_core::types::{
    Clock, DcId, Deltas, Model, ModelLayout, Numbers, Seed, ShardId, ShardLayout, TableDeltas,
    TableLayout, Tightness,
};
use gaia_core::wire::{
    BulkHeader, BulkKind, ControlMessage, Gathering, LanKind, decode_bulk, decode_control,
    encode_bulk, encode_control, encode_lan, frame_len,
};

/// Gives each case to `count`: its name, and work that is to be counted once.
pub(crate) fn for_each_case(count: &mut dyn FnMut(&str, &mut dyn FnMut())) {
    // The first call detects the processor's features and makes room in buffers.
    let mut count = |name: &str, work: &mut dyn FnMut()| {
        work();
        count(name, work);
    };
    filter(&mut count);
    outbox(&mut count);
    store(&mut count);
    indexes(&mut count);
    values(&mut count);
    updates(&mut count);
    frames(&mut count);
}

/// A counter of cases.
type Count<'a> = dyn FnMut(&str, &mut dyn FnMut()) + 'a;

/// The filter's scan: which residuals are significant.
fn filter(count: &mut Count<'_>) {
    let (values, shared) = (numbers("values", 1.0), vec![0.0; PARAMETERS]);
    let (mut scratch, mut selection) = (Scratch::default(), Selection::default());
    let mut scan = |name: &str, local: &[f32], threshold: f32, take: Take| {
        let parameters = Parameters { values: &values, local, shared: Numbers::Plain(&shared) };
        let criteria = criteria(&values, threshold);
        count(name, &mut || {
            select(&parameters, &criteria, take, 1, &mut scratch, &mut selection);
            black_box(&selection);
        });
    };

    scan("filter: 1 % changed, all of it hard", &changed(0.01), 1e-6, Take::Hard);
    scan("filter: 50 % changed, all of it hard", &changed(0.5), 1e-6, Take::Hard);
    let all = changed(1.0);
    let threshold = |share| threshold_of(share, &values, &all);
    scan("filter: all changed, 1 % of it hard", &all, threshold(0.01), Take::Hard);
    scan("filter: all changed, 50 % of it hard", &all, threshold(0.5), Take::Hard);
    scan("filter: all changed, the most significant 1 %", &all, 0.05, Take::Most(PARAMETERS / 100));

    for (name, share) in [("1 %", PARAMETERS / 100), ("10 %", PARAMETERS / 10)] {
        count(&format!("rounds: all changed, the {name} largest"), &mut || {
            black_box(largest(&all, from_ref(&(0..PARAMETERS)), share));
        });
    }
}

/// What a link sends of a ranking: from residuals to a batch, and what remains of them.
fn outbox(count: &mut Count<'_>) {
    let (values, source) = (numbers("values", 1.0), changed(1.0));
    let (mut scratch, mut batch) = (Scratch::default(), Batch::default());
    // As of a link that has carried updates of every parameter before: zeros would take no memory yet.
    let used = Ranked::sharing(vec![1e-12; PARAMETERS].into());
    for (name, outbox, share, frame) in [
        ("outbox: rank and cut 1 % as bf16", Ranked::new(PARAMETERS), 0.01, PARAMETERS),
        ("outbox: rank and cut 50 % in ten frames", used, 0.5, PARAMETERS / 20),
    ] {
        let criteria = criteria(&values, threshold_of(share, &values, &source));
        let residuals = Residuals { values: &values, source: &source, criteria: &criteria };
        let room = Room { frame, clock: PARAMETERS };
        count(name, &mut || {
            let mut outbox = outbox.clone();
            outbox.rank(residuals, Take::Hard, Clock(1), &mut scratch);
            while outbox.waiting() > 0 {
                outbox.take(&source, ValueFormat::Bf16, room, &mut batch, &mut scratch);
                black_box(&batch);
            }
        });
    }
}

/// A worker's update: added to the values, and to the sum of what has changed.
fn store(count: &mut Count<'_>) {
    let layout = layout();
    let mut store = ShardStore::new(layout.clone(), &Model::zeros(layout.model().clone()));
    let mut source = vec![0.0_f32; PARAMETERS];
    for (name, deltas) in [
        ("apply: a dense update of a worker", whole_update()),
        ("apply: 10 % of rows of a worker", update_of_rows()),
    ] {
        let deltas = ShardDeltas::checked(deltas, &layout).expect("the update fits the shard");
        count(name, &mut || {
            store.add(&deltas, |place, change, _| {
                let sums = source[place].iter_mut().zip(change);
                sums.for_each(|(sum, change)| *sum += change);
            });
            black_box((&store, &source));
        });
    }
}

/// Coding of indexes, of patterns that take different forms.
fn indexes(count: &mut Count<'_>) {
    for (name, indexes) in [
        ("0.1 % at random", scattered(0.001)),
        ("1 % at random", scattered(0.01)),
        ("20 % at random", scattered(0.2)),
        ("10 % of rows of 32", in_rows()),
    ] {
        let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
        count(&format!("encode indexes: {name}"), &mut || {
            encoded.clear();
            encode_indexes(&indexes, &mut encoded);
            black_box(&encoded);
        });
        count(&format!("decode indexes: {name}"), &mut || {
            let result = decode_indexes(&encoded, PARAMETERS, &mut decoded);
            result.expect("what was encoded decodes");
            black_box(&decoded);
        });
        assert_eq!(decoded, indexes);
    }
}

/// Coding of dense values in each format.
fn values(count: &mut Count<'_>) {
    let values = numbers("dense", 0.01);
    let mut rounded = values.clone();
    let (mut encoded, mut buffers) = (Vec::new(), Buffers::default());
    for format in ValueFormat::ALL {
        let name = format.name();
        count(&format!("round values to {name}"), &mut || {
            rounded.copy_from_slice(&values);
            quantise(&mut rounded, format);
            black_box(&rounded);
        });
        let changes = Changes::Dense { start: 0, values: &rounded };
        let mut index_bytes = 0;
        count(&format!("encode values as {name}"), &mut || {
            encoded.clear();
            index_bytes = encode(changes, format, &mut encoded).index_bytes as usize;
            black_box(&encoded);
        });
        let (indexes, coded) = encoded.split_at(index_bytes);
        count(&format!("decode values of {name}"), &mut || {
            let decoded = decode(indexes, coded, format, PARAMETERS, &mut buffers);
            black_box(decoded.expect("what was encoded decodes"));
        });
    }
}

/// A mirror's update, applied to the values.
fn updates(count: &mut Count<'_>) {
    let (added, mut values) = (numbers("dense", 0.01), numbers("values", 1.0));
    for (name, share) in [("1 %", 0.01), ("50 %", 0.5)] {
        let indexes = scattered(share);
        let changes = Changes::Sparse { indexes: &indexes, values: &added[..indexes.len()] };
        count(&format!("apply: {name} of a mirror"), &mut || {
            changes.add_to(&mut values);
            black_box(&values);
        });
    }
    let changes = Changes::Dense { start: 0, values: &added };
    count("apply: a dense update of a mirror", &mut || {
        changes.add_to(&mut values);
        black_box(&values);
    });
}

/// Whole frames, with their checks.
fn frames(count: &mut Count<'_>) {
    bulk_frames(count);
    control_frames(count);
    lan_frames(count);
}

fn bulk_frames(count: &mut Count<'_>) {
    let header = BulkHeader {
        kind: BulkKind::Update,
        origin: DcId(1),
        shard: ShardId(0),
        sequence: 7,
        clock: Clock(3),
        last: true,
        relayed: false,
        tightness: Tightness::default(),
    };
    let (indexes, values) = (scattered(0.01), numbers("dense", 0.01));
    let sparse = Changes::Sparse { indexes: &indexes, values: &values[..indexes.len()] };
    let dense = Changes::Dense { start: 0, values: &values };
    for (name, changes, format) in [
        ("1 % as bf16", sparse, ValueFormat::Bf16),
        ("1 % as int8", sparse, ValueFormat::Int8),
        ("all as int4", dense, ValueFormat::Int4),
    ] {
        let (mut frame, mut buffers) = (Vec::new(), Buffers::default());
        count(&format!("encode a WAN frame: {name}"), &mut || {
            frame.clear();
            encode_bulk(&header, changes, format, &mut frame);
            black_box(&frame);
        });
        count(&format!("decode a WAN frame: {name}"), &mut || {
            let decoded = decode_bulk(&frame, PARAMETERS, &mut buffers);
            black_box(decoded.expect("what was encoded decodes"));
        });
    }
}

fn control_frames(count: &mut Count<'_>) {
    let mut indexes = Vec::new();
    encode_indexes(&scattered(0.01), &mut indexes);
    let announce = ControlMessage::Announce {
        announcement: 1,
        clock: Clock(3),
        sequence: 7,
        indexes: Bytes::from(indexes),
    };
    let mirror_clock = ControlMessage::MirrorClock { clock: Clock(3), sequence: 7 };
    for (name, message) in [("an announcement of 1 %", announce), ("a mirror clock", mirror_clock)]
    {
        let mut frame = Vec::new();
        encode_control(&message, &mut frame);
        count(&format!("decode a WAN frame: {name}"), &mut || {
            black_box(decode_control(&frame).expect("what was encoded decodes"));
        });
    }
}

fn lan_frames(count: &mut Count<'_>) {
    let layout = layout();
    for (name, deltas) in [("a dense update", whole_update()), ("10 % of rows", update_of_rows())] {
        let message = WorkerMessage::Update {
            clock: Clock(3),
            at: Clock(4),
            deltas: ShardDeltas::checked(deltas, &layout).expect("the update fits the shard"),
            probed: Vec::new(),
            learning_rate_factor: None,
            keeps: false,
        };
        let mut frames = Vec::new();
        count(&format!("encode LAN frames: {name}"), &mut || {
            frames.clear();
            let body = encode_worker_message(&message, &layout);
            encode_lan(LanKind::WorkerMessage, &body, &mut frames);
            black_box(&frames);
        });
        count(&format!("decode LAN frames: {name}"), &mut || {
            black_box(received(&frames, &layout));
        });
    }
}

/// The message that lies in some frames.
fn received(mut frames: &[u8], layout: &ShardLayout) -> Option<WorkerMessage> {
    let mut gathering = Gathering::default();
    while let Some(length) = frame_len(frames).expect("frames have lengths") {
        let (frame, rest) = frames.split_at(length);
        frames = rest;
        let message = gathering.push(frame, |_| usize::MAX, Vec::new).expect("frames are whole");
        if let Some((_, body)) = message {
            return Some(decode_worker_message(&body, layout).expect("what was encoded decodes"));
        }
    }
    None
}

/// As servers make them for a table with a floor.
fn criteria(values: &[f32], threshold: f32) -> [TableCriteria<Measure>; 1] {
    let function = Measure::BuiltIn(Function::Relative);
    [TableCriteria { range: 0..PARAMETERS, width: WIDTH, function, floor: rms(values), threshold }]
}

/// The relative threshold that this share of changes exceeds.
fn threshold_of(share: f64, values: &[f32], changes: &[f32]) -> f32 {
    let floor = rms(values);
    let ratios =
        values.iter().zip(changes).map(|(value, change)| change.abs() / value.abs().max(floor));
    let mut ratios: Vec<f32> = ratios.collect();
    ratios.sort_unstable_by(f32::total_cmp);
    ratios[((1.0 - share) * ratios.len() as f64) as usize]
}

fn layout() -> ShardLayout {
    let table = TableLayout { name: "table".into(), rows: PARAMETERS / WIDTH, width: WIDTH };
    ShardLayout::new(Arc::new(ModelLayout::new(vec![table])), ShardId(0), 1)
}

fn whole_update() -> Deltas {
    Deltas { tables: vec![TableDeltas::all(numbers("dense", 0.01))] }
}

fn update_of_rows() -> Deltas {
    let rows: Vec<u32> = (0..PARAMETERS / WIDTH)
        .filter(|row| draw("rows", *row) < 0.1)
        .map(|row| row as u32)
        .collect();
    let mut values = numbers("dense", 0.01);
    values.truncate(rows.len() * WIDTH);
    Deltas { tables: vec![TableDeltas::listed(rows, values)] }
}

/// A change of this share of the parameters.
fn changed(share: f64) -> Vec<f32> {
    let mut changes = numbers("changes", 0.01);
    for (index, change) in changes.iter_mut().enumerate() {
        if draw("changed", index) >= share {
            *change = 0.0;
        }
    }
    changes
}

/// Each parameter with this probability.
fn scattered(share: f64) -> Vec<u32> {
    (0..PARAMETERS)
        .filter(|index| draw("scattered", *index) < share)
        .map(|index| index as u32)
        .collect()
}

/// All parameters of a tenth of the rows.
fn in_rows() -> Vec<u32> {
    (0..PARAMETERS)
        .filter(|index| draw("rows", index / WIDTH) < 0.1)
        .map(|index| index as u32)
        .collect()
}

/// A number from `-scale` to `scale` for each parameter.
fn numbers(name: &str, scale: f32) -> Vec<f32> {
    (0..PARAMETERS).map(|index| scale * (2.0 * draw(name, index) as f32 - 1.0)).collect()
}

/// A number from 0 to below 1 that depends on the name and the index alone.
fn draw(name: &str, index: usize) -> f64 {
    let bits = Seed(1).child(name).nth(index).0 >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

/// Many vectors of any instruction set, and little enough that a case takes a moment under Valgrind. A multiple of [`WIDTH`].
const PARAMETERS: usize = 100_000;
const WIDTH: usize = 32;
