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
    // memory until it is dropped, which the lifetime excludes. The module needs the GIL, which this thread holds for as long as
    // the cells live: they cannot be sent to another thread, and none that runs Python writes meanwhile. Threads without the
    // GIL do not write either: a script hands its values over once its copies are done, and waits for the answer to be read.
    Some(unsafe { &*(numbers as *const [Cell<f32>]) })
}
