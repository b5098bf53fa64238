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
    pub recovery: RecoveryCounts,
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
    pub stale: u64,
}

/// What befell the cluster while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StructuralCounts {
    pub partitions: u64,
    pub one_way_partitions: u64,
    pub resets: u64,
    pub stragglers: u64,
    pub slow_links: u64,
    pub crashes: u64,
    /// Of servers that come back with nothing.
    pub lost_disks: u64,
    pub late_joins: u64,
    /// Data centers without which the run went on.
    pub leaves: u64,
    /// Of single nodes, before, within or after a write.
    pub crashes_at_writes: u64,
    /// Nodes that stopped for want of room.
    pub full_disks: u64,
    pub clock_steps: u64,
    /// Of the coordinator, at any time or at a write.
    pub coordinator_crashes: u64,
}

/// What came of crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryCounts {
    pub restarts: u64,
    /// Workers that came back without their state.
    pub blank: u64,
    /// Updates that servers passed over, since they had heard that clock's from a process before.
    pub passed_over: u64,
    /// Logs with something torn at their end.
    pub torn: u64,
    pub checkpoints: u64,
}

impl PacketCounts {
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(count, _)| count).sum()
    }

    /// Each count with what it counts.
    pub fn named(&self) -> [(u64, &'static str); 6] {
        [
            (self.lost, "lost"),
            (self.repeated, "repeated"),
            (self.reordered, "reordered"),
            (self.damaged, "damaged"),
            (self.delayed, "delayed"),
            (self.stale, "stale"),
        ]
    }
}

impl StructuralCounts {
    /// Counts a fault that has struck; crashes at writes and full disks strike when a node writes.
    pub(super) fn count(&mut self, kind: FaultKind) {
        *match kind {
            FaultKind::Partition => &mut self.partitions,
            FaultKind::OneWayPartition => &mut self.one_way_partitions,
            FaultKind::Reset => &mut self.resets,
            FaultKind::Straggler => &mut self.stragglers,
            FaultKind::SlowLink => &mut self.slow_links,
            FaultKind::Crash => &mut self.crashes,
            FaultKind::LostDisk => &mut self.lost_disks,
            FaultKind::LateJoin => &mut self.late_joins,
            FaultKind::Leave => &mut self.leaves,
            FaultKind::DiskFull => &mut self.full_disks,
            FaultKind::ClockStep => &mut self.clock_steps,
            FaultKind::CoordinatorCrash => &mut self.coordinator_crashes,
        } += 1;
    }

    pub fn total(&self) -> u64 {
        self.named().iter().map(|(count, _)| count).sum()
    }

    /// Each count with what it counts.
    pub fn named(&self) -> [(u64, &'static str); 13] {
        [
            (self.partitions, "partitions"),
            (self.one_way_partitions, "one-way"),
            (self.resets, "resets"),
            (self.stragglers, "stragglers"),
            (self.slow_links, "slow links"),
            (self.crashes, "crashes"),
            (self.lost_disks, "lost disks"),
            (self.late_joins, "late joins"),
            (self.leaves, "leaves"),
            (self.crashes_at_writes, "crashes at writes"),
            (self.full_disks, "full disks"),
            (self.clock_steps, "clock steps"),
            (self.coordinator_crashes, "crashes of coordinators"),
        ]
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
        self.packet.stale += other.packet.stale;
        self.structural.partitions += other.structural.partitions;
        self.structural.one_way_partitions += other.structural.one_way_partitions;
        self.structural.resets += other.structural.resets;
        self.structural.stragglers += other.structural.stragglers;
        self.structural.slow_links += other.structural.slow_links;
        self.structural.crashes += other.structural.crashes;
        self.structural.lost_disks += other.structural.lost_disks;
        self.structural.late_joins += other.structural.late_joins;
        self.structural.leaves += other.structural.leaves;
        self.structural.crashes_at_writes += other.structural.crashes_at_writes;
        self.structural.full_disks += other.structural.full_disks;
        self.structural.clock_steps += other.structural.clock_steps;
        self.structural.coordinator_crashes += other.structural.coordinator_crashes;
        self.recovery.restarts += other.recovery.restarts;
        self.recovery.blank += other.recovery.blank;
        self.recovery.passed_over += other.recovery.passed_over;
        self.recovery.torn += other.recovery.torn;

        self.recovery.checkpoints += other.recovery.checkpoints;
    }
}
