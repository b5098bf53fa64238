//! The number of parameter servers (Zou et al., HTC 2017): lemmas say how many hide communication behind computation.

use super::sized::SizedRun;
use super::{Checked, Context, EvaluationError};
use gaia_planner::Scaling;
use gaia_report::paper::{SystemFigure, SystemRow, SystemUnit, SystemVerdict};

/// The number that `gaia plan --scaling` computes, beside the smallest with which simulated communication is hidden.
pub(super) fn check(context: &Context<'_, '_>) -> Result<Checked, EvaluationError> {
    let bytes = 4.0 * PARAMETERS as f64;
    let bytes_per_second = 1e6 * CARD_MBIT / 8.0;
    let mut figures = Vec::new();
    for workers in WORKERS {
        let scaling = Scaling {
            compute_s: COMPUTE_TRANSFERS * bytes / bytes_per_second,
            read_bytes: bytes,
            sent_bytes: bytes,
            bytes_per_second,
            rtt_s: 0.0,
            colocated: false,
        };
        let mut smallest = None;
        for servers in 1..=SERVERS_TRIED {
            let clock_s = clock_s(context, workers, servers, scaling.compute_s)?;
            if clock_s <= 2.0 * scaling.compute_s * (1.0 + NEAR) {
                smallest = Some(servers);
                break;
            }
        }
        figures.push(SystemFigure {
            what: format!("servers for {workers} workers"),
            unit: SystemUnit::Machines,
            printed: None,
            computed: scaling.hiding_servers(workers).map(|servers| servers as f64),
            measured: smallest.map_or(f64::NAN, |servers| servers as f64),
        });
    }

    let holds = figures.iter().all(|figure| figure.computed == Some(figure.measured));
    let row = SystemRow {
        system: "Zou et al. (HTC 2017)".into(),
        claim: "A formula gives the number of parameter servers for a cluster (abstract; no figure is printed there).".into(),
        check: "The smallest number of servers with which a clock of BSP on a LAN communicates no longer than it computes, as \
                `gaia plan --scaling` computes it, and by simulating one server more until that is so."
            .into(),
        verdict: if holds { SystemVerdict::Holds } else { SystemVerdict::Fails },
        reason: if holds {
            "the formula and the simulation give the same numbers.".into()
        } else {
            "the formula and the simulation give different numbers.".into()
        },
        figures,
    };
    Ok(Checked { rows: vec![row], runs: Vec::new() })
}

fn clock_s(
    context: &Context<'_, '_>,
    workers: usize,
    servers: usize,
    compute_s: f64,
) -> Result<f64, EvaluationError> {
    let topology = format!(
        "{{ name = \"lan\", data_center = [{{ name = \"lan\" }}], defaults = {{ servers = {servers}, workers = {workers}, \
         lan_bandwidth = \"{CARD_MBIT} Mbit/s\", lan_rtt = \"0 s\", colocated = false }} }}"
    );
    let run = SizedRun {
        name: format!("systems-servers-{workers}-{servers}"),
        parameters: PARAMETERS,
        topology: &topology,
        remote: "model = 'bsp'",
        compute_s,
    };
    run.clock_s(context)
}

const WORKERS: [usize; 3] = [4, 10, 22];
const SERVERS_TRIED: usize = 8;
const PARAMETERS: usize = 100_000;
const CARD_MBIT: f64 = 10.0;
/// Computation takes so many transfers of the model.
const COMPUTE_TRANSFERS: f64 = 7.0;
/// A clock may be so much longer than the limit, relative to it: messages have headers.
const NEAR: f64 = 0.01;
