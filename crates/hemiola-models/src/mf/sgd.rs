//! One SGD step with AdaGrad: the arithmetic of one rating.
//!
//! Rows have a multiple of [`LANES`] factors. Factors beyond the rank start at 0 on both sides, so
//! their gradients are 0 and they stay 0. Sums are kept in twice `LANES` lanes and added in one
//! order, so results are bit-identical whatever the register width. Machines with fused
//! multiply-add round once where others round twice; between those two kinds the last bits differ.
//!
//! **Learning rates.** Every user and every item has two sums of squared gradients, one for its
//! factors (their mean) and one for its bias, as AdaGrad has one per coordinate (Duchi, Hazan,
//! Singer 2011). The learning rate is divided by the square root of the sum. One sum per row of
//! factors takes a fraction of the memory and time, as in LIBMF (Chin et al. 2015).

use super::loss::MfLoss;
use pulp::{NullaryFnOnce, Simd, WithSimd};

/// Number of parallel sums: one cache line, and the widest register.
pub(super) const LANES: usize = 16;

/// Bias and AdaGrad sums of a user or an item, stored as a row of four numbers.
#[derive(Debug)]
pub(super) struct BiasState<'a> {
    pub(super) bias: &'a mut f32,
    pub(super) bias_sum: &'a mut f32,
    pub(super) factor_sum: &'a mut f32,
}

impl<'a> BiasState<'a> {
    /// Width of a stored row.
    pub(super) const WIDTH: usize = 4;
    /// Initial value of a stored row.
    pub(super) const START: [f32; 4] = [0.0, 1.0, 1.0, 0.0];

    #[inline]
    pub(super) fn of(row: &'a mut [f32]) -> Self {
        let [bias, bias_sum, factor_sum, ..] = row else { unreachable!("rows have four numbers") };
        Self { bias, bias_sum, factor_sum }
    }
}

/// Computation with registers of one kind, `N` of which hold [`LANES`] numbers.
pub(super) trait SimdCompute {
    type Output;

    fn compute<S: Simd, const N: usize>(self, simd: S) -> Self::Output;
}

/// Computation bound to registers of one kind, to be compiled for them.
struct SimdCall<C, S, const N: usize>(C, S);

impl<C: SimdCompute, S: Simd, const N: usize> NullaryFnOnce for SimdCall<C, S, N> {
    type Output = C::Output;

    #[inline(always)] // so that it is compiled for the registers of the caller
    fn call(self) -> C::Output {
        self.0.compute::<S, N>(self.1)
    }
}

/// Dispatches by the number of registers that hold all lanes.
struct SimdDispatch<C>(C);

impl<C: SimdCompute> WithSimd for SimdDispatch<C> {
    type Output = C::Output;

    #[inline(always)] // as above
    fn with_simd<S: Simd>(self, simd: S) -> C::Output {
        match S::F32_LANES {
            16 => simd.vectorize(SimdCall::<_, S, 1>(self.0, simd)),
            8 => simd.vectorize(SimdCall::<_, S, 2>(self.0, simd)),
            4 => simd.vectorize(SimdCall::<_, S, 4>(self.0, simd)),
            2 => simd.vectorize(SimdCall::<_, S, 8>(self.0, simd)),
            _ => simd.vectorize(SimdCall::<_, S, 16>(self.0, simd)),
        }
    }
}

/// Sums all lanes in a fixed order: the upper half onto the lower half, repeatedly.
#[inline(always)] // as above
fn total<S: Simd, const N: usize>(simd: S, mut sums: [S::f32s; N]) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for at in 0..half {
            sums[at] = simd.add_f32s(sums[at], sums[at + half]);
        }
        half /= 2;
    }
    simd.reduce_sum_f32s(sums[0])
}

/// Two independent sums per result, for even and odd cache lines, to break the dependency chain.
type SumHalves<S, const N: usize> = [[<S as Simd>::f32s; N]; 2];

/// Combines the two sums in a fixed order.
#[inline(always)] // as above
fn joined<S: Simd, const N: usize>(simd: S, [mut even, odd]: SumHalves<S, N>) -> f32 {
    for at in 0..N {
        even[at] = simd.add_f32s(even[at], odd[at]);
    }
    total(simd, even)
}

/// Dot product of two rows, inlined into its caller.
#[inline(always)] // as above
pub(super) fn product<S: Simd, const N: usize>(simd: S, left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [[simd.splat_f32s(0.0); N]; 2];
    each_line::<S, N>(left, right, |half, at, left, right| {
        sums[half][at] = simd.mul_add_e_f32s(left, right, sums[half][at]);
    });
    joined(simd, sums)
}

