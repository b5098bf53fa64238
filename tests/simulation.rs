//! Whole runs in virtual time: they repeat, they end, and they keep to their bounds.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "hostile/allocations.rs"]
mod allocations;
mod runs;

use allocations::{asked_for, peak_of};
use gaia_driver::Outcome;
use gaia_planner::Memory;
use runs::{application, plan, run};

/// Every way to share updates, by what `[sync.remote]` says.
const REMOTES: [&str; 9] = [
    "model = 'bsp'",
    "model = 'bsp', exchange = 'ring'",
    "model = 'bsp', exchange = 'tree'",
    "model = 'ssp', staleness = 2",
    "model = 'tap'",
    "model = 'asp'",
    "model = 'asp', policy = 'paper', selective_barrier = 'on'",
    "model = 'local-steps', steps = 2, fragments = 2",
    "model = 'local-steps', steps = 3, quorum = 0.6, grace = '30 ms'",
];

fn remote(remote: &str) -> String {
    format!("sync.remote={{{remote}}}")
}

/// All that a run tells, but for the time that it took on this machine.
fn bytes(outcome: &Outcome) -> String {
    let mut lines = String::new();
    for progress in &outcome.progress {
        lines += &serde_json::to_string(progress).unwrap();
        lines.push('\n');
    }
    let mut summary = outcome.summary.clone();
    summary.wall_s = 0.0;
    lines + &serde_json::to_string(&summary).unwrap()
}

#[test]
fn a_seed_repeats_to_the_byte_and_another_does_not() {
    for model in REMOTES {
        for weather in ["topology.wan.loss=0.0", "topology.wan.loss=0.01"] {
            let of_seed = |seed: &str| {
                bytes(&run(&[&remote(model), weather, seed, "topology.defaults.servers=2"]))
            };
            let first = of_seed("seed=7");
            assert!(first.lines().count() > 10);
            assert!(first == of_seed("seed=7"), "{model} with {weather} does not repeat");
            assert!(first != of_seed("seed=8"), "{model} with {weather} knows no chance");
        }
    }
}

/// A third of the workers are five times slower than the rest.
#[test]
fn with_asp_no_data_center_is_further_ahead_than_the_staleness() {
    let lag = |settings: &str, servers: usize| {
        let outcome = run(&[
            &remote(&format!("model = 'asp', {settings}")),
            &format!("topology.defaults.servers={servers}"),
            "compute.slowdown.tokyo=5.0",
            "compute.jitter=0.3",
        ]);
        (outcome.summary.clock_lag_max, outcome.summary.blocked_s.mirror_clock)
    };
    for policy in ["link", "paper"] {
        for servers in [1, 3] {
            let (unbounded, _) =
                lag(&format!("policy = '{policy}', mirror_clock = 'off'"), servers);
            assert!(unbounded > 16, "the straggler is left behind: {unbounded}");
            for staleness in [1, 2, 4, 8] {
                let settings = format!("policy = '{policy}', data_center_staleness = {staleness}");
                let (lag, blocked_s) = lag(&settings, servers);
                assert!(lag <= staleness, "{policy} with {servers} servers: {lag} > {staleness}");
                assert!(lag == staleness && blocked_s > 0.0, "the brake is what bounds it: {lag}");
            }
        }
    }
}

#[test]
fn bsp_data_centers_are_one_clock_apart_at_most_and_ssp_its_staleness_more() {
    for (model, most) in [("model = 'bsp'", 1), ("model = 'ssp', staleness = 3", 4)] {
        let outcome = run(&[&remote(model), "compute.slowdown.tokyo=5.0", "compute.jitter=0.3"]);
        let summary = outcome.summary;
        assert_eq!(summary.clock_lag_max, most, "{model}");
        assert!(summary.blocked_s.bandwidth > 0.0 && summary.blocked_s.mirror_clock == 0.0);
    }
}

/// One of four workers in each data center is four times slower than the others.
#[test]
fn a_quorum_of_workers_does_not_wait_for_the_slowest() {
    for model in REMOTES {
        let of_local = |local: &str, factor: &str| {
            let slow: Vec<String> = ["virginia", "ireland", "tokyo"]
                .iter()
                .map(|dc| format!("compute.slowdown.{dc}=[1.0, 1.0, {factor}, 1.0]"))
                .collect();
            let mut settings = vec![
                "topology.defaults.workers=4",
                "topology.bandwidth_scale=10.0",
                "compute.examples_per_second=10.0",
                "app.learning_rate=1.0",
            ];
            let remote = remote(model);
            settings.extend([local, &remote]);
            settings.extend(slow.iter().map(String::as_str));
            let first = run(&settings);
            assert!(first.summary.copies_equal, "{model}");
            assert!(bytes(&first) == bytes(&run(&settings)), "{model} does not repeat");
            (first.summary.time_s, first.summary.objective)
        };
        let all = "sync.local={model = 'bsp'}";
        let quorum = "sync.local={model = 'bsp', quorum = 0.75, grace = '5 ms'}";
        let ((fast_s, fast), (waiting_s, _), (quorum_s, objective)) =
            (of_local(all, "1.0"), of_local(all, "4.0"), of_local(quorum, "4.0"));
        assert!(waiting_s > 2.5 * fast_s, "{model}: {waiting_s} {fast_s}");
        assert!(quorum_s < 1.25 * fast_s, "{model}: {quorum_s} {fast_s}");
        assert!(objective < 1.05 * fast, "{model}: {objective} {fast}");
    }
}

