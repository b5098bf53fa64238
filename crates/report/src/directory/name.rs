//! Names of directories: a run's name as one component of a path, and the time of day.

#![allow(clippy::disallowed_types, reason = "a run directory is named after the time of day")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A name as one component of a path, valid on any system and at most [`BYTES_MAX`] long.
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let mut text = String::new();
    for c in name.chars().map(plain) {
        if text.len() + c.len_utf8() > BYTES_MAX {
            break;
        }
        text.push(c);
    }
    match text.trim_matches(['.', '-']) {
        "" => "run".into(),
        text => text.to_owned(),
    }
}

/// Longer than the name of a WAN with that of a remote model, and with room for a time of day and a number in the 255
/// bytes that systems allow.
const BYTES_MAX: usize = 200;

/// A time as `20261030T142530Z`, to the second.
pub(super) fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (year, month, day) = civil(since / 86_400);
    let second = since % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The Gregorian date of a day counted from 1970-01-01.
///
/// Years are counted from March, so that the leap day ends one; 400 of them have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dated() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_756), (2026, 10, 30));
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(1_793_370_330)), "20261030T142530Z");
    }

    #[test]
    fn a_run_name_becomes_one_plain_path_component() {
        for (name, expect) in [
            ("quickstart", "quickstart"),
            ("../../etc/passwd", "etc-passwd"),
            ("a b\u{1b}[2J", "a-b--2J"),
            ("..", "run"),
            ("", "run"),
            ("São Paulo", "São-Paulo"),
        ] {
            assert_eq!(file_name(name), expect);
        }
    }

    /// A directory whose name ends within that of the WAN would be that of all runs of a comparison.
    #[test]
    fn the_longest_wan_has_a_directory_for_each_model() {
        let wan = "w".repeat(64);
        let of = |remote: &str| file_name(&format!("{wan}-{remote}"));
        assert!(of("local-steps").ends_with("-local-steps"));
        assert_ne!(of("bsp"), of("asp"));
        assert!(file_name(&"東".repeat(300)).len() <= BYTES_MAX);
    }
}
