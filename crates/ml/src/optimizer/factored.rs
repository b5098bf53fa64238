//! The squares of a matrix of gradients, as sums over its rows and sums over its columns.

/// Sums of squares of a matrix, of rows × columns: the square of each place is about `row × column ÷ sum of all`.
///
/// Of all estimates from these sums it has the least divergence from the squares, and the one of a single example is exact
/// (Shazeer and Stern, *Adafactor*, ICML 2018, section 3). Rows plus columns are few beside the matrix, so that squares cost next
/// to nothing where they cross a WAN.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FactoredSquares {
    pub(super) rows: Vec<f32>,
    pub(super) columns: Vec<f32>,
}

impl FactoredSquares {
    /// Those of a matrix with so many columns.
    pub(super) fn of(matrix: &[f32], columns: usize) -> Self {
        let mut sums = Self { rows: Vec::new(), columns: vec![0.0; columns] };
        for row in matrix.chunks_exact(columns) {
            let mut of_row = 0.0;
            for (value, of_column) in row.iter().zip(&mut sums.columns) {
                let square = value * value;
                of_row += square;
                *of_column += square;
            }
            sums.rows.push(of_row);
        }
        let all = sums.rows.iter_mut().chain(&mut sums.columns);
        all.for_each(|sum| *sum = sum.min(SUM_MAX));
        sums
    }

    /// Each sum by a function of itself and of the same one of others.
    pub(super) fn with(&self, rows: &[f32], columns: &[f32], of: impl Fn(f32, f32) -> f32) -> Self {
        let all = |own: &[f32], others: &[f32]| -> Vec<f32> {
            own.iter().zip(others).map(|(own, other)| of(*own, *other)).collect()
        };
        Self { rows: all(&self.rows, rows), columns: all(&self.columns, columns) }
    }

    /// Divides each place of a matrix by the root of its square, to at most `longest` either way. A place whose square is 0
    /// becomes 0.
    pub(super) fn divide(&self, matrix: &mut [f32], longest: f32) {
        let sum = |sums: &[f32]| sums.iter().map(|sum| f64::from(*sum)).sum::<f64>();
        // Both are the sum of all, unless servers have rounded them.
        let root = (sum(&self.rows) * sum(&self.columns)).powf(0.25);
        let inverse = |sum: &f32| if *sum > 0.0 { 1.0 / f64::from(*sum).sqrt() } else { 0.0 };
        let of_columns: Vec<f32> = self.columns.iter().map(|sum| inverse(sum) as f32).collect();
        for (row, sum) in matrix.chunks_exact_mut(of_columns.len()).zip(&self.rows) {
            let of_row = (root * inverse(sum)) as f32;
            for (value, of_column) in row.iter_mut().zip(&of_columns) {
                *value = (*value * of_row * of_column).clamp(-longest, longest);
            }
        }
    }
}

const SUM_MAX: f32 = 1e30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_of_an_outer_product_are_exact() {
        let (rows, columns) = ([1.0_f32, -2.0, 0.0], [3.0_f32, 0.5]);
        let product = || rows.iter().flat_map(|row| columns.map(|column| row * column));
        let mut matrix: Vec<f32> = product().collect();
        let squares = FactoredSquares::of(&matrix, 2);
        assert_eq!(squares.rows, [9.25, 37.0, 0.0]);
        assert_eq!(squares.columns, [45.0, 1.25]);

        squares.divide(&mut matrix, 2.0);
        for (found, value) in matrix.iter().zip(product()) {
            let sign = if value == 0.0 { 0.0 } else { value.signum() };
            assert!((found - sign).abs() < 1e-6, "{found} of {value}");
        }
    }

    #[test]
    fn quotients_are_finite_and_no_longer_than_they_may_be() {
        for values in [[1e-20, 0.0, 0.0, 1.0], [1e20, -1e20, 3.0, 0.0], [5.0, 1.0, 1.0, -5.0]] {
            let mut matrix = values;
            FactoredSquares::of(&values, 2).divide(&mut matrix, 1.0);
            assert!(matrix.iter().all(|value| value.abs() <= 1.0), "{values:?}: {matrix:?}");
        }
        let mut matrix = [1.0, 2.0];
        let nothing = FactoredSquares { rows: vec![0.0], columns: vec![0.0, 0.0] };
        nothing.divide(&mut matrix, 1.0);
        assert_eq!(matrix, [0.0, 0.0]);
    }
}
