//! One step of gradient descent with steps that adapt: the arithmetic of an entry.
//!
//! Rows have a multiple of [`LANES`] factors; factors beyond the rank start at 0 on both sides, so their gradients are 0 and
//! they stay 0. Sums are kept in twice `LANES` places and added in one order, so that results have the same bits however
//! wide the registers are. Machines that multiply and add in one step round once where others round twice: between those two
//! kinds the last bits differ.
//!
//! **Steps.** Every user and every item has two sums of squared gradients, one for its factors (their mean) and one for its
//! bias, as AdaGrad has one for every coordinate (Duchi, Hazan, Singer 2011); a step is divided by the root of the sum. One sum
//! for a row of factors takes a fraction of the memory and of the time, and is what LIBMF does, too (Chin et al. 2015).

use super::loss::Loss;
use pulp::{NullaryFnOnce, Simd, WithSimd};

/// How many sums are kept side by side: a line of the cache, and the widest register there is.
pub(super) const LANES: usize = 16;

/// What a user or an item has besides its factors, in a row of four numbers.
#[derive(Debug)]
pub(super) struct Side<'a> {
    pub(super) bias: &'a mut f32,
    pub(super) bias_sum: &'a mut f32,
    pub(super) factor_sum: &'a mut f32,
}

impl<'a> Side<'a> {
    /// The places of a row.
    pub(super) const PLACES: u64 = 4;
    /// What a row holds in the beginning.
    pub(super) const START: [f32; 4] = [0.0, 1.0, 1.0, 0.0];

    #[inline]
    pub(super) fn of(row: &'a mut [f32]) -> Self {
        let [bias, bias_sum, factor_sum, ..] = row else { unreachable!("rows have four places") };
        Self { bias, bias_sum, factor_sum }
    }
}

/// Something to compute with registers of one kind, `N` of which hold [`LANES`] numbers.
pub(super) trait Compute {
    type Output;

    fn compute<S: Simd, const N: usize>(self, simd: S) -> Self::Output;
}

/// A computation with registers of one kind, to be compiled for them.
struct Compiled<C, S, const N: usize>(C, S);

impl<C: Compute, S: Simd, const N: usize> NullaryFnOnce for Compiled<C, S, N> {
    type Output = C::Output;

    #[inline(always)] // into functions compiled for the registers
    fn call(self) -> C::Output {
        self.0.compute::<S, N>(self.1)
    }
}

/// Finds how many registers hold all lanes.
struct Fitting<C>(C);

impl<C: Compute> WithSimd for Fitting<C> {
    type Output = C::Output;

    #[inline(always)] // as above
    fn with_simd<S: Simd>(self, simd: S) -> C::Output {
        match S::F32_LANES {
            16 => simd.vectorize(Compiled::<_, S, 1>(self.0, simd)),
            8 => simd.vectorize(Compiled::<_, S, 2>(self.0, simd)),
            4 => simd.vectorize(Compiled::<_, S, 4>(self.0, simd)),
            2 => simd.vectorize(Compiled::<_, S, 8>(self.0, simd)),
            _ => simd.vectorize(Compiled::<_, S, 16>(self.0, simd)),
        }
    }
}

/// The sum of all lanes, in one order: the upper half onto the lower half, and again.
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

/// Sums kept for one result: those of every other line of the cache wait for each other, and not for the rest.
type Halves<S, const N: usize> = [[<S as Simd>::f32s; N]; 2];

/// A result from its sums, in one order.
#[inline(always)] // as above
fn joined<S: Simd, const N: usize>(simd: S, [mut even, odd]: Halves<S, N>) -> f32 {
    for at in 0..N {
        even[at] = simd.add_f32s(even[at], odd[at]);
    }
    total(simd, even)
}

/// The product of two rows, compiled into its caller.
#[inline(always)] // as above
pub(super) fn product<S: Simd, const N: usize>(simd: S, left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [[simd.splat_f32s(0.0); N]; 2];
    each_line::<S, N>(left, right, |half, at, left, right| {
        sums[half][at] = simd.mul_add_e_f32s(left, right, sums[half][at]);
    });
    joined(simd, sums)
}

/// Calls `with` for all registers of two rows, and says to which half of the sums they belong, and where.
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

/// Products of a user's and an item's factors: with each other, and of each with itself.
struct Products {
    both: f32,
    user: f32,
    item: f32,
}

impl Products {
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

    /// The squares of the user's gradients and of the item's, summed over their factors.
    ///
    /// A gradient is `slope · h - l2 · w`, so its square needs nothing but the products: it is known as soon as the slope is, and
    /// the next step's root does not wait for this step's factors. What rounding takes below 0 is 0.
    #[inline(always)] // as above
    fn squares(&self, slope: f32, l2: f32) -> [f32; 2] {
        let (slopes, shrinks, mixed) = (slope * slope, l2 * l2, 2.0 * slope * l2 * self.both);
        let square = |other: f32, own: f32| (slopes * other - mixed + shrinks * own).max(0.0);
        [square(self.item, self.user), square(self.user, self.item)]
    }
}

