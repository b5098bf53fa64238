//! Quantities with units, as configuration files write them: "115 Mbit/s", "59.5 ms", "64 KiB", "0.02 USD/GB".
//!
//! Each quantity is parsed from its text form and serialised as a text form: the short one that people are shown where that
//! reads back the same, or else one with all digits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A rate of transfer, in bits per second. Always positive and finite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bandwidth(f64);

/// An amount of data, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A length of time in a configuration file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurationSetting(pub Duration);

/// The price of traffic on a link: US dollars for each gigabyte (10⁹ bytes) that is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct UsdPerGb(pub f64);

/// A text that is not a quantity of the expected kind: no number, an unknown unit, or a value out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}")]
pub struct UnitError {
    /// The text that was parsed.
    pub found: String,
    /// The expected kind of quantity, with an example and the known units.
    pub expected: &'static str,
}

impl Bandwidth {
    /// A rate in bits per second.
    ///
    /// # Panics
    /// If the rate is not positive and finite.
    pub fn from_bits_per_second(bits: f64) -> Self {
        assert!(bits > 0.0 && bits.is_finite(), "a bandwidth is positive and finite");
        Self(bits)
    }

    /// A rate in megabits (10⁶ bits) per second.
    ///
    /// # Panics
    /// If the rate is not positive and finite.
    pub fn from_mbit(mbit: f64) -> Self {
        Self::from_bits_per_second(mbit * 1e6)
    }

    /// The rate in bits per second.
    pub fn bits_per_second(self) -> f64 {
        self.0
    }

    /// The rate in bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        self.0 / 8.0
    }

    /// The rate multiplied by `factor`.
    ///
    /// # Panics
    /// If the product is not positive and finite.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self::from_bits_per_second(self.0 * factor)
    }

    /// How long the transfer of `bytes` takes at this rate.
    pub fn time_for(self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second())
    }

    /// How many bytes are transferred in `time` at this rate.
    pub fn bytes_in(self, time: Duration) -> f64 {
        self.bytes_per_second() * time.as_secs_f64()
    }

    fn in_full(self) -> String {
        format!("{} bit/s", self.0)
    }
}

impl ByteSize {
    /// In the largest binary unit of which it is a whole number.
    fn in_full(self) -> String {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole = units.into_iter().find(|(_, bits)| self.0.trailing_zeros() >= *bits);
        let (unit, bits) = whole.unwrap_or(("B", 0));
        format!("{} {unit}", self.0 >> bits)
    }
}

impl DurationSetting {
    fn in_full(self) -> String {
        format!("{} ns", self.0.as_nanos())
    }
}

impl UsdPerGb {
    fn in_full(self) -> String {
        self.to_string()
    }
}

impl FromStr for Bandwidth {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bits = parse(text, BANDWIDTH_UNITS, BANDWIDTH_EXPECTED)?;
        if bits <= 0.0 {
            return Err(UnitError { found: text.into(), expected: BANDWIDTH_EXPECTED });
        }
        Ok(Self(bits))
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, BYTES_UNITS, BYTES_EXPECTED).map(|bytes| Self(bytes as u64))
    }
}

impl FromStr for DurationSetting {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let seconds = parse(text, TIME_UNITS, TIME_EXPECTED)?;
        Duration::try_from_secs_f64(seconds)
            .map(Self)
            .map_err(|_| UnitError { found: text.into(), expected: TIME_EXPECTED })
    }
}

impl FromStr for UsdPerGb {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, PRICE_UNITS, PRICE_EXPECTED).map(Self)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, self.0, BANDWIDTH_UNITS)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} B", self.0),
            1_000..1_000_000 => write!(f, "{} kB", trimmed(value / 1e3)),
            1_000_000..1_000_000_000 => write!(f, "{} MB", trimmed(value / 1e6)),
            1_000_000_000..1_000_000_000_000 => write!(f, "{} GB", trimmed(value / 1e9)),
            _ => write!(f, "{} TB", trimmed(value / 1e12)),
        }
    }
}

impl fmt::Display for DurationSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, self.0.as_secs_f64(), &TIME_UNITS[..4])
    }
}

impl fmt::Display for UsdPerGb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} USD/GB", self.0)
    }
}

/// The short form of a quantity where it reads back the same, or else the full form.
fn exact<T: Copy + fmt::Display + FromStr + PartialEq>(
    quantity: T,
    in_full: fn(T) -> String,
) -> String {
    let short = quantity.to_string();
    let is_exact = short.parse::<T>().is_ok_and(|read| read == quantity);
    if is_exact { short } else { in_full(quantity) }
}

type Units = &'static [(&'static str, f64)];

fn parse(text: &str, units: Units, expected: &'static str) -> Result<f64, UnitError> {
    let error = || UnitError { found: text.into(), expected };
    let text = text.trim();
    let split = text
        .find(|c: char| {
            c.is_ascii_whitespace() || (c.is_ascii_alphabetic() && c != 'e' && c != 'E')
        })
        .ok_or_else(error)?;
    let number: f64 = text[..split].parse().map_err(|_| error())?;
    let unit = text[split..].trim();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
    let value = number * factor;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(error()) }
}

