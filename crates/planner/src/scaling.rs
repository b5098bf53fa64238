//! How the time of a clock in one data center follows from its numbers of workers and servers.
//!
//! Data-parallel training with a constant share of examples for each worker. A clock is computation, then changes to
//! the servers, then the next rows back. Each machine has one full-duplex card. With `n` workers and `s` servers, a
//! worker that reads `r` and sends `c` bytes, and cards of `b` bytes a second, the last worker of a clock is done after
//!
//! ```text
//! compute + (r + c) / b + (n - 1) · max(r, c) / (s · b) + RTT
//! ```
//!
//! since the servers' cards serve one worker after the other, and the changes of a worker cross while others still
//! compute. Where workers and servers share machines, a worker's share of its own machine's server crosses no card, and that
//! server's card serves one worker less. `tests` hold it against the simulated driver. With more workers than servers on
//! shared machines it is rougher, since cards carry both at once: 11 workers and 4 servers take a sixth longer.

use gaia_config::Plan;
use gaia_report::plan::{ScalingRow, ScalingTable};

use super::ClockWork;

/// What the time of a clock follows from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Seconds that a worker computes in a clock.
    pub compute_s: f64,
    /// Bytes that a worker reads in a clock.
    pub read_bytes: f64,
    /// Bytes that a worker sends in a clock.
    pub sent_bytes: f64,
    /// Bytes a second of each machine's card, in each direction.
    pub bytes_per_second: f64,
    /// Seconds of a round trip.
    pub rtt_s: f64,
    /// Whether each machine runs a worker and a server, while there are as many of both.
    pub colocated: bool,
}

impl Scaling {
    /// That of the first data center of a run.
    pub fn of(plan: &Plan, work: &ClockWork) -> Self {
        let dc = &plan.topology.data_centers[0];
        Self {
            compute_s: work.compute.as_secs_f64(),
            read_bytes: 4.0 * work.read as f64,
            sent_bytes: 4.0 * work.sent as f64,
            bytes_per_second: dc.lan_bandwidth.bytes_per_second(),
            rtt_s: dc.lan_rtt.0.as_secs_f64(),
            colocated: dc.colocated,
        }
    }

    /// Seconds of a clock that are not computation.
    pub fn communication_s(&self, workers: usize, servers: usize) -> f64 {
        let Self { read_bytes: read, sent_bytes: sent, bytes_per_second, rtt_s, .. } = *self;
        let has_own = self.colocated && workers <= servers;
        let away = if has_own { 1.0 - 1.0 / servers as f64 } else { 1.0 };
        let queued = self.others(workers, servers) / servers as f64 * read.max(sent);
        let rtt_s = if away > 0.0 { rtt_s } else { 0.0 };
        ((read + sent) * away + queued) / bytes_per_second + rtt_s
    }

    /// The workers that a server's card serves before the last of so many, and beside workers without a server of their own what
    /// the worker of its machine shares with other servers.
    fn others(&self, workers: usize, servers: usize) -> f64 {
        if !self.colocated {
            return (workers - 1) as f64;
        }
        let shared = if workers > servers { 1.0 - 1.0 / servers as f64 } else { 0.0 };
        workers.saturating_sub(2) as f64 + shared
    }

    /// Seconds of a clock.
    pub fn clock_s(&self, workers: usize, servers: usize) -> f64 {
        self.compute_s + self.communication_s(workers, servers)
    }

    /// Seconds of computation that are left after what a worker without a server on its machine reads and sends.
    fn left_s(&self) -> f64 {
        let Self { read_bytes: read, sent_bytes: sent, bytes_per_second, rtt_s, .. } = *self;
        self.compute_s - (read + sent) / bytes_per_second - rtt_s
    }