/// Moves a user and an item by the gradient of an entry. `slope` is how much the prediction should grow.
#[inline(always)] // as above
fn descend<S: Simd, const N: usize>(simd: S, entry: Entry<'_>, products: &Products, slope: f32) {
    let Entry { wu, hi, user, item, scale, step, l2, .. } = entry;
    let all = |value: f32| simd.splat_f32s(value);
    // Four at once take as long as one.
    let sums = [*user.factor_sum, *item.factor_sum, *user.bias_sum, *item.bias_sum];
    let [user_step, item_step, user_bias_step, item_bias_step] = sums.map(f32::sqrt).map(|root| step / root);
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

/// What makes a training of ratings from 0 to 100 that of ratings from 0 to 1, times 100: the same steps for the same data, whatever
/// its unit. Factors grow with the root of the deviation, biases with the deviation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// From a slope in ratings to one that factors follow.
    slope: f32,
    /// From a sum of squares over a row to a mean in deviations.
    factors: f32,
    /// The same for a bias.
    bias: f32,
}

impl Scale {
    /// For rows of so many factors and ratings with this deviation.
    pub(super) fn new(width: u64, deviation: f32) -> Self {
        Self { slope: 1.0 / deviation, factors: 1.0 / (width as f32 * deviation), bias: 1.0 / (deviation * deviation) }
    }
}

/// An entry that is about to be used.
pub(super) struct Entry<'a> {
    pub(super) wu: &'a mut [f32],
    pub(super) hi: &'a mut [f32],
    pub(super) user: Side<'a>,
    pub(super) item: Side<'a>,
    pub(super) rating: f32,
    pub(super) mean: f32,
    pub(super) scale: Scale,
    pub(super) step: f32,
    pub(super) l2: f32,
    pub(super) loss: Loss,
}

impl Compute for Entry<'_> {
    /// What the entry cost before the step.
    type Output = f32;

    #[inline(always)] // as above
    fn compute<S: Simd, const N: usize>(self, simd: S) -> f32 {
        let products = Products::of::<S, N>(simd, self.wu, self.hi);
        let score = self.mean + *self.user.bias + *self.item.bias + products.both;
        let (slope, cost) = self.loss.slope_and_cost(self.rating, score);
        descend::<S, N>(simd, self, &products, slope);
        cost
    }
}

struct Product<'a>(&'a [f32], &'a [f32]);

impl Compute for Product<'_> {
    type Output = f32;

    #[inline(always)] // as above
    fn compute<S: Simd, const N: usize>(self, simd: S) -> f32 {
        product::<S, N>(simd, self.0, self.1)
    }
}

/// The registers of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine(pulp::Arch);

impl Machine {
    pub(super) fn this() -> Self {
        Self(pulp::Arch::new())
    }

    /// Computes with them.
    #[inline]
    pub(super) fn compute<C: Compute>(self, computation: C) -> C::Output {
        self.0.dispatch(Fitting(computation))
    }

    /// Takes a step; what the entry cost before it.
    #[inline]
    pub(super) fn step(self, entry: Entry<'_>) -> f32 {
        self.compute(entry)
    }

    /// The product of two rows of factors.
    #[inline]
    pub(super) fn dot(self, left: &[f32], right: &[f32]) -> f32 {
        self.compute(Product(left, right))
    }
}

/// The product of two rows of factors, where there are few.
pub(super) fn dot(left: &[f32], right: &[f32]) -> f32 {
    Machine::this().dot(left, right)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use hemiola::array::random::Values;
    use pulp::x86::{V3, V4};

    /// What is left after a few steps: all numbers of a user and an item.
    fn after_steps(mut step: impl FnMut(Entry<'_>) -> f32) -> Vec<u32> {
        let values = Values::new(7);
        let row = |draw| (0..48).map(|at| values.normal(at, draw, 0.0, 0.3) as f32).collect::<Vec<_>>();
        let (mut wu, mut hi) = (row(0), row(2));
        let (mut user, mut item) = (Side::START, Side::START);
        let mut costs = Vec::new();
        for rating in [3.0, 4.5, 1.0, 2.0] {
            let (user, item) = (Side::of(&mut user), Side::of(&mut item));
            let (wu, hi) = (&mut wu[..], &mut hi[..]);
            costs.push(step(Entry {
                wu,
                hi,
                user,
                item,
                rating,
                mean: 2.6,
                scale: Scale::new(48, 1.25),
                step: 0.05,
                l2: 0.06,
                loss: Loss::Squared,
            }));
        }
        [wu, hi, user.to_vec(), item.to_vec(), costs].concat().into_iter().map(f32::to_bits).collect()
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "how a test says what it did not do")]
    fn bits_do_not_depend_on_the_width_of_registers() {
        let Some(narrow) = V3::try_new() else { return println!("skipped: this machine has no 256-bit registers") };
        let narrow = after_steps(|entry| narrow.vectorize(Compiled::<_, V3, 2>(entry, narrow)));
        assert_eq!(after_steps(|entry| Machine::this().step(entry)), narrow);
        let Some(wide) = V4::try_new() else { return println!("skipped: this machine has no 512-bit registers") };
        assert_eq!(after_steps(|entry| wide.vectorize(Compiled::<_, V4, 1>(entry, wide))), narrow);
    }

    #[test]
    fn machines_without_wide_registers_agree_but_for_rounding() {
        let plain = pulp::Scalar::new();
        let plain = after_steps(|entry| plain.vectorize(Compiled::<_, pulp::Scalar, 16>(entry, plain)));
        let here = after_steps(|entry| Machine::this().step(entry));
        for (plain, here) in plain.into_iter().zip(here) {
            let (plain, here) = (f32::from_bits(plain), f32::from_bits(here));
            assert!((plain - here).abs() <= 1e-5 * here.abs().max(1.0), "{plain} {here}");
        }
    }
}
