//! Baidu's ring all-reduce: its cost over a cluster, which does not grow with the number of machines, and over a WAN, where
//! its slowest link decides.

use super::sized::SizedRun;
use super::{Checked, Context, EvaluationError};
use gaia_config::load_topology;
use gaia_core::link::{PAYLOAD_SHARE_MAX, PAYLOAD_SHARE_MAX_BOTH_WAYS};
use gaia_core::topology::{Topology, WanLink, fastest_ring, fastest_tree};
use gaia_core::types::DcId;
use gaia_report::paper::{SystemFigure, SystemRow, SystemUnit, SystemVerdict};

/// The ring over machines with equal links, from 2 to the 40 of the talk.
pub(super) fn check(context: &Context<'_, '_>) -> Result<Checked, EvaluationError> {
    let parameters = context.suite.parameters;
    let mut figures = Vec::new();
    for machines in MACHINES {
        let named: Vec<String> =
            (0..machines).map(|machine| format!("{{ name = \"m{machine}\" }}")).collect();
        let topology = format!(
            "{{ name = \"cluster\", data_center = [{}], wan = {{ bandwidth = \"{LINK_MBIT} Mbit/s\", rtt = \"0 s\" }}, \
             defaults = {{ lan_bandwidth = \"100 Gbit/s\", lan_rtt = \"0 s\", colocated = true }} }}",
            named.join(", ")
        );
        let run = SizedRun {
            name: format!("systems-ring-{machines}"),
            parameters,
            topology: &topology,
            remote: "model = 'bsp', exchange = 'ring'",
            compute_s: NO_TIME_S,
        };
        let model_s = 32.0 * parameters as f64 / PAYLOAD_SHARE_MAX / (1e6 * LINK_MBIT);
        let steps = 2.0 * (machines - 1) as f64;
        figures.push(SystemFigure {
            what: format!("an exchange of {machines} machines"),
            unit: SystemUnit::Times,
            printed: None,
            computed: Some(steps / machines as f64),
            measured: run.clock_s(context)? / model_s,
        });
    }

    let near = |figure: &SystemFigure| {
        figure.computed.is_some_and(|computed| (figure.measured / computed - 1.0).abs() <= NEAR)
    };
    let (last, flat) = (figures[MACHINES.len() - 1].measured, figures.iter().all(near));
    let holds = flat && last < 2.0;
    let row = SystemRow {
        system: "Baidu ring all-reduce".into(),
        claim: "Exchanging the gradients of a model of 1 GB costs little on 40 GPUs: the time of a ring all-reduce hardly \
                grows with their number (talk, slides 17 to 20)."
            .into(),
        check: format!(
            "BSP with `exchange = \"ring\"` over machines with equal links, a dense model of {parameters} parameters. Times are in \
             transfers of the model; the closed form is 2(N − 1)/N."
        ),
        verdict: verdict(holds),
        reason: if holds {
            "each is within 3 % of the closed form, and none takes two transfers of the model.".into()
        } else {
            "not each is within 3 % of the closed form and below two transfers of the model.".into()
        },
        figures,
    };
    Ok(Checked { rows: vec![row], runs: Vec::new() })
}

