//! The log of a node: of what a crash or a broken disk leaves, exactly what was written is read, or an error says where
//! it is not.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

mod segments;
