//! The counts of all cases as a file, and their comparison with those of another run.

use std::fmt;

/// How many instructions each case takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The compiler and the instruction set, on which counts depend.
    pub(crate) made_with: String,
    /// The name and the instructions of each case.
    pub(crate) rows: Vec<(String, u64)>,
}

/// New counts beside those on record.
pub(crate) struct Comparison<'a> {
    counted: &'a Counts,
    recorded: &'a Counts,
}

/// A case that was counted, or is on record, or both.
struct Row<'a> {
    name: &'a str,
    counted: Option<u64>,
    recorded: Option<u64>,
}

impl Counts {
    /// Reads what [`Counts`] displays.
    ///
    /// # Errors
    /// If a line is neither a comment nor a name, two spaces or more, and a number.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let made_with = lines.next().ok_or("found no line with the compiler")?.into();
        let rows = lines.map(|line| {
            let row = line.rsplit_once("  ").and_then(|(name, count)| {
                Some((name.trim_end().to_string(), count.trim().parse().ok()?))
            });
            row.ok_or_else(|| format!("found `{line}`, expected a name and a count"))
        });
        Ok(Self { made_with, rows: rows.collect::<Result<_, _>>()? })
    }

    fn of(&self, name: &str) -> Option<u64> {
        self.rows.iter().find(|(found, _)| found == name).map(|(_, count)| *count)
    }

    /// Compares these with the counts on record.
    pub(crate) fn against<'a>(&'a self, recorded: &'a Self) -> Comparison<'a> {
        Comparison { counted: self, recorded }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADING}\n{}", self.made_with)?;
        for (name, count) in &self.rows {
            writeln!(f, "{name:<NAME_WIDTH$}  {count:>9}")?;
        }
        Ok(())
    }
}

impl Comparison<'_> {
    /// Whether all cases are on record, and take as many instructions as there within [`TOLERANCE`].
    ///
    /// Another compiler makes other instructions of the same sources, and so does another instruction set. Then there is
    /// nothing to compare with.
    pub(crate) fn passes(&self) -> bool {
        !self.is_comparable() || self.rows().all(|row| row.agrees())
    }

    fn is_comparable(&self) -> bool {
        self.counted.made_with == self.recorded.made_with
    }

    /// The cases that were counted, then those that are only on record.
    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let (counted, recorded) = (self.counted, self.recorded);
        let present = counted.rows.iter().map(|(name, _)| name);
        let gone = recorded.rows.iter().map(|(name, _)| name);
        let gone = gone.filter(|name| counted.of(name).is_none());
        let row = |name| Row { name, counted: counted.of(name), recorded: recorded.of(name) };
        present.chain(gone).map(move |name| row(name))
    }
}

impl Row<'_> {
    fn agrees(&self) -> bool {
        self.counted.zip(self.recorded).is_some_and(|(counted, recorded)| {
            counted.abs_diff(recorded) as f64 <= TOLERANCE * recorded as f64
        })
    }

    fn change(&self) -> String {
        match (self.counted, self.recorded) {
            (Some(counted), Some(recorded)) => {
                format!("{:+.1} %", 100.0 * (counted as f64 / recorded as f64 - 1.0))
            }
            (Some(_), None) => "not on record".into(),
            (None, _) => "not counted".into(),
        }
    }
}

/// The rows that have changed, and how many have not.
impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (same, changed): (Vec<Row<'_>>, Vec<Row<'_>>) =
            self.rows().partition(|row| row.counted == row.recorded);
        if !changed.is_empty() {
            writeln!(f, "{:<NAME_WIDTH$}  {:>9} {:>9}", "", "counted", "on record")?;
        }
        let shown =
            |count: Option<u64>| count.map_or_else(|| "–".into(), |count| count.to_string());
        for row in &changed {
            let (name, change) = (row.name, row.change());
            let (counted, recorded) = (shown(row.counted), shown(row.recorded));
            let failed = if self.is_comparable() && !row.agrees() { "  failed" } else { "" };
            writeln!(f, "{name:<NAME_WIDTH$}  {counted:>9} {recorded:>9}  {change}{failed}")?;
        }
        writeln!(f, "{} counts have changed, {} have not", changed.len(), same.len())?;

        if !self.is_comparable() {
            writeln!(f, "not compared: made with {}", self.counted.made_with)?;
            writeln!(f, "       on record made with {}", self.recorded.made_with)?;
        }
        Ok(())
    }
}

const HEADING: &str = "\
# Instructions of hot paths, for a shard of 100,000 parameters.
# `cargo run --profile profiling --package gaia-instructions -- --write` writes this file.";
/// The largest change of a count that is not reported: versions of the C library copy memory in other ways.
const TOLERANCE: f64 = 0.05;
const NAME_WIDTH: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(made_with: &str, rows: &[(&str, u64)]) -> Counts {
        let rows = rows.iter().map(|(name, count)| ((*name).into(), *count)).collect();
        Counts { made_with: made_with.into(), rows }
    }

    fn check(counted: &[(&str, u64)], recorded: &[(&str, u64)], expect: bool, says: &str) {
        let (counted, recorded) = (counts("rustc 1", counted), counts("rustc 1", recorded));
        let comparison = counted.against(&recorded);
        assert_eq!(comparison.passes(), expect);
        assert!(comparison.to_string().contains(says), "{comparison}");
    }

    #[test]
    fn a_count_may_change_by_five_percent_in_either_direction() {
        let recorded = [("a", 1000), ("b, 1 %", 1000)];
        check(&recorded, &recorded, true, "0 counts have changed, 2 have not");
        check(&[("a", 1050), ("b, 1 %", 950)], &recorded, true, "+5.0 %");
        check(&[("a", 1051), ("b, 1 %", 1000)], &recorded, false, "+5.1 %  failed");
        check(&[("a", 1000), ("b, 1 %", 949)], &recorded, false, "-5.1 %  failed");
    }

    #[test]
    fn cases_and_records_are_the_same() {
        check(&[("a", 1), ("b", 1)], &[("a", 1)], false, "not on record");
        check(&[("a", 1)], &[("a", 1), ("b", 1)], false, "not counted");
    }

    #[test]
    fn counts_of_another_compiler_are_shown_and_not_compared() {
        let (counted, recorded) = (counts("rustc 2", &[("a", 9)]), counts("rustc 1", &[("a", 1)]));
        let comparison = counted.against(&recorded);
        assert!(comparison.passes());
        assert!(comparison.to_string().contains("not compared: made with rustc 2"), "{comparison}");
    }

    #[test]
    fn what_is_written_is_read() {
        let counts = counts("rustc 1", &[("a", 1), ("b, 1 %", 123_456_789)]);
        assert_eq!(Counts::parse(&counts.to_string()), Ok(counts));
        for wrong in ["", "rustc 1\na", "rustc 1\na  b", "rustc 1\na  -1"] {
            assert!(Counts::parse(wrong).is_err(), "{wrong}");
        }
    }
}
