//! The colour of a remote model.

/// The colour of a remote model, the same on every page.
///
/// A model without a colour of its own takes one of three by its position `at` among the runs.
pub(crate) fn colour(remote: &str, at: usize) -> usize {
    match remote {
        "asp" => 0,
        "bsp" => 1,
        "ssp" => 2,
        "tap" | "asp-async" => 3,
        "local-steps" => 4,
        "centralize" => 5,
        "lan" => GREY,
        "asp-paper" => 7,
        "asp-no-brakes" => 8,
        _ => [8, 4, 5][at % 3],
    }
}

/// The colour of what the others are measured against.
pub(in crate::page) const GREY: usize = 6;