/// Calls `with` for all registers of two rows, with the half of the sums they belong to and the
/// position.
#[inline(always)] // as above
fn each_line<S: Simd, const N: usize>(
    left: &[f32],
    right: &[f32],
    mut with: impl FnMut(usize, usize, S::f32s, S::f32s),
) {
    let (left, right) = (S::as_simd_f32s(left).0.as_chunks::<N>().0, S::as_simd_f32s(right).0.as_chunks::<N>().0);
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<2>(), right.as_chunks::<2>());
    for (left, right) in left.iter().zip(right) {
        for half in 0..2 {
            for at in 0..N {
                with(half, at, left[half][at], right[half][at]);
            }
        }
    }
    for (left, right) in left_rest.iter().zip(right_rest) {
        for at in 0..N {
            with(0, at, left[at], right[at]);
        }
    }
}

/// Dot products of a user's and an item's factors: with each other, and of each with itself.
struct RowProducts {
    both: f32,
    user: f32,
    item: f32,
}

impl RowProducts {
    #[inline(always)] // as above
    fn of<S: Simd, const N: usize>(simd: S, wu: &[f32], hi: &[f32]) -> Self {
        let zero = [[simd.splat_f32s(0.0); N]; 2];
        let (mut both, mut user, mut item) = (zero, zero, zero);
        each_line::<S, N>(wu, hi, |half, at, w, h| {
            both[half][at] = simd.mul_add_e_f32s(w, h, both[half][at]);
            user[half][at] = simd.mul_add_e_f32s(w, w, user[half][at]);
            item[half][at] = simd.mul_add_e_f32s(h, h, item[half][at]);
        });
        Self { both: joined(simd, both), user: joined(simd, user), item: joined(simd, item) }
    }

    /// Returns the squared gradients of the user and of the item, summed over factors.
    ///
    /// A gradient is `slope · h - l2 · w`, so its square follows from the dot products: it is known
    /// as soon as the slope is, and the square root of the next step does not wait for the factors
    /// of this one. Negative rounding errors are clamped to 0.
    #[inline(always)] // as above
    fn squares(&self, slope: f32, l2: f32) -> [f32; 2] {
        let (slopes, shrinks, mixed) = (slope * slope, l2 * l2, 2.0 * slope * l2 * self.both);
        let square = |other: f32, own: f32| (slopes * other - mixed + shrinks * own).max(0.0);
        [square(self.item, self.user), square(self.user, self.item)]
    }
}

/// Updates a user and an item by the gradient of one entry. `slope` is the negative derivative of
/// the loss by the score.
#[inline(always)] // as above
fn apply_gradient<S: Simd, const N: usize>(simd: S, entry: SgdUpdate<'_>, products: &RowProducts, slope: f32) {
    let SgdUpdate { wu, hi, user, item, scale, learning_rate, l2, .. } = entry;
    let all = |value: f32| simd.splat_f32s(value);
    // Four square roots at once take as long as one.
    let sums = [*user.factor_sum, *item.factor_sum, *user.bias_sum, *item.bias_sum];
    let [user_step, item_step, user_bias_step, item_bias_step] = sums.map(f32::sqrt).map(|root| learning_rate / root);
    let scaled = slope * scale.slope;
    let (slopes, shrink) = (all(scaled), all(-l2));
    let (user_step, item_step) = (all(user_step), all(item_step));
    let (wu, hi) = (S::as_mut_simd_f32s(wu).0.as_chunks_mut::<N>().0, S::as_mut_simd_f32s(hi).0.as_chunks_mut::<N>().0);
    for (w, h) in wu.iter_mut().zip(hi) {
        for at in 0..N {
            let (old_w, old_h) = (w[at], h[at]);
            let user_gradient = simd.mul_add_e_f32s(slopes, old_h, simd.mul_f32s(shrink, old_w));
            let item_gradient = simd.mul_add_e_f32s(slopes, old_w, simd.mul_f32s(shrink, old_h));
            w[at] = simd.mul_add_e_f32s(user_step, user_gradient, old_w);
            h[at] = simd.mul_add_e_f32s(item_step, item_gradient, old_h);
        }
    }
    let [user_squares, item_squares] = products.squares(scaled, l2);
    *user.factor_sum += user_squares * scale.factors;
    *item.factor_sum += item_squares * scale.factors;
    let (user_gradient, item_gradient) = (slope - l2 * *user.bias, slope - l2 * *item.bias);
    *user.bias += user_bias_step * user_gradient;
    *item.bias += item_bias_step * item_gradient;
    *user.bias_sum += user_gradient * user_gradient * scale.bias;
    *item.bias_sum += item_gradient * item_gradient * scale.bias;
}

/// Scales that make training independent of the unit of ratings: ratings from 0 to 100 take the
/// same steps as ratings from 0 to 1, times 100. Factors scale with the square root of the
/// deviation, biases with the deviation.
#[derive(Clone, Copy, Debug)]
pub(super) struct RatingScale {
    /// Converts a slope in ratings to one for factors.
    slope: f32,
    /// Converts a sum of squares over a row to a mean in deviations.
    factors: f32,
    /// Converts a squared gradient of a bias to deviations.
    bias: f32,
}

impl RatingScale {
    /// Creates scales for rows of `width` factors and ratings with this deviation.
    pub(super) fn new(width: usize, deviation: f32) -> Self {
        Self { slope: 1.0 / deviation, factors: 1.0 / (width as f32 * deviation), bias: 1.0 / (deviation * deviation) }
    }
}

