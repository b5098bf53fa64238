//! Gaia trains one machine-learning model over data that stays in many data centers.
//!
//! Inside a data center a parameter-server group shares every update over the LAN; between data centers only the
//! updates that matter cross the WAN. The model of it is Gaia (Hsieh et al., NSDI 2017).
//!
//! # The life of one update
//!
//! A [worker] reads the rows that its [task](ml::Task) names from the parameter servers of its data center, runs
//! one iteration on them and sends back *deltas*, additive changes to rows. Its [server] adds them to the
//! [store], where the workers of this data center see them at once, and to the sum of all that this data center
//! has changed. For every link there is also the sum of what it has carried; the difference is the *residual*.
//!
//! Each time all workers of the data center have finished a clock, the filter looks at the residuals:
//! [significance] says how large each is beside the parameter it belongs to. What passes the threshold must leave; of
//! the rest, the most significant may leave where the link has room to spare. They are ranked in the link's
//! [outbox], and stay there: a frame is cut only when the link can take one, so that an update which had to wait has
//! merged with the ones after it. [codec] and [wire] turn the cut into bytes.
//!
//! A [driver] carries the frame. [link] says when it leaves, when it arrives and whether it is lost, in virtual time or
//! below real QUIC. The mirror in the other data center, the server that owns the same shard, checks the frame and adds
//! the changes to its values and to nothing else: they are no residual of its own, so nothing echoes.
//!
//! Reads are held back where a copy might be too old: because a parameter was announced and has not arrived (the
//! *selective barrier*), because a data center is too many clocks behind (the *mirror clock*), or, under BSP and SSP,
//! because a clock is not complete. [`sync::Gate`] is the answer to each read, with its reason.
//!
//! # Where things are
//!
//! Four layers, each of which may name those before it: [types]; mechanisms ([codec], [sync], [significance], [store],
//! [outbox], [wire], [session], [mod@log], [topology], [link], [ml]); the state machines ([node], [server], [worker],
//! [coordinator]), which do no I/O and own no clock; and the rooms that know sockets, files and the time
//! ([telemetry], [config], [data], [certificates], [checkpoint], [driver], [faults], [report], [cli]).
//!
//! # Example
//!
//! A run file becomes a [`config::Plan`], a plan and its data an [`ml::Application`], and [`driver::run`] trains it:
//! here a small matrix factorisation over three simulated regions.
//!
//! ```
//! use gaia::config::RunFile;
//! use gaia::telemetry::{Observer, Progress};
//!
//! struct Watch;
//!
//! impl Observer for Watch {
//!     fn on_progress(&mut self, progress: &Progress) {
//!         println!("clock {}: objective {:.3}", progress.clock, progress.objective);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let run = r#"
//!     name = "example"
//!     driver = "simulated"
//!
//!     [app]
//!     kind = "matrix-factorization"
//!     rank = 4
//!     data.synthetic = { users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }
//!
//!     [topology]
//!     file = "three-regions"
//!
//!     [sync.remote]
//!     model = "asp"
//!     threshold = 0.01
//!
//!     [compute]
//!     examples_per_second = 100.0
//!
//!     [stop]
//!     clocks = 40
//! "#;
//! let plan = RunFile::from_text("example.toml", run, &[])?.plan()?;
//! let workers = plan.topology.workers_per_dc();
//! let application = gaia::data::build(&plan.app, &workers, plan.seed)?;
//! let outcome = gaia::driver::run(&plan, &application, &mut Watch)?;
//!
//! assert!(outcome.summary.objective < outcome.progress[0].objective);
//! assert!(outcome.summary.copies_equal);
//! # Ok(())
//! # }
//! ```

pub mod certificates;
pub mod checkpoint;
pub mod cli;
pub mod codec;
pub mod config;
pub mod coordinator;
pub mod data;
pub mod driver;
pub mod evaluation;
pub mod faults;
pub mod link;
pub mod log;
pub mod ml;
pub mod node;
pub mod outbox;
pub mod recovery;
pub mod report;
pub mod server;
pub mod session;
pub mod significance;
pub mod store;
pub mod sync;
pub mod telemetry;
pub mod topology;
pub mod types;
pub mod wire;
pub mod worker;
