//! The means and the variances of features, of those that may have to be rescaled.
//!
//! Each data center lists in its summary the features that are unusual in its own examples. Of most data there are none.
//! From the lists of all it follows which features are rescaled and how: in all processes the same, before any clock.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use gaia_ml::examples::{DenseExamples, Features, SparseExamples};
use gaia_ml::rescaling::{Rescaled, Rescaling};

/// What the values of an unusual feature amount to in the training examples of a data center.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FeatureMoments {
    feature: u32,
    mean: f64,
    variance: f64,
    /// That of the smallest power of two that is above all magnitudes.
    exponent: i32,
}

/// Sees the training examples of a data center.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    examples: u64,
    /// The sums of all features of dense examples, and of some of sparse ones.
    sums: Vec<Sums>,
    /// Of sparse examples: for each feature one more than its place in `sums`, or 0.
    places: Vec<u32>,
    /// Of sparse examples: the features in `sums`.
    features: Vec<u32>,
}

/// The mean of some values, and the sum of their squared distances from it (Welford, Technometrics 4(3), 1962): no
/// precision is lost where the mean is far from 0.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: f64,
    mean: f64,
    squares: f64,
    largest: f32,
}

impl Moments {
    /// Sees dense examples. Pixels are never unusual.
    pub(crate) fn see_dense(&mut self, examples: &DenseExamples) {
        let Features::Floats(values) = &examples.features else { return };
        self.examples += examples.len() as u64;
        self.sums.resize(examples.width(), Sums::default());
        for example in values.chunks_exact(examples.width().max(1)) {
            self.sums.iter_mut().zip(example).for_each(|(sums, value)| sums.add(*value));
        }
    }

    /// Sees sparse examples, which may have very many features. A feature that is far from 0 is in almost all examples,
    /// and so in one of the first. Others are summed from their first large value on: what they had before is small beside it.
    pub(crate) fn see_sparse(&mut self, examples: &SparseExamples) {
        for at in 0..examples.len() {
            let is_first = self.examples < FIRST_EXAMPLES;
            self.examples += 1;
            let (columns, values) = examples.example(at);
            for (&column, &value) in columns.iter().zip(values) {
                let known = self.places.get(column as usize).copied().unwrap_or(0);
                let place = match known {
                    0 if is_first || exponent(value) > LARGE => self.open(column),
                    0 => continue,
                    known => known,
                };
                self.sums[place as usize - 1].add(value);
            }
        }
    }

    /// Makes room for the sums of a feature of sparse examples, and returns one more than their place.
    fn open(&mut self, column: u32) -> u32 {
        if self.places.len() <= column as usize {
            self.places.resize(column as usize + 1, 0);
        }
        self.features.push(column);
        self.sums.push(Sums::default());
        let place = self.sums.len() as u32;
        self.places[column as usize] = place;
        place
    }

    /// The unusual features, in ascending order.
    pub(crate) fn unusual(self) -> Vec<FeatureMoments> {
        let Self { examples, sums, features, .. } = self;
        let is_sparse = !features.is_empty();
        let feature = |place: usize| if is_sparse { features[place] } else { place as u32 };
        let of_feature = |(place, sums): (usize, &Sums)| {
            let (count, exponent) = (examples as f64 - sums.count, exponent(sums.largest));
            let all = sums.merged(&Sums { count, ..Sums::default() });
            let variance = all.squares / all.count;
            let moments =
                FeatureMoments { feature: feature(place), mean: all.mean, variance, exponent };
            (sums.largest > 0.0 && moments.is_unusual()).then_some(moments)
        };
        let mut all: Vec<FeatureMoments> = sums.iter().enumerate().filter_map(of_feature).collect();
        all.sort_unstable_by_key(|moments| moments.feature);
        all
    }
}

impl FeatureMoments {
    /// Whether the feature may have to be rescaled, depending on what other data centers have. One that is constant here may
    /// be another constant there.
    fn is_unusual(&self) -> bool {
        let Self { mean, variance, exponent, .. } = *self;
        let is_constant = variance == 0.0 && mean.abs() >= CONSTANT_LEAST;
        !(SMALL..=LARGE).contains(&exponent) || is_far(mean, variance) || is_constant
    }

    /// Whether what was received from another process can be those of so many features.
    pub(crate) fn are_sound(all: &[Self], features: usize) -> bool {
        let is_sound = |moments: &Self| {
            let Self { feature, mean, variance, exponent } = *moments;
            (feature as usize) < features
                && mean.is_finite()
                && mean.abs() <= f64::from(f32::MAX)
                && (0.0..=f64::from(f32::MAX).powi(2)).contains(&variance)
                && (f32::MIN_EXP - 1..=f32::MAX_EXP).contains(&exponent)
        };
        all.iter().all(is_sound) && all.is_sorted_by(|one, other| one.feature < other.feature)
    }
}

