//! The number of faults of each kind.

use std::ops::AddAssign;

use serde::Serialize;

use super::FaultKind;

/// The number of faults, and of reactions of sessions. Packet faults and structural faults are counted apart, because
/// there are many more of the former.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Messages sent between data centers.
    pub messages: u64,
    /// Packet faults.
    pub packet: PacketCounts,
    /// Structural faults.
    pub structural: StructuralCounts,
    /// Recoveries after crashes.
    pub recovery: RecoveryCounts,
    /// Messages that sessions rejected.
    pub refused: u64,
    /// Connections after the first of each pair of servers.
    pub reconnects: u64,
}

/// The number of packet faults: those of single messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketCounts {
    /// Messages that did not arrive.
    pub lost: u64,
    /// Messages that arrived twice.
    pub repeated: u64,
    /// Messages that arrived after later ones.
    pub reordered: u64,
    /// Messages that arrived with a flipped bit.
    pub damaged: u64,
    /// Messages that arrived late, with those behind them.
    pub delayed: u64,
    /// Messages of a failed connection that arrived on a later one.
    pub stale: u64,
}

/// The number of structural faults: those of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StructuralCounts {
    /// [`FaultKind::Partition`].
    pub partitions: u64,
    /// [`FaultKind::OneWayPartition`].
    pub one_way_partitions: u64,
    /// [`FaultKind::SilentLink`].
    pub silent_links: u64,
    /// [`FaultKind::Reset`].
    pub resets: u64,
    /// [`FaultKind::Straggler`].
    pub stragglers: u64,
    /// [`FaultKind::SlowLink`].
    pub slow_links: u64,
    /// [`FaultKind::Crash`] at a time.
    pub crashes: u64,
    /// Servers that restarted without their state.
    pub lost_disks: u64,
    /// [`FaultKind::LateJoin`].
    pub late_joins: u64,
    /// Data centers that left, and without which the run continued.
    pub leaves: u64,
    /// Crashes of single nodes before, within or after a write.
    pub crashes_at_writes: u64,
    /// Nodes that stopped because their disk was full.
    pub full_disks: u64,
    /// [`FaultKind::ClockStep`].
    pub clock_steps: u64,
    /// Crashes of the coordinator, at a time or at a write.
    pub coordinator_crashes: u64,
    /// [`FaultKind::DivergedUpdate`].
    pub diverged_updates: u64,
}

/// The number of recoveries after crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryCounts {
    /// Nodes that restarted.
    pub restarts: u64,
    /// Workers that restarted without their state.
    pub blank: u64,
    /// Updates that servers ignored, because they had received the update of that clock from an earlier process.
    pub passed_over: u64,
    /// Logs with a torn tail.
    pub torn: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Inputs of servers in whose place a checkpoint was written.
    pub replaced: u64,
}

impl PacketCounts {
    /// The number of packet faults of all kinds.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(count, _)| count).sum()
    }

    /// The counts with their names in reports.
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
    /// Counts a fault that has occurred. Crashes at writes and full disks occur when a node writes.
    pub(super) fn count(&mut self, kind: FaultKind) {
        *match kind {
            FaultKind::Partition => &mut self.partitions,
            FaultKind::OneWayPartition => &mut self.one_way_partitions,
            FaultKind::SilentLink => &mut self.silent_links,
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
            FaultKind::DivergedUpdate => &mut self.diverged_updates,
        } += 1;
    }

    /// The number of structural faults of all kinds.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(count, _)| count).sum()
    }

    /// The counts with their names in reports.
    pub fn named(&self) -> [(u64, &'static str); 15] {
        [
            (self.partitions, "partitions"),
            (self.one_way_partitions, "one-way"),
            (self.silent_links, "silent links"),
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
            (self.diverged_updates, "diverged updates"),
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
        self.structural.silent_links += other.structural.silent_links;
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
        self.structural.diverged_updates += other.structural.diverged_updates;
        self.recovery.restarts += other.recovery.restarts;
        self.recovery.blank += other.recovery.blank;
        self.recovery.passed_over += other.recovery.passed_over;
        self.recovery.torn += other.recovery.torn;

        self.recovery.checkpoints += other.recovery.checkpoints;
        self.recovery.replaced += other.recovery.replaced;
    }
}
