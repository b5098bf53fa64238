//! Where data is at home: in one place for all data centers or in each its own, what is held out and which worker has
//! what, and what others need to know of it.

pub(crate) mod counted_names;
pub(crate) mod digest;
pub(crate) mod home;
pub(crate) mod inventory;
pub(crate) mod memory;
pub(crate) mod moments;
pub(crate) mod split;
pub(crate) mod summary;
