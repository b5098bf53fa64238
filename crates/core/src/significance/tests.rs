use proptest::prelude::*;

use super::*;

#[derive(Debug)]
struct Shard {
    values: Vec<f32>,
    local: Vec<f32>,
    shared: Vec<f32>,
}

impl Shard {
    /// A shard in which nothing was shared yet.
    fn new(values: &[f32], residuals: &[f32]) -> Self {
        let shared = vec![0.0; values.len()];
        Self { values: values.to_vec(), local: residuals.to_vec(), shared }
    }

    fn parameters(&self) -> Parameters<'_> {
        Parameters {
            values: &self.values,
            local: &self.local,
            shared: Numbers::Plain(&self.shared),
        }
    }

    fn select(&self, criteria: &[TableCriteria], take: Take, turn: u64) -> Selection {
        let (mut out, mut scratch) = (Selection::default(), Scratch::default());
        out.extend(&[77; 3], &[1.0; 3]);
        out.wrap();
        select(&self.parameters(), criteria, take, turn, &mut scratch, &mut out);
        let found: Vec<u32> = out.ascending().into_iter().flatten().flatten().copied().collect();
        assert!(found.is_sorted(), "{found:?}");
        let mut hard: Vec<u32> = out.hard_indexes().collect();
        out.order(1, &mut scratch);
        hard.sort_unstable();
        let mut expected: Vec<u32> = out.hard_indexes().collect();
        expected.sort_unstable();
        assert_eq!(hard, expected);
        assert_eq!(found.len(), out.len());
        out
    }
}

fn table(range: Range<usize>, function: Function, floor: f32, threshold: f32) -> TableCriteria {
    TableCriteria { range, width: 1, function, floor, threshold }
}

fn check(
    values: &[f32],
    residuals: &[f32],
    criteria: TableCriteria,
    take: Take,
    expect: (&[u32], usize),
) {
    let selection = Shard::new(values, residuals).select(&[criteria], take, 0);
    assert_eq!((selection.indexes(), selection.hard()), expect);
}

#[test]
fn a_residual_at_the_threshold_is_soft_and_above_it_hard() {
    let above = f32::from_bits(0.25f32.to_bits() + 1);
    let criteria = table(0..3, Function::Relative, 0.0, 0.25);
    let residuals = [0.25, above, -above];
    check(&[1.0; 3], &residuals, criteria.clone(), Take::Hard, (&[1, 2], 2));
    check(&[1.0; 3], &residuals, criteria, Take::Most(9), (&[1, 2, 0], 2));
}

#[test]
fn a_value_of_zero_makes_any_residual_hard_unless_there_is_a_floor() {
    let residuals = [0.0, 1e-30, 0.5, 0.0];
    let bare = table(0..4, Function::Relative, 0.0, 0.5);
    check(&[0.0; 4], &residuals, bare, Take::Hard, (&[1, 2], 2));
    let floored = table(0..4, Function::Relative, 0.9, 0.5);
    check(&[0.0; 4], &residuals, floored, Take::Hard, (&[2], 1));
}

#[test]
fn a_residual_that_is_not_a_number_goes_first() {
    // Arithmetic keeps some bits of it, and they must not order what has no order.
    let other = f32::from_bits(0x7fff_ffff);
    let residuals = [3.0, f32::NAN, 100.0, f32::INFINITY, -f32::NAN, other];
    for function in [Function::Relative, Function::Absolute, Function::RowNorm] {
        let criteria = table(0..6, function, 0.0, 1.0);
        check(&[1.0; 6], &residuals, criteria, Take::Hard, (&[1, 4, 5, 3, 2, 0], 6));
    }
}

#[test]
fn soft_ones_follow_hard_ones_largest_first_as_far_as_there_is_room() {
    let residuals = [0.1, 0.9, 5.0, 0.4, 0.0, 2.0];
    let criteria = table(0..6, Function::Absolute, 0.0, 1.0);
    check(&[9.0; 6], &residuals, criteria.clone(), Take::Most(0), (&[2, 5], 2));
    check(&[9.0; 6], &residuals, criteria.clone(), Take::Most(3), (&[2, 5, 1], 2));
    check(&[9.0; 6], &residuals, criteria.clone(), Take::Most(4), (&[2, 5, 1, 3], 2));
    check(&[9.0; 6], &residuals, criteria.clone(), Take::Most(100), (&[2, 5, 1, 3, 0], 2));
    let above = |most, least| Take::Above { most, least };
    check(&[9.0; 6], &residuals, criteria.clone(), above(100, 1.0), (&[2, 5], 2));
    check(&[9.0; 6], &residuals, criteria.clone(), above(3, 0.0), (&[2, 5, 1], 2));
    check(&[9.0; 6], &residuals, criteria, above(100, 0.35), (&[2, 5, 1, 3], 2));
}