impl Sums {
    fn add(&mut self, value: f32) {
        let exact = f64::from(value);
        self.count += 1.0;
        let from_mean = exact - self.mean;
        self.mean += from_mean / self.count;
        self.squares += from_mean * (exact - self.mean);
        self.largest = self.largest.max(value.abs());
    }

    /// Those of the values of both (Chan, Golub and LeVeque, The American Statistician 37(3), 1983).
    fn merged(&self, other: &Self) -> Self {
        let count = self.count + other.count;
        if count == 0.0 {
            return *self;
        }
        let (between, share) = (other.mean - self.mean, other.count / count);
        Self {
            count,
            mean: self.mean + between * share,
            squares: self.squares + other.squares + between * between * self.count * share,
            largest: self.largest.max(other.largest),
        }
    }
}

/// Which features are rescaled and how, where data centers have so many training examples and these unusual features.
///
/// A feature is far from 0 if it is so everywhere: a data center that does not list it has other values. Features that are
/// large anywhere get a unit.
pub(crate) fn rescaling(parts: &[(u64, impl AsRef<[FeatureMoments]>)]) -> Rescaling {
    let lists = parts.iter().flat_map(|(_, moments)| moments.as_ref());
    let features: BTreeSet<u32> = lists.map(|moments| moments.feature).collect();
    let rescaled = |feature| {
        let (mut examples, mut sums, mut largest) = (0.0, Sums::default(), i32::MIN);
        for (train, moments) in parts {
            let count = *train as f64;
            examples += count;
            let moments = moments.as_ref();
            if let Ok(at) = moments.binary_search_by_key(&feature, |moments| moments.feature) {
                let FeatureMoments { mean, variance, exponent, .. } = moments[at];
                let squares = variance * count;
                sums = sums.merged(&Sums { count, mean, squares, largest: 0.0 });
                largest = largest.max(exponent);
            }
        }
        let (mean, variance) = (sums.mean, sums.squares / sums.count);
        let is_everywhere = sums.count == examples;
        if is_everywhere && is_far(mean, variance) {
            let unit = power_of_two(variance);
            let offset = (mean / unit).round() * unit;
            return Some(Rescaled { feature, offset: offset as f32, unit: unit as f32 });
        }
        let is_extreme = largest > LARGE || is_everywhere && largest < SMALL;
        is_extreme.then(|| {
            let square = (variance + mean * mean) * sums.count / examples;
            Rescaled { feature, offset: 0.0, unit: power_of_two(square) as f32 }
        })
    };
    Rescaling::new(features.into_iter().filter_map(rescaled).collect())
}

/// Whether values are so far from 0 beside their standard deviation that single precision cannot tell their variance well from
/// sums, nor rounded weights be told from the bias.
fn is_far(mean: f64, variance: f64) -> bool {
    variance > 0.0 && mean * mean > FAR * FAR * variance
}

/// The power of two that is nearest to the root of a square.
fn power_of_two(square: f64) -> f64 {
    (0.5 * square.log2()).round().clamp(-120.0, 126.0).exp2()
}

/// That of the smallest power of two that is above a magnitude.
fn exponent(value: f32) -> i32 {
    let biased = (value.abs().to_bits() >> (f32::MANTISSA_DIGITS - 1)) as i32;
    biased + f32::MIN_EXP - 1
}

/// The mean over the standard deviation from which a feature is far from 0. Below it sums in single precision do, and
/// centers that follow from them.
const FAR: f64 = 32.0;

/// The exponents that features may have as they are. A larger square could be more than one change of a model may be,
/// weights of smaller values too.
const LARGE: i32 = 24;
const SMALL: i32 = -32;

/// A smaller constant differs too little from others to be far from 0 together with them, such as a column of ones.
const CONSTANT_LEAST: f64 = 8.0;

