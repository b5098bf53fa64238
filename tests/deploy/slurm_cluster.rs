//! A Slurm cluster of three nodes on this machine: munged, a controller and three daemons in a temporary folder.

use std::fs;
use std::process::{Child, Stdio};

use super::*;

/// A cluster that ends with its jobs when it is dropped.
pub(crate) struct SlurmCluster<'b> {
    bench: &'b Bench,
    daemons: Vec<Child>,
}

/// What is missing for a cluster on this machine.
pub(crate) fn missing() -> Option<&'static str> {
    ["munged", "slurmctld", "slurmd", "sbatch"].into_iter().find(|program| !installed(program))
}

impl<'b> SlurmCluster<'b> {
    pub(crate) fn start(bench: &'b Bench) -> Self {
        let mut cluster = Self { bench, daemons: Vec::new() };
        cluster.configure();
        cluster.spawn("munged", &cluster.munge());
        let socket = bench.path("slurm/munge.socket");
        wait_until("listening", || socket.exists(), || logs(&bench.path("slurm")));

        cluster.spawn("slurmctld", &["-D".into()]);
        for node in NODES {
            cluster.spawn("slurmd", &["-D".into(), "-N".into(), node.into()]);
        }
        let all_idle = || {
            let states = cluster.said("sinfo", &["--noheader", "--Node", "--format=%T"]);
            states.lines().filter(|state| *state == "idle").count() == NODES.len()
        };
        wait_until("idle", all_idle, || logs(&bench.path("slurm")));
        cluster
    }

    fn configure(&self) {
        let folder = self.bench.path("slurm");
        fs::create_dir(&folder).unwrap();
        fs::create_dir(folder.join("state")).unwrap();
        fs::write(folder.join("munge.key"), [b'k'; 1024]).unwrap();
        private(&folder.join("munge.key"), 0o600);
        // Munge trusts no path that others can write to.
        private(&folder, 0o755);
        private(self.bench.folder.path(), 0o755);

        let user = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8(user.stdout).unwrap();
        let at = folder.display();
        let mut text = format!(
            "ClusterName=gaia\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={1}\nSlurmdUser={1}\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket,cred_expire=5\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/%n\n\
             SlurmctldPidFile={at}/controller.pid\nSlurmdPidFile={at}/%n.pid\n\
             SlurmctldLogFile={at}/controller.log\nSlurmdLogFile={at}/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU_Memory\nDefMemPerCPU=100\n\
             SchedulerType=sched/builtin\nSchedulerParameters=batch_sched_delay=0,sched_interval=1\n\
             SlurmdParameters=config_overrides\nReturnToService=2\nKillWait=5\n",
            free_port(),
            user.trim()
        );
        for node in NODES {
            text += &format!(
                "NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs=4 RealMemory=1000\n",
                free_port()
            );
        }
        text += &format!("PartitionName=all Nodes={} Default=YES\n", NODES.join(","));
        fs::write(folder.join("slurm.conf"), text).unwrap();
    }

    fn munge(&self) -> Vec<String> {
        let at = |name: &str| self.bench.path("slurm").join(name).display().to_string();
        vec![
            "--foreground".into(),
            "--force".into(),
            format!("--key-file={}", at("munge.key")),
            format!("--socket={}", at("munge.socket")),
            format!("--pid-file={}", at("munge.pid")),
            format!("--log-file={}", at("munge.log")),
            format!("--seed-file={}", at("munge.seed")),
        ]
    }

    fn spawn(&mut self, program: &str, arguments: &[String]) {
        let mut command = self.command(program);
        command.args(arguments).current_dir(self.bench.path("slurm"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().unwrap());
    }

    /// A command of Slurm for this cluster. Jobs get the environment of `sbatch`.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.bench.command(program);
        command.env("SLURM_CONF", self.bench.path("slurm/slurm.conf"));
        command
    }

    /// What a command answers.
    pub(crate) fn said(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The running step of a node: its number in the job.
    pub(crate) fn step(&self, job: &str, node: &str) -> Option<String> {
        let steps = self.said("squeue", &["--steps", "--noheader", "--format=%i %j", "--job", job]);
        let step = steps.lines().find_map(|line| line.strip_suffix(&format!(" {node}")));
        step.map(str::to_owned)
    }

    /// The state of a job, such as `RUNNING`.
    pub(crate) fn state(&self, job: &str) -> String {
        let shown = self.said("scontrol", &["--oneliner", "show", "job", job]);
        let state = shown.split_whitespace().find_map(|word| word.strip_prefix("JobState="));
        state.unwrap_or_default().to_owned()
    }
}

impl Drop for SlurmCluster<'_> {
    fn drop(&mut self) {
        self.said("scancel", &["--state=RUNNING"]);
        self.said("scancel", &["--state=PENDING"]);
        for _ in 0..100 {
            if self.said("squeue", &["--noheader"]).is_empty() {
                break;
            }
            sleep(Duration::from_millis(100));
        }
        for daemon in self.daemons.iter_mut().rev() {
            let _ended = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ended = daemon.wait();
        }
        // Steps are children of nobody here. Those that are left work in this test's folder.
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let works_in = fs::read_link(process.path().join("cwd")).unwrap_or_default();
            if works_in.starts_with(self.bench.folder.path()) {
                let pid = process.file_name().to_string_lossy().into_owned();
                let _ended = Command::new("kill").args(["-9", &pid]).status();
            }
        }
    }
}

fn private(path: &Path, mode: u32) {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(path, permissions).unwrap();
}

const NODES: [&str; 3] = ["one", "two", "three"];
