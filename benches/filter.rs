//! How long it takes to pick the parameters that leave, against reading and writing the same arrays once.
//!
//! Selecting reads 12 bytes a parameter, once more where equal residuals must share a budget, and writes what it
//! selects. So it can at best cost three quarters of a pass of `shared[i] += values[i] * local[i]` (12 bytes read, 4
//! written).
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

#[path = "rows/mod.rs"]
mod rows;

use std::hint::black_box;
use std::ops::Range;
use std::slice::from_ref;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use gaia_core::codec::ValueFormat;
use gaia_core::outbox::{Batch, Ranked, Residuals, Room};
use gaia_core::significance::{
    Measure, Parameters, Scratch, Selection, TableCriteria, Take, largest, rms, select,
};
use gaia_core::sync::Function;
use gaia_core::types::{Clock, Numbers, Seed};
use rand::RngExt;
use rand_distr::StandardNormal;
use rows::{Rows, seconds};

const PARAMETERS: usize = 10_000_000;

fn main() {
    let mut random = Seed(1).child("filter").random();
    let mut draw = |scale: f32| -> Vec<f32> {
        (0..PARAMETERS).map(|_| scale * random.sample::<f32, _>(StandardNormal)).collect()
    };
    let values = draw(1.0);
    let mut local = draw(0.01);
    let mut shared = vec![0.0; PARAMETERS];
    let mut rows = Rows::new();

    for (name, changed) in
        [("0.1 %", 1e-3), ("1 %", 1e-2), ("5 %", 5e-2), ("50 %", 0.5), ("100 %", 1.0)]
    {
        let kept: Vec<f32> = local
            .iter()
            .map(|local| if random.random_bool(changed) { *local } else { 0.0 })
            .collect();
        let hard = || criteria(Function::Relative, rms(&values), 1e-6);
        let row = format!("{name} changed, all of it hard");
        report(&mut rows, &row, &values, &kept, &mut shared, hard(), Take::Hard);
        if changed == 1e-2 || changed == 5e-2 {
            report_frames(&mut rows, name, &values, &kept, &mut shared, &hard());
        }
        if changed == 1e-2 {
            report_shards(&mut rows, name, &values, &kept, &shared, &hard());
        }
    }
    for (name, function) in [
        ("relative", Function::Relative),
        ("absolute", Function::Absolute),
        ("row-norm", Function::RowNorm),
    ] {
        for (share, most) in
            [("0.1 %", PARAMETERS / 1000), ("1 %", PARAMETERS / 100), ("10 %", PARAMETERS / 10)]
        {
            let soft = criteria(function, rms(&values), 0.05);
            let name = format!("all changed, the {share} most {name}");
            report(&mut rows, &name, &values, &local, &mut shared, soft, Take::Most(most));
        }
    }
    for (share, most) in [("1 %", PARAMETERS / 100), ("10 %", PARAMETERS / 10)] {
        report_largest(&mut rows, &format!("all changed, the {share} largest"), &local, most);
    }
    for local in &mut local {
        *local = local.signum();
    }
    let ties = criteria(Function::Absolute, 0.0, 2.0);
    report(
        &mut rows,
        "all equal, 1 %",
        &values,
        &local,
        &mut shared,
        ties,
        Take::Most(PARAMETERS / 100),
    );
}

/// As servers make them.
fn criteria(function: Function, floor: f32, threshold: f32) -> [TableCriteria<Measure>; 1] {
    let function = Measure::BuiltIn(function);
    [TableCriteria { range: 0..PARAMETERS, width: 32, function, floor, threshold }]
}

/// A row for a selection from 10 million parameters, beside a pass over the same arrays.
fn report(
    rows: &mut Rows,
    name: &str,
    values: &[f32],
    local: &[f32],
    shared: &mut [f32],
    criteria: [TableCriteria<Measure>; 1],
    take: Take,
) {
    let (mut scratch, mut selection) = (Scratch::default(), Selection::default());
    let (mut passes, mut selects) = (Vec::new(), Vec::new());
    for round in 0..rows.runs() {
        passes.push(pass(values, local, shared));
        let parameters = Parameters { values, local, shared: Numbers::Plain(shared) };
        selects.push(
            1e3 * seconds(|| {
                select(&parameters, &criteria, take, round as u64, &mut scratch, &mut selection);
            }),
        );
    }
    rows.print(name, "ms", &selects, ("a pass", &passes));
}

