//! How long data centers take to exchange a model, in virtual time.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::ops::Range;
use std::sync::Arc;

use gaia::{
    Aggregation, Application, ApplicationError, Clock, Deltas, Direction, EvaluationSums, Metric,
    Model, ModelLayout, Outcome, Override, RowSet, RunFile, Seed, TableDeltas, TableLayout, Task,
    Unobserved, WeightedSum, Work,
};
use gaia_core::link::PAYLOAD_SHARE_MAX;
use gaia_core::server::Blocks;
use gaia_core::topology::{DataCenter, Topology, WanLink, fastest_ring, fastest_tree};
use gaia_core::types::{Bandwidth, ByteSize, DcId, DurationSetting, UsdPerGb};
use proptest::collection::vec;
use proptest::prelude::*;

/// Each worker changes every parameter in each clock, and takes no time for it.
struct Dense {
    layout: Arc<ModelLayout>,
    workers: usize,
}

struct DenseTask {
    layout: Arc<ModelLayout>,
    worker: usize,
}

impl Application for Dense {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn task(&self, worker: usize, _: Seed) -> Box<dyn Task> {
        Box::new(DenseTask { layout: self.layout.clone(), worker })
    }

    fn sums(&self, _: &Model, workers: Range<usize>) -> Result<EvaluationSums, ApplicationError> {
        let sum = WeightedSum { sum: 1.0, weight: workers.len() as f64 };
        Ok(EvaluationSums { objective: sum, metric: sum })
    }

    fn metric(&self) -> Metric {
        let (aggregation, direction) = (Aggregation::Mean, Direction::Lower);
        Metric { name: "nothing".into(), aggregation, direction }
    }
}

impl Task for DenseTask {
    fn rows(&mut self, _: Clock) -> RowSet {
        RowSet::all(&self.layout)
    }

    fn iterate(&mut self, clock: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let mixed = |at: usize| (at * 31 + self.worker * 17 + clock.0 as usize * 7) % 23;
        let values: Vec<f32> =
            (0..self.layout.parameters()).map(|at| 0.1 + 0.01 * mixed(at) as f32).collect();
        let work = Work { examples: 1, flops: 1.0 };
        Ok((Deltas { tables: vec![TableDeltas::all(values)] }, work))
    }
}

/// Runs some clocks of `remote` over a shipped topology or a table of one, in which only the WAN takes time.
fn run(topology: &str, remote: &str, parameters: usize, settings: &[&str]) -> Outcome {
    let text = format!(
        "name = \"exchange\"\ntopology = {topology}\nsync.remote = {{ {remote} }}\n\
         compute = {{ examples_per_second = 1e12, clock_overhead = \"0 s\", jitter = 0.0 }}\n\
         evaluate.every = 1\nstop.clocks = {CLOCKS}"
    );
    let overrides: Vec<Override> =
        settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
    let plan = RunFile::from_text("run.toml", &text, &overrides)
        .and_then(|file| file.plan())
        .unwrap_or_else(|error| panic!("{}", error.render(false)));

    let table = TableLayout { name: "dense".into(), rows: parameters, width: 1 };
    let layout = Arc::new(ModelLayout::new(vec![table]));
    let workers = plan.topology.workers();
    let application: Arc<dyn Application> = Arc::new(Dense { layout, workers });
    let outcome = gaia::run(&plan, &application, &mut Unobserved).unwrap();
    assert!(outcome.summary.copies_equal, "{remote} over {topology}");
    outcome
}

/// The seconds between two of the clocks: one exchange.
fn exchange_s(outcome: &Outcome) -> f64 {
    let at = |clock: u64| {
        outcome.progress.iter().find(|progress| progress.clock == clock).unwrap().time_s
    };
    at(CLOCKS) - at(CLOCKS - 1)
}

/// A shipped topology whose links are so slow that round trips hardly count.
fn slow(name: &str, servers: usize) -> String {
    let scale = if name.starts_with("aws") { 1e-5 } else { 1e-3 };
    format!(
        "{{ file = \"{name}\", bandwidth_scale = {scale}, defaults = {{ servers = {servers}, workers = {servers}, \
         lan_bandwidth = \"1 Gbit/s\", lan_rtt = \"0 s\", colocated = true }} }}"
    )
}

/// Data centers whose links all have the same properties.
fn alike(data_centers: usize, rtt_ms: u32) -> String {
    let named: Vec<String> =
        (0..data_centers).map(|dc| format!("{{ name = \"dc{dc}\" }}")).collect();
    format!(
        "{{ name = \"alike\", data_center = [{}], wan = {{ bandwidth = \"10 Mbit/s\", rtt = \"{rtt_ms} ms\" }}, \
         defaults = {{ lan_bandwidth = \"10 Gbit/s\", lan_rtt = \"0 s\", colocated = true }} }}",
        named.join(", ")
    )
}

fn blocks_ratio(name: &str, servers: usize, model: &str) -> f64 {
    let of = |blocks: &str| {
        let remote = format!("{model}, blocks = '{blocks}'");
        exchange_s(&run(&slow(name, servers), &remote, PARAMETERS / 2, &[]))
    };
    of("bandwidth") / of("equal")
}

