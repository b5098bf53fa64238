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

use std::marker::PhantomData;
use std::sync::OnceLock;

/// Runs a kernel with the widest instructions that the machine has.
#[inline(always)]
fn vectorized<A, K: Kernel<A>>(_: K, arguments: A) -> K::Output {
    arch().dispatch(Call::<A, K>(arguments, PhantomData))
}

/// As [`vectorized`], for a kernel that is written in registers.
#[inline(always)]
fn with_simd<A, K: SimdKernel<A>>(_: K, arguments: A) -> K::Output {
    arch().dispatch(SimdCall::<A, K>(arguments, PhantomData))
}

fn arch() -> pulp::Arch {
    static ARCH: OnceLock<pulp::Arch> = OnceLock::new();
    *ARCH.get_or_init(pulp::Arch::new)
}

/// What is compiled for each instruction set.
///
/// `run`, and all that it calls in its loops, has `#[inline(always)]`. What has not, as closures and functions that are passed as
/// values cannot, the compiler may call instead: it is then compiled once, for the instructions that every machine has.
trait Kernel<A> {
    type Output;

    fn run(arguments: A) -> Self::Output;
}

/// What is compiled for each instruction set, with the registers that it has: for steps so short that the compiler does
/// not find by itself how they go into registers.
///
/// What is said of [`Kernel`] holds here, too.
trait SimdKernel<A> {
    type Output;

    fn run<S: pulp::Simd>(simd: S, arguments: A) -> Self::Output;
}

struct Call<A, K>(A, PhantomData<K>);

impl<A, K: Kernel<A>> pulp::NullaryFnOnce for Call<A, K> {
    type Output = K::Output;

    #[inline(always)]
    fn call(self) -> K::Output {
        K::run(self.0)
    }
}

struct SimdCall<A, K>(A, PhantomData<K>);

impl<A, K: SimdKernel<A>> pulp::WithSimd for SimdCall<A, K> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) -> K::Output {
        K::run(simd, self.0)
    }
}
