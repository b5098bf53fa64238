//! Where marks stand, so that none hides another.

/// Moves marks up or down, the least that keeps each clear of those before it, inside a frame of this height. A mark for
/// which there is no room stays where it is. Places are in pixels from the frame's upper left corner.
pub(super) fn apart(marks: &[(f64, f64)], height: f64) -> Vec<(f64, f64)> {
    let mut placed: Vec<(f64, f64)> = Vec::new();
    for (x, y) in marks.iter().copied() {
        let steps = (0..=2 * marks.len()).map(|at| {
            let step = STEP * at.div_ceil(2) as f64;
            if at % 2 == 1 { y - step } else { y + step }
        });
        let fits = |y: &f64| {
            let is_inside = *y == marks[placed.len()].1 || (0.0..=height).contains(y);
            is_inside && placed.iter().all(|other| (other.0 - x).hypot(other.1 - y) >= CLEAR)
        };
        let y = steps.clone().find(fits).unwrap_or(y);
        placed.push((x, y));
    }
    placed
}

/// Moves marks on an edge to the right, and back to the left where the edge of this width ends, so that each is clear of
/// the one before it. Marks are given in the order of their places, which are returned in the same order.
pub(super) fn along(marks: &[f64], width: f64) -> Vec<f64> {
    let mut placed = marks.to_vec();
    for at in 1..placed.len() {
        placed[at] = placed[at].max(placed[at - 1] + STEP);
    }
    let mut most = width;
    for place in placed.iter_mut().rev() {
        *place = place.min(most);
        most = *place - STEP;
    }
    placed
}

/// Two marks are clear of each other at this distance in pixels.
const CLEAR: f64 = 11.0;
const STEP: f64 = 12.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_at_one_place_are_stacked_beside_it() {
        let places = apart(&[(50.0, 40.0), (50.0, 40.0), (52.0, 41.0), (90.0, 40.0)], 100.0);
        assert_eq!(places, [(50.0, 40.0), (50.0, 28.0), (52.0, 53.0), (90.0, 40.0)]);
        assert_eq!(apart(&[(0.0, 100.0), (0.0, 100.0)], 100.0), [(0.0, 100.0), (0.0, 88.0)]);
        assert_eq!(along(&[10.0, 11.0, 99.0, 100.0], 100.0), [10.0, 22.0, 88.0, 100.0]);
    }

    proptest! {
        #[test]
        fn no_mark_hides_another(
            marks in prop::collection::vec((0.0..100.0_f64, 0.0..200.0_f64), 0..12),
        ) {
            let placed = apart(&marks, 200.0);
            for (at, one) in placed.iter().enumerate() {
                prop_assert!((0.0..=200.0).contains(&one.1) && one.0 == marks[at].0);
                for other in &placed[..at] {
                    prop_assert!((one.0 - other.0).hypot(one.1 - other.1) >= CLEAR);
                }
            }
        }
    }
}
