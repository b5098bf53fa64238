//! The vocabulary: identifiers, clocks, rows, deltas, units and seeds.
//!
//! All other rooms use these types. This room knows no mechanism, no file and no network.

mod clock;
mod ids;
mod initial_rows;
mod instant;
mod lane;
mod layout;
pub mod limits;
pub mod messagepack;
pub mod packed;
mod paged;
mod reused_values;
mod rows;
mod seed;
mod shared_values;
mod state;
mod tightness;
mod units;

pub use clock::{Clock, Staleness};
pub use ids::{DcId, NodeId, ServerId, ShardId, TableId, WorkerId};
pub use initial_rows::InitialRows;
pub use instant::Instant;
pub use lane::Lane;
pub use layout::{ModelLayout, ShardLayout, TableLayout};
pub use paged::{Numbers, Paged};
pub use reused_values::ReusedValues;
pub use rows::{Deltas, Model, RowSet, TableDeltas, TableRows};
pub use seed::{Random, Seed};
pub use shared_values::SharedValues;
pub use state::{Content, Persist, Restorer, Saved, Saver, State, StateError, Tensor};
pub use tightness::Tightness;
pub use units::{Bandwidth, ByteSize, DurationSetting, UnitError, UsdPerGb};
