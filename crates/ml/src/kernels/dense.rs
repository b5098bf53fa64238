//! Products of dense row-major matrices, on one thread so that results repeat.

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;

/// A matrix, or the transpose of one, that someone else stores.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// The matrix whose rows follow one another in `values`.
    ///
    /// # Panics
    ///
    /// Where `values` is not `rows × columns` long.
    pub fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns);
        Self { values, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// The transpose, over the same values.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// `product ← keep · product + scale · left · right`, where `product` is row-major.
///
/// With `keep` 0 whatever `product` held is ignored.
///
/// # Panics
///
/// Where the shapes do not fit.
#[allow(unsafe_code)]
pub fn multiply(left: Matrix<'_>, right: Matrix<'_>, scale: f32, keep: f32, product: &mut [f32]) {
    assert_eq!(left.columns, right.rows);
    assert_eq!(product.len(), left.rows * right.columns);

    if product.is_empty() {
        return;
    }

    // The kernel wants contiguous columns. Those of the transposed product are the rows of the product.
    let (left, right) = match right.columns {
        1 => (left, right),
        _ => (right.transposed(), left.transposed()),
    };

    // SAFETY: a `Matrix` covers rows × columns values under its strides, by construction; the product's
    // length was checked above, and a `&mut` cannot overlap the factors.
    unsafe {
        get_gemm_fn()(
            left.rows,
            right.columns,
            left.columns,
            product.as_mut_ptr(),
            left.rows as isize,
            1,
            keep != 0.0,
            left.values.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.values.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            keep,
            scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// `product ← left · rightᵀ`, where all are row-major and rows of the factors are `length` long.
///
/// For few long rows, whose product is small: a few rows of `left` at a time, the factors are read as they lie
/// instead of being packed first.
///
/// # Panics
///
/// Where the shapes do not fit.
pub fn inner_products(left: &[f32], right: &[f32], length: usize, product: &mut [f32]) {
    let (rows, columns) = (left.len() / length.max(1), right.len() / length.max(1));
    assert_eq!(product.len(), rows * columns);
    let right = Matrix::new(right, columns, length).transposed();
    let together = match UNPACKED_MAX / columns.max(1) {
        0..4 => rows.max(1),
        few => few,
    };
    let products = product.chunks_mut((together * columns).max(1));
    for (left, product) in left.chunks((together * length).max(1)).zip(products) {
        multiply(Matrix::new(left, left.len() / length, length), right, 1.0, 0.0, product);
    }
}

/// Values of a product up to which `gemm` reads factors with long contiguous rows as they lie.
const UNPACKED_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, from: f32) -> Vec<f32> {
        (0..count).map(|index| ((index as f32 + from) * 0.37).sin()).collect()
    }

    #[test]
    fn products_agree_with_the_definition_in_every_orientation() {
        for (rows, inner, columns) in [(1, 1, 1), (3, 5, 2), (17, 33, 9), (4, 0, 3), (32, 784, 10)]
        {
            let left = numbers(rows * inner, 1.0);
            let right = numbers(inner * columns, 2.0);
            let left_transposed: Vec<f32> =
                (0..inner * rows).map(|at| left[(at % rows) * inner + at / rows]).collect();
            let start = numbers(rows * columns, 3.0);
            let expected: Vec<f32> = (0..rows * columns)
                .map(|at| {
                    let (row, column) = (at / columns, at % columns);
                    let sum: f32 = (0..inner)
                        .map(|k| left[row * inner + k] * right[k * columns + column])
                        .sum();
                    0.5 * start[at] + 2.0 * sum
                })
                .collect();
            let mut plain = start.clone();
            let right = Matrix::new(&right, inner, columns);

            multiply(Matrix::new(&left, rows, inner), right, 2.0, 0.5, &mut plain);

            let mut transposed = start.clone();
            let left = Matrix::new(&left_transposed, inner, rows).transposed();
            multiply(left, right, 2.0, 0.5, &mut transposed);

            for ((plain, transposed), expected) in plain.iter().zip(&transposed).zip(&expected) {
                assert!((plain - expected).abs() < 1e-3, "{plain} {expected}");
                assert!((transposed - expected).abs() < 1e-3, "{transposed} {expected}");
            }
        }
    }

    #[test]
    fn inner_products_agree_with_products() {
        for (rows, length, columns) in
            [(1, 1, 1), (5, 7, 3), (9, 100, 8), (70, 33, 60), (3, 5, 300)]
        {
            let (left, right) = (numbers(rows * length, 1.0), numbers(columns * length, 2.0));
            let mut expected = vec![f32::NAN; rows * columns];
            let transposed = Matrix::new(&right, columns, length).transposed();
            multiply(Matrix::new(&left, rows, length), transposed, 1.0, 0.0, &mut expected);
            let mut product = vec![f32::NAN; rows * columns];
            inner_products(&left, &right, length, &mut product);
            for (product, expected) in product.iter().zip(&expected) {
                assert!((product - expected).abs() < 1e-4, "{product} {expected}");
            }
        }
    }

    #[test]
    fn what_a_product_held_is_ignored_when_it_is_not_kept() {
        let mut product = vec![f32::NAN; 4];
        let eye = [1.0, 0.0, 0.0, 1.0];
        let eye = Matrix::new(&eye, 2, 2);
        multiply(eye, eye, 1.0, 0.0, &mut product);
        assert_eq!(product, [1.0, 0.0, 0.0, 1.0]);
    }
}
