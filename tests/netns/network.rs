//! Three data centers as network namespaces around a bridge, each behind a link that `tc tbf` shapes both ways.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Namespaces that end with this.
#[derive(Debug)]
pub(crate) struct Network {
    prefix: String,
}

pub(crate) const DATA_CENTERS: [&str; 3] = ["north", "south", "west"];

impl Network {
    /// `None` where namespaces, virtual links or shaping are not allowed.
    pub(crate) fn new(rate: &str) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let network = Self { prefix: format!("gaia{}x{number}", std::process::id()) };
        network.make(rate).then_some(network)
    }

    fn make(&self, rate: &str) -> bool {
        let hub = self.hub();
        let mut made = ip(&["netns", "add", &hub])
            && ip(&["-n", &hub, "link", "add", "br0", "type", "bridge"])
            && ip(&["-n", &hub, "link", "set", "br0", "up"]);
        for dc in 0..DATA_CENTERS.len() {
            let (space, port, address) = (self.space(dc), port(dc), format!("{}/24", address(dc)));
            made = made
                && ip(&["netns", "add", &space])
                && ip(&[
                    "-n", &hub, "link", "add", &port, "type", "veth", "peer", "eth0", "netns",
                    &space,
                ])
                && ip(&["-n", &hub, "link", "set", &port, "master", "br0", "up"])
                && ip(&["-n", &space, "addr", "add", &address, "dev", "eth0"])
                && ip(&["-n", &space, "link", "set", "eth0", "up"])
                && ip(&["-n", &space, "link", "set", "lo", "up"])
                && shape(&hub, &port, rate)
                && shape(&space, "eth0", rate);
        }
        made
    }

    /// No packet reaches the data center or leaves it. Its host is not told: its network card stays up. Without the carrier of
    /// the card the data center would be cut off for at least a second, since the kernel looks for it once a second.
    pub(crate) fn cut(&self, dc: usize) {
        assert!(ip(&["-n", &self.hub(), "link", "set", &port(dc), "nomaster"]));
    }

    pub(crate) fn heal(&self, dc: usize) {
        assert!(ip(&["-n", &self.hub(), "link", "set", &port(dc), "master", "br0"]));
    }

    /// No packet passes from one data center to another, while both reach the others: it is sent to an address that
    /// nobody has.
    pub(crate) fn cut_way(&self, from: usize, to: usize) {
        let (space, to) = (self.space(from), address(to));
        let nobody = ["lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent"];
        let replace = ["-n", &space, "neigh", "replace", &to];
        assert!(ip(&[&replace[..], &nobody].concat()));
    }

    pub(crate) fn heal_way(&self, from: usize, to: usize) {
        let (space, to) = (self.space(from), address(to));
        assert!(ip(&["-n", &space, "neigh", "del", &to, "dev", "eth0"]));
    }

    /// Bytes that a data center has sent.
    pub(crate) fn sent_bytes(&self, dc: usize) -> u64 {
        let file = "/sys/class/net/eth0/statistics/tx_bytes";
        let output = self.command(dc, "cat").arg(file).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    }

    /// A command within a data center. The process that it starts is the program itself.
    pub(crate) fn command(&self, dc: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(dc), program]);
        command
    }

    /// The same, where these folders are empty: the process has its own view of the disk.
    pub(crate) fn command_without(&self, dc: usize, hidden: &[PathBuf], program: &str) -> Command {
        let mut command = self.command(dc, "sh");
        let hide = "while [ \"$1\" != -- ]; do mount -t tmpfs none \"$1\" || exit 1; shift; done; shift; exec \"$@\"";
        command.args(["-c", hide, "sh"]).args(hidden).args(["--", program]);
        command
    }

    /// The same, where no file may be larger than this many blocks of 512 bytes.
    pub(crate) fn command_limited(&self, dc: usize, blocks: u64, program: &str) -> Command {
        let mut command = self.command(dc, "sh");
        let limit = "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"";
        command.args(["-c", limit, "sh", &blocks.to_string(), program]);
        command
    }

    fn hub(&self) -> String {
        format!("{}h", self.prefix)
    }

    fn space(&self, dc: usize) -> String {
        format!("{}d{dc}", self.prefix)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // One that was not made cannot be removed.
        for dc in 0..DATA_CENTERS.len() {
            ip(&["netns", "del", &self.space(dc)]);
        }
        ip(&["netns", "del", &self.hub()]);
    }
}

/// The address of a data center's only host.
pub(crate) fn address(dc: usize) -> String {
    format!("10.77.0.{}", dc + 1)
}

fn port(dc: usize) -> String {
    format!("p{dc}")
}

fn shape(space: &str, device: &str, rate: &str) -> bool {
    let words = ["qdisc", "add", "dev", device, "root", "tbf", "rate", rate];
    let rest = ["burst", "64kb", "limit", "256kb"];
    succeeds(Command::new("tc").args(["-n", space]).args(words).args(rest))
}

fn ip(words: &[&str]) -> bool {
    succeeds(Command::new("ip").args(words))
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
