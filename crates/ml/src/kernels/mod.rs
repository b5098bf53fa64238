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
///
/// `body` and all that it calls in its loops have `#[inline(always)]`. Where they have not, as a closure cannot, the compiler may
/// call them instead: they are then compiled once, for the instructions that every machine has.
#[inline(always)]
fn vectorized<A, R>(arguments: A, body: impl FnOnce(A) -> R) -> R {
    static ARCH: OnceLock<pulp::Arch> = OnceLock::new();
    ARCH.get_or_init(pulp::Arch::new).dispatch(Call { arguments, body })
}

/// A function and what it is called with.
struct Call<A, F> {
    arguments: A,
    body: F,
}

impl<A, R, F: FnOnce(A) -> R> pulp::NullaryFnOnce for Call<A, F> {
    type Output = R;

    #[inline(always)]
    fn call(self) -> R {
        (self.body)(self.arguments)
    }
}
