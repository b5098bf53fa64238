//! How long training continues while a round is in progress.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many clocks training may continue while a round is in progress.
///
/// In a run file it is `"auto"` or a number of clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// As each data center measures: as many clocks as a round takes, and none where a round costs little beside the
    /// clocks between two rounds.
    #[default]
    Auto,
    /// This many.
    Clocks(u64),
}

impl Serialize for Overlap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(AUTO),
            Self::Clocks(clocks) => serializer.serialize_u64(*clocks),
        }
    }
}

impl<'de> Deserialize<'de> for Overlap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OverlapVisitor)
    }
}

struct OverlapVisitor;

impl Visitor<'_> for OverlapVisitor {
    type Value = Overlap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`auto` or a whole number of clocks")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Overlap, E> {
        match text {
            AUTO => Ok(Overlap::Auto),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_u64<E: Error>(self, clocks: u64) -> Result<Overlap, E> {
        Ok(Overlap::Clocks(clocks))
    }

    fn visit_i64<E: Error>(self, clocks: i64) -> Result<Overlap, E> {
        let whole = u64::try_from(clocks);
        whole.map(Overlap::Clocks).map_err(|_| E::invalid_value(Unexpected::Signed(clocks), &self))
    }
}

const AUTO: &str = "auto";