/// Rings and the tree over the WAN of the Gaia paper, against the exchange through homes.
pub(super) fn check_wan(context: &Context<'_, '_>) -> Result<Checked, EvaluationError> {
    let topology = load_topology(WAN)?;
    let names: Vec<&str> = topology.data_centers.iter().map(|dc| dc.name.as_str()).collect();
    let listed = format!("model = 'bsp', exchange = 'ring', ring = {names:?}");
    let text = without_round_trips(&topology);
    let parameters = WAN_MODELS * context.suite.parameters;
    let clock_s = |name: &str, remote: &str| {
        let run = SizedRun {
            name: format!("systems-wan-{name}"),
            parameters,
            topology: &text,
            remote,
            compute_s: NO_TIME_S,
        };
        run.clock_s(context)
    };

    // With equal blocks the slowest link carries a block as parts and one as totals.
    let count = topology.data_centers.len() as f64;
    let slowest = slowest_of(topology.links.iter());
    let model_bits = 32.0 * parameters as f64 / PAYLOAD_SHARE_MAX_BOTH_WAYS;
    let homes_s = 2.0 * model_bits / count / slowest;
    let figure = |what: &str, computed: Option<f64>, seconds: f64| SystemFigure {
        what: what.into(),
        unit: SystemUnit::Times,
        printed: None,
        computed,
        measured: seconds / homes_s,
    };

    let order: Vec<_> = topology.dc_ids().collect();
    let one_way = PAYLOAD_SHARE_MAX_BOTH_WAYS / PAYLOAD_SHARE_MAX;
    let ring = |order: &[DcId]| {
        Some((count - 1.0) * one_way * slowest / slowest_of_ring(&topology, order))
    };
    let tree = count / 2.0 * slowest / slowest_of_tree(&topology);
    let figures = vec![
        figure(
            "homes with blocks of one size",
            Some(1.0),
            clock_s("homes", "model = 'bsp', blocks = 'equal'")?,
        ),
        figure(
            "the fastest ring",
            ring(&fastest_ring(&topology)),
            clock_s("ring", "model = 'bsp', exchange = 'ring'")?,
        ),
        figure(
            "the ring in the topology's order",
            ring(&order),
            clock_s("ring-in-order", &listed)?,
        ),
        figure(
            "the fastest tree",
            Some(tree),
            clock_s("tree", "model = 'bsp', exchange = 'tree'")?,
        ),
        figure(
            "homes with blocks by bandwidth",
            None,
            clock_s("blocks", "model = 'bsp', blocks = 'bandwidth'")?,
        ),
    ];

    let best = figures[1].measured / figures[0].measured;
    let holds = best <= 1.0;
    let row = SystemRow {
        system: "Baidu ring all-reduce over a WAN".into(),
        claim: "A ring all-reduce minimises the overhead of communication (talk, slide 17), which it is made for in one cluster."
            .into(),
        check: format!(
            "One exchange of a dense model of {parameters} parameters, S bits, by BSP over {WAN}, whose D data centers have a slowest \
             link of B bit/s, in units of 2S / (D B): the closed form of homes with blocks of one size. That of a ring is \
             2(D − 1)S / D by the rate of its slowest link, and that of a tree S by that of its. No round trips are charged, and links \
             with data in both directions also carry its acknowledgements, 2 % of their rate. Nobody printed these figures."
        ),
        verdict: verdict(holds),
        reason: if holds {
            "the fastest ring takes no longer than the exchange through homes.".into()
        } else {
            format!(
                "between data centers whose links differ the fastest ring takes {best:.2} times as long as the exchange through homes."
            )
        },
        figures,
    };
    Ok(Checked { rows: vec![row], runs: Vec::new() })
}

/// The value of `topology` in a run file, for the same data centers and bandwidths with a server and a worker each.
fn without_round_trips(topology: &Topology) -> String {
    let name = |dc: DcId| &topology.data_centers[dc.index()].name;
    let data_centers: Vec<String> =
        topology.dc_ids().map(|dc| format!("{{ name = {:?} }}", name(dc))).collect();
    let link = |link: &WanLink| {
        let mbit = 1e-6 * link.bandwidth.bits_per_second();
        format!(
            "{{ from = {:?}, to = {:?}, symmetric = false, bandwidth = \"{mbit} Mbit/s\" }}",
            name(link.from),
            name(link.to)
        )
    };
    let links: Vec<String> = topology.links.iter().map(link).collect();
    format!(
        "{{ name = {WAN:?}, data_center = [{}], link = [{}], wan = {{ rtt = \"0 s\" }}, \
         defaults = {{ lan_bandwidth = \"100 Gbit/s\", lan_rtt = \"0 s\", colocated = true }} }}",
        data_centers.join(", "),
        links.join(", ")
    )
}

/// The rate of the slowest of some links, in bits per second.
fn slowest_of<'t>(links: impl Iterator<Item = &'t WanLink>) -> f64 {
    links.map(|link| link.bandwidth.bits_per_second()).fold(f64::MAX, f64::min)
}

fn slowest_of_ring(topology: &Topology, ring: &[DcId]) -> f64 {
    let next = ring.iter().cycle().skip(1);
    slowest_of(ring.iter().zip(next).map(|(from, to)| topology.link(*from, *to)))
}

/// Of the fastest tree. Sums use a link in one direction, and totals in the other.
fn slowest_of_tree(topology: &Topology) -> f64 {
    let parents = fastest_tree(topology);
    let edges = topology.dc_ids().zip(&parents).filter_map(|(child, up)| Some((child, (*up)?)));
    slowest_of(edges.flat_map(|(a, b)| [topology.link(a, b), topology.link(b, a)]))
}

fn verdict(holds: bool) -> SystemVerdict {
    if holds { SystemVerdict::Holds } else { SystemVerdict::Fails }
}

const MACHINES: [usize; 5] = [2, 4, 8, 20, 40];
const LINK_MBIT: f64 = 10.0;
/// An iteration that takes no time beside an exchange.
const NO_TIME_S: f64 = 1e-12;
/// How far a measured time may be from a closed form, relative to it.
const NEAR: f64 = 0.03;
const WAN: &str = "gaia-2016-ec2-all";
/// The size of the model that is exchanged over the WAN, in sizes of the suite's.
const WAN_MODELS: usize = 4;