#[test]
fn blocks_by_bandwidth_are_nowhere_slower_than_equal_ones() {
    for name in SHIPPED {
        for model in ["model = 'bsp'", "model = 'ssp', staleness = 1"] {
            let ratio = blocks_ratio(name, 1, model);
            assert!(ratio < 1.001, "{ratio} over {name}, {model}");
        }
    }
}

/// As the pieces of a home's block are sent back one after the other, it is at most the larger of the two blocks on a link
/// that decides.
#[test]
fn blocks_by_bandwidth_halve_an_exchange_over_ec2_all() {
    for servers in [1, 2] {
        let ratio = blocks_ratio("gaia-2016-ec2-all", servers, "model = 'bsp'");
        assert!((0.47..0.55).contains(&ratio), "{ratio} with {servers} servers");
    }
}

/// Each of a ring's `2(D - 1)` steps sends one chunk of `1 / D` of the model over every link, and waits for its arrival.
#[test]
fn a_ring_takes_the_time_of_its_steps() {
    for (data_centers, rtt_ms) in [(2, 0), (3, 100), (5, 20), (8, 200)] {
        let topology = alike(data_centers, rtt_ms);
        let outcome = run(&topology, "model = 'bsp', exchange = 'ring'", PARAMETERS, &[]);
        let steps = 2.0 * (data_centers - 1) as f64;
        let model_s = MODEL_BITS / ALIKE_BITS_PER_SECOND;
        let hop_s = 0.5e-3 * f64::from(rtt_ms);
        let expected = steps / data_centers as f64 * model_s + steps * hop_s;
        let ratio = exchange_s(&outcome) / expected;
        assert!((0.97..1.03).contains(&ratio), "{data_centers} data centers: {ratio}");
    }
}

/// Pipelined over a tree, the model crosses each of its links once in each direction.
#[test]
fn a_tree_takes_the_time_of_its_slowest_link() {
    for data_centers in [2, 5] {
        let topology = alike(data_centers, 0);
        let outcome = run(&topology, "model = 'bsp', exchange = 'tree'", PARAMETERS, &[]);
        let ratio = exchange_s(&outcome) * ALIKE_BITS_PER_SECOND / (MODEL_BITS);
        assert!((1.0..1.05).contains(&ratio), "{data_centers} data centers: {ratio}");
    }
}

/// The ratios follow from the bandwidths. With equal blocks the slowest link carries `2 / D` of the model. Each link of a
/// ring carries `2(D - 1) / D` of it, and each link of a tree all of it.
///
/// A ring is up to 8 % better than that: it uses one direction of each link, so that no acknowledgements share it, and its
/// frames are larger. A tree needs the time of some chunks of 256 more, as many as its longest path has links, there and
/// back.
#[test]
fn rings_and_trees_take_their_multiples_of_homes_over_each_wan() {
    for (name, best, listed, tree) in [
        ("gaia-2016-ec2-all", 2.79, 5.24, 1.28),
        ("aws-2022-ec2-all", 7.9, 8.7, 4.2),
        ("aws-2022-single-flow", 5.5, 9.0, 2.4),
    ] {
        let of = |remote: &str| exchange_s(&run(&slow(name, 1), remote, PARAMETERS, &[]));
        let homes = of("model = 'bsp', blocks = 'equal'");
        let names = gaia::load_topology(name).unwrap();
        let names: Vec<&str> = names.data_centers.iter().map(|dc| dc.name.as_str()).collect();
        let in_order = format!("model = 'bsp', exchange = 'ring', ring = {names:?}");
        for (what, remote, expected) in [
            ("the best ring", "model = 'bsp', exchange = 'ring'", best),
            ("the ring in order", &*in_order, listed),
            ("the tree", "model = 'bsp', exchange = 'tree'", tree),
        ] {
            let ratio = of(remote) / homes;
            let most = if what == "the tree" { 1.07 } else { 1.0 };
            assert!((0.92..most).contains(&(ratio / expected)), "{what} over {name}: {ratio}");
        }
    }
}

/// The sum over data centers is computed in the same order, wherever it is.
#[test]
fn the_sizes_of_blocks_change_no_value() {
    let of = |blocks: &str| {
        let remote = format!("model = 'bsp', blocks = '{blocks}'");
        run(&slow("gaia-2016-ec2-all", 2), &remote, 1_000, &[]).model.unwrap().values
    };
    assert_eq!(of("bandwidth"), of("equal"));
}

