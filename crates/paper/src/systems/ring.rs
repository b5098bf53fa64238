//! Baidu's ring all-reduce: its cost over a cluster, which does not grow with the number of machines, and over a WAN, where
//! its slowest link decides.

use super::sized::SizedRun;
use super::{Checked, Context, EvaluationError};
use gaia_config::load_topology;
use gaia_core::link::PAYLOAD_SHARE_MAX;
use gaia_core::topology::{Topology, WanLink, fastest_ring};
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
    let text = format!(
        "{{ file = \"{WAN}\", bandwidth_scale = {WAN_SCALE}, defaults = {{ servers = 1, workers = 1, \
         lan_bandwidth = \"1 Gbit/s\", lan_rtt = \"0 s\", colocated = true }} }}"
    );
    let clock_s = |name: &str, remote: &str| {
        let run = SizedRun {
            name: format!("systems-wan-{name}"),
            parameters: context.suite.parameters,
            topology: &text,
            remote,
            compute_s: NO_TIME_S,
        };
        run.clock_s(context)
    };

    let homes = clock_s("homes", "model = 'bsp', blocks = 'equal'")?;
    let figure = |what: &str, computed: Option<f64>, seconds: f64| SystemFigure {
        what: what.into(),
        unit: SystemUnit::Times,
        printed: None,
        computed,
        measured: seconds / homes,
    };
    let order: Vec<_> = topology.dc_ids().collect();
    let figures = vec![
        figure(
            "the fastest ring",
            Some(ring_ratio(&topology, &fastest_ring(&topology))),
            clock_s("ring", "model = 'bsp', exchange = 'ring'")?,
        ),
        figure(
            "the ring in the topology's order",
            Some(ring_ratio(&topology, &order)),
            clock_s("ring-in-order", &listed)?,
        ),
        figure("the fastest tree", None, clock_s("tree", "model = 'bsp', exchange = 'tree'")?),
        figure(
            "homes with blocks by bandwidth",
            None,
            clock_s("blocks", "model = 'bsp', blocks = 'bandwidth'")?,
        ),
    ];

    let (best, holds) = (figures[0].measured, figures[0].measured <= 1.0);
    let row = SystemRow {
        system: "Baidu ring all-reduce over a WAN".into(),
        claim: "A ring all-reduce minimises the overhead of communication (talk, slide 17), which it is made for in one cluster."
            .into(),
        check: format!(
            "One exchange of a dense model by BSP over {WAN}, relative to that through homes with blocks of one size. Nobody printed \
             these figures. For rings the closed form is (D − 1) times the slowest of all links by the ring's slowest."
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

/// With equal blocks each link carries `2 / D` of the model, and each link of a ring `2(D − 1) / D` of it.
fn ring_ratio(topology: &Topology, ring: &[DcId]) -> f64 {
    let speed = |link: &WanLink| link.bandwidth.bits_per_second();
    let slowest = topology.links.iter().map(speed).fold(f64::MAX, f64::min);
    let next = ring.iter().cycle().skip(1);
    let links = ring.iter().zip(next).map(|(from, to)| speed(topology.link(*from, *to)));
    (ring.len() - 1) as f64 * slowest / links.fold(f64::MAX, f64::min)
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
/// The WAN, so slow that round trips hardly count.
const WAN: &str = "gaia-2016-ec2-all";
const WAN_SCALE: f64 = 1e-3;