    /// The smallest number of servers with which communication takes no longer than computation, so that a staleness of 1
    /// hides it. `None` where it takes longer with any number.
    pub fn hiding_servers(&self, workers: usize) -> Option<usize> {
        if self.communication_s(workers, 1) <= self.compute_s {
            return Some(1);
        }
        let left = self.left_s();
        if left < 0.0 {
            return None;
        }
        let others = self.others(workers, 1);
        let queued = others * self.read_bytes.max(self.sent_bytes) / self.bytes_per_second;
        let servers = if queued == 0.0 { 1.0 } else { (queued / left).ceil().max(1.0) };
        // More servers than that have no shard each of any model here.
        (servers <= SERVERS_MAX).then_some(servers as usize)
    }

    /// The largest number of workers whose communication takes no longer than computation. `None` where it does with one.
    pub fn network_bound_beyond(&self, servers: usize) -> Option<usize> {
        let left = self.left_s();
        if left < 0.0 {
            let with_own = if self.colocated { servers } else { 0 };
            return (1..=with_own)
                .rev()
                .find(|workers| self.communication_s(*workers, servers) <= self.compute_s);
        }
        let each = self.read_bytes.max(self.sent_bytes) / self.bytes_per_second / servers as f64;
        if each == 0.0 {
            return Some(usize::MAX);
        }
        Some(1 + usize::from(self.colocated) + (left / each).min(WORKERS_COUNTED) as usize)
    }

    /// Examples a second with so many workers, relative to one worker without a network.
    pub fn speedup(&self, workers: usize, servers: usize) -> f64 {
        workers as f64 * self.compute_s / self.clock_s(workers, servers)
    }

    /// The table for 1, 2, 4 to 128 workers.
    pub fn table(&self, model_bytes: u64, servers: usize) -> ScalingTable {
        let rows = (0..8).map(|power| 1_usize << power).map(|workers| {
            let hiding_servers = self.hiding_servers(workers);
            ScalingRow {
                workers,
                clock_s: self.clock_s(workers, servers),
                speedup: self.speedup(workers, servers),
                hiding_servers,
                hiding_clock_s: hiding_servers.map(|servers| self.clock_s(workers, servers)),
            }
        });
        ScalingTable {
            compute_s: self.compute_s,
            model_bytes,
            read_bytes: self.read_bytes as u64,
            sent_bytes: self.sent_bytes as u64,
            lan_bits_per_second: 8.0 * self.bytes_per_second,
            servers,
            network_bound_beyond: self.network_bound_beyond(servers),
            rows: rows.collect(),
        }
    }
}