proptest! {
    /// A link carries a part of one block and the total of another.
    #[test]
    fn no_block_by_bandwidth_makes_a_link_slower_than_the_slowest_with_equal_blocks(
        (count, mbit) in (2..9_usize).prop_flat_map(|count| (Just(count), vec(1.0..1_000.0_f64, 64))),
    ) {
        let topology = mesh(count, &mbit);
        let slowest = |blocks: &Blocks| {
            let size = |dc| blocks.range(1 << 40, dc).len() as f64;
            let links = topology.links.iter();
            let times = links.map(|link| (size(link.from) + size(link.to)) / link.bandwidth.bits_per_second());
            times.fold(0.0, f64::max)
        };
        let equal = slowest(&Blocks::equal(count));
        let whole = slowest(&Blocks::by_slowest_link(&topology));
        let filling = slowest(&Blocks::filling_links(&topology));
        prop_assert!(filling <= 1.000_001 * whole && whole <= 1.000_001 * equal, "{filling} {whole} {equal}");
    }

    #[test]
    fn no_other_ring_and_no_other_tree_has_a_faster_slowest_link(
        (count, mbit) in (2..7_usize).prop_flat_map(|count| (Just(count), vec(1.0..1_000.0_f64, 64))),
    ) {
        let topology = mesh(count, &mbit);
        let ring = fastest_ring(&topology);
        let mut order: Vec<DcId> = topology.dc_ids().collect();
        let (mut sorted, mut best) = (ring.clone(), 0.0);
        sorted.sort_unstable();
        prop_assert_eq!(&sorted, &order);
        permute(&mut order, 1, &mut |order| best = f64::max(best, slowest_in_ring(&topology, order)));
        prop_assert_eq!(slowest_in_ring(&topology, &ring), best);

        // Faster links do not connect all data centers: no link between the two sides of the tree's slowest one is faster.
        let parents = fastest_tree(&topology);
        let pairs = || (0..).map(DcId).zip(&parents).filter_map(|(dc, parent)| Some((dc, (*parent)?)));
        prop_assert_eq!(pairs().count(), count - 1);
        let slowest = pairs().map(|(a, b)| slower(&topology, a, b)).fold(f64::MAX, f64::min);
        let mut reached = vec![DcId(0)];
        let mut at = 0;
        while at < reached.len() {
            let next: Vec<DcId> = topology.dc_ids().filter(|dc| !reached.contains(dc) && slower(&topology, reached[at], *dc) > slowest).collect();
            reached.extend(next);
            at += 1;
        }
        prop_assert!(reached.len() < count);
    }
}

/// Calls `visit` with each order of the data centers from `from` on.
fn permute(order: &mut [DcId], from: usize, visit: &mut impl FnMut(&[DcId])) {
    if from >= order.len() {
        return visit(order);
    }
    for at in from..order.len() {
        order.swap(from, at);
        permute(order, from + 1, visit);
        order.swap(from, at);
    }
}

/// The rings of more data centers than an exact search allows.
#[test]
fn a_ring_of_many_data_centers_follows_the_fast_links() {
    // Fast links join each data center to the one seven further, in a ring of all 20.
    let mbit = |from: usize, to: usize| if (from + 7) % 20 == to { 100.0 } else { 10.0 };
    let speeds: Vec<f64> = (0..400).map(|at| mbit(at / 20, at % 20)).collect();
    let ring = fastest_ring(&mesh(20, &speeds));
    assert_eq!(slowest_in_ring(&mesh(20, &speeds), &ring), 100.0);
}

fn slowest_in_ring(topology: &Topology, ring: &[DcId]) -> f64 {
    let links = ring.iter().zip(ring.iter().cycle().skip(1));
    let mbit = links.map(|(from, to)| topology.link(*from, *to).bandwidth.bits_per_second() / 1e6);
    mbit.fold(f64::MAX, f64::min)
}

fn slower(topology: &Topology, a: DcId, b: DcId) -> f64 {
    let bits = |from, to| topology.link(from, to).bandwidth.bits_per_second();
    if a == b { f64::MAX } else { bits(a, b).min(bits(b, a)) }
}

/// Data centers with a link of these bandwidths from each to each, row by row.
fn mesh(count: usize, mbit: &[f64]) -> Topology {
    let dc = |index: usize| DataCenter {
        name: format!("dc{index}"),
        servers: 1,
        workers: 1,
        lan_bandwidth: Bandwidth::from_mbit(1000.0),
        lan_rtt: DurationSetting::default(),
        colocated: false,
        stands_for: Vec::new(),
    };
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let links = pairs.filter(|(from, to)| from != to).map(|(from, to)| WanLink {
        from: DcId(from as u16),
        to: DcId(to as u16),
        bandwidth: Bandwidth::from_mbit(mbit[(from * count + to) % mbit.len()]),
        rtt: DurationSetting::default(),
        price: UsdPerGb(0.0),
        loss: 0.0,
        queue: ByteSize(1 << 16),
    });
    Topology {
        name: "mesh".into(),
        links: links.collect(),
        data_centers: (0..count).map(dc).collect(),
        groups: Vec::new(),
        bandwidth_scale: 1.0,
    }
}

const SHIPPED: [&str; 6] = [
    "gaia-2016-ec2-all",
    "gaia-2016-vc",
    "gaia-2016-ss",
    "aws-2022-ec2-all",
    "aws-2022-single-flow",
    "three-regions",
];
const ALIKE_BITS_PER_SECOND: f64 = 1e7;
const PARAMETERS: usize = 400_000;
/// The model in packets, with their headers.
const MODEL_BITS: f64 = 32.0 * PARAMETERS as f64 / PAYLOAD_SHARE_MAX;
const CLOCKS: u64 = 3;