#[test]
fn dust_stays_at_home_even_when_there_is_room() {
    let residuals = [1.0, DUST, DUST * 1.01, DUST / 2.0];
    let criteria = table(0..4, Function::Absolute, 0.0, 1.0);
    check(&[1.0; 4], &residuals, criteria, Take::Most(100), (&[0, 2], 0));
}

#[test]
fn what_was_shared_is_no_residual() {
    let mut shard = Shard::new(&[1.0; 4], &[0.5, 0.7, -0.5, 0.1]);
    shard.shared.copy_from_slice(&[0.5, 0.1, 0.5, 0.1]);
    let criteria = [table(0..4, Function::Absolute, 0.0, 0.3)];
    assert_eq!(shard.select(&criteria, Take::Hard, 0).indexes(), [2, 1]);
}

#[test]
fn a_row_is_judged_as_a_whole_and_only_what_changed_leaves() {
    let values = [3.0, 4.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0];
    let residuals = [0.0, 2.0, 1.5, 0.4, 0.0, 0.0, 0.0, 1e-3, 0.0];
    let criteria = TableCriteria { width: 3, ..table(0..9, Function::RowNorm, 0.0, 0.49) };
    check(&values, &residuals, criteria.clone(), Take::Hard, (&[7, 1, 2], 3));
    let floored = TableCriteria { floor: 1.0, ..criteria };
    check(&values, &residuals, floored, Take::Hard, (&[1, 2], 2));
}

#[test]
fn tables_keep_their_own_thresholds() {
    let criteria =
        [table(0..2, Function::Absolute, 0.0, 1.0), table(3..5, Function::Absolute, 0.0, 0.01)];
    let shard = Shard::new(&[1.0; 6], &[2.0, 0.5, 9.0, 0.5, 0.001, 9.0]);
    assert_eq!(shard.select(&criteria, Take::Hard, 0).indexes(), [3, 0]);
}

#[test]
fn groups_have_enough_parameters_in_the_order_of_the_shard() {
    let residuals = [0.1, 5.0, 0.3, 9.0, 0.9, 2.0, 0.4, 3.0, 0.2];
    let ordered = |together: usize, turn: u64| {
        let shard = Shard::new(&[9.0; 9], &residuals);
        let criteria = [table(0..9, Function::Absolute, 0.0, 1.0)];
        let (mut out, mut scratch) = (Selection::default(), Scratch::default());
        select(&shard.parameters(), &criteria, Take::Most(8), turn, &mut scratch, &mut out);
        out.order(together, &mut scratch);
        assert_eq!(out.hard(), 4);
        out.indexes().to_vec()
    };
    let all = [table(0..9, Function::Absolute, 0.0, 1.0)];
    let turn = (0..).find(|turn| start_of_turn(&all, *turn) == 4).unwrap();
    for (together, from_0, from_4) in [
        (0, [3, 1, 7, 5, 4, 6, 2, 8], [3, 1, 7, 5, 4, 6, 2, 8]),
        (1, [3, 1, 7, 5, 4, 6, 2, 8], [3, 1, 7, 5, 4, 6, 2, 8]),
        (2, [1, 3, 5, 7, 4, 6, 2, 8], [1, 3, 5, 7, 4, 6, 8, 2]),
        (3, [1, 3, 7, 5, 2, 4, 6, 8], [7, 1, 3, 5, 4, 6, 2, 8]),
        (usize::MAX, [1, 3, 5, 7, 2, 4, 6, 8], [5, 7, 1, 3, 4, 6, 8, 2]),
    ] {
        assert_eq!(ordered(together, 0), from_0, "{together} together");
        assert_eq!(ordered(together, turn), from_4, "{together} together, from 4");
    }
}

