//! The bytes and the costs of each data center with each overlay.

use std::collections::BTreeMap;

use super::bench::Finished;
use super::experiment::PreparedExperiment;
use super::money::data_center_bill;
use super::suite::WIDEST;
use gaia_core::sync::{OverlayKind, RemoteSync};
use gaia_report::paper::HubRow;

/// One row for each application, overlay and data center: the runs of this project's ASP on the WAN with the most
/// regions, unchanged and with other overlays.
pub(super) fn rows(
    all_prepared: &[PreparedExperiment<'_>],
    runs: &BTreeMap<String, Finished>,
    models: &[String],
) -> Vec<HubRow> {
    let mut rows = Vec::new();
    let wide = |prepared: &&PreparedExperiment<'_>| {
        prepared.experiment.has_cells() && prepared.experiment.wan.name == WIDEST
    };
    for prepared in all_prepared.iter().filter(wide) {
        for model in models {
            let Some(run) = runs.get(&prepared.experiment.name(model)) else { continue };
            rows.extend(of_run(prepared.experiment.app.name, run));
        }
    }
    rows
}

fn of_run(app: &str, run: &Finished) -> Vec<HubRow> {
    let RemoteSync::Asp(asp) = &run.plan.remote else { return Vec::new() };
    let kind = match asp.overlay {
        OverlayKind::Mesh => "mesh",
        OverlayKind::Groups => "groups",
        OverlayKind::Tree => "tree",
    };
    let (topology, overlay) = (&run.plan.topology, run.plan.overlay());
    let of_data_center = |dc| {
        let name = &topology.dc(dc).name;
        let links = run.summary.links.iter().filter(|link| link.from == *name);
        HubRow {
            app: app.into(),
            overlay: kind.into(),
            data_center: name.clone(),
            is_hub: overlay.is_hub(dc),
            sent_bytes: links.clone().map(|link| link.bytes).sum(),
            relayed_bytes: links.map(|link| link.relayed_bytes).sum(),
            usd: data_center_bill(&run.summary, topology, name),
        }
    };

    topology.dc_ids().map(of_data_center).collect()
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, Step, Watch};
    use super::*;
    use gaia_config::RunFile;

    const TEXT: &str = r#"
        name = "toy"
        app = { kind = "softmax-regression", optimizer = "sgd" }
        sync.remote = { model = "asp", overlay = "tree" }
        compute = { clock_overhead = "1 s" }
        stop = { clocks = 1 }

        [topology]
        name = "chain"
        defaults = { servers = 1, workers = 1 }
        wan = { bandwidth = "10 Mbit/s", rtt = "10 ms" }
        data_center = [{ name = "one" }, { name = "two" }, { name = "three" }]
        link = [{ from = "one", to = "three", bandwidth = "5 Mbit/s", symmetric = true }]
    "#;

    /// A tree has only one path between its ends, so a data center on it is a hub even if it has forwarded no update.
    #[test]
    fn a_hub_that_has_forwarded_nothing_is_one() {
        let plan = RunFile::from_text("toy.toml", TEXT, &[]).unwrap().plan().unwrap();
        let mut run = Bench::new(&Nobody, None).run(&plan).unwrap();
        run.summary.links.iter_mut().for_each(|link| link.relayed_bytes = 0);
        let hubs: Vec<bool> = of_run("toy", &run).iter().map(|row| row.is_hub).collect();
        assert_eq!(hubs, [false, true, false]);
    }

    struct Nobody;

    impl Watch for Nobody {
        fn on_run(&self, _: &Step<'_>) {}
    }
}