/// A row for the largest of 10 million changes, beside a sum over these.
fn report_largest(rows: &mut Rows, name: &str, local: &[f32], most: usize) {
    let (mut sums, mut searches) = (Vec::new(), Vec::new());
    for _ in 0..rows.runs() {
        sums.push(1e3 * seconds(|| _ = black_box(lanes_sum(local))));
        let search = || _ = black_box(largest(local, from_ref(&(0..PARAMETERS)), most));
        searches.push(1e3 * seconds(search));
    }
    rows.print(name, "ms", &searches, ("a sum", &sums));
}

/// Reads all changes once.
fn lanes_sum(local: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 64];
    for chunk in local.chunks_exact(64) {
        sums.iter_mut().zip(chunk).for_each(|(sum, change)| *sum += change);
    }
    sums.iter().sum()
}

/// Rows for what follows where the link does not carry all that was selected at once: the most significant are put first,
/// and cut in frames.
fn report_frames(
    rows: &mut Rows,
    changed: &str,
    values: &[f32],
    local: &[f32],
    shared: &mut [f32],
    criteria: &[TableCriteria<Measure>; 1],
) {
    let (mut scratch, mut batch) = (Scratch::default(), Batch::default());
    let (mut passes, mut orders, mut cuts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rows.runs() {
        passes.push(pass(values, local, shared));
        let parameters = Parameters { values, local, shared: Numbers::Plain(shared) };
        let (mut selection, turn) = (Selection::default(), round as u64);
        select(&parameters, criteria, Take::Hard, turn, &mut scratch, &mut selection);
        orders.push(1e3 * seconds(|| selection.order(1, &mut scratch)));

        // As of a link that has carried updates of every parameter before: zeros would take no memory yet.
        let mut outbox = Ranked::sharing(vec![1e-12; PARAMETERS].into());
        let residuals = Residuals { values, source: local, criteria };
        outbox.rank(residuals, Take::Hard, Clock(1), &mut scratch);
        let room = Room { frame: FRAME, clock: 10 * FRAME };
        cuts.push(
            1e3 * seconds(|| {
                while outbox.waiting() > 0 {
                    outbox.take(local, ValueFormat::Bf16, room, &mut batch, &mut scratch);
                }
            }),
        );
    }
    let pass = ("a pass", passes.as_slice());
    rows.print(&format!("{changed} changed, put in order"), "ms", &orders, pass);
    rows.print(&format!("{changed} changed, cut in frames of {FRAME}"), "ms", &cuts, pass);
}

/// A row for two threads that scan half of the parameters each, as the servers of two shards do, beside one thread that scans
/// all. Times are of the clock on the wall, since processor time does not tell whether threads run at once.
fn report_shards(
    rows: &mut Rows,
    changed: &str,
    values: &[f32],
    local: &[f32],
    shared: &[f32],
    criteria: &[TableCriteria<Measure>; 1],
) {
    let [mut whole, mut lower, mut upper] = [(); 3].map(|()| Default::default());
    let scan = |part: Range<usize>, turn: u64, memory: &mut (Scratch, Selection)| {
        let table = TableCriteria { range: 0..part.len(), ..criteria[0].clone() };
        let shared = Numbers::Plain(&shared[part.clone()]);
        let parameters = Parameters { values: &values[part.clone()], local: &local[part], shared };
        let (scratch, selection) = memory;
        let begins = Instant::now();
        select(&parameters, &[table], Take::Hard, turn, scratch, selection);
        (begins, Instant::now())
    };

    let (mut one, mut two) = (Vec::new(), Vec::new());
    for turn in 0..rows.runs() as u64 {
        let (begins, ends) = scan(0..PARAMETERS, turn, &mut whole);
        one.push(1e3 * (ends - begins).as_secs_f64());

        let both_run = Barrier::new(2);
        let (this, other) = thread::scope(|scope| {
            let other = scope.spawn(|| {
                both_run.wait();
                scan(PARAMETERS / 2..PARAMETERS, turn, &mut upper)
            });
            both_run.wait();
            let this = scan(0..PARAMETERS / 2, turn, &mut lower);
            (this, other.join().expect("a scan does not panic"))
        });
        two.push(1e3 * (this.1.max(other.1) - this.0.min(other.0)).as_secs_f64());
    }
    let name = format!("{changed} changed, two threads, a shard each");
    rows.print(&name, "ms", &two, ("one thread", &one));
}

/// The milliseconds of a pass over the same arrays. `shared` is zeros after it.
fn pass(values: &[f32], local: &[f32], shared: &mut [f32]) -> f64 {
    shared.fill(0.0);
    let taken = seconds(|| {
        for ((shared, value), local) in shared.iter_mut().zip(values).zip(local) {
            *shared += value * local;
        }
        black_box(&mut *shared);
    });
    shared.fill(0.0);
    1e3 * taken
}

/// Updates of a frame.
const FRAME: usize = 25_000;
