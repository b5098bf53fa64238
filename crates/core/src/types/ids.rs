//! The identifiers of data centers, shards, tables and nodes.
//!
//! Identifiers are dense numbers from 0 in the order of the topology or of the model's tables, so that they serve as
//! positions in vectors.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A data center, numbered in the order of the topology file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DcId(pub u16);

/// A shard of the model: the rows that one parameter server of every data center owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u16);

/// A table: a family of rows of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableId(pub u16);

/// A parameter server. Servers of different data centers with the same shard are mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerId {
    /// The data center that the server belongs to.
    pub dc: DcId,
    /// The shard that the server owns. A data center has exactly one server for each shard.
    pub shard: ShardId,
}

/// A worker, numbered from 0 within its data center.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    /// The data center whose servers the worker reads and updates.
    pub dc: DcId,
    /// The worker's number within the data center.
    pub index: u16,
}

/// Any of the three kinds of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeId {
    /// The one coordinator of a run, which starts, evaluates, stops and drains it.
    Coordinator,
    /// A parameter server.
    Server(ServerId),
    /// A worker.
    Worker(WorkerId),
}

impl NodeId {
    /// The data center of a server or a worker. `None` for the coordinator, which belongs to none.
    pub fn dc(self) -> Option<DcId> {
        match self {
            Self::Coordinator => None,
            Self::Server(id) => Some(id.dc),
            Self::Worker(id) => Some(id.dc),
        }
    }
}

impl DcId {
    /// The position of this data center in tables indexed by data center.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl ShardId {
    /// The position of this shard in tables indexed by shard.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl TableId {
    /// The position of this table in tables indexed by table.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for DcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dc{}", self.0)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/server{}", self.dc, self.shard.0)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/worker{}", self.dc, self.index)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator => f.write_str("coordinator"),
            Self::Server(id) => id.fmt(f),
            Self::Worker(id) => id.fmt(f),
        }
    }
}
