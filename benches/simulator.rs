//! What a clock of the simulated driver costs for each link that carries updates, over hubs, beside the same of a hundred
//! data centers; how much virtual time passes in a second; and what the whole run takes, with its results on disk.
//!
//! The cost of a clock is that between two evaluations, so that what happens once is not part of it: nodes are made,
//! each says hello to all its mirrors, and copies become equal. A thousand data centers take about 5 GB.

#![allow(clippy::print_stdout, reason = "its rows are its output")]

#[allow(dead_code, reason = "other benches measure one piece of work")]
#[path = "rows/mod.rs"]
mod rows;

use std::fs;

use gaia::{RunDirectory, write_run};
use gaia_config::RunFile;
use gaia_telemetry::{Observer, Progress};
use rows::Rows;
use rustix::time::{ClockId, clock_gettime};

/// A run over hubs, each with as many members as there are hubs, or some more.
struct Case {
    data_centers: usize,
    hubs: usize,
    parameters: usize,
    /// The clocks between two evaluations.
    every: u64,
}

fn main() {
    let mut rows = Rows::new();
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let case =
        |data_centers, hubs, parameters, every| Case { data_centers, hubs, parameters, every };
    let reference = case(100, 10, 100_000, 20);
    // The large ones take minutes each.
    let mut cases = vec![(case(11, 3, 100_000, 100), rows.runs())];
    if !is_quick {
        cases.push((case(1000, 31, 100_000, 5), 1));
        cases.push((case(11, 3, 10_000_000, 5), 1));
    }

    for (case, runs) in cases {
        let measured: Vec<[Measured; 2]> =
            (0..runs).map(|_| [case.measure(), reference.measure()]).collect();
        let name = format!("{} data centers, {:.0e}", case.data_centers, case.parameters);
        let mut print = |what, unit, figure: fn(&Measured) -> f64, has_reference| {
            let of = |at: usize| measured.iter().map(|pair| figure(&pair[at])).collect::<Vec<_>>();
            let reference = if has_reference {
                ("100 data centers, 1e5", of(1))
            } else {
                ("no reference", Vec::new())
            };
            rows.print(&format!("{name}: {what}"), unit, &of(0), (reference.0, &reference.1));
        };
        print("a clock and link", "µs", |run| 1e6 * run.clock_and_link_s, true);
        print("a virtual second", "s", |run| run.virtual_second_s, false);
        print("start to end", "s", |run| run.whole_s, true);
        print("results", "MB", |run| 1e-6 * run.result_bytes as f64, true);
        // Smaller runs lie in memory that larger ones before them have left.
        if case.data_centers > reference.data_centers {
            print("peak memory", "GB", |run| 1e-9 * run.peak_bytes as f64, false);
        }
    }
}

/// What a run takes, in seconds of this thread's processor time.
struct Measured {
    clock_and_link_s: f64,
    virtual_second_s: f64,
    /// From its data to its results on disk.
    whole_s: f64,
    /// The most that the process had in memory. 0 where the system does not say.
    peak_bytes: u64,
    /// Of all files in the directory of the run.
    result_bytes: u64,
}

impl Case {
    /// The directed links that carry updates: those within the groups, and those between the hubs.
    fn links(&self) -> usize {
        let among = |members: usize| members * (members - 1);
        let members = |hub| (hub..self.data_centers).step_by(self.hubs).count();
        (0..self.hubs).map(|hub| among(members(hub))).sum::<usize>() + among(self.hubs)
    }

    fn measure(&self) -> Measured {
        // Begins to count the peak anew.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let begins = thread_seconds();

        let text = self.run_file();
        let plan = RunFile::from_text("bench", &text, &[]).and_then(|file| file.plan());
        let plan = plan.unwrap_or_else(|error| panic!("{}", error.render(false)));
        let homes = plan.topology.data_homes();
        let application = gaia_data::build(plan.app.as_ref(), &homes, plan.seed.child("data"));
        let application = application.expect("synthetic data can be made");
        let mut times = Times::default();
        let outcome = gaia_driver::run(&plan, &application, &mut times).expect("the run ends");
        let folder = tempfile::tempdir().expect("a folder can be made");
        let results = folder.path().join("results");
        let directory = RunDirectory::create(Some(&results), "bench").expect("it is new");
        write_run(&directory, &plan, &outcome).expect("there is room for results");

        let whole_s = thread_seconds() - begins;
        let files = fs::read_dir(&results).expect("it was made");
        let sizes =
            files.map(|file| file.and_then(|file| file.metadata()).map(|found| found.len()));
        let result_bytes = sizes.sum::<Result<u64, _>>().expect("files have lengths");

        let at = |clock| times.0.iter().find(|(at, ..)| *at == clock).expect("it was evaluated");
        let ((_, begun, from), (_, ended, to)) = (at(self.every), at(2 * self.every));
        let spent = ended - begun;
        Measured {
            clock_and_link_s: spent / (self.every as usize * self.links()) as f64,
            virtual_second_s: spent / (to - from),
            whole_s,
            // Where the system does not say it, it is none.
            peak_bytes: gaia_data::peak_memory().unwrap_or(0),
            result_bytes,
        }
    }

    fn run_file(&self) -> String {
        const RANK: usize = 10;
        let Self { data_centers, hubs, parameters, every } = self;
        let name = |dc: usize| format!("\"dc{dc}\"");
        let users = 2 * data_centers;
        let items = parameters / RANK - users;
        let ratings = 50 * data_centers;
        let clocks = 2 * every;
        let entries = (0..*data_centers)
            .map(|dc| format!("[[topology.data_center]]\nname = {}\n", name(dc)))
            .collect::<String>();
        let groups = (0..*hubs).map(|hub| {
            let members: Vec<String> = (hub..*data_centers).step_by(*hubs).map(name).collect();
            let (hub, members) = (name(hub), members.join(", "));
            format!("[[topology.group]]\nhub = {hub}\nmembers = [{members}]\n")
        });
        format!(
            r#"
name = "bench"
seed = 1
driver = "simulated"
[app]
kind = "matrix-factorization"
rank = {RANK}
data.synthetic = {{ users = {users}, items = {items}, ratings = {ratings}, rank = 2 }}
[sync.local]
model = "bsp"
[sync.remote]
model = "asp"
overlay = "groups"
[compute]
model = "cost"
examples_per_second = 1000.0
[evaluate]
every = {every}
[stop]
clocks = {clocks}
[topology]
name = "hubs"
wan.bandwidth = "100 Mbit/s"
wan.rtt = "50 ms"
{entries}{}"#,
            groups.collect::<String>()
        )
    }
}

/// Of each evaluation its clock, the processor time of this thread before it, and the virtual time.
#[derive(Default)]
struct Times(Vec<(u64, f64, f64)>);

impl Observer for Times {
    fn on_progress(&mut self, progress: &Progress) {
        self.0.push((progress.clock, thread_seconds(), progress.time_s));
    }
}

/// The processor time of this thread.
fn thread_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + 1e-9 * now.tv_nsec as f64
}
