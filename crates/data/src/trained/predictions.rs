//! Predictions as a table.

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

/// The numbers of examples, the first of which is `first`.
pub(super) fn numbers(name: &str, first: i64, count: usize) -> (String, PredictionValues) {
    (name.into(), PredictionValues::Integers((first..).take(count).collect()))
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
}
