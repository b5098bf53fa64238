//! Minutes of trouble, measured against a run that nothing befalls.

use std::thread;
use std::time::Duration;

use crate::cluster::{Cluster, Data, Outcome, Resumption, Setting};
use crate::network::{DATA_CENTERS, Network};
use crate::{FAULTS, Fault, check_conservation};

#[test]
fn soak() {
    let Some(seconds) = std::env::var(SOAK).ok().and_then(|text| text.parse::<u64>().ok()) else {
        return;
    };
    // Both runs go at the same time, so that both have the same machine: a clock is a quarter of a second, in which
    // nodes compute for some milliseconds, so that neither takes the processor from the other.
    let calm = thread::spawn(move || run(seconds, false));
    let (with, faults, resumptions) = run(seconds, true);
    let (without, ..) = calm.join().unwrap();
    let total = |outcome: &Outcome| outcome.clocks.iter().sum::<u64>();
    let clocks = total(&with) as f64 / total(&without) as f64;
    let objective = with.objective / without.objective;
    println!("faults        {faults} over {seconds} s");
    println!("clocks        {:?} of {:?}, {:.2} %", with.clocks, without.clocks, 100.0 * clocks);
    println!(
        "objective     {:.5} of {:.5}, ratio {objective:.4}",
        with.objective, without.objective
    );
    println!("copies        equal: {}", with.copies_equal);
    println!("conservation  {}; without faults {}", with.conservation, without.conservation);
    for outcome in [&with, &without] {
        assert!(outcome.copies_equal);
        check_conservation(outcome);
    }
    assert!(clocks >= CLOCKS_MIN, "{clocks}");
    assert!((0.99..1.01).contains(&objective), "{objective}");
    for resumption in resumptions {
        let first = resumption.first.unwrap();
        assert!(first <= FIRST_MAX, "{resumption:?}");
        let (last, bytes) = resumption.last.unwrap();
        let crossing = bytes as f64 * 8.0 / BITS_PER_SECOND;
        assert!(last.as_secs_f64() <= 1.2 * crossing + 5.0, "{resumption:?}");
    }
}

/// Runs a cluster for so long, and has things befall it or not; says what became of it, how much befell it, and how data
/// centers that had been cut off and the others found each other again.
///
/// Every 30 s something befalls it, in turn: a cut lasts for two turns, in which a worker of another data center is killed.
fn run(seconds: u64, faults: bool) -> (Outcome, u32, Vec<Resumption>) {
    let setting = Setting {
        stop: format!("seconds = {seconds}"),
        clock: "250 ms",
        data: Data::Ratings { users: 3000, items: 2000 },
        evaluate_every: 10,
    };
    let network = Network::new("50mbit").expect("network namespaces are allowed");
    let mut cluster = Cluster::start(network, &setting);
    cluster.wait_for_clock(1);
    if !faults {
        return (cluster.end(), 0, Vec::new());
    }
    let (mut turn, mut cut, mut resumptions) = (0, None, Vec::new());
    loop {
        turn += 1;
        cluster.watch_for((turn * EVERY).saturating_sub(cluster.trained()));
        if let Some((dc, _)) = cut.take_if(|(_, since)| turn - *since == CUT_TURNS) {
            cluster.network().heal(dc);
            resumptions.extend(reunite(&mut cluster, dc));
        }
        let number = turn as usize - 1;
        let fault = FAULTS[number % FAULTS.len()];
        let away = if fault == Fault::CutOff { CUT_TURNS } else { 0 };
        // The last is over a while before the run is, which else would end with copies that have just met.
        if (turn + away + 1) * EVERY > Duration::from_secs(seconds) {
            break;
        }
        // The coordinator's data center is the first, and is not cut off.
        let own = 1 + number / FAULTS.len() % 2;
        let dc = cut.map_or(own, |(away, _)| (away + 1) % DATA_CENTERS.len());
        println!("{:>5} s: {fault:?} {}", cluster.trained().as_secs(), DATA_CENTERS[dc]);
        match fault {
            Fault::KillWorker => cluster.restart(&format!("worker-{dc}")),
            Fault::KillServer => cluster.restart(&format!("server-{dc}")),
            Fault::CutOff => {
                cluster.network().cut(dc);
                cut = Some((dc, turn));
            }
        }
    }
    (cluster.end(), turn - 1, resumptions)
}

/// Looks at how a data center that is not cut off any more and the others find each other.
fn reunite(cluster: &mut Cluster, dc: usize) -> Vec<Resumption> {
    let seen = cluster.reunite(dc, EVERY);
    for ((from, to), Resumption { first, last }) in &seen {
        let (from, to) = (DATA_CENTERS[*from], DATA_CENTERS[*to]);
        let first = first.map_or(f64::NAN, |first| first.as_secs_f64());
        let (last, bytes) = last.map_or((f64::NAN, 0), |(last, bytes)| (last.as_secs_f64(), bytes));
        println!(
            "         {from} → {to}: first data after {first:.2} s, all {bytes} bytes after {last:.2} s"
        );
    }
    seen.into_values().collect()
}

/// Names the environment variable that says for how many seconds.
pub(crate) const SOAK: &str = "GAIA_SOAK";

const EVERY: Duration = Duration::from_secs(30);
/// How long a data center is cut off.
const CUT_TURNS: u32 = 2;

/// What must be left of the clocks that a run without faults finishes.
const CLOCKS_MIN: f64 = 0.95;

/// From the moment that packets pass again to the first data frame.
const FIRST_MAX: Duration = Duration::from_secs(3);
const BITS_PER_SECOND: f64 = 50e6;
