//! Figures for reading: three significant digits and a suitable unit.
//!
//! These functions are for terminals and pages. Files keep every digit.

/// Shown where there is no figure.
pub(crate) const NONE: &str = "–";

/// A value in fixed notation with `digits` significant digits; scientific where that would be mostly zeros.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "not finite".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let exponent = exponent(value, digits);
    if (-4..7).contains(&exponent) {
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.*e}", digits.saturating_sub(1).min(2))
    }
}

/// An objective, a loss or a metric.
pub fn objective(value: f64) -> String {
    significant(value, 4)
}

/// A target objective, without zeros at its end.
pub(crate) fn target(value: f64) -> String {
    trim(&objective(value)).to_owned()
}

/// A length of time, from microseconds to days.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let whole = value.round() as u64;
    match value {
        0.0 => "0 s".into(),
        ..1e-3 => format!("{} µs", significant(value * 1e6, 3)),
        ..1.0 => format!("{} ms", significant(value * 1e3, 3)),
        ..120.0 => format!("{} s", significant(value, 3)),
        ..7_200.0 => format!("{} min {:02} s", whole / 60, whole % 60),
        ..172_800.0 => format!("{} h {:02} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

/// A length of time in a column of others, of which `longest` is the longest: all in the units of that one.
pub(crate) fn seconds_among(value: f64, longest: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let whole = value.round() as u64;
    match longest {
        ..1.0 => seconds(value),
        ..120.0 => format!("{} s", significant(value, 3)),
        ..172_800.0 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3_600, whole % 3_600 / 60),
    }
}

/// An amount of data, in decimal units.
pub fn bytes(value: u64) -> String {
    if value < 1_000 {
        return format!("{value} B");
    }
    let value = value as f64;
    let (factor, unit) = byte_unit(value);
    format!("{} {unit}", significant(value / factor, 3))
}

/// The largest decimal unit that leaves at least 1 of `value`, after rounding to three digits.
pub(crate) fn byte_unit(value: f64) -> (f64, &'static str) {
    let step = if value < 1.0 { 0 } else { (exponent(value, 3) / 3) as usize };
    BYTE_UNITS[step.min(BYTE_UNITS.len() - 1)]
}

/// A rate of transfer, always in Mbit/s, so that rates in one column compare.
pub(crate) fn megabits(bits_per_second: f64) -> String {
    let value = bits_per_second / 1e6;
    match value {
        ..9.995 => format!("{value:.2} Mbit/s"),
        ..99.95 => format!("{value:.1} Mbit/s"),
        _ => format!("{value:.0} Mbit/s"),
    }
}

/// A link's bandwidth.
pub(crate) fn bandwidth(bits_per_second: f64) -> String {
    let (factor, unit) = match bits_per_second {
        ..1e3 => (1.0, "bit/s"),
        ..1e6 => (1e3, "kbit/s"),
        ..1e9 => (1e6, "Mbit/s"),
        _ => (1e9, "Gbit/s"),
    };
    format!("{} {unit}", trim(&significant(bits_per_second / factor, 3)))
}

/// US dollars; cents where there are any, else two significant digits.
pub fn dollars(value: f64) -> String {
    match value {
        ..=0.0 => "$0".into(),
        ..0.000_01 => "<$0.00001".into(),
        ..0.1 => {
            let decimals = (1 - exponent(value, 2)).max(2) as usize;
            format!("${value:.decimals$}")
        }
        ..1_000.0 => format!("${value:.2}"),
        _ => format!("${}", count(value.round() as u64)),
    }
}

/// A share, given as 0 to 1.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if !value.is_finite() => NONE.into(),
        ..=0.0 => "0 %".into(),
        ..0.1 => "<0.1 %".into(),
        ..9.95 => format!("{value:.1} %"),
        99.5..100.0 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// A ratio, as `4.08×`.
pub fn times(ratio: f64) -> String {
    match ratio {
        _ if !ratio.is_finite() => NONE.into(),
        ..9.95 => format!("{ratio:.2}×"),
        ..99.5 => format!("{ratio:.1}×"),
        _ => format!("{}×", count(ratio.round() as u64)),
    }
}

/// A ratio, short enough for the end of a bar.
pub(crate) fn multiple(value: f64) -> String {
    match value {
        _ if !value.is_finite() => NONE.into(),
        ..0.095 => significant(value, 1),
        ..9.95 => significant(value, 2),
        _ => count(value.round() as u64),
    }
}

/// A whole number with commas between thousands.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `3 workers`, `1 worker`.
pub(crate) fn counted(value: usize, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(value as u64))
}