#[test]
fn lossy_links_cost_bytes_and_nothing_else() {
    for model in REMOTES {
        let of_loss = |loss: &str| {
            let summary = run(&[&remote(model), loss]).summary;
            assert!(summary.copies_equal, "{model}");
            // What waits merges, so a slower link may carry fewer updates: each of them costs more.
            let updates: u64 = summary.links.iter().map(|link| link.updates).sum();
            (summary.objective, summary.wan_bytes as f64 / updates as f64, summary.time_s)
        };
        let (objective, wan_bytes, time_s) = of_loss("topology.wan.loss=0.0");
        let (with_loss, more_bytes, more_time_s) = of_loss("topology.wan.loss=0.05");
        assert!(more_bytes > wan_bytes, "{model}: {more_bytes} {wan_bytes}");
        assert!(with_loss < 1.1 * objective, "{model}: {with_loss} {objective}");
        if model.contains("bsp") {
            assert!(more_time_s > time_s, "{model}: {more_time_s} {time_s}");
        }
    }
}

#[test]
fn several_servers_learn_what_one_does() {
    for model in REMOTES {
        let of_servers = |servers: usize| {
            let servers = format!("topology.defaults.servers={servers}");
            let summary = run(&[&remote(model), &servers, "app.learning_rate=1.0"]).summary;
            assert!(summary.copies_equal, "{model}");
            summary.objective
        };
        let one = of_servers(1);
        for servers in [2, 5] {
            let several = of_servers(servers);
            let ratio = several / one;
            assert!((0.97..1.03).contains(&ratio), "{model}: {several} with {servers}, {one}");
        }
    }
}

/// With more servers than there are rows, some servers own nothing, and are waited for all the same.
#[test]
fn a_server_without_rows_holds_nobody_up() {
    for model in REMOTES {
        let small = "app.data.synthetic={features = 3, active = 2, examples = 600}";
        let outcome = run(&[&remote(model), "topology.defaults.servers=5", small]);
        assert!(outcome.summary.copies_equal, "{model}");
        assert_eq!(outcome.summary.clocks, 60);
    }
}

#[test]
fn local_ssp_lets_workers_drift_and_learns_the_same() {
    for model in REMOTES {
        let of_local = |local: &str| {
            run(&[&remote(model), local, "compute.jitter=0.5", "app.learning_rate=1.0"]).summary
        };
        let bsp = of_local("sync.local={model = 'bsp'}");
        let ssp = of_local("sync.local={model = 'ssp', staleness = 3}");
        assert!(ssp.copies_equal, "{model}");
        let ratio = ssp.objective / bsp.objective;
        assert!((0.95..1.05).contains(&ratio), "{model}: {} {}", ssp.objective, bsp.objective);
        assert!(ssp.blocked_s.local < bsp.blocked_s.local, "{model}");
    }
}

/// Where there is no WAN, it does not matter how it is used, but for the order in which floats are added.
#[test]
fn in_one_data_center_all_models_are_the_same() {
    let alone =
        "topology={name = 'alone', data_center = [{name = 'home', workers = 4, servers = 2}]}";
    let first = run(&[&remote(REMOTES[0]), alone]);
    for model in REMOTES {
        let outcome = run(&[&remote(model), alone]);
        for (progress, of_first) in outcome.progress.iter().zip(&first.progress) {
            assert_eq!((progress.time_s, progress.clock), (of_first.time_s, of_first.clock));
            let ratio = progress.objective / of_first.objective;
            assert!((ratio - 1.0).abs() < 1e-4, "{model}: {ratio}");
        }
        let summary = &outcome.summary;
        assert_eq!((summary.wan_bytes, summary.clocks, summary.clock_lag_max), (0, 60, 0));
        assert!(summary.copies_equal && summary.links.is_empty());
    }
}

