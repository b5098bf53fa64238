//! The inner loops: dense products, vector sums, softmax, planes of images, the matrix-factorisation step, mixture
//! weights and the draw of topics.
//!
//! Each is written once, over fixed lanes, and compiled for every instruction set that it may run on. The
//! additions keep their order in all of them, so a result does not depend on the machine; only
//! [`dense::multiply`] may round differently from one processor family to the next.

pub mod dense;
pub mod factorization;
pub mod images;
pub mod mixture;
pub mod topics;
pub mod vector;

use std::sync::OnceLock;

/// Runs `body` with the widest instructions that the machine has.
#[inline(always)]
fn vectorized<R>(body: impl FnOnce() -> R) -> R {
    static ARCH: OnceLock<pulp::Arch> = OnceLock::new();
    ARCH.get_or_init(pulp::Arch::new).dispatch(body)
}
