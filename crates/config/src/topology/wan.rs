//! The links between data centers: figures for all links, matrices, and overrides of one pair.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::matrix::Matrix;
use crate::document::{Fault, Problem, SourceKind, Sources};
use crate::range::{self, Checks};
use gaia_core::topology::WanLink;
use gaia_core::types::{Bandwidth, ByteSize, DcId, DurationSetting, UnitError, UsdPerGb};

/// The figures of links that do not set their own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WanKeys {
    bandwidth: Option<Figure<Bandwidth>>,
    rtt: Option<Figure<DurationSetting>>,
    price: Option<Figure<UsdPerGb>>,
    loss: f64,
    queue: Queue,
}

/// One figure for all pairs, or one per pair from a file.
#[derive(Clone, Debug)]
enum Figure<T> {
    One(T),
    Matrix(MatrixKeys),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MatrixKeys {
    matrix: String,
    unit: String,
}

/// The length of a bottleneck's queue: an amount, or the time in which the link carries it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Queue {
    ByteSize(ByteSize),
    DurationSetting(DurationSetting),
}

/// What the `[[link]]` entry of one directed pair overrides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkOverride {
    pub(crate) bandwidth: Option<Bandwidth>,
    pub(crate) rtt: Option<DurationSetting>,
    pub(crate) price: Option<UsdPerGb>,
    pub(crate) loss: Option<f64>,
    pub(crate) queue: Option<Queue>,
}

/// `[wan]` with its matrices read.
pub(crate) struct WanSection {
    bandwidth: Loaded<Bandwidth>,
    rtt: Loaded<DurationSetting>,
    price: Loaded<UsdPerGb>,
    loss: f64,
    queue: Queue,
    bandwidth_scale: f64,
}

/// A [`Figure`] with its file read.
enum Loaded<T> {
    Nothing,
    One(T),
    Matrix { matrix: Matrix, source: usize, unit: String },
}

impl WanSection {
    pub(crate) fn read(
        sources: &mut Sources,
        checks: &mut Checks<'_>,
        wan: &WanKeys,
        bandwidth_scale: f64,
    ) -> Result<Self, Problem> {
        checks.number("topology.wan.loss", wan.loss, range::LOSS)?;
        wan.queue.check(checks, "topology.wan.queue")?;

        if let Some(Figure::One(rtt)) = wan.rtt {
            checks.time("topology.wan.rtt", rtt, range::RTT_MAX)?;
        }

        if let Some(Figure::One(bandwidth)) = wan.bandwidth {
            let bandwidth = scaled(bandwidth, bandwidth_scale);
            checks.bandwidth("topology.wan.bandwidth", bandwidth)?;
        }

        Ok(Self {
            bandwidth: load(sources, checks, "topology.wan.bandwidth", &wan.bandwidth)?,
            rtt: load(sources, checks, "topology.wan.rtt", &wan.rtt)?,
            price: load(sources, checks, "topology.wan.price", &wan.price)?,
            loss: wan.loss,
            queue: wan.queue,
            bandwidth_scale,
        })
    }

    pub(crate) fn link(
        &self,
        sources: &Sources,
        checks: &Checks<'_>,
        (from, to): (DcId, DcId),
        names: (&str, &str),
        own: LinkOverride,
    ) -> Result<WanLink, Problem> {
        let missing = |key: &str, what: &str| {
            let (from, to) = names;
            let expected =
                format!("{what} of all links, or a [[link]] from `{from}` to `{to}` that has one");
            checks.root.problem(&format!("topology.wan.{key}"), Fault::MissingKey { expected })
        };

        let bandwidth = match own.bandwidth {
            Some(bandwidth) => scaled(bandwidth, self.bandwidth_scale),
            None => {
                let within = |bandwidth: &Bandwidth| {
                    range::BANDWIDTH.contains(&scaled(*bandwidth, self.bandwidth_scale))
                };

                let (least, most) = (range::BANDWIDTH.start(), range::BANDWIDTH.end());
                let bandwidth = format!(
                    "a bandwidth from {least:e} to {most:e} bit/s once it is scaled by {}",
                    self.bandwidth_scale
                );
                let found = self.bandwidth.of(sources, names, within, &bandwidth)?;
                scaled(
                    found.ok_or_else(|| missing("bandwidth", "the bandwidth"))?,
                    self.bandwidth_scale,
                )
            }
        };

        let rtt = match own.rtt {
            Some(rtt) => rtt,
            None => {
                let time = format!("a time of at most {}", range::RTT_MAX);
                let found = self.rtt.of(sources, names, |rtt| *rtt <= range::RTT_MAX, &time)?;
                found.ok_or_else(|| missing("rtt", "the RTT"))?
            }
        };

        let price = match own.price {
            Some(price) => price,
            None => self.price.of(sources, names, |_| true, "a price")?.unwrap_or_default(),
        };

        Ok(WanLink {
            from,
            to,
            bandwidth: Bandwidth::from_bits_per_second(bandwidth),
            rtt,
            price,
            loss: own.loss.unwrap_or(self.loss),
            queue: own.queue.unwrap_or(self.queue).bytes_at(bandwidth),
        })
    }
}

