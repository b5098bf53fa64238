//! Predictions as a table.

use std::path::Path;

use crate::error::{DataError, FilePosition};

/// Predictions, one row for each example that was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    /// The columns, which are equally long.
    pub columns: Vec<PredictionColumn>,
}

/// A column of predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionColumn {
    /// The name of the column.
    pub name: String,
    /// The values of all rows.
    pub values: PredictionValues,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum PredictionValues {
    /// Numbers. Those that are not numbers stand for values that are not known.
    Floats(Vec<f32>),
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Text.
    Texts(Vec<String>),
}

impl Predictions {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn new(columns: Vec<(String, PredictionValues)>) -> Self {
        let column = |(name, values)| PredictionColumn { name, values };
        Self { columns: columns.into_iter().map(column).collect() }
    }

    /// Adds a column for each of the numbers that every row has: rows × columns.
    pub(super) fn with_each(mut self, name: impl Fn(usize) -> String, values: &[f32]) -> Self {
        let width = values.len().checked_div(self.len()).unwrap_or(0);
        self.columns.extend((0..width).map(|at| {
            let values = values.iter().skip(at).step_by(width).copied().collect();
            PredictionColumn { name: name(at), values: PredictionValues::Floats(values) }
        }));
        self
    }
}

impl PredictionValues {
    fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }
}

/// A column with the numbers of examples, from 0.
pub(super) fn numbers(count: usize) -> (String, PredictionValues) {
    ("example".into(), PredictionValues::Integers((0..).take(count).collect()))
}

/// Checks that a model predicts finite numbers: of those that are not, no class is the most likely. `values` has `width` of
/// them for each example, and `name` is what an example is called.
///
/// # Errors
/// [`DataError::Broken`] with the first example of which the model predicts something else.
pub(super) fn check_finite(
    values: &[f32],
    width: usize,
    path: &Path,
    name: impl Fn(usize) -> String,
) -> Result<(), DataError> {
    let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
    let found = format!("{}, of which the model predicts {}", name(at / width), values[at]);
    let expected = "a finite prediction: features of the scale of those that trained the model";
    Err(DataError::broken(path, FilePosition::Whole, found, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_rows_become_columns() {
        let rows = PredictionValues::Integers(vec![7, 8]);
        let made = Predictions::new(vec![("row".into(), rows)]);
        let made = made.with_each(|at| format!("p.{at}"), &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
        assert_eq!((made.len(), made.columns.len()), (2, 4));
        assert_eq!(made.columns[3].name, "p.2");
        assert_eq!(made.columns[3].values, PredictionValues::Floats(vec![0.3, 0.6]));

        let none = Predictions::new(vec![("row".into(), PredictionValues::Integers(vec![]))]);
        assert_eq!(none.with_each(|at| at.to_string(), &[]).columns.len(), 1);
    }

    #[test]
    fn a_number_that_is_not_finite_is_that_of_an_example() {
        let check = |values: &[f32]| {
            check_finite(values, 2, Path::new("given"), |at| format!("example {at}"))
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(&[0.5; 4]), Ok(()));
        for (value, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
            let error = check(&[0.5, 0.5, 0.5, value]).expect_err("a value that is not finite");
            let says = format!("given: found example 1, of which the model predicts {shown}");
            assert!(error.starts_with(&says), "{error}");
        }
    }
}
