//! Runs over processes of this machine, as benches start them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use gaia_certificates::{Directory, Identity};
use rustls::pki_types::UnixTime;
use serde_json::Value;
use tempfile::TempDir;

/// The data centers of a run, with a server and a worker each.
pub(crate) const DATA_CENTERS: [&str; 2] = ["north", "south"];

/// A run file, certificates, and the processes that were started of it.
pub(crate) struct Processes {
    folder: TempDir,
    coordinator: String,
    running: Vec<(String, Child)>,
}

impl Processes {
    /// Of a run file that says all but who is where.
    pub(crate) fn new(run: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut text = run.to_owned();
        text += "[topology]\nname = \"here\"\n[topology.wan]\nbandwidth = \"1 Gbit/s\"\nrtt = \"1 ms\"\n";
        text += "price = \"0.02 USD/GB\"\n";
        for name in DATA_CENTERS {
            text += &format!("[[topology.data_center]]\nname = \"{name}\"\n");
        }
        fs::write(folder.path().join("run.toml"), text).expect("a run file");
        let mut nodes = vec![Identity::coordinator("bench", DATA_CENTERS[0])];
        for dc in DATA_CENTERS {
            nodes.push(Identity::server("bench", dc, 0));
            nodes.push(Identity::worker("bench", dc, 0));
        }
        let now = UnixTime::now();
        let certs = folder.path().join("certs");
        let mut directory = Directory::create(&certs, "bench", now).expect("certificates");
        directory.issue(&nodes, now, Duration::from_secs(86_400)).expect("certificates");
        let coordinator = format!("127.0.0.1:{}", free_port());
        Self { folder, coordinator, running: Vec::new() }
    }

    /// Starts the coordinator, and a server and a worker in each data center; `keeps` says whether they keep what they
    /// need to go on.
    pub(crate) fn start_all(&mut self, keeps: bool) {
        for dc in DATA_CENTERS {
            self.start(&format!("server {dc}"), keeps, &[]);
            self.start(&format!("worker {dc}"), keeps, &[]);
        }
        self.start("coordinator", keeps, &[]);
    }

    pub(crate) fn start(&mut self, name: &str, keeps: bool, more: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gaia"));
        command.arg("node").arg(self.path("run.toml")).arg("--quiet");
        command.arg("--certs").arg(self.path("certs")).env("GAIA_COORDINATOR", &self.coordinator);
        match name.split_once(' ') {
            Some(("server", dc)) => {
                command.args(["--dc", dc, "--server", "0", "--listen", "127.0.0.1:0"])
            }
            Some((_, dc)) => command.args(["--dc", dc, "--worker", "0"]),
            None => command.arg("--coordinator").arg("--out").arg(self.path("out")),
        };
        if keeps {
            command.arg("--state").arg(self.path("state"));
        }
        let log = self.path(&format!("{name}.log"));
        let log = File::options().append(true).create(true).open(log).expect("a log");
        command.args(more).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.running.push((name.to_owned(), command.spawn().expect("gaia starts")));
    }

    /// Sends a signal to a process, and waits for its end.
    pub(crate) fn end(&mut self, name: &str, signal: &str) {
        let at = self.running.iter().position(|(running, _)| running == name);
        let (_, mut child) = self.running.remove(at.expect("it was started"));
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        child.wait().expect("its end");
    }

    /// Waits for the end of the run, and reads its summary.
    pub(crate) fn summary(mut self) -> Value {
        for (name, mut child) in std::mem::take(&mut self.running) {
            let status = child.wait().expect("its end");
            let said = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
            assert!(status.success(), "{name}, {status}: {said}");
        }
        let text = fs::read_to_string(self.path("out").join("summary.json")).expect("a summary");
        serde_json::from_str(&text).expect("a summary")
    }

    /// Waits until a process answers at a port that it is ready; it must not end.
    pub(crate) fn wait_until_ready(&mut self, name: &str, port: u16) {
        loop {
            for (running, child) in &mut self.running {
                let ended = child.try_wait().expect("a process");
                let log = self.folder.path().join(format!("{running}.log"));
                let said = fs::read_to_string(log).unwrap_or_default();
                assert!(ended.is_none(), "{running} has ended, {ended:?}: {said}");
            }
            if is_ready(port) {
                return;
            }
            assert!(self.running.iter().any(|(running, _)| running == name), "{name} runs");
            sleep(Duration::from_millis(10));
        }
    }

    /// Seconds of processors that a process has used so far, for itself and in the kernel.
    pub(crate) fn used(&self, name: &str) -> (f64, f64) {
        let at = self.running.iter().find(|(running, _)| running == name);
        let (_, child) = at.expect("it was started");
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse().ok()).unwrap_or(0.0);
        (ticks(13) / TICKS_PER_SECOND, ticks(14) / TICKS_PER_SECOND)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            // One that has ended cannot be killed.
            let _ended = child.kill();
            let _ended = child.wait();
        }
    }
}

/// In which Linux says what a process has used.
const TICKS_PER_SECOND: f64 = 100.0;

/// A port of this machine that is free.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n");
    asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains(" 200 ")
}
