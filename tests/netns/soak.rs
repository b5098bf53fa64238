//! Minutes of trouble, measured against a run that nothing befalls.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::cluster::{Cluster, Data, Outcome, Resumption, Setting};
use crate::network::{DATA_CENTERS, Network};
use crate::resources::Resources;
use crate::{Fault, check_conservation};
use gaia_core::types::Seed;

/// What came of a run.
struct Soaked {
    outcome: Outcome,
    faults: BTreeMap<Fault, Cost>,
    /// How data centers that had been cut off and the others found each other again.
    resumptions: Vec<Resumption>,
    /// What nodes of each role took at most, in the quarters of the run.
    resources: [BTreeMap<&'static str, Resources>; 4],
}

/// What a kind of fault has cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// How often it befell the run, and how often while no data center was cut off.
    count: u32,
    apart: u32,
    /// The time of its turns, and the clocks that were finished in it. All turns of a cut are the cut's.
    time: Duration,
    clocks: u64,
}

#[test]
fn soak() {
    let Some(seconds) = std::env::var(SOAK).ok().and_then(|text| text.parse::<u64>().ok()) else {
        return;
    };
    // Both runs go at the same time, so that both have the same machine: a clock is a quarter of a second, in which
    // nodes compute for some milliseconds, so that neither takes the processor from the other.
    let seed = std::env::var(SOAK_SEED).map_or(1, |text| text.parse().unwrap());
    println!("seed          {seed}");
    let calm = thread::spawn(move || run(seconds, None));
    let with = run(seconds, Some(Seed(seed)));
    let without = calm.join().unwrap();
    let total = |soaked: &Soaked| soaked.outcome.clocks.iter().sum::<u64>();
    let clocks = total(&with) as f64 / total(&without) as f64;
    let objective = with.outcome.objective / without.outcome.objective;
    print(&with, &without, seconds);
    println!("clocks        {:.2} %", 100.0 * clocks);
    println!("objective     {objective:.4} times that without faults");
    for Soaked { outcome, .. } in [&with, &without] {
        assert!(outcome.copies_equal);
        check_conservation(outcome);
    }
    assert!(clocks >= CLOCKS_MIN, "{clocks}");
    assert!((0.99..1.01).contains(&objective), "{objective}");
    for resumption in &with.resumptions {
        let first = resumption.first.unwrap();
        assert!(first <= FIRST_MAX, "{resumption:?}");
        let (last, bytes) = resumption.last.unwrap();
        let crossing = bytes as f64 * 8.0 / BITS_PER_SECOND;
        assert!(last.as_secs_f64() <= 1.2 * crossing + 5.0, "{resumption:?}");
    }
    for Soaked { resources, .. } in [&with, &without] {
        for (role, last) in &resources[3] {
            check_growth(role, resources[1].get(role).copied().unwrap_or(*last), *last);
        }
    }
}

/// What a role takes in the last quarter is about what it took in the second, and its disk holds no more than the logs
/// and checkpoints that are kept.
fn check_growth(role: &str, second: Resources, last: Resources) {
    let grows = |last: u64, second: u64, slack: u64| last > second + second / 4 + slack;
    let what = format!("{role}: {second}, then {last}");
    assert!(!grows(last.memory_bytes, second.memory_bytes, 4 << 20), "{what}");
    assert!(!grows(last.descriptors, second.descriptors, 4), "{what}");
    assert!(last.state_bytes <= STATE_BYTES_MAX, "{what}");
}

fn print(with: &Soaked, without: &Soaked, seconds: u64) {
    // A turn without faults has as many clocks as the calm run in the mean.
    let calm = without.outcome.clocks[0] as f64 / seconds as f64;
    let all: u32 = with.faults.values().map(|cost| cost.count).sum();
    println!("faults        {all} over {seconds} s");
    for (fault, Cost { count, apart, time, clocks }) in &with.faults {
        let lost = (time.as_secs_f64() - *clocks as f64 / calm) / f64::from(*apart).max(1.0);
        println!("  {count:>3} {:<15} cost {lost:>5.1} s each", format!("{fault:?}"));
    }
    for (name, Soaked { outcome, resources, .. }) in [("faults", with), ("calm", without)] {
        println!("{name}");
        println!("  clocks        {:?}", outcome.clocks);
        println!("  objective     {:.5}", outcome.objective);
        println!("  copies        equal: {}", outcome.copies_equal);
        println!("  conservation  {}", outcome.conservation);
        for (quarter, taken) in resources.iter().enumerate() {
            for (role, taken) in taken {
                println!("  quarter {}     {role:<11} {taken}", quarter + 1);
            }
        }
    }
}

