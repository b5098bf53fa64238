//! The pages of the paper's evaluation: one record file, and what is drawn from it.

mod records;

pub use records::{
    AblationRow, CellRow, CurveRow, HubRow, InsignificantRow, PaperFile, ScaleRow, SkewRow,
    SpeedRow,
};
