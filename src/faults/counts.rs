//! How many faults of each kind have struck.

use std::ops::AddAssign;

use serde::Serialize;

use super::FaultKind;

/// Faults, and what sessions made of them. Packet faults and structural ones are counted apart: thousands of lost
/// messages say less than a few cuts at the right time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub messages: u64,
    pub packet: PacketCounts,
    pub structural: StructuralCounts,
    /// Messages that sessions refused.
    pub refused: u64,
    /// Connections begun after the first of each pair.
    pub reconnects: u64,
}

/// What befell single messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketCounts {
    pub lost: u64,
    pub repeated: u64,
    pub reordered: u64,
    pub damaged: u64,
    pub delayed: u64,
}

/// What befell the cluster while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StructuralCounts {
    pub partitions: u64,
    pub one_way_partitions: u64,
    pub resets: u64,
    pub stragglers: u64,
    pub slow_links: u64,
}

impl PacketCounts {
    pub fn total(&self) -> u64 {
        self.lost + self.repeated + self.reordered + self.damaged + self.delayed
    }
}

impl StructuralCounts {
    pub(super) fn count(&mut self, kind: FaultKind) {
        *match kind {
            FaultKind::Partition => &mut self.partitions,
            FaultKind::OneWayPartition => &mut self.one_way_partitions,
            FaultKind::Reset => &mut self.resets,
            FaultKind::Straggler => &mut self.stragglers,
            FaultKind::SlowLink => &mut self.slow_links,
        } += 1;
    }

    pub fn total(&self) -> u64 {
        self.partitions + self.one_way_partitions + self.resets + self.stragglers + self.slow_links
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.refused += other.refused;
        self.reconnects += other.reconnects;
        self.packet.lost += other.packet.lost;
        self.packet.repeated += other.packet.repeated;
        self.packet.reordered += other.packet.reordered;
        self.packet.damaged += other.packet.damaged;
        self.packet.delayed += other.packet.delayed;
        self.structural.partitions += other.structural.partitions;
        self.structural.one_way_partitions += other.structural.one_way_partitions;
        self.structural.resets += other.structural.resets;
        self.structural.stragglers += other.structural.stragglers;
        self.structural.slow_links += other.structural.slow_links;
    }
}