/// How often a parameter is followed by one below it.
fn descents(indexes: &[u32]) -> usize {
    indexes.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

/// Integer tables, such as counts of topics, have residuals of 1 almost everywhere.
#[test]
fn equal_residuals_take_turns() {
    let shard = Shard::new(&[8.0; 1000], &[1.0; 1000]);
    let criteria = [TableCriteria { width: 10, ..table(0..1000, Function::Relative, 0.0, 1.0) }];
    let mut taken = [0; 1000];
    for turn in 0..100 {
        let selection = shard.select(&criteria, Take::Most(100), turn);
        assert_eq!(selection.indexes().len(), 100);
        assert!(descents(selection.indexes()) <= 1, "{selection:?}");
        for index in selection.indexes() {
            taken[*index as usize] += 1;
        }
    }
    assert!(taken.iter().all(|count| (8..=12).contains(count)), "{taken:?}");
}

/// A large shard is sampled first; a sample that misleads must not show either.
#[test]
fn a_sample_never_changes_the_selection() {
    let check = |residual: fn(u64) -> f32, most: usize| {
        let residuals: Vec<f32> = (0..200_000).map(residual).collect();
        let shard = Shard::new(&vec![1.0; residuals.len()], &residuals);
        let criteria = [table(0..residuals.len(), Function::Absolute, 0.0, 0.9)];
        let mut expect = Selection::default();
        let mut scratch = Scratch::default();
        let Scratch { memory, ordering: Ordering { histogram, .. } } = &mut scratch;
        let parameters = &shard.parameters();
        let blocks = Blocks { parameters, criteria: &criteria, memory };
        let mut passes = Passes { level: Level::BASELINE, blocks };
        passes.count(1, DUST_BUCKET, histogram);
        passes.find(
            Cut::at(histogram, most, DUST_BUCKET),
            usize::MAX,
            start_of_turn(&criteria, 7),
            &mut expect,
        );
        expect.finish(DUST_BUCKET);
        expect.order(1, &mut scratch);
        assert!(shard.select(&criteria, Take::Most(most), 7) == expect, "most {most}");
    };

    let scrambled: fn(u64) -> f32 = |at| (at.wrapping_mul(GOLDEN) >> 40) as f32 / (1 << 24) as f32;
    let only_sampled: fn(u64) -> f32 = |at| if block_in_stride(at) < 1 { 0.8 } else { 0.1 };
    let never_sampled: fn(u64) -> f32 = |at| if block_in_stride(at) == 3 { 0.8 } else { 0.1 };
    for residual in [scrambled, only_sampled, never_sampled, |_| 0.5] {
        for most in [5000, 20_000, 120_000] {
            check(residual, most);
        }
    }
}

/// The number of a parameter's block among those of which the first is sampled.
fn block_in_stride(at: u64) -> u64 {
    at / kernel::BLOCK as u64 % SAMPLE_STRIDE as u64
}

#[test]
fn a_users_own_function_selects() {
    struct EveryThird;
    impl Significance for EveryThird {
        fn by_row(&self) -> bool {
            true
        }

        fn measure(&self, _: &[f32], _: &[f32], width: usize, _: f32, out: &mut [f32]) {
            assert_eq!((width, out.len() % 3), (3, 0));
            for (at, out) in out.iter_mut().enumerate() {
                *out = if at % 3 == 0 { 2.0 } else { 0.0 };
            }
        }
    }
    let shard = Shard::new(&[1.0; 3000], &[1.0; 3000]);
    let criteria = [TableCriteria {
        range: 0..3000,
        width: 3,
        function: EveryThird,
        floor: 0.0,
        threshold: 1.0,
    }];
    let mut out = Selection::default();
    select(&shard.parameters(), &criteria, Take::Hard, 0, &mut Scratch::default(), &mut out);
    assert_eq!(out.indexes(), (0..3000).step_by(3).collect::<Vec<u32>>());
}

#[test]
fn rms_of_nothing_is_zero() {
    assert_eq!(rms(&[]), 0.0);
    assert_eq!(rms(&[3.0, -4.0, 0.0, 0.0]), 2.5);
    assert_eq!(rms(&[2.0; 999]), 2.0);
}

/// The ratio as the design states it, one parameter at a time.
fn ratio(shard: &Shard, criteria: &[TableCriteria], index: usize) -> f32 {
    let Some(table) = criteria.iter().find(|table| table.range.contains(&index)) else {
        return 0.0;
    };
    let residual = |at: usize| shard.local[at] - shard.shared[at];

    if residual(index) == 0.0 {
        return 0.0;
    }
    if residual(index).is_nan() {
        return f32::NAN;
    }
    let significance = match table.function {
        Function::Absolute => residual(index).abs(),
        Function::Progress => residual(index).abs() / table.floor,
        Function::Relative => residual(index).abs() / shard.values[index].abs().max(table.floor),
        Function::RowNorm => {
            let row = (index - table.range.start) / table.width;
            let row =
                table.range.start + row * table.width..table.range.start + (row + 1) * table.width;
            let residuals: Vec<f32> = row.clone().map(residual).collect();
            let least = table.floor * (table.width as f32).sqrt();
            norm::norm(&residuals) / norm::norm(&shard.values[row]).max(least)
        }
    };

    let ratio = (significance / table.threshold).abs();
    if ratio.is_nan() { f32::NAN } else { ratio }
}

/// Not-a-number is above everything.
fn above(ratio: f32, bar: f32) -> bool {
    ratio.is_nan() || ratio > bar
}

fn bucket_of(ratio: f32) -> i64 {
    (i64::from(ratio.abs().to_bits()) - 1) >> 20
}

fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -2.0f32..2.0,
        2 => Just(0.0f32),
        2 => (-3i8..4).prop_map(f32::from),
        1 => prop::num::f32::ANY,
    ]
}

