//! Bulk frames: changes of parameters, of every kind and in every value format.
//!
//! The first byte says how many parameters the shard has; the frame follows.

use gaia_core::codec::{Buffers, Changes, ValueFormat};
use gaia_core::types::{Clock, DcId, ShardId, Tightness};
use gaia_core::wire::{BulkHeader, BulkKind, decode_bulk, encode_bulk, peek_bulk};

use super::sealed::{BULK, sealed};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "bulk", check, seeds };

fn check(data: &[u8]) {
    let Some((&which, frame)) = data.split_first() else { return };
    let parameters = PARAMETERS[usize::from(which) % PARAMETERS.len()];
    for frame in [Some(frame.to_vec()), sealed(frame, BULK)].into_iter().flatten() {
        let mut buffers = Buffers::default();
        let Ok((header, changes)) = decode_bulk(&frame, parameters, &mut buffers) else { continue };
        assert_eq!(peek_bulk(&frame), Ok((header, changes.len() as u32)));
        assert!(changes.len() <= parameters);
        if let Changes::Sparse { indexes, values } = changes {
            assert_eq!(indexes.len(), values.len());
            assert!(indexes.is_sorted_by(|a, b| a < b), "indexes ascend");
        }
        changes.add_to(&mut vec![0.0; parameters]);
        // Exact values say the same again.
        let mut again = Vec::new();
        encode_bulk(&header, changes, ValueFormat::F32, &mut again);
        let mut buffers = Buffers::default();
        let (same, arrived) = decode_bulk(&again, parameters, &mut buffers).expect("our own frame");
        assert_eq!(same, header);
        assert_eq!(bits(arrived, parameters), bits(changes, parameters));
    }
}

/// What changes make of zeros, to the bit.
fn bits(changes: Changes<'_>, parameters: usize) -> Vec<u32> {
    let mut values = vec![0.0; parameters];
    changes.add_to(&mut values);
    values.into_iter().map(f32::to_bits).collect()
}

pub fn seeds() -> Vec<Seed> {
    const SPARSE: Changes<'static> =
        Changes::Sparse { indexes: &[4, 9, 600, 601], values: &[1.0, -2.5, 1e-3, 7.0] };
    const DENSE: Changes<'static> = Changes::Dense { start: 3, values: &[0.5; 40] };
    const RUNS: Changes<'static> =
        Changes::Sparse { indexes: &[4, 9, 600], values: &[3.0, 1.0, 40.0] };
    let rows: Vec<u32> = (0..60).map(|at| at / 6 * 30 + at % 6).collect();
    let even: Vec<u32> = (0..60).map(|at| at * 13).collect();
    let halves: Vec<u32> = (0..400).filter(|at| at * at % 7 < 3).collect();
    let values = vec![-0.25; 400];
    let mut seeds = vec![
        ("update-f32", frame(BulkKind::Update, ValueFormat::F32, SPARSE)),
        ("partial-bf16", frame(BulkKind::Partial, ValueFormat::Bf16, DENSE)),
        ("total-int8", frame(BulkKind::Total, ValueFormat::Int8, SPARSE)),
        ("drain-copy-int4", frame(BulkKind::DrainCopy, ValueFormat::Int4, DENSE)),
        ("drain-result-f32", frame(BulkKind::DrainResult, ValueFormat::F32, DENSE)),
        ("workers-f32", frame(BulkKind::Workers, ValueFormat::F32, SPARSE)),
        ("probe-int8", frame(BulkKind::Probe, ValueFormat::Int8, DENSE)),
        ("total-int2", frame(BulkKind::Total, ValueFormat::Int2, SPARSE)),
        ("changed-f32", frame(BulkKind::Changed, ValueFormat::F32, RUNS)),
    ];
    for (name, indexes) in [("rows", rows), ("even", even), ("halves", halves)] {
        let changes = Changes::Sparse { indexes: &indexes, values: &values[..indexes.len()] };
        seeds.push((name, frame(BulkKind::Update, ValueFormat::Int4, changes)));
    }
    seeds
}

fn frame(kind: BulkKind, format: ValueFormat, changes: Changes<'_>) -> Vec<u8> {
    let header = BulkHeader {
        kind,
        origin: DcId(1),
        shard: ShardId(0),
        sequence: 1,
        clock: Clock(0),
        last: true,
        relayed: false,
        tightness: Tightness::NONE,
    };
    let mut frame = vec![THOUSAND];
    encode_bulk(&header, changes, format, &mut frame);
    frame
}

/// Parameters of the shard, by the first byte.
const PARAMETERS: [usize; 7] = [0, 1, 7, 1000, 4097, 1 << 16, 1 << 20];
const THOUSAND: u8 = 3;
