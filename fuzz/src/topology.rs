//! Topology files.

use gaia_config::topology_from_text;

use super::{Seed, Target};

pub const TARGET: Target = Target { name: "topology", check, seeds };

fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match topology_from_text("wan.toml", &text) {
        Ok(topology) => {
            let count = topology.data_centers.len();
            assert!(count > 0 && topology.links.len() == count * (count - 1));
        }
        Err(error) => {
            assert!(error.to_string().starts_with("wan.toml"), "{error}");
            assert!(error.render(false).contains("error"));
        }
    }
}

fn seeds() -> Vec<Seed> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![("three", text(THREE)), ("groups", text(&format!("{THREE}{GROUPS}")))]
}

const THREE: &str = "\
name = \"wan\"
bandwidth_scale = 1.5

[defaults]
servers = 1
workers = 2
lan_bandwidth = \"1 Gbit/s\"
lan_rtt = \"100 us\"

[wan]
bandwidth = \"115 Mbit/s\"
rtt = \"59.5 ms\"
price = \"0.02 USD/GB\"
loss = 0.001
queue = \"64 KiB\"

[[data_center]]
name = \"north\"

[[data_center]]
name = \"south\"
colocated = true

[[data_center]]
name = \"west\"
workers = 3

[[link]]
from = \"north\"
to = \"west\"
symmetric = false
bandwidth = \"5 Mbit/s\"
queue = \"100 ms\"
";

const GROUPS: &str = "
[[group]]
hub = \"north\"
members = [\"south\", \"west\"]
";