fn shards() -> impl Strategy<Value = (Shard, Vec<TableCriteria>)> {
    let functions = prop::sample::select(vec![
        Function::Relative,
        Function::Absolute,
        Function::RowNorm,
        Function::Progress,
    ]);

    let floors = prop::sample::select(vec![0.0f32, 0.3, 1.0]);
    let thresholds = prop::sample::select(vec![0.01f32, 0.5, 3.0, 0.0]);
    let tables = (0usize..3, 0usize..90, 1usize..30, functions, floors, thresholds);
    prop::collection::vec(tables, 0..4).prop_flat_map(|tables| {
        let mut criteria = Vec::new();
        let mut end = 0;
        for (skipped, rows, width, function, floor, threshold) in tables {
            let start = end + skipped;
            end = start + rows * width;
            criteria.push(TableCriteria { range: start..end, width, function, floor, threshold });
        }
        let column = || prop::collection::vec(number(), end + 2);
        (column(), column(), column()).prop_map(move |(values, local, shared)| {
            (Shard { values, local, shared }, criteria.clone())
        })
    })
}

proptest! {
    /// Near the cut, where its roundings and those of the exact ratio differ.
    #[test]
    fn a_screen_lets_every_residual_above_the_cut_pass(
        function in prop::sample::select(vec![Function::Relative, Function::Absolute, Function::Progress]),
        value in number(),
        (floor, threshold) in (prop_oneof![1e-9f32..10.0, Just(0.0)], 1e-9f32..10.0),
        cut in DUST_BUCKET..HARD_BUCKET + 300,
        ulps in -20i32..20,
    ) {
        let least = f32::from_bits(u32::from(cut) << order::BUCKET_SHIFT);
        let against = match function {
            Function::Relative => value.abs().max(floor),
            Function::Progress => floor,
            _ => 1.0,
        };
        let edge = (against * threshold * least).to_bits().saturating_add_signed(ulps);
        for residual in [f32::from_bits(edge), f32::NAN, f32::INFINITY, 0.0] {
            let mut ratio = [0.0];
            function.measure(&[residual], &[value], 1, floor, &mut ratio);
            let above = above(ratio[0] / threshold, least) && residual != 0.0;
            let screen = simd::Screen::of(function, floor, threshold, cut);
            prop_assert!(!above || screen.is_none_or(|screen| screen.passes(residual, value)));
        }
    }

    #[test]
    fn a_selection_keeps_every_promise(
        (shard, criteria) in shards(),
        most in prop_oneof![0usize..200, Just(usize::MAX)],
        turn in any::<u64>(),
    ) {
        let ratios: Vec<f32> =
            (0..shard.values.len()).map(|index| ratio(&shard, &criteria, index)).collect();
        let hard = ratios.iter().filter(|ratio| above(**ratio, 1.0)).count();
        let eligible = ratios.iter().filter(|ratio| above(**ratio, DUST)).count();

        let only_hard = shard.select(&criteria, Take::Hard, turn);
        prop_assert_eq!((only_hard.indexes().len(), only_hard.hard()), (hard, hard));

        let selection = shard.select(&criteria, Take::Most(most), turn);
        prop_assert_eq!(selection.hard(), hard);
        prop_assert_eq!(selection.indexes().len(), hard.max(most.min(eligible)));
        prop_assert_eq!(&selection.indexes()[..hard], only_hard.indexes());
        let key = |index: &u32| -bucket_of(ratios[*index as usize]);
        prop_assert!(selection.indexes().is_sorted_by_key(key));
        // From where the pass began to the end of the shard, and then those before it.
        let buckets = selection.indexes().chunk_by(|one, next| key(one) == key(next));
        prop_assert!(buckets.map(descents).all(|descents| descents <= 1));
        if let Some(least) = selection.indexes().last().map(key) {
            let left = (0..ratios.len() as u32).filter(|index| !selection.indexes().contains(index));
            let largest = left.map(|index| ratios[index as usize]).filter(|r| *r > DUST);
            for ratio in largest {
                prop_assert!(selection.len() == hard || bucket_of(ratio) <= -least);
            }
        }
    }

    #[test]
    fn every_instruction_set_selects_the_same(
        (shard, criteria) in shards(),
        most in 0usize..500,
        turn in any::<u64>(),
    ) {
        let selections: Vec<Selection> = Level::available()
            .map(|level| {
                let mut out = Selection::default();
                let (parameters, take) = (shard.parameters(), Take::Most(most));
                let mut scratch = Scratch::default();
                select_at(level, &parameters, &criteria, take, turn, &mut scratch, &mut out);
                out
            })
            .collect();
        prop_assert!(selections.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