const SERVERS_MAX: f64 = 65_535.0;
const WORKERS_COUNTED: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of computation, and a tenth of a second for the model over a card.
    const DENSE: Scaling = Scaling {
        compute_s: 1.0,
        read_bytes: 1e7,
        sent_bytes: 1e7,
        bytes_per_second: 1e8,
        rtt_s: 0.0,
        colocated: false,
    };

    #[test]
    fn communication_is_hidden_by_as_few_servers_as_carry_it_while_workers_compute() {
        assert_eq!(DENSE.hiding_servers(1), Some(1));
        assert_eq!(DENSE.hiding_servers(9), Some(1));
        assert_eq!(DENSE.hiding_servers(10), Some(2));
        assert_eq!(DENSE.hiding_servers(128), Some(16));
        for workers in [9, 10, 128] {
            let servers = DENSE.hiding_servers(workers).unwrap();
            assert!(DENSE.communication_s(workers, servers) <= 1.0 + 1e-9);
            assert!(servers == 1 || DENSE.communication_s(workers, servers - 1) > 1.0);
        }
        let slow = Scaling { compute_s: 0.1, ..DENSE };
        assert_eq!(slow.hiding_servers(1), None, "a worker's own card takes longer");
    }

    #[test]
    fn a_run_is_network_bound_beyond_the_workers_that_its_servers_serve_in_time() {
        assert_eq!(DENSE.network_bound_beyond(1), Some(9));
        assert_eq!(DENSE.network_bound_beyond(4), Some(33));
        assert_eq!(Scaling { compute_s: 0.1, ..DENSE }.network_bound_beyond(4), None);
    }

    #[test]
    fn what_a_worker_shares_with_the_server_of_its_machine_crosses_no_card() {
        let together = Scaling { colocated: true, rtt_s: 0.01, ..DENSE };
        assert_eq!(together.communication_s(1, 1), 0.0);
        // Half of what each reads and sends.
        assert!((together.communication_s(2, 2) - 0.11).abs() < 1e-9);
        // The second of two workers has no server of its own, and nobody is before it.
        assert!((together.communication_s(2, 1) - 0.21).abs() < 1e-9);
        assert!((together.communication_s(3, 1) - 0.31).abs() < 1e-9);
        assert_eq!(together.network_bound_beyond(1), Some(9));
        let slow = Scaling { compute_s: 0.1, ..together };
        assert_eq!((slow.hiding_servers(1), slow.hiding_servers(2)), (Some(1), None));
        assert_eq!(slow.network_bound_beyond(1), Some(1), "it has all of it");
        assert_eq!(slow.network_bound_beyond(4), None, "three quarters cross");
    }

    /// What Das et al. (2016) printed for synchronous training on clusters: nodes, examples a step, speed relative to one
    /// node, and bytes a second of a node's card.
    struct Printed {
        nodes: usize,
        batch: f64,
        speed: f64,
        bytes_per_second: f64,
    }

    const INFINIBAND: f64 = 7e9;
    const ETHERNET: f64 = 1.25e9;

    /// The speed of `printed` by the closed form, of a network with so many parameters and so many seconds an example
    /// on one node. Every node is worker and server, and communication overlaps with computation, as they say of
    /// theirs.
    fn speed(parameters: f64, seconds: f64, printed: &Printed) -> f64 {
        let nodes = printed.nodes as f64;
        let one_node = printed.batch * seconds;
        let share = 4.0 * parameters * (nodes - 1.0) / nodes;
        let exchange = 2.0 * share / printed.bytes_per_second;
        one_node / (one_node / nodes).max(exchange)
    }

    /// The seconds an example with which the closed form prints the same. The only fitted constant of a network.
    fn fitted(parameters: f64, printed: &Printed) -> f64 {
        let (mut low, mut high) = (1e-6_f64, 1e3_f64);
        for _ in 0..200 {
            let middle = (low * high).sqrt();
            if speed(parameters, middle, printed) < printed.speed {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    #[test]
    fn the_closed_form_explains_the_published_speeds_or_says_where_not() {
        let check = |parameters: f64, fit: &Printed, others: &[(&Printed, bool)]| {
            let seconds = fitted(parameters, fit);
            let own = speed(parameters, seconds, fit);
            assert!((own / fit.speed - 1.0).abs() < 0.15, "{own} for {}", fit.speed);
            for (printed, explained) in others {
                let found = speed(parameters, seconds, printed);
                let apart = (found / printed.speed - 1.0).abs();
                println!(
                    "{} nodes: {found:.1}, printed {} ({:.0} %)",
                    printed.nodes,
                    printed.speed,
                    100.0 * apart
                );
                assert_eq!(apart <= 0.15, *explained, "{found} for {}", printed.speed);
            }
        };

        let vgg_64 = Printed { nodes: 64, batch: 256.0, speed: 53.0, bytes_per_second: INFINIBAND };
        let vgg_128 =
            Printed { nodes: 128, batch: 512.0, speed: 90.0, bytes_per_second: INFINIBAND };
        let vgg_ethernet =
            Printed { nodes: 16, batch: 256.0, speed: 14.0, bytes_per_second: ETHERNET };
        // Four examples a node either way, so the closed form gives both clusters the same share of their nodes' speed:
        // the 13 points of efficiency between them are not the network's bandwidth.
        check(133e6, &vgg_64, &[(&vgg_128, false), (&vgg_ethernet, false)]);

        let overfeat =
            Printed { nodes: 64, batch: 256.0, speed: 42.0, bytes_per_second: INFINIBAND };
        check(146e6, &overfeat, &[]);
        let speech = Printed { nodes: 16, batch: 1024.0, speed: 6.5, bytes_per_second: INFINIBAND };
        check(45e6, &speech, &[]);
    }
}
