//! The bounds that input from files and peers must not exceed.

/// The largest number of parameters in one model. An index within a shard has 32 bits, and index + 1 must not overflow.
pub const MODEL_PARAMETERS_MAX: usize = 1 << 31;

/// The largest magnitude of a change to one parameter. A change above it, infinite or not a number means that training
/// has diverged.
///
/// Sums of squares of such changes over the largest model are still finite in single precision. So are sums of the
/// changes of any run.
pub const CHANGE_MAX: f32 = (1_u64 << 48) as f32;

/// The largest clock that a message may name. It is more than any run has, and no sum of clocks overflows.
pub const CLOCK_MAX: u64 = 1 << 40;

/// The largest number of tables in one model.
pub const TABLES_MAX: usize = 1 << 10;

/// The largest number of data centers in one topology.
pub const DATA_CENTERS_MAX: usize = 1 << 10;

/// The largest number of data centers whose links are all listed in files and on pages. A thousand have a million links.
pub const DATA_CENTERS_LISTED_MAX: usize = 64;

/// The links of so many data centers.
pub const LINKS_LISTED_MAX: usize = DATA_CENTERS_LISTED_MAX * (DATA_CENTERS_LISTED_MAX - 1);

/// The largest number of servers, and of workers, in one data center.
pub const NODES_PER_DC_MAX: usize = 1 << 10;

/// The largest bulk frame in bytes, header included. The receiver rejects a longer frame before it reads the payload.
pub const BULK_FRAME_BYTES_MAX: usize = 1 << 26;

/// The largest control frame in bytes. The receiver rejects a longer frame before it reads the payload.
pub const CONTROL_FRAME_BYTES_MAX: usize = 1 << 22;

/// The largest LAN frame in bytes. The sender splits longer messages into several frames. The receiver rejects a longer
/// frame before it reads the payload.
pub const LAN_FRAME_BYTES_MAX: usize = 1 << 20;