/// Writes the value in the largest unit that leaves at least 1, or the smallest.
fn display(f: &mut fmt::Formatter<'_>, value: f64, units: Units) -> fmt::Result {
    let (unit, factor) =
        units.iter().rev().find(|(_, factor)| value >= *factor).unwrap_or(&units[0]);
    write!(f, "{} {unit}", trimmed(value / factor))
}

/// At most four significant decimals, no trailing zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

const BANDWIDTH_UNITS: Units = &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
const BANDWIDTH_EXPECTED: &str =
    "a bandwidth above zero such as \"115 Mbit/s\" (bit/s, kbit/s, Mbit/s or Gbit/s)";
const TIME_UNITS: Units =
    &[("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];
const TIME_EXPECTED: &str = "a time such as \"59.5 ms\" (ns, us, ms, s, min or h)";
const BYTES_UNITS: Units = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KiB", 1024.0),
    ("MB", 1e6),
    ("MiB", 1_048_576.0),
    ("GB", 1e9),
    ("GiB", 1_073_741_824.0),
    ("TB", 1e12),
    ("TiB", 1_099_511_627_776.0),
];
const BYTES_EXPECTED: &str =
    "an amount of data such as \"256 KiB\" (B, kB, KiB, MB, MiB, GB, GiB, TB or TiB)";
const PRICE_UNITS: Units = &[("USD/GB", 1.0)];
const PRICE_EXPECTED: &str = "a price such as \"0.02 USD/GB\"";

macro_rules! serde_as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&exact(*self, Self::in_full))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

serde_as_text!(Bandwidth, ByteSize, DurationSetting, UsdPerGb);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a quantity is serialised as.
    fn written<T: Serialize>(quantity: T) -> String {
        struct Written<T>(T);
        impl<T: Serialize> fmt::Display for Written<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.serialize(f)
            }
        }
        Written(quantity).to_string()
    }

    #[test]
    fn what_is_serialized_has_few_digits_or_all() {
        let time = |text: &str| written(text.parse::<DurationSetting>().unwrap());
        assert_eq!(time("59.5 ms"), "59.5 ms");
        assert_eq!(time("1.23456 ms"), "1234560 ns");
        let bytes = |text: &str| written(text.parse::<ByteSize>().unwrap());
        for text in ["0 B", "500 MB", "1.5 GB", "2 TB", "256 MiB", "1 TiB", "1025 GiB"] {
            assert_eq!(bytes(text), text);
        }
        assert_eq!(bytes("64 KiB"), "65.536 kB");
        assert_eq!(bytes("12345678 B"), "12345678 B");
        assert_eq!(bytes("1e30 B").parse(), Ok(ByteSize(u64::MAX)));
        let rate = |text: &str| written(text.parse::<Bandwidth>().unwrap());
        assert_eq!(rate("16.76 Mbit/s"), "16.76 Mbit/s");
        assert_eq!(rate("12345678 bit/s"), "12345678 bit/s");
    }

    #[test]
    fn quantities_read_back_as_written() {
        for text in ["115 Mbit/s", "16.76 Mbit/s", "1 Gbit/s", "300 bit/s"] {
            assert_eq!(text.parse::<Bandwidth>().unwrap().to_string(), text);
        }
        for text in ["59.5 ms", "2 s", "17 us"] {
            assert_eq!(text.parse::<DurationSetting>().unwrap().to_string(), text);
        }
        assert_eq!("64 KiB".parse::<ByteSize>().unwrap(), ByteSize(65_536));
        assert_eq!("1e3 Mbit/s".parse::<Bandwidth>().unwrap(), Bandwidth::from_mbit(1000.0));
    }

    #[test]
    fn a_quantity_without_a_known_unit_is_refused() {
        for text in ["115", "115 mbps", "-1 Mbit/s", "0 Mbit/s", "nan s", "", "Mbit/s", "1e999 s"] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text}");
        }
        assert!("1e300 h".parse::<DurationSetting>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_serialized_reads_back_the_same(
            bytes in 0..1_u64 << 53,
            shift in 0..41_u32,
            nanos in 0..1_000_000_000_000_000_u64,
            bits in 1e-3..1e13_f64,
            usd in 0.0..1e6_f64,
        ) {
            for size in [ByteSize(bytes), ByteSize(bytes >> shift), ByteSize(bytes >> shift << 10)] {
                prop_assert_eq!(written(size).parse(), Ok(size));
            }
            let time = DurationSetting(Duration::from_nanos(nanos));
            prop_assert_eq!(written(time).parse(), Ok(time));
            let rate = Bandwidth::from_bits_per_second(bits);
            prop_assert_eq!(written(rate).parse(), Ok(rate));
            prop_assert_eq!(written(UsdPerGb(usd)).parse(), Ok(UsdPerGb(usd)));
        }
    }
}