fn load<T: Copy + FromStr<Err = UnitError>>(
    sources: &mut Sources,
    checks: &Checks<'_>,
    path: &str,
    figure: &Option<Figure<T>>,
) -> Result<Loaded<T>, Problem> {
    let MatrixKeys { matrix, unit } = match figure {
        None => return Ok(Loaded::Nothing),
        Some(Figure::One(value)) => return Ok(Loaded::One(*value)),
        Some(Figure::Matrix(keys)) => keys,
    };

    if let Err(error) = format!("1 {unit}").parse::<T>() {
        let expected = format!("the unit of {}", error.expected);
        return Err(checks.wrong(&format!("{path}.unit"), unit, expected));
    }

    let key = format!("{path}.matrix");
    let home = checks.root.at(&key).map_or(0, |node| node.span.source);
    let home = sources.home(home).clone();
    let source = sources
        .read(&home, matrix, SourceKind::Matrix)
        .map_err(|fault| checks.root.problem(&key, fault))?;
    let matrix = Matrix::read(source, sources.text(source))?;

    Ok(Loaded::Matrix { matrix, source, unit: unit.clone() })
}

impl<T: Copy + FromStr<Err = UnitError>> Loaded<T> {
    /// The figure of one directed pair. `None` where the topology has no such figure.
    fn of(
        &self,
        sources: &Sources,
        (from, to): (&str, &str),
        within: impl Fn(&T) -> bool,
        what: &str,
    ) -> Result<Option<T>, Problem> {
        let (matrix, source, unit) = match self {
            Self::Nothing => return Ok(None),
            Self::One(value) => return Ok(Some(*value)),
            Self::Matrix { matrix, source, unit } => (matrix, *source, unit),
        };

        let cell = matrix.cell(from, to)?;
        let parsed = format!("{cell} {unit}").parse::<T>().ok().filter(within);

        parsed.map(Some).ok_or_else(|| {
            let found = if cell.is_empty() { "empty" } else { cell };
            let fault = Fault::Wrong {
                found: found.to_owned(),
                expected: format!("{what}, as a number in {unit}"),
                help: None,
            };
            matrix.cell_problem(from, to, sources.text(source), fault)
        })
    }
}

impl Queue {
    pub(crate) fn check(self, checks: &Checks<'_>, path: &str) -> Result<(), Problem> {
        match self {
            Self::DurationSetting(time) => checks.time(path, time, range::QUEUE_TIME_MAX),
            Self::ByteSize(bytes) if !range::QUEUE_BYTES.contains(&bytes.0) => {
                let expected = format!(
                    "an amount from {} to {}",
                    ByteSize(*range::QUEUE_BYTES.start()),
                    ByteSize(*range::QUEUE_BYTES.end())
                );
                Err(checks.wrong(path, bytes, expected))
            }
            Self::ByteSize(_) => Ok(()),
        }
    }

    /// The length in bytes. A queue given as a time holds what the link carries in it, and at least a few packets.
    fn bytes_at(self, bits_per_second: f64) -> ByteSize {
        match self {
            Self::ByteSize(bytes) => bytes,
            Self::DurationSetting(time) => {
                let bytes = (bits_per_second / 8.0 * time.0.as_secs_f64()).round() as u64;
                ByteSize(bytes.max(TIMED_QUEUE_BYTES_MIN))
            }
        }
    }
}

/// A bandwidth times a scale, in bits per second. The product may be out of range; its check comes later.
pub(crate) fn scaled(bandwidth: Bandwidth, scale: f64) -> f64 {
    bandwidth.bits_per_second() * scale
}

impl Default for WanKeys {
    fn default() -> Self {
        Self { bandwidth: None, rtt: None, price: None, loss: 0.0, queue: Queue::default() }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::DurationSetting(DurationSetting(std::time::Duration::from_millis(100)))
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = || text.parse().map(Self::ByteSize);
        text.parse().map(Self::DurationSetting).or_else(|_: UnitError| bytes()).map_err(|_| {
            D::Error::custom(format!(
                "`{text}` is not a time of the link's rate such as \"100 ms\", or an amount such as \"256 KiB\""
            ))
        })
    }
}

impl<'de, T: FromStr<Err = UnitError>> Deserialize<'de> for Figure<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FigureVisitor(PhantomData))
    }
}

struct FigureVisitor<T>(PhantomData<T>);

impl<'de, T: FromStr<Err = UnitError>> Visitor<'de> for FigureVisitor<T> {
    type Value = Figure<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match "".parse::<T>() {
            Err(error) => error.expected,
            Ok(_) => "a quantity",
        };
        write!(f, "{unit}, or {{ matrix = \"FILE.csv\", unit = \"…\" }}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Figure<T>, E> {
        text.parse().map(Figure::One).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Figure<T>, A::Error> {
        MatrixKeys::deserialize(MapAccessDeserializer::new(map)).map(Figure::Matrix)
    }
}

/// About eleven packets: the initial congestion window of QUIC (RFC 9002, section 7.2).
const TIMED_QUEUE_BYTES_MIN: u64 = 16 * 1024;
