//! The topologies that are part of the program, so that their names work on any machine.

/// The names of the topologies that are part of the program.
pub fn topologies() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(|(path, _)| topology_name(path))
}

/// The path, among the shipped files, of a topology by its name.
pub(crate) fn topology(name: &str) -> Option<&'static str> {
    FILES.iter().map(|(path, _)| *path).find(|path| topology_name(path) == Some(name))
}

/// A shipped file's text.
pub(crate) fn text(path: &str) -> Option<&'static str> {
    FILES.iter().find(|(shipped, _)| *shipped == path).map(|(_, text)| *text)
}

fn topology_name(path: &'static str) -> Option<&'static str> {
    path.strip_prefix("config/topology/")?.strip_suffix(".toml")
}

macro_rules! shipped {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../", $path)))),*]
    };
}

const FILES: &[(&str, &str)] = shipped![
    "config/topology/three-regions.toml",
    "config/topology/gaia-2016-ec2-all.toml",
    "config/topology/gaia-2016-vc.toml",
    "config/topology/gaia-2016-ss.toml",
    "config/topology/lan.toml",
    "config/topology/aws-2022-ec2-all.toml",
    "config/topology/aws-2022-single-flow.toml",
    "emulation/matrices/gaia-2016-bandwidth.csv",
    "emulation/matrices/aws-2022-rtt.csv",
    "emulation/matrices/aws-2022-bandwidth.csv",
    "emulation/matrices/aws-2022-single-flow-bandwidth.csv",
    "emulation/matrices/aws-2022-single-flow-rtt.csv",
    "emulation/matrices/aws-2022-price.csv",
];
