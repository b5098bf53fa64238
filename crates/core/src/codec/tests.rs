use proptest::prelude::*;

use super::*;
use crate::simd::Level;

/// Encodes, checks every promise about lengths, decodes, and answers what arrived.
fn round_trip(changes: Changes<'_>, format: ValueFormat, parameters: usize) -> (Buffers, Encoded) {
    let mut out = vec![0xee; 3];
    let encoded = encode(changes, format, &mut out);
    let payload = &out[3..];
    assert_eq!(payload.len(), encoded.bytes());
    assert_eq!(payload.len(), encoded_len(changes, format));
    let (indexes, values) = payload.split_at(encoded.index_bytes as usize);
    let mut buffers = Buffers { indexes: vec![9; 4], values: vec![9.0; 4] };
    let arrived = decode(indexes, values, format, parameters, &mut buffers).unwrap();
    assert_eq!(arrived.len(), encoded.count as usize);

    // What arrives is what quantising the sequence that travels makes of it.
    let sent = flatten(changes, parameters);
    let mut frame: Vec<f32> = match arrived {
        Changes::Dense { start, values } => sent[start as usize..][..values.len()].to_vec(),
        Changes::Sparse { indexes, .. } => indexes.iter().map(|at| sent[*at as usize]).collect(),
    };
    quantise(&mut frame, format);
    assert_eq!(bits(arrived.values()), bits(&frame));
    if let (Changes::Sparse { indexes: sent, .. }, Changes::Sparse { indexes, .. }) =
        (changes, arrived)
    {
        assert_eq!(indexes, sent);
    }

    (buffers, encoded)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn quantised(values: &[f32], format: ValueFormat) -> Vec<f32> {
    let mut values = values.to_vec();
    quantise(&mut values, format);
    values
}

fn flatten(changes: Changes<'_>, parameters: usize) -> Vec<f32> {
    let mut flat = vec![0.0; parameters];
    match changes {
        Changes::Dense { start, values } => {
            flat[start as usize..][..values.len()].copy_from_slice(values);
        }
        Changes::Sparse { indexes, values } => {
            for (index, value) in indexes.iter().zip(values) {
                flat[*index as usize] = *value;
            }
        }
    }
    flat
}

fn bytes_per_index(indexes: &[u32]) -> f64 {
    let mut out = Vec::new();
    encode_indexes(indexes, &mut out);
    let mut back = Vec::new();
    decode_indexes(&out, *indexes.last().unwrap() as usize + 1, &mut back).unwrap();
    assert_eq!(back, indexes);
    out.len() as f64 / indexes.len() as f64
}

/// A cheap generator for index patterns; quality does not matter here.
fn scramble(at: u32) -> u32 {
    (u64::from(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32
}

#[test]
fn whole_rows_cost_little() {
    for (width, most) in [(16, 0.08), (32, 0.04), (10, 0.15), (1024, 0.003)] {
        let rows = (0..100_000 / width * 10).filter(|row| scramble(*row).is_multiple_of(10));
        let indexes: Vec<u32> = rows.flat_map(|row| row * width..(row + 1) * width).collect();
        let cost = bytes_per_index(&indexes);
        assert!(cost < most, "{cost} bytes an index for rows of {width}");
    }
}

#[test]
fn rows_changed_in_half_cost_a_map() {
    let rows = (0..50_000u32).filter(|row| scramble(*row).is_multiple_of(10));
    let indexes: Vec<u32> = rows
        .flat_map(|row| row * 32..(row + 1) * 32)
        .filter(|at| scramble(at ^ 77).is_multiple_of(2))
        .collect();
    let cost = bytes_per_index(&indexes);
    assert!(cost < 0.32, "{cost} bytes an index");
}

#[test]
fn scattered_indexes_cost_their_gaps() {
    let indexes: Vec<u32> = (0..1_000_000).filter(|at| scramble(*at).is_multiple_of(100)).collect();
    let cost = bytes_per_index(&indexes);
    // The entropy is 1.01.
    assert!(cost < 1.04, "{cost} bytes an index");
}

#[test]
fn one_run_costs_a_few_bytes() {
    let indexes: Vec<u32> = (1_000_000..2_000_000).collect();
    let mut out = Vec::new();
    encode_indexes(&indexes, &mut out);
    assert!(out.len() < 20, "{} bytes", out.len());
}

#[test]
fn nearly_dense_changes_travel_dense() {
    let indexes: Vec<u32> = (5..25).filter(|at| *at != 11).collect();
    let values = vec![1.5; indexes.len()];
    let changes = Changes::Sparse { indexes: &indexes, values: &values };
    let (buffers, encoded) = round_trip(changes, ValueFormat::Bf16, 2005);
    assert_eq!((encoded.count, encoded.index_bytes), (20, 3));
    assert_eq!(buffers.values[6], 0.0);
}

/// Zeros in between would put the last values into other blocks, and they would be rounded twice.
#[test]
fn what_was_quantised_as_one_sequence_arrives_to_the_bit() {
    let indexes: Vec<u32> = (0..100).filter(|at| at % 10 != 3).collect();
    let values: Vec<f32> = indexes.iter().map(|at| (*at as f32).exp2()).collect();
    for format in ValueFormat::ALL {
        let values = quantised(&values, format);
        assert!(fills_holes(&indexes, ValueFormat::Int4));
        let changes = Changes::Sparse { indexes: &indexes, values: &values };
        let (buffers, encoded) = round_trip(changes, format, 100);
        assert!(encoded.count as usize == indexes.len() || !format.shares_scales());
        let arrived: Vec<f32> = match encoded.count {
            100 => indexes.iter().map(|at| buffers.values[*at as usize]).collect(),
            _ => buffers.values,
        };
        assert_eq!(bits(&arrived), bits(&values));
    }
}

#[test]
fn nothing_changed_is_a_valid_change() {
    for format in ValueFormat::ALL {
        round_trip(Changes::Sparse { indexes: &[], values: &[] }, format, 0);
        round_trip(Changes::Dense { start: 7, values: &[] }, format, 7);
    }
}

#[test]
fn rounding_goes_to_the_nearest_and_stays_finite() {
    let bf16 = |value| quantised(&[value], ValueFormat::Bf16)[0];
    assert_eq!(bf16(1.0), 1.0);
    assert_eq!(bf16(1.0 + 1.0 / 256.0), 1.0);
    assert_eq!(bf16(1.0 + 3.0 / 256.0), 1.0 + 2.0 / 128.0);
    assert_eq!(bf16(-0.0).to_bits(), (-0.0f32).to_bits());
    assert_eq!(bf16(f32::MAX), f32::from_bits(0x7f7f_0000));
    assert_eq!(bf16(f32::MIN), f32::from_bits(0xff7f_0000));
    assert_eq!(bf16(f32::NEG_INFINITY), f32::NEG_INFINITY);
    for nan in [0x7f80_0001, 0xffff_ffff, 0x7fc0_0000] {
        assert!(bf16(f32::from_bits(nan)).is_nan());
    }
}

/// A value in every region of single precision, both signs.
fn anything() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>(),
        -4.0f32..4.0,
        (0u32..0x0100_0000).prop_map(f32::from_bits),
        (0x7f00_0000u32..0x7f80_0000).prop_map(|bits| -f32::from_bits(bits)),
        Just(0.0),
        Just(-0.0),
    ]
}

#[test]
fn a_block_keeps_to_its_largest_value() {
    // 127 fits with a step of 1, what is above it needs 2; ties go to the even code.
    let check = |format, values: &[f32], expect: &[f32]| {
        assert_eq!(quantised(values, format), expect, "{values:?}");
    };
    check(ValueFormat::Int8, &[127.0, -1.4, 0.5, 2.5], &[127.0, -1.0, 0.0, 2.0]);
    check(ValueFormat::Int8, &[127.5, -1.4, 3.0, 5.0], &[128.0, -2.0, 4.0, 4.0]);
    check(ValueFormat::Int4, &[-7.0, 0.5, 1.5, 2.4], &[-7.0, 0.0, 2.0, 2.0]);
    check(ValueFormat::Int4, &[-7.01, 0.5, 1.1, 3.0], &[-8.0, 0.0, 2.0, 4.0]);
    check(ValueFormat::Int4, &[0.0; 3], &[0.0; 3]);
    check(ValueFormat::Int2, &[-1.0, 0.5, 0.51, -0.2], &[-1.0, 0.0, 1.0, -0.0]);
    // The scale is the power of two nearest to the largest value.
    check(ValueFormat::Int2, &[1.41, 0.6], &[1.0, 1.0]);
    check(ValueFormat::Int2, &[1.42, 0.6], &[2.0, 0.0]);
    let tiny = f32::from_bits(1 << 22);
    check(ValueFormat::Int8, &[3.0 * tiny, 0.4 * tiny], &[4.0 * tiny, 0.0]);
    // The largest number of all stays finite.
    let largest = quantised(&[f32::MAX, f32::MIN], ValueFormat::Int8);
    assert_eq!(largest, [127.0 * 2.0f32.powi(121), -127.0 * 2.0f32.powi(121)]);
}

/// Below the smallest normal number the bits of a value do not tell its nearest power of two.
#[test]
fn what_was_quantised_is_kept_where_numbers_end() {
    let smallest = f32::MIN_POSITIVE;
    for format in [ValueFormat::Int8, ValueFormat::Int4, ValueFormat::Int2] {
        for sixteenths in 1..=64 {
            let value = smallest * sixteenths as f32 / 16.0;
            let once = quantised(&[value, -value], format);
            let expect = smallest * (sixteenths as f32 / 16.0).round_ties_even();
            assert!(
                sixteenths > 16 || once == [expect, -expect],
                "{format:?}: {value:e}, {once:?}"
            );
            assert_eq!(bits(&quantised(&once, format)), bits(&once), "{format:?}: {value:e}");
        }
    }
}

#[test]
fn what_is_no_number_arrives_as_none_and_harms_no_neighbour() {
    for format in [ValueFormat::Int8, ValueFormat::Int4] {
        let sent = [1.0, f32::NAN, -0.5, f32::INFINITY, f32::NEG_INFINITY, 0.25];
        let arrived = quantised(&sent, format);
        assert_eq!([arrived[0], arrived[2], arrived[5]], [1.0, -0.5, 0.25]);
        assert!([1, 3, 4].iter().all(|at| arrived[*at].is_nan()));
        round_trip(Changes::Dense { start: 0, values: &sent }, format, 6);
    }
}

#[test]
fn a_scale_that_no_sender_has_is_refused() {
    for format in [ValueFormat::Int8, ValueFormat::Int4, ValueFormat::Int2] {
        let mut out = Vec::new();
        let encoded = encode(Changes::Dense { start: 0, values: &[1.0; 40] }, format, &mut out);
        let (indexes, values) = out.split_at(encoded.index_bytes as usize);
        let second = values.len() - format.bytes(8);
        for (at, scale) in [(0, 255), (second, 255)] {
            let mut values = values.to_vec();
            values[at] = scale;
            let mut buffers = Buffers::default();
            let refused = decode(indexes, &values, format, 40, &mut buffers);
            assert_eq!(refused, Err(DecodeError::UnknownScale { found: 255 }));
        }
        let mut damaged = values.to_vec();
        for scale in 0..255 {
            (damaged[0], damaged[second]) = (scale, scale);
            let mut buffers = Buffers::default();
            let arrived = decode(indexes, &damaged, format, 40, &mut buffers).unwrap();
            assert!(arrived.values().iter().all(|value| value.is_finite()), "{scale}");
        }
        for end in 0..values.len() {
            assert!(decode(indexes, &values[..end], format, 40, &mut Buffers::default()).is_err());
        }
    }
}

#[test]
fn a_count_beyond_the_shard_is_refused_before_it_is_believed() {
    let mut out = vec![RUNS_FORM];
    write_varint(u32::MAX, &mut out);
    let refused = decode_indexes(&out, 1000, &mut Vec::new());
    assert_eq!(refused, Err(DecodeError::TooMany { count: u32::MAX, parameters: 1000 }));
}

/// Evenly apart, whole rows, rows in part, strewn at random: what each form is for.
fn one_of_each_form() -> [Vec<u32>; 4] {
    let even = (0..300).map(|at| at * 50 + 20).collect();
    let rows = (0..9000).filter(|at| scramble(at / 16).is_multiple_of(5)).collect();
    let halves = (0..9000)
        .filter(|at| scramble(at / 32).is_multiple_of(5) && scramble(*at).is_multiple_of(2))
        .collect();
    let strewn = (0..20_000).filter(|at| scramble(*at).is_multiple_of(50)).collect();
    [even, rows, halves, strewn]
}

#[test]
fn an_index_outside_the_shard_is_refused_in_every_form() {
    for (form, indexes) in (1..).zip(one_of_each_form()) {
        let last = indexes[indexes.len() - 1] as usize;
        let mut out = Vec::new();
        encode_indexes(&indexes, &mut out);
        assert_eq!(out[0], form);
        assert_eq!(decode_indexes(&out, last + 1, &mut Vec::new()), Ok(()));
        let refused = decode_indexes(&out, last, &mut Vec::new());
        let expect = DecodeError::IndexOutOfRange { index: last as u64, parameters: last };
        assert_eq!(refused, Err(expect), "form {form}");
    }
    let mut out = Vec::new();
    let dense = encode(Changes::Dense { start: 7, values: &[1.0; 9] }, ValueFormat::F32, &mut out);
    let (indexes, values) = out.split_at(dense.index_bytes as usize);
    let mut buffers = Buffers::default();
    let refused = decode(indexes, values, ValueFormat::F32, 15, &mut buffers);
    assert_eq!(refused, Err(DecodeError::IndexOutOfRange { index: 15, parameters: 15 }));
}

#[test]
fn a_few_bytes_that_claim_a_large_run_allocate_nothing() {
    let mut indexes = Vec::new();
    encode_indexes(&(0..1_000_000).collect::<Vec<u32>>(), &mut indexes);
    let mut buffers = Buffers::default();
    let refused = decode(&indexes, &[0; 8], ValueFormat::F32, 10_000_000, &mut buffers);
    assert_eq!(refused, Err(DecodeError::ValueBytes { bytes: 8, expected: 4_000_000 }));
    assert_eq!(buffers.indexes.capacity() + buffers.values.capacity(), 0);

    // One index in one run, and the run is a million long.
    let mut section = vec![RUNS_FORM, 1, 0, 1];
    write_varint(1_000_000, &mut section);
    section.push(0);
    let mut out = Vec::new();
    let refused = decode_indexes(&section, 10_000_000, &mut out);
    assert_eq!(refused, Err(DecodeError::CountMismatch { expected: 1, found: 1_000_000 }));
    assert_eq!(out.capacity(), 0);
}

#[test]
fn every_truncation_and_every_addition_is_refused() {
    for indexes in one_of_each_form() {
        let mut out = Vec::new();
        encode_indexes(&indexes, &mut out);
        for end in 0..out.len() {
            assert!(decode_indexes(&out[..end], 20_000, &mut Vec::new()).is_err(), "{end}");
        }
        out.push(0);
        let refused = decode_indexes(&out, 20_000, &mut Vec::new());
        let trailing = DecodeError::TrailingBytes { section: Section::Indexes, bytes: 1 };
        assert_eq!(refused, Err(trailing));
    }
}

const RUNS_FORM: u8 = 2;

/// Ascending indexes below `parameters`, scattered, in runs, or rows in part.
fn indexes(parameters: u32) -> impl Strategy<Value = Vec<u32>> {
    let scattered = proptest::collection::btree_set(0..parameters, 0..600)
        .prop_map(|set| set.into_iter().collect());
    let rows = (1u32..40, proptest::collection::vec((0u32..20, any::<u8>()), 0..300)).prop_map(
        move |(width, rows)| {
            let (mut start, mut indexes) = (0, Vec::new());
            for (skipped, map) in rows {
                start += skipped * width;
                let kept = |at: &u32| map % 4 != 0 || map >> (at % 8) & 1 == 1;
                indexes.extend((0..width).filter(kept).map(|at| start + at));
                start += width;
            }
            indexes.retain(|index| *index < parameters);
            indexes
        },
    );
    prop_oneof![scattered, rows]
}

proptest! {
    #[test]
    fn sparse_changes_arrive_as_sent(
        indexes in indexes(100_000),
        seed in any::<u32>(),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
    ) {
        let values: Vec<f32> = indexes.iter().map(|at| f32::from_bits(scramble(at ^ seed).rotate_left(seed % 7))).collect();
        // Signalling bits of not-a-number are the one thing arithmetic may not keep.
        let values: Vec<f32> = values.iter().map(|v| if v.is_nan() { f32::NAN } else { *v }).collect();
        round_trip(Changes::Sparse { indexes: &indexes, values: &values }, format, 100_000);
    }

    #[test]
    fn every_instruction_set_chooses_the_same_form(indexes in indexes(100_000)) {
        let plans: Vec<Plan> = Level::available().map(|level| Plan::at(level, &indexes)).collect();
        prop_assert!(plans.windows(2).all(|pair| pair[0] == pair[1]), "{plans:?}");
    }

    /// Most indexes are too sparse for a dense span by a bound alone, and the bound must not change the answer.
    #[test]
    fn holes_are_filled_as_the_exact_sizes_say(
        density in 0.01f64..1.0,
        first in any::<u16>(),
        count in 1usize..700,
        seed in any::<u32>(),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
    ) {
        let gap = |at: usize| scramble(at as u32 ^ seed) % (2.0 / density) as u32;
        let indexes = (0..count).scan(u32::from(first), |next, at| {
            let index = *next + gap(at);
            *next = index + 1;
            Some(index)
        });
        let indexes: Vec<u32> = indexes.collect();
        let span = Plan::of(&indexes).smallest_span(&indexes, format);
        let fills = span.is_some_and(|span| span > indexes.len());
        prop_assert_eq!(fills_holes(&indexes, format), fills);
        prop_assert!(span.is_none() || Plan::may_span(&indexes, format));

        let whole = (indexes[count - 1] - indexes[0]) as usize + 1;
        prop_assert!(rice::len(&indexes) <= rice::len_max(count, whole));
    }

    #[test]
    fn dense_changes_arrive_as_sent(
        start in 0u32..50,
        values in proptest::collection::vec(any::<f32>(), 0..300),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
    ) {
        round_trip(Changes::Dense { start, values: &values }, format, 350);
    }

    #[test]
    fn quantising_what_was_quantised_changes_nothing(
        values in proptest::collection::vec(anything(), 0..100),
        shift in -40i32..40,
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
    ) {
        let values: Vec<f32> = values.iter().map(|value| value * 2.0f32.powi(shift)).collect();
        let once = quantised(&values, format);
        prop_assert_eq!(bits(&once), bits(&quantised(&once, format)));
        for (value, arrived) in values.iter().zip(&once) {
            prop_assert_eq!(value.is_finite(), arrived.is_finite());
        }
    }

    #[test]
    fn an_error_is_at_most_half_a_step_of_the_blocks_largest_value(
        values in proptest::collection::vec(-1e20f32..1e20, 1..100),
    ) {
        for (format, codes) in [(ValueFormat::Int8, 127.0), (ValueFormat::Int4, 7.0)] {
            let arrived = quantised(&values, format);
            for (sent, arrived) in values.chunks(32).zip(arrived.chunks(32)) {
                let most = sent.iter().fold(0.0, |most: f32, value| most.max(value.abs())) / codes;
                // A step is less than twice what the largest value needs.
                prop_assert!(sent.iter().zip(arrived).all(|(a, b)| (a - b).abs() <= most * 1.0001));
            }
        }
    }

    #[test]
    fn what_fits_fits_and_is_nearly_the_most(
        indexes in indexes(100_000),
        room in 0usize..3000,
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
    ) {
        let len = |count: usize| {
            let indexes = &indexes[..count];
            let values = vec![1.0; count];
            encoded_len(Changes::Sparse { indexes, values: &values }, format)
        };
        let fits = fit(&indexes, format, room);
        prop_assert!(fits == 0 || len(fits) <= room);
        let more = (fits + 2 + fits / 20).min(indexes.len());
        prop_assert!(fits == indexes.len() || len(more) + 40 > room, "{} fit, {} would", fits, more);
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_leave_the_shard(
        index_section in proptest::collection::vec(any::<u8>(), 0..400),
        form in 0u8..5,
        value_section in proptest::collection::vec(any::<u8>(), 0..64),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
        parameters in 0usize..5000,
    ) {
        let mut index_section = index_section;
        if let Some(first) = index_section.first_mut() {
            *first = form;
        }
        let mut buffers = Buffers::default();
        if let Ok(Changes::Sparse { indexes, .. }) =
            decode(&index_section, &value_section, format, parameters, &mut buffers)
        {
            check_indexes(indexes, parameters);
        }

        let mut indexes = Vec::new();
        if decode_indexes(&index_section, parameters, &mut indexes).is_ok() {
            check_indexes(&indexes, parameters);
        }
        prop_assert!(indexes.capacity() <= 2 * parameters + 4 * 128);
    }

    #[test]
    fn damaged_sections_never_panic_and_never_leave_the_shard(
        indexes in indexes(10_000),
        flips in proptest::collection::vec(any::<prop::sample::Index>(), 1..8),
    ) {
        let mut out = Vec::new();
        encode_indexes(&indexes, &mut out);
        for flip in flips {
            let bit = flip.index(out.len() * 8);
            out[bit / 8] ^= 1 << (bit % 8);
        }
        let mut back = Vec::new();
        if decode_indexes(&out, 10_000, &mut back).is_ok() {
            check_indexes(&back, 10_000);
        }
    }
}

fn check_indexes(indexes: &[u32], parameters: usize) {
    assert!(indexes.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(indexes.last().is_none_or(|last| (*last as usize) < parameters));
}