/// Examples whose features are all summed.
const FIRST_EXAMPLES: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_ml::examples::Shape;

    /// The unusual ones among features in columns.
    fn unusual(columns: &[&[f32]]) -> (u64, Vec<FeatureMoments>) {
        let examples = columns[0].len();
        let values = (0..examples).flat_map(|at| columns.iter().map(move |column| column[at]));
        let dense = DenseExamples {
            features: Features::Floats(values.collect()),
            labels: vec![0; examples],
            ..DenseExamples::empty(Shape::row(columns.len()), 2)
        };
        let mut sparse = SparseExamples::empty(columns.len());
        for at in 0..examples {
            let present = (0..columns.len()).filter(|&column| columns[column][at] != 0.0);
            let (places, values): (Vec<u32>, Vec<f32>) =
                present.map(|column| (column as u32, columns[column][at])).unzip();
            sparse.push(&places, &values, 1.0);
        }

        let (mut of_dense, mut of_sparse) = (Moments::default(), Moments::default());
        of_dense.see_dense(&dense);
        of_sparse.see_sparse(&sparse);
        let found = of_dense.unusual();
        let shown = |all: &[FeatureMoments]| -> Vec<(u32, i32)> {
            all.iter().map(|moments| (moments.feature, moments.exponent)).collect()
        };
        assert_eq!(shown(&found), shown(&of_sparse.unusual()));
        assert!(FeatureMoments::are_sound(&found, columns.len()));
        assert!(!FeatureMoments::are_sound(&found, 0) || found.is_empty());
        (examples as u64, found)
    }

    fn expected(features: &[(u32, f32, f32)]) -> Rescaling {
        let all = features.iter();
        Rescaling::new(
            all.map(|&(feature, offset, unit)| Rescaled { feature, offset, unit }).collect(),
        )
    }

    #[test]
    fn figures_that_no_features_have_are_not_sound() {
        let sound = FeatureMoments { feature: 1, mean: 2021.0, variance: 3.0, exponent: 11 };
        assert!(FeatureMoments::are_sound(&[sound], 2));
        for broken in [
            vec![FeatureMoments { feature: 2, ..sound }],
            vec![FeatureMoments { mean: f64::NAN, ..sound }],
            vec![FeatureMoments { mean: f64::MAX, ..sound }],
            vec![FeatureMoments { variance: -1.0, ..sound }],
            vec![FeatureMoments { variance: f64::INFINITY, ..sound }],
            vec![FeatureMoments { exponent: 4000, ..sound }],
            vec![sound, sound],
        ] {
            assert!(!FeatureMoments::are_sound(&broken, 2), "{broken:?}");
        }
    }

    #[test]
    fn features_of_usual_scales_stay_as_they_are() {
        let columns: [&[f32]; 6] = [
            &[1.0, 1.0, 1.0, 1.0],
            &[0.0, 0.0, 0.0, 0.0],
            &[30.0, 31.0, 28.0, 33.0],
            &[1e-6, 2e-6, 0.0, 5e-6],
            &[1e7, -1e7, 3e6, 0.0],
            &[0.0, 0.0, 1.0, 0.0],
        ];
        let (_, found) = unusual(&columns);
        assert_eq!(found, []);
    }

    #[test]
    fn years_times_and_large_amounts_are_rescaling() {
        let day = 86_400.0_f32;
        let start = 1.7e9_f32;
        let columns: [&[f32]; 5] = [
            &[2019.0, 2020.0, 2022.0, 2024.0],
            &[start, start + 100.0 * day, start + 200.0 * day, start + 300.0 * day],
            &[0.0, 1.0, 4e9, 0.0],
            &[1e-12, -1e-12, 2e-12, 0.0],
            &[1.7e9, 1.7e9, 1.7e9, 1.7e9],
        ];
        let found = rescaling(&[unusual(&columns)]);
        let time = 2_f32.powi(23);
        assert_eq!(
            found,
            expected(&[
                (0, 2022.0, 2.0),
                (1, 204.0 * time, time),
                (2, 0.0, 2_f32.powi(31)),
                (3, 0.0, 2_f32.powi(-40)),
                (4, 0.0, 2_f32.powi(31)),
            ])
        );
    }

    #[test]
    fn what_is_constant_in_each_data_center_may_differ_between_them() {
        let [one, other] = [&[2023.0_f32; 3][..], &[2024.0; 3]].map(|column| unusual(&[column]));
        assert_eq!(rescaling(std::slice::from_ref(&one)), Rescaling::default());
        assert_eq!(rescaling(&[one.clone(), other]), expected(&[(0, 2023.5, 0.5)]));

        let elsewhere = unusual(&[&[1.0, 0.0, 2.0]]);
        assert_eq!(rescaling(&[one, elsewhere]), Rescaling::default());
    }

    #[test]
    fn a_feature_that_is_large_in_one_data_center_has_a_unit_in_all() {
        let large = unusual(&[&[3e9, -3e9, 0.0]]);
        let small = unusual(&[&[1.0, 2.0, 3.0]]);
        for parts in [[large.clone(), small.clone()], [small, large]] {
            assert_eq!(rescaling(&parts), expected(&[(0, 0.0, 2_f32.powi(31))]));
        }
    }
}
