//! From quantities to positions on an axis, and ticks at round numbers.

use crate::text::numbers;

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    Seconds,
    Bytes,
    Value,
}

impl Quantity {
    /// The end of an axis on which nothing is above zero.
    pub(super) fn some(self) -> f64 {
        match self {
            Self::Seconds | Self::Value => 1.0,
            Self::Bytes => 1_000.0,
        }
    }
}

/// An axis of a known range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    spacing: Spacing,
    quantity: Quantity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spacing {
    Linear,
    Logarithmic,
}

/// A labelled value on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

impl Scale {
    /// Equal steps, from `low` to `high`; widened where they are equal.
    pub(super) fn linear(quantity: Quantity, low: f64, high: f64) -> Self {
        assert!(low.is_finite() && high.is_finite() && low <= high, "{low} to {high}");
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        Self { low, high, spacing: Spacing::Linear, quantity }
    }

    /// Equal ratios, from `low` to `high`, both above zero; widened where they are equal.
    pub(super) fn logarithmic(quantity: Quantity, low: f64, high: f64) -> Self {
        assert!(low > 0.0 && high.is_finite() && low <= high, "{low} to {high}");
        let high = if high > low { high } else { low * 10.0 };
        Self { low, high, spacing: Spacing::Logarithmic, quantity }
    }

    /// The position of a value: 0 at the low end, 1 at the high one. `None` where it cannot be shown on the axis.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = match self.spacing {
            Spacing::Linear => (value - self.low) / (self.high - self.low),
            Spacing::Logarithmic if value <= 0.0 => return None,
            Spacing::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.is_finite().then_some(place)
    }

    /// Whether equal distances are equal ratios.
    pub(super) fn is_logarithmic(&self) -> bool {
        self.spacing == Spacing::Logarithmic
    }

    /// About `wanted` ticks inside the range.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<Tick> {
        match self.spacing {
            Spacing::Linear => self.linear_ticks(wanted),
            Spacing::Logarithmic => self.logarithmic_ticks(wanted),
        }
    }

    /// The unit of this axis' labels; empty where each label has its own.
    pub(super) fn unit(&self) -> &'static str {
        match (self.spacing, self.quantity) {
            (Spacing::Linear, Quantity::Seconds) => time_unit(self.high).1,
            (Spacing::Linear, Quantity::Bytes) => numbers::byte_unit(self.high).1,
            _ => "",
        }
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<Tick> {
        let factor = match self.quantity {
            Quantity::Seconds => time_unit(self.high).0,
            Quantity::Bytes => numbers::byte_unit(self.high).0,
            Quantity::Value => 1.0,
        };
        let (low, high) = (self.low / factor, self.high / factor);
        let step = nice_step((high - low) / wanted.max(1) as f64);
        // A step such as 1e-6 may be a little less than that.
        let magnitude = |value: f64| (value * (1.0 + ROUNDING)).log10().floor();
        let decimals = (-magnitude(step)).clamp(0.0, 12.0) as usize;
        let first = (low / step - ROUNDING).ceil();
        let values = (0..=4 * wanted).map(|at| (first + at as f64) * step);
        let values = values.take_while(|value| *value <= high + step * ROUNDING);
        let mut ticks: Vec<Tick> = values
            .map(|value| Tick { value: value * factor, label: plain_zero(value, decimals) })
            .collect();
        if longest(&ticks) > LABEL_MAX {
            // As many digits as tell one step from the next.
            let largest = low.abs().max(high.abs());
            let digits = (magnitude(largest) - magnitude(step)).clamp(0.0, 15.0) as usize;
            let short = |tick: &Tick| Tick {
                label: if tick.label == "0" {
                    "0".into()
                } else {
                    scientific(tick.value / factor, digits)
                },
                ..*tick
            };
            let shorter: Vec<Tick> = ticks.iter().map(short).collect();
            if longest(&shorter) < longest(&ticks) {
                ticks = shorter;
            }
        }
        ticks
    }

    /// Decades where there are enough of them, else 1, 2 and 5 times each; equal steps where fewer than three remain.
    fn logarithmic_ticks(&self, wanted: usize) -> Vec<Tick> {
        let ticks = self.decade_ticks(wanted);
        if ticks.len() > 2 || self.quantity != Quantity::Value {
            return ticks;
        }
        let steps = self.linear_ticks(wanted).into_iter().filter(|tick| tick.value > 0.0);
        let label = |value| numbers::trim(&numbers::significant(value, 4)).to_owned();
        steps.map(|tick| Tick { label: label(tick.value), ..tick }).collect()
    }

    fn decade_ticks(&self, wanted: usize) -> Vec<Tick> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = (self.high / self.low).log10();
        let stride = ((decades / wanted.max(1) as f64).ceil() as usize).max(1);
        let digits: &[f64] = if decades < wanted as f64 / 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let inside = self.low * (1.0 - ROUNDING)..=self.high * (1.0 + ROUNDING);
        (first..=last)
            .step_by(stride)
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)))
            .filter(|value| inside.contains(value))
            .map(|value| Tick { value, label: self.label(value) })
            .collect()
    }

    fn label(&self, value: f64) -> String {
        let short = |value: f64| numbers::trim(&numbers::significant(value, 2)).to_owned();
        match self.quantity {
            Quantity::Value => short(value),
            Quantity::Bytes => {
                let (factor, unit) = numbers::byte_unit(value);
                format!("{} {unit}", short(value / factor))
            }
            Quantity::Seconds if value < 1.0 => format!("{} ms", short(value * 1e3)),
            Quantity::Seconds => format!("{} s", numbers::count(value.round() as u64)),
        }
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is about `step` or more.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= step * ENOUGH);
    digit.unwrap_or(10.0) * power
}

