//! What it costs that nodes come back after a crash: clocks per second of runs over processes of this machine, with logs
//! and checkpoints, with logs that do not wait for the disk, and with neither.
//!
//! Once with clocks as short as they can be, where every clock waits for three or four syncs in a row, and once with
//! clocks of a tenth of a second, which is still short. Repetitions take turns, so that whatever else the machine does
//! falls on all.

use crate::processes::{DATA_CENTERS, Processes};

const ROUNDS: usize = 5;

/// How nodes are run: what it is called, whether they keep anything, and how their logs wait for the disk.
const WAYS: [(&str, bool, &str); 3] = [
    ("log and checkpoints", true, "always"),
    ("log \"never\"", true, "never"),
    ("off", false, "always"),
];

pub(crate) fn measure() {
    println!(
        "clocks per second, medians of {ROUNDS} (least to most), and of what they are with it off"
    );
    for (name, compute, clocks) in [
        ("as short as they can be", "model = \"measured\"", 600),
        ("100 ms", "model = \"cost\"\nclock_overhead = \"100 ms\"", 60),
    ] {
        println!("clocks: {name}");
        let mut rates: [Vec<f64>; 3] = Default::default();
        for _ in 0..ROUNDS {
            for ((_, keeps, sync), rates) in WAYS.iter().zip(&mut rates) {
                rates.push(rate(compute, clocks, *keeps, sync));
            }
        }
        rates.iter_mut().for_each(|rates| rates.sort_by(f64::total_cmp));
        let off = rates[2][ROUNDS / 2];
        for ((name, ..), rates) in WAYS.iter().zip(&rates) {
            let (median, least, most) = (rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
            println!("  {name:<20} {median:>8.1} ({least:.1} to {most:.1}) {:>7.3}", median / off);
        }
    }
}

/// Clocks per second of one run.
fn rate(compute: &str, clocks: u64, keeps: bool, sync: &str) -> f64 {
    let run = format!(
        "name = \"bench\"\nseed = 7\ndriver = \"real\"\n[app]\nkind = \"matrix-factorization\"\nrank = 8\n\
         data.synthetic = {{ users = 3000, items = 2000, ratings = 200000, rank = 4, noise = 0.3 }}\n\
         [sync.remote]\nmodel = \"asp\"\n[compute]\n{compute}\n[log]\nsync = \"{sync}\"\n\
         [checkpoint]\nevery = 200\n[evaluate]\nevery = {clocks}\n[stop]\nclocks = {clocks}\n"
    );
    let mut processes = Processes::new(&run);
    processes.start_all(keeps);
    let summary = processes.summary();
    let finished = summary["data_center_clocks"].as_array().unwrap().iter();
    let finished: f64 = finished.map(|clock| clock.as_f64().unwrap()).sum();
    finished / DATA_CENTERS.len() as f64 / summary["time_s"].as_f64().unwrap()
}