/// Runs a cluster for so long, and has drawn faults befall it or not.
///
/// Every 30 s something befalls it. A cut lasts for two turns, in which a node of another data center fails.
fn run(seconds: u64, faults: Option<Seed>) -> Soaked {
    let setting = Setting {
        stop: format!("seconds = {seconds}"),
        clock: "250 ms",
        data: Data::Ratings { users: 3000, items: 2000 },
        evaluate_every: 10,
        detours: true,
    };
    let network = Network::new("50mbit").expect("network namespaces are allowed");
    let mut cluster = Cluster::start(network, &setting);
    cluster.wait_for_clock(1);
    let (mut costs, mut cut, mut resumptions) = (BTreeMap::<_, Cost>::new(), None, Vec::new());
    let mut last: Option<(Fault, Duration, u64)> = None;
    let mut resources: [BTreeMap<&'static str, Resources>; 4] = Default::default();
    for turn in 1.. {
        cluster.watch_for((turn * EVERY).saturating_sub(cluster.trained()));
        let quarter = (4 * cluster.trained().as_secs() / seconds).min(3) as usize;
        for (role, taken) in cluster.resources() {
            let most = resources[quarter].entry(role).or_default();
            *most = most.max(taken);
        }
        if let Some((dc, _)) = cut.take_if(|(_, since)| turn - *since == CUT_TURNS) {
            resumptions.extend(reunite(&mut cluster, dc));
        }
        if let Some((fault, began, before)) = last.take() {
            let cost = costs.entry(fault).or_default();
            cost.time += cluster.trained() - began;
            cost.clocks += cluster.clock() - before;
        }
        // The last is over a while before the run is, which else would end with copies that have just met.
        if (turn + CUT_TURNS + 1) * EVERY > Duration::from_secs(seconds) {
            break;
        }
        let Some(seed) = faults else { continue };

        let away = cut.map(|(dc, _)| dc);
        let (fault, dc) = draw(seed.nth(turn as usize), away);
        let cost = costs.entry(fault).or_default();
        cost.count += 1;
        cost.apart += u32::from(away.is_none());
        let charged = if away.is_some() { Fault::CutOff } else { fault };
        last = Some((charged, cluster.trained(), cluster.clock()));
        println!("{:>5} s: {fault:?} {}", cluster.trained().as_secs(), DATA_CENTERS[dc]);
        if fault == Fault::CutOff {
            cluster.network().cut(dc);
            cut = Some((dc, turn));
        } else {
            fault.befall(&mut cluster, dc, LASTS);
        }
    }
    if let Some((dc, _)) = cut {
        resumptions.extend(reunite(&mut cluster, dc));
    }
    Soaked { outcome: cluster.end(), faults: costs, resumptions, resources }
}

/// A fault and the data center that it befalls. While one is cut off, only processes and wall clocks of the others fail, and
/// they keep their disks: the state of a shard has to be somewhere. The coordinator's data center, the first, is not cut off.
fn draw(seed: Seed, away: Option<usize>) -> (Fault, usize) {
    let one_of = |name: &str, count: usize| (seed.child(name).0 % count as u64) as usize;
    let all = [
        Fault::KillWorker,
        Fault::KillServer,
        Fault::FullDisk,
        Fault::ClockForward,
        Fault::CutOff,
        Fault::DeadLink,
        Fault::OneWayDeadLink,
        Fault::Flapping,
        Fault::LostDisk,
        Fault::ClockBack,
    ];
    let within = &all[..if away.is_some() { 4 } else { all.len() }];
    let fault = within[one_of("fault", within.len())];
    let dc = match (fault, away) {
        (_, Some(away)) => (away + 1 + one_of("dc", 2)) % DATA_CENTERS.len(),
        (Fault::CutOff | Fault::Flapping, None) => 1 + one_of("dc", 2),
        _ => one_of("dc", DATA_CENTERS.len()),
    };
    (fault, dc)
}

/// Ends the cut of a data center, and looks at how it and the others find each other.
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

/// Names the environment variable that says which faults; 1 if it is not set.
const SOAK_SEED: &str = "GAIA_SOAK_SEED";

const EVERY: Duration = Duration::from_secs(30);
/// How long a fault lasts that is over within its turn.
const LASTS: Duration = Duration::from_secs(10);
/// How long a data center is cut off.
const CUT_TURNS: u32 = 2;

/// What must be left of the clocks that a run without faults finishes.
const CLOCKS_MIN: f64 = 0.98;

/// A checkpoint is due after 64 MiB of a log. Three are kept, with the segments of 64 MiB that the oldest needs.
const STATE_BYTES_MAX: u64 = 6 * (64 << 20);

/// From the moment that packets pass again to the first data frame.
const FIRST_MAX: Duration = Duration::from_secs(3);
const BITS_PER_SECOND: f64 = 50e6;
