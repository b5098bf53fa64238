//! How many of several a quorum is.

/// The least number of `all` that is at least this share of them, at least 1.
pub(super) fn quorum_of(share: f64, all: usize) -> usize {
    // A share such as 0.1 of 30 is 3, although their product is above 3.
    let least = (share * all as f64 - ROUNDING).ceil();
    (least as usize).clamp(1, all.max(1))
}

/// Above the rounding of a share of any number of nodes, and below one of them.
const ROUNDING: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_the_least_number_that_is_not_below_the_share() {
        for (share, all, expected) in [
            (0.75, 4, 3),
            (0.75, 3, 3),
            (0.75, 11, 9),
            (0.1, 30, 3),
            (0.5, 2, 1),
            (0.01, 2, 1),
            (0.99, 1000, 990),
            (0.5, 1, 1),
            (1.0, 7, 7),
        ] {
            assert_eq!(quorum_of(share, all), expected, "{share} of {all}");
        }
    }
}