/// A share with one decimal: for accuracies, which differ by tenths of a percent.
pub(crate) fn percent_tenths(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { NONE.into() }
}

/// A figure that may be missing.
pub(crate) fn shown<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.into(), show)
}

/// Drops the zeros that follow a decimal point.
pub(crate) fn trim(text: &str) -> &str {
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

/// The decimal exponent of a value other than 0, once rounded to `digits` digits.
fn exponent(value: f64, digits: usize) -> i32 {
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    let (_, exponent) = text.rsplit_once('e').expect("scientific notation has an exponent");
    exponent.parse().expect("an exponent is a whole number")
}

const BYTE_UNITS: [(f64, &str); 6] =
    [(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(
            [0.0, 0.00042, 0.0595, 12.44].map(seconds),
            ["0 s", "420 µs", "59.5 ms", "12.4 s"]
        );
        assert_eq!(
            [200.0, 7_499.0, 273_600.0].map(seconds),
            ["3 min 20 s", "2 h 04 min", "3 d 4 h"]
        );
        assert_eq!(
            [980, 14_230_000, 999_960, 0].map(bytes),
            ["980 B", "14.2 MB", "1.00 MB", "0 B"]
        );
        assert_eq!(
            [0.0, 0.0013, 0.05, 12.345, 12345.6].map(dollars),
            ["$0", "$0.0013", "$0.050", "$12.35", "$12,346"]
        );
        assert_eq!(
            [0.0, 0.0002, 0.031, 0.96, 0.9987].map(percent),
            ["0 %", "<0.1 %", "3.1 %", "96 %", "99.9 %"]
        );
        assert_eq!([1.0, 4.08, 18.23, 1234.0].map(times), ["1.00×", "4.08×", "18.2×", "1,234×"]);
        assert_eq!(
            [0.709_81, 1e-7, 1.5e9, f64::NAN].map(objective),
            ["0.7098", "1.00e-7", "1.50e9", "not finite"]
        );
        assert_eq!([300.0, 16.76e6, 1e9].map(bandwidth), ["300 bit/s", "16.8 Mbit/s", "1 Gbit/s"]);
        assert_eq!(counted(1, "worker"), "1 worker");
        assert_eq!(counted(41_234, "parameter"), "41,234 parameters");
    }

    /// The units are those of the longest, so that a column compares at a glance.
    #[test]
    fn durations_of_a_column_have_one_unit() {
        let column = |times: &[f64]| -> Vec<String> {
            let longest = times.iter().copied().fold(0.0, f64::max);
            times.iter().map(|time| seconds_among(*time, longest)).collect()
        };
        assert_eq!(column(&[0.02, 0.9]), ["20.0 ms", "900 ms"]);
        assert_eq!(column(&[0.02, 119.0]), ["0.0200 s", "119 s"]);
        assert_eq!(column(&[59.0, 121.0]), ["0 min 59 s", "2 min 01 s"]);
        assert_eq!(column(&[59.0, 7_300.0]), ["0 min 59 s", "121 min 40 s"]);
        assert_eq!(column(&[600.0, 172_900.0]), ["0 h 10 min", "48 h 01 min"]);
        assert_eq!(seconds_among(f64::NAN, 10.0), NONE);
    }

    proptest! {
        #[test]
        fn any_figure_can_be_shown(value in any::<f64>(), whole in any::<u64>()) {
            for text in [significant(value, 3), seconds(value), dollars(value), percent(value), times(value), bandwidth(value)] {
                prop_assert!(!text.is_empty());
            }
            prop_assert!(bytes(whole).chars().count() <= 8, "{}", bytes(whole));
            prop_assert!(count(whole).replace(',', "").parse() == Ok(whole));
        }
    }
}
