//! The sizes of pictures.

/// A picture's width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
    /// About how many labels the x axis has room for.
    pub(super) x_ticks: usize,
    /// Whether its readers have a pointer, which shows the values that it rests on.
    pub(super) has_pointer: bool,
}

impl Size {
    /// Fills a page.
    pub(crate) const WIDE: Self =
        Self { width: 1000.0, height: 400.0, x_ticks: 9, has_pointer: true };
    /// Shares a page with another.
    pub(crate) const HALF: Self =
        Self { width: 480.0, height: 320.0, x_ticks: 5, has_pointer: true };
    /// Fills a phone.
    pub(crate) const NARROW: Self =
        Self { width: 340.0, height: 310.0, x_ticks: 4, has_pointer: false };
    /// Stands alone in a file.
    pub(super) const FILE: Self =
        Self { width: 760.0, height: 400.0, x_ticks: 7, has_pointer: true };
}
