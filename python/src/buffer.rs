//! The memory of a script's values, read where it is: the only unsafe code of the package.
//!
//! A script hands its values over by the buffer protocol. What a clock sends is computed straight from them, since a copy
//! would be a further pass over all parameters of each clock.

#![allow(
    unsafe_code,
    reason = "a buffer of another language's has no lifetime that the compiler knows"
)]

use std::cell::Cell;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

/// The numbers of a buffer, for as long as this thread is attached to the interpreter. `None` of a buffer that is not
/// contiguous.
///
/// They are cells: a thread of the script that writes them between two reads changes what is read, and nothing else.
pub(crate) fn numbers<'a>(_: Python<'a>, buffer: &'a PyBuffer<f32>) -> Option<&'a [Cell<f32>]> {
    let numbers = buffer.as_slice_ptr()?.as_ptr();
    // SAFETY: A `PyBuffer<f32>` is a view of as many aligned and initialised numbers as the pointer says, and keeps their
    // memory until it is dropped, which the lifetime excludes. All access from here is through cells, which are no promise
    // that nobody else writes, and which no other thread can get. The script waits for the answer to be read, so it does not
    // write meanwhile.
    Some(unsafe { &*(numbers as *const [Cell<f32>]) })
}
