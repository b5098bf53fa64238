//! Who is who in a cluster.

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
    pub dc: DcId,
    pub shard: ShardId,
}

/// A worker, numbered within its data center.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    pub dc: DcId,
    pub index: u16,
}

/// Any of the three kinds of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeId {
    Coordinator,
    Server(ServerId),
    Worker(WorkerId),
}

impl NodeId {
    /// The data center of a server or a worker; nothing for the coordinator, which serves all.
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
