//! Matrices of one figure per pair of data centers.

use gaia_config::topology_from_text;

use super::files::{in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "matrix", check, seeds };

fn check(data: &[u8]) {
    in_folder(|folder| {
        write(folder, "matrix.csv", data);
        let name = folder.join("wan.toml");
        match topology_from_text(&name.to_string_lossy(), TOPOLOGY) {
            Ok(topology) => {
                let bits = |link: &gaia_core::topology::WanLink| link.bandwidth.bits_per_second();
                assert!(topology.links.iter().all(|link| (1e3..=1e14).contains(&bits(link))));
            }
            Err(error) => assert!(error.render(false).contains("matrix.csv"), "{error}"),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        (
            "plain",
            text("# Made up.\nfrom,north,south,west\nnorth,,100,90\nsouth,100,,80\nwest,90,80,\n"),
        ),
        (
            "quoted",
            text(
                "\"from\", \"north\", \"south\", \"west\"\n\"north\", , \"1e2\", 9\n\nsouth,7,,8\r\nwest,.5,6,0\n",
            ),
        ),
    ]
}

const TOPOLOGY: &str = "\
name = \"wan\"
wan.bandwidth = { matrix = \"matrix.csv\", unit = \"Mbit/s\" }
wan.rtt = \"80 ms\"
data_center = [{ name = \"north\" }, { name = \"south\" }, { name = \"west\" }]
";
