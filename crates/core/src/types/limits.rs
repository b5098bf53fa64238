//! Every bound that input from outside is held to, in one place.

/// Parameters in one model. Local indexes are 32-bit, and an index must survive `+ 1`.
pub const MODEL_PARAMETERS_MAX: usize = 1 << 31;

/// The magnitude of a change to one parameter. What is beyond it, infinite or not a number means that training has diverged.
///
/// Squares of so large changes to all parameters of the largest model still add up in single precision, and so do the
/// changes of any run.
pub const CHANGE_MAX: f32 = (1_u64 << 48) as f32;

/// Tables in one model.
pub const TABLES_MAX: usize = 1 << 10;

/// Data centers in one topology.
pub const DATA_CENTERS_MAX: usize = 1 << 10;

/// Servers, or workers, in one data center.
pub const NODES_PER_DC_MAX: usize = 1 << 10;

/// Bytes in one bulk frame, header included. A longer frame is refused unread.
pub const BULK_FRAME_BYTES_MAX: usize = 1 << 26;

/// Bytes in one control frame. A longer frame is refused unread.
pub const CONTROL_FRAME_BYTES_MAX: usize = 1 << 22;

/// Bytes in one LAN frame. Longer messages are cut into several; a longer frame is refused unread.
pub const LAN_FRAME_BYTES_MAX: usize = 1 << 20;