fn time_unit(high: f64) -> (f64, &'static str) {
    match high {
        ..1.0 => (1e-3, "ms"),
        ..180.0 => (1.0, "s"),
        ..10_800.0 => (60.0, "min"),
        ..259_200.0 => (3_600.0, "h"),
        _ => (86_400.0, "days"),
    }
}

fn scientific(value: f64, digits: usize) -> String {
    format!("{value:.digits$e}")
}

/// The characters of the longest label.
fn longest(ticks: &[Tick]) -> usize {
    ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0)
}

fn plain_zero(value: f64, decimals: usize) -> String {
    if value.abs() < 1e-12 { "0".into() } else { format!("{value:.decimals$}") }
}

const ROUNDING: f64 = 1e-9;
/// Longer labels of a vertical axis would begin outside the picture, where their first digits are cut off.
const LABEL_MAX: usize = 7;
/// A step a little shorter than wanted is better than one of twice the length.
const ENOUGH: f64 = 0.9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(scale: Scale, wanted: usize) -> Vec<String> {
        scale.ticks(wanted).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_numbers_in_a_unit_that_fits() {
        let minutes = Scale::linear(Quantity::Seconds, 0.0, 600.0);
        assert_eq!(
            (minutes.unit(), labels(minutes, 6)),
            ("min", vec!["0", "2", "4", "6", "8", "10"].into_iter().map(String::from).collect())
        );
        assert_eq!(labels(Scale::linear(Quantity::Value, 0.68, 1.3), 5), ["0.8", "1.0", "1.2"]);
        assert_eq!(
            labels(Scale::logarithmic(Quantity::Bytes, 2e5, 3e7), 6),
            ["200 kB", "500 kB", "1 MB", "2 MB", "5 MB", "10 MB", "20 MB"]
        );
        assert_eq!(
            labels(Scale::logarithmic(Quantity::Value, 1e-3, 1e6), 5),
            ["0.001", "0.1", "10", "1000", "100000"]
        );
        assert_eq!(labels(Scale::logarithmic(Quantity::Value, 0.68, 1.31), 4), ["0.8", "1", "1.2"]);
    }

    #[test]
    fn large_and_small_values_have_short_ticks() {
        let ticks = |low, high| labels(Scale::linear(Quantity::Value, low, high), 4);
        assert_eq!(ticks(0.0, 3e7), ["0", "1e7", "2e7", "3e7"]);
        assert_eq!(ticks(2.4e7, 3e7), ["2.4e7", "2.6e7", "2.8e7", "3.0e7"]);
        assert_eq!(ticks(-3e-6, 0.0), ["-3e-6", "-2e-6", "-1e-6", "0"]);
        assert_eq!(ticks(0.0, 300_000.0), ["0", "100000", "200000", "300000"]);
    }

    proptest! {
        #[test]
        fn every_range_has_few_ticks_and_all_are_inside(low in 1e-6..1e9_f64, span in 1e-6..1e9_f64, wanted in 2_usize..8) {
            for quantity in [Quantity::Seconds, Quantity::Bytes, Quantity::Value] {
                for scale in [Scale::linear(quantity, low, low + span), Scale::logarithmic(quantity, low, low + span)] {
                    let ticks = scale.ticks(wanted);
                    prop_assert!(ticks.len() <= 4 * wanted);
                    for tick in ticks {
                        let place = scale.place(tick.value).unwrap();
                        prop_assert!((-1e-3..=1.001).contains(&place), "{tick:?} at {place}");
                    }
                }
            }
        }
    }
}
