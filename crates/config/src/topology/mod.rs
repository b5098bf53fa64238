//! Topologies: data centers, the WAN between them, where nodes listen, and which node a process is.
//!
//! This room decides what a topology file means. It knows nothing of the run that uses the topology.

mod file;
mod matrix;
mod placement;
mod regions;
mod wan;

#[cfg(test)]
pub(crate) use file::{DataCenterKeys, DefaultKeys, GroupKeys, LinkKeys, TopologyKeys};
pub(crate) use file::{deployment, read};
pub use placement::{PlacementError, Variables, coordinator_address, placed};
#[cfg(test)]
pub(crate) use wan::WanKeys;