#[test]
fn a_run_ends_where_its_rule_says() {
    for model in REMOTES {
        let of_stop = |stop: &str| run(&[&remote(model), stop, "evaluate.every=10"]);
        let outcome = of_stop("stop={clocks = 23}");
        let judged: Vec<u64> = outcome.progress.iter().map(|progress| progress.clock).collect();
        assert_eq!(judged, [10, 20, 23], "{model}");
        let summary = of_stop("stop={seconds = 2.5}").summary;
        assert_eq!((summary.stopped_by.as_str(), summary.time_s), ("seconds", 2.5), "{model}");
        assert!(summary.copies_equal && !summary.converged);
    }
}

/// Every brake and every queue is at its bound.
#[test]
fn a_run_over_links_that_carry_next_to_nothing_still_ends() {
    let starved = ["topology.wan.bandwidth=1 kbit/s", "topology.bandwidth_scale=1.0"];
    for model in REMOTES {
        let stop = "stop={clocks = 5, seconds = 100000.0}";
        let outcome = run(&[&remote(model), starved[0], starved[1], stop]);
        assert!(outcome.summary.copies_equal, "{model}");
    }
}

/// Nothing but its iterations takes time of a worker that shares the machine of its server, and it has no data to iterate on.
#[test]
fn a_worker_without_data_on_the_machine_of_its_server_lets_time_pass() {
    let app = "app={kind='matrix-factorization', rank=4, \
               data={split='by-user', synthetic={users=1, items=20, ratings=100}}}";
    let colocated = "topology.defaults={colocated=true, workers=1}";
    for model in ["model = 'tap'", "model = 'bsp'", "model = 'asp', mirror_clock = 'off'"] {
        let outcome = run(&[app, colocated, &remote(model), "stop.clocks=20"]);
        assert_eq!(outcome.summary.stopped_by, "clocks", "{model}");
    }
}

#[test]
fn machines_cost_their_price_for_as_long_as_they_train() {
    let free = run(&["cost.usd_per_machine_hour=0.0"]);
    assert_eq!(free.summary.machine_cost_usd, 0.0);
    let paid = run(&["cost.usd_per_machine_hour=2.0"]);
    let (summary, machines) = (&paid.summary, (paid.summary.servers + paid.summary.workers) as f64);
    let expected = 2.0 * machines * summary.time_s / 3600.0;
    assert!((summary.machine_cost_usd - expected).abs() < 1e-9 * expected, "{summary:?}");
    assert_eq!(summary.time_s, free.summary.time_s);
}

/// So many data centers in so many groups, each with a hub.
fn groups(count: usize, hubs: usize) -> String {
    let name = |dc: usize| format!("'dc{dc}'");
    let data_centers = (0..count).map(|dc| format!("{{name = {}}}", name(dc)));
    let data_centers = data_centers.collect::<Vec<_>>().join(",");
    let groups = (0..hubs).map(|hub| {
        let members: Vec<String> = (hub..count).step_by(hubs).map(name).collect();
        format!("{{hub = {}, members = [{}]}}", name(hub), members.join(","))
    });
    let groups = groups.collect::<Vec<_>>().join(",");
    format!(
        "topology={{name = 't', wan = {{bandwidth = '100 Mbit/s', rtt = '50 ms'}}, \
         data_center = [{data_centers}], group = [{groups}]}}"
    )
}

/// All parameters of a dense model change at each clock. Links hold little: what is on its way is not estimated.
#[test]
fn a_dense_run_holds_the_memory_that_is_estimated_for_it() {
    let app = "app={kind = 'perceptron', optimizer = 'sgd', hidden = [500], batch = 4, data = {synthetic = \
               {features = 100, examples = 240}}}";
    let topology = groups(12, 3);
    let whole = "threshold = 0.0001, function = 'absolute'";
    let models = [
        "model = 'tap'".to_owned(),
        format!("model = 'asp', {whole}"),
        format!("model = 'asp', overlay = 'groups', {whole}"),
    ];
    for model in models {
        let links = "topology.wan={bandwidth = '10 Mbit/s', rtt = '1 ms'}";
        let slow = "compute.examples_per_second=10.0";
        let stop = "stop={clocks = 8}";
        let settings = [app, &topology, links, slow, &remote(&model), stop, "evaluate.every=100"];
        let (_, most) = peak_of(|| run(&settings));
        let plan = plan(&settings);
        let estimated = Memory::of(&plan, application(&plan).as_ref()).all as usize;
        // What tasks keep and the drain come on top.
        let is_near = (estimated * 4 / 5..estimated * 7 / 5).contains(&most);
        assert!(is_near, "{model}: {} kB were held of {}", most >> 10, estimated >> 10);
    }
}

