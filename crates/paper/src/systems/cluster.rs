//! Synchronous training on clusters (Das et al., 2016): the speed of so many nodes relative to one.
//!
//! Single-node rates were not printed. For each network one is fitted to one printed speed, and others are compared.

use super::sized::SizedRun;
use super::{Checked, Context, EvaluationError};
use gaia_report::paper::{SystemFigure, SystemRow, SystemUnit, SystemVerdict};

/// A cluster of which a speed was printed.
#[derive(Clone, Copy)]
struct Printed {
    what: &'static str,
    nodes: usize,
    /// Examples of all nodes in a clock.
    batch: f64,
    speed: f64,
    /// Bytes a second of a node's card.
    bytes_per_second: f64,
}

/// VGG-A, fitted on 64 nodes: on 128, and over Ethernet.
pub(super) fn check(context: &Context<'_, '_>) -> Result<Checked, EvaluationError> {
    let fitted_exchange_s = exchange_s(context, &FITTED)?;
    // speed = batch · s / (batch · s / nodes + exchange)
    let nodes = FITTED.nodes as f64;
    let one_node_s = fitted_exchange_s * FITTED.speed / (1.0 - FITTED.speed / nodes);
    let example_s = one_node_s / FITTED.batch;

    let mut rows = Vec::new();
    for (claim, printed) in CLAIMS {
        let figures = vec![
            figure(&FITTED, speed(context, &FITTED, example_s)?),
            figure(&printed, speed(context, &printed, example_s)?),
        ];
        let apart = figures[1].measured / printed.speed - 1.0;
        let holds = apart.abs() <= NEAR;
        let percent = 100.0 * apart;
        rows.push(SystemRow {
            system: "Synchronous multinode SGD (Intel)".into(),
            claim: claim.into(),
            check: format!(
                "Local BSP in one data center: each machine has a worker and a server, reads, computes and updates one after the other. \
                 Cards carry 7 GB/s, or 10 Gbit/s of Ethernet; they and the model are divided by {}. The seconds that one node needs for an example are fitted to the first row.",
                context.suite.divisor
            ),
            verdict: if holds { SystemVerdict::Holds } else { SystemVerdict::Fails },
            reason: if holds {
                format!("bandwidth explains the second row: {percent:+.0} %, at most 15.")
            } else {
                format!(
                    "bandwidth alone does not explain the second row: {percent:+.0} %, expected at most 15."
                )
            },
            figures,
        });
    }
    Ok(Checked { rows, runs: Vec::new() })
}

/// Seconds of a clock in which nodes do not compute.
fn exchange_s(context: &Context<'_, '_>, printed: &Printed) -> Result<f64, EvaluationError> {
    clock_s(context, printed, NO_TIME_S)
}

fn speed(
    context: &Context<'_, '_>,
    printed: &Printed,
    example_s: f64,
) -> Result<f64, EvaluationError> {
    let one_node_s = printed.batch * example_s;
    Ok(one_node_s / clock_s(context, printed, one_node_s / printed.nodes as f64)?)
}

fn clock_s(
    context: &Context<'_, '_>,
    printed: &Printed,
    compute_s: f64,
) -> Result<f64, EvaluationError> {
    let divisor = context.suite.divisor;
    let mbit = 8.0 * printed.bytes_per_second / divisor / 1e6;
    let nodes = printed.nodes;
    let topology = format!(
        "{{ name = \"cluster\", data_center = [{{ name = \"cluster\" }}], defaults = {{ servers = {nodes}, workers = {nodes}, \
         lan_bandwidth = \"{mbit} Mbit/s\", lan_rtt = \"0 s\", colocated = true }} }}"
    );
    let run = SizedRun {
        name: format!("systems-cluster-{nodes}"),
        parameters: (VGG_A_PARAMETERS / divisor) as usize,
        topology: &topology,
        remote: "model = 'bsp'",
        compute_s,
    };
    run.clock_s(context)
}

fn figure(printed: &Printed, measured: f64) -> SystemFigure {
    SystemFigure {
        what: printed.what.into(),
        unit: SystemUnit::Times,
        printed: Some(printed.speed),
        computed: None,
        measured,
    }
}

const VGG_A_PARAMETERS: f64 = 133e6;
const INFINIBAND: f64 = 7e9;
const ETHERNET: f64 = 1.25e9;
/// An iteration that takes no time beside an exchange.
const NO_TIME_S: f64 = 1e-12;
/// How far a speed may be from what was printed, relative to it.
const NEAR: f64 = 0.15;

const FITTED: Printed = Printed {
    what: "VGG-A on 64 nodes, fitted",
    nodes: 64,
    batch: 256.0,
    speed: 53.0,
    bytes_per_second: INFINIBAND,
};

const CLAIMS: [(&str, Printed); 2] = [
    (
        "VGG-A trains 53 times as fast on 64 nodes as on one, and 90 times on 128 (abstract, 2016).",
        Printed {
            what: "VGG-A on 128 nodes",
            nodes: 128,
            batch: 512.0,
            speed: 90.0,
            bytes_per_second: INFINIBAND,
        },
    ),
    (
        "On 16 nodes of AWS with 10 Gbit/s Ethernet it trains about 14 times as fast as on one (abstract, 2016).",
        Printed {
            what: "VGG-A on 16 nodes, Ethernet",
            nodes: 16,
            batch: 256.0,
            speed: 14.0,
            bytes_per_second: ETHERNET,
        },
    ),
];
