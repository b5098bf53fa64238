//! Slurm: the batch scripts train, over a node that is killed and a job that is requeued.

use std::fs;
use std::time::Instant;

use super::*;
use crate::slurm_cluster::{SlurmCluster, missing};

#[test]
fn a_run_on_slurm_survives_a_killed_step_and_a_requeued_job() {
    if let Some(program) = missing() {
        println!("skipped: {program} is not installed; Debian has it in slurm-wlm and munge");
        return;
    }
    let bench = Bench::new();
    bench.deploy("slurm", "out", &["--set", "evaluate.every=1"]);
    let cluster = SlurmCluster::start(&bench);
    let directory = bench.path("out/virginia/out");
    let known =
        || logs(&bench.path("out")) + &cluster.said("squeue", &[]) + &logs(&bench.path("slurm"));
    let trains_on = |from: usize| {
        let further = || evaluations(&directory) > from + 10;
        wait_until("training", further, known);
    };

    let submitted = Instant::now();
    let jobs: Vec<String> = PROCESSES.iter().map(|(dc, _)| submit(&cluster, &bench, dc)).collect();
    wait_until("at its first clock", || evaluations(&directory) >= 2, known);
    let first_clock = submitted.elapsed();

    // One node's step is killed: it is started again in the same allocation.
    let (job, node) = (&jobs[1], "server-0");
    let step = cluster.step(job, node).unwrap();
    let killed = Instant::now();
    cluster.said("scancel", &["--signal=KILL", &step]);
    let again = || cluster.step(job, node).is_some_and(|next| next != step);
    wait_until("started again", again, known);
    trains_on(evaluations(&directory));
    let trained_on = killed.elapsed();

    // A whole job is requeued: its nodes continue from their states.
    let job = &jobs[2];
    assert_eq!(cluster.state(job), "RUNNING", "{}", known());
    let requeued = cluster.command("scontrol").args(["requeue", job]).output().unwrap();
    assert!(requeued.status.success(), "{}", said(&requeued));
    wait_until("requeued", || cluster.state(job) != "RUNNING", known);
    wait_until("running", || cluster.state(job) == "RUNNING", known);

    let ended = || jobs.iter().all(|job| cluster.state(job) == "COMPLETED");
    wait_until("completed", ended, known);
    let restarts = cluster.said("scontrol", &["--oneliner", "show", "job", job]);
    assert!(restarts.contains(" Restarts=1 "), "{restarts}");
    let log = fs::read_to_string(bench.path("out/Tokyo_1/job.log")).unwrap();
    assert!(log.contains("server-0 has ended with exit code 137 and is started again"), "{log}");
    let log = fs::read_to_string(bench.path("out/ireland/logs/server-0.log")).unwrap();
    assert!(log.matches("resumes from state/").count() >= 2, "{log}");

    check_result(&directory, &bench.trained());
    println!(
        "measured: {first_clock:.2?} from sbatch to the first clock, {trained_on:.2?} from a killed step to ten more clocks"
    );
}

/// Submits the job of a data center, as the README over all of them says. Nodes listen on the loopback interface.
fn submit(cluster: &SlurmCluster<'_>, bench: &Bench, dc: &str) -> String {
    let mut sbatch = cluster.command("sbatch");
    sbatch.current_dir(bench.path("out")).env("GAIA_HOST", "127.0.0.1");
    // Each test has a port of its own.
    let port = bench.path("out/port");
    if !port.exists() {
        fs::write(&port, free_port().to_string()).unwrap();
    }
    sbatch.env("GAIA_PORT", fs::read_to_string(port).unwrap());
    sbatch.args(["--parsable", &format!("--chdir={dc}"), &format!("{dc}/job.sbatch")]);
    let output = sbatch.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