/// Of users without a rating a run holds no more than their values: a tenth of these have one.
#[test]
fn what_data_do_not_use_is_held_once() {
    let app = |users: usize| {
        format!(
            "app={{kind = 'matrix-factorization', rank = 64, data = {{synthetic = {{users = {users}, items = 50, ratings = 400}}}}}}"
        )
    };
    let (few, many) = (app(400), app(4000));
    let of = |app: &str| {
        let plan = plan(&[app, "stop={clocks = 8}", "evaluate.every=4"]);
        let application = application(&plan);
        let in_use = application.parameters_in_use(0..application.workers());
        (Memory::of(&plan, application.as_ref()).all, in_use)
    };
    let ((small, _), (large, in_use)) = (of(&few), of(&many));
    assert!(in_use < 450 * 65, "{in_use}");
    // Three servers, twice, and two copies that are evaluated.
    let values = 4 * 3600 * 65 * (3 * 2 + 2);
    assert!(large - small < values + small / 2, "{small} and {large}");
}

/// A server has a sum of what it has sent for each of its links, here 29 and more of 100 000 parameters. A data center
/// changes one in a hundred of them.
#[test]
fn many_data_centers_hold_memory_for_what_their_links_have_carried() {
    let (count, hubs) = (150, 5);
    let topology = groups(count, hubs);
    let app = "app={kind = 'matrix-factorization', rank = 10, data = {synthetic = \
               {users = 300, items = 9700, ratings = 7500, rank = 2}}}";
    let stop = "stop={clocks = 3}";
    let settings =
        [app, &topology, &remote("model = 'asp', overlay = 'groups'"), stop, "evaluate.every=100"];

    let (outcome, most) = peak_of(|| run(&settings));
    assert!(outcome.summary.copies_equal);
    let links = count * (count / hubs - 1) + hubs * (hubs - 1);
    // Of 22 350 pairs those of the groups alone.
    assert_eq!(outcome.summary.links.len(), links);
    assert!(outcome.summary.links.iter().all(|link| link.updates > 0));
    let sums = links * 4 * 100_000;
    assert!(most < sums / 2, "{} MB were held, and {} MB of sums", most >> 20, sums >> 20);
}

/// Where a round trip takes many clocks, each data center meets the target by its own changes, and the drain adds those of all.
#[test]
fn a_target_is_met_only_if_the_model_after_the_drain_holds_it() {
    let app = "app={kind='matrix-factorization', rank=4, row_step_max=0.5, \
               data={synthetic={users=100, items=60, ratings=3000}}}";
    let trained = |examples_per_second: &str| {
        let compute = format!("compute.examples_per_second={examples_per_second}");
        let stop = "stop={clocks=1000, objective=0.6}";
        run(&[app, stop, &compute, "topology.bandwidth_scale=1.0"]).summary
    };

    let near = trained("1000.0");
    assert!(near.stopped_by == "objective" && near.converged && near.objective < 0.65, "{near:?}");
    assert!(near.time_to_target_s.is_some() && near.clocks_to_target.is_some());

    let far = trained("10000000.0");
    assert!(far.stopped_by == "objective" && far.objective > 0.8, "{far:?}");
    assert!(!far.converged && far.time_to_target_s.is_none() && far.clocks_to_target.is_none());
    assert!(far.wan_bytes_to_target.is_none());
}

/// Fresh memory is given by the system page by page, which takes longer than to write to it. Other memory of this order is that of
/// products of matrices, which has other sizes, and of frames.
#[test]
fn clocks_ask_for_no_memory_as_large_as_the_model_or_its_weights() {
    const APP: &str = "app={kind = 'perceptron', hidden = [500, 400], optimizer = 'sgd', batch = 4, \
                       data.synthetic = {examples = 300, features = 100}}";
    let parameters = application(&plan(&[APP])).layout().parameters();
    let sizes = [parameters, 500 * 400].map(|values| values * size_of::<f32>());
    let asked = |model: &str, clocks: u64| {
        let clocks = format!("stop.clocks={clocks}");
        let settings = [APP, &remote(model), &clocks, "evaluate.every=1000"];
        asked_for(sizes, || drop(run(&settings)))
    };

    // A server asks for a second copy of its values when they change while an answer with them is on its way. With `ssp` the
    // last of the three does so at clock 41.
    for (model, few, more) in [
        ("model = 'bsp'", 20, 60),
        ("model = 'ssp', staleness = 2", 60, 180),
        ("model = 'asp'", 20, 60),
    ] {
        let asked = [few, more].map(|clocks| asked(model, clocks));
        assert!(asked[0] > 0, "the model has to be somewhere");
        assert_eq!(asked[0], asked[1], "{model}: {few} clocks and {more}");
    }
    // Two rounds each.
    let rounds_of = |steps: u64| {
        asked(&format!("model = 'local-steps', steps = {steps}, overlap = 0"), 2 * steps)
    };
    assert_eq!(rounds_of(10), rounds_of(30), "rounds of 10 clocks and of 30");
}