/// Arguments of one SGD step.
pub(super) struct SgdUpdate<'a> {
    pub(super) wu: &'a mut [f32],
    pub(super) hi: &'a mut [f32],
    pub(super) user: BiasState<'a>,
    pub(super) item: BiasState<'a>,
    pub(super) rating: f32,
    pub(super) mean: f32,
    pub(super) scale: RatingScale,
    pub(super) learning_rate: f32,
    pub(super) l2: f32,
    pub(super) loss: MfLoss,
}

impl SimdCompute for SgdUpdate<'_> {
    /// Loss of the entry before the step.
    type Output = f32;

    #[inline(always)] // as above
    fn compute<S: Simd, const N: usize>(self, simd: S) -> f32 {
        let products = RowProducts::of::<S, N>(simd, self.wu, self.hi);
        let score = self.mean + *self.user.bias + *self.item.bias + products.both;
        let (slope, cost) = self.loss.slope_and_cost(self.rating, score);
        apply_gradient::<S, N>(simd, self, &products, slope);
        cost
    }
}

struct DotProduct<'a>(&'a [f32], &'a [f32]);

impl SimdCompute for DotProduct<'_> {
    type Output = f32;

    #[inline(always)] // as above
    fn compute<S: Simd, const N: usize>(self, simd: S) -> f32 {
        product::<S, N>(simd, self.0, self.1)
    }
}

/// SIMD instruction set of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimdArch(pulp::Arch);

impl SimdArch {
    pub(super) fn this() -> Self {
        Self(pulp::Arch::new())
    }

    /// Runs a computation with the widest registers.
    #[inline]
    pub(super) fn compute<C: SimdCompute>(self, computation: C) -> C::Output {
        self.0.dispatch(SimdDispatch(computation))
    }

    /// Takes an SGD step; returns the loss of the entry before it.
    #[inline]
    pub(super) fn step(self, entry: SgdUpdate<'_>) -> f32 {
        self.compute(entry)
    }

    /// Returns the dot product of two rows of factors.
    #[inline]
    pub(super) fn dot(self, left: &[f32], right: &[f32]) -> f32 {
        self.compute(DotProduct(left, right))
    }
}

/// Dot product of two rows of factors, for code outside hot loops.
pub(super) fn dot(left: &[f32], right: &[f32]) -> f32 {
    SimdArch::this().dot(left, right)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use hemiola_core::rng::PhiloxRng;
    use hemiola_testkit::{MissingRequirement, require};
    use pulp::x86::{V3, V4};

    /// Returns all numbers of a user and an item after a few steps.
    fn after_steps(mut step: impl FnMut(SgdUpdate<'_>) -> f32) -> Vec<u32> {
        let values = PhiloxRng::new(7);
        let row = |draw| (0..48).map(|at| values.normal(at, draw, 0.0, 0.3) as f32).collect::<Vec<_>>();
        let (mut wu, mut hi) = (row(0), row(2));
        let (mut user, mut item) = (BiasState::START, BiasState::START);
        let mut costs = Vec::new();
        for rating in [3.0, 4.5, 1.0, 2.0] {
            let (user, item) = (BiasState::of(&mut user), BiasState::of(&mut item));
            let (wu, hi) = (&mut wu[..], &mut hi[..]);
            costs.push(step(SgdUpdate {
                wu,
                hi,
                user,
                item,
                rating,
                mean: 2.6,
                scale: RatingScale::new(48, 1.25),
                learning_rate: 0.05,
                l2: 0.06,
                loss: MfLoss::Squared,
            }));
        }
        [wu, hi, user.to_vec(), item.to_vec(), costs].concat().into_iter().map(f32::to_bits).collect()
    }

    #[test]
    fn bits_do_not_depend_on_the_width_of_registers() {
        let missing = || MissingRequirement::new("simd", "this machine has no 256-bit registers");
        let narrow = require!(V3::try_new().ok_or_else(missing));
        let narrow = after_steps(|entry| narrow.vectorize(SimdCall::<_, V3, 2>(entry, narrow)));
        assert_eq!(after_steps(|entry| SimdArch::this().step(entry)), narrow);
        let missing = || MissingRequirement::new("simd", "this machine has no 512-bit registers");
        let wide = require!(V4::try_new().ok_or_else(missing));
        assert_eq!(after_steps(|entry| wide.vectorize(SimdCall::<_, V4, 1>(entry, wide))), narrow);
    }

    #[test]
    fn machines_without_wide_registers_agree_but_for_rounding() {
        let plain = pulp::Scalar::new();
        let plain = after_steps(|entry| plain.vectorize(SimdCall::<_, pulp::Scalar, 16>(entry, plain)));
        let here = after_steps(|entry| SimdArch::this().step(entry));
        for (plain, here) in plain.into_iter().zip(here) {
            let (plain, here) = (f32::from_bits(plain), f32::from_bits(here));
            assert!((plain - here).abs() <= 1e-5 * here.abs().max(1.0), "{plain} {here}");
        }
    }
}
