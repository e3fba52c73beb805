//! One step of gradient descent with steps that adapt: the arithmetic of an entry.
//!
//! Rows have a multiple of [`LANES`] factors; factors beyond the rank start at 0 on both sides, so their gradients are 0 and
//! they stay 0. Sums are kept in `LANES` places and added in one order, so that results have the same bits whatever
//! registers the machine has.
//!
//! **Steps.** Every user and every item has two sums of squared gradients, one for its factors (their mean) and one for its
//! bias, as AdaGrad has one for every coordinate (Duchi, Hazan, Singer 2011); a step is divided by the root of the sum. One sum
//! for a row of factors takes a fraction of the memory and of the time, and is what LIBMF does, too (Chin et al. 2015).

use super::loss::Loss;

/// How many sums are kept side by side.
pub(super) const LANES: usize = 8;

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

/// The product of two rows of factors.
#[inline(always)] // into functions compiled for wider registers
pub(super) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (left, right) in left.as_chunks::<LANES>().0.iter().zip(right.as_chunks::<LANES>().0) {
        for at in 0..LANES {
            sums[at] += left[at] * right[at];
        }
    }
    total(sums)
}

/// The sum of sums, in one order.
#[inline(always)] // into functions compiled for wider registers
fn total(sums: [f32; LANES]) -> f32 {
    let halves: [f32; LANES / 2] = std::array::from_fn(|at| sums[at] + sums[at + LANES / 2]);
    (halves[0] + halves[1]) + (halves[2] + halves[3])
}

/// Moves a user and an item by the gradient of an entry. `slope` is how much the prediction should grow.
#[inline(always)] // into functions compiled for wider registers
pub(super) fn descend(
    wu: &mut [f32],
    hi: &mut [f32],
    user: &mut Side<'_>,
    item: &mut Side<'_>,
    slope: f32,
    step: f32,
    l2: f32,
) {
    let (user_step, item_step) = (step / user.factor_sum.sqrt(), step / item.factor_sum.sqrt());
    let (mut user_sums, mut item_sums) = ([0.0; LANES], [0.0; LANES]);
    for (w, h) in wu.as_chunks_mut::<LANES>().0.iter_mut().zip(hi.as_chunks_mut::<LANES>().0) {
        // Copies, so that the compiler need not fear that a write to one changes the other.
        let (old_w, old_h) = (*w, *h);
        let (mut new_w, mut new_h) = (old_w, old_h);
        for at in 0..LANES {
            let user_gradient = slope * old_h[at] - l2 * old_w[at];
            let item_gradient = slope * old_w[at] - l2 * old_h[at];
            user_sums[at] += user_gradient * user_gradient;
            item_sums[at] += item_gradient * item_gradient;
            new_w[at] += user_step * user_gradient;
            new_h[at] += item_step * item_gradient;
        }
        (*w, *h) = (new_w, new_h);
    }
    let mean = 1.0 / wu.len() as f32;
    *user.factor_sum += total(user_sums) * mean;
    *item.factor_sum += total(item_sums) * mean;
    let (user_gradient, item_gradient) = (slope - l2 * *user.bias, slope - l2 * *item.bias);
    *user.bias += step / user.bias_sum.sqrt() * user_gradient;
    *item.bias += step / item.bias_sum.sqrt() * item_gradient;
    *user.bias_sum += user_gradient * user_gradient;
    *item.bias_sum += item_gradient * item_gradient;
}

/// An entry that is about to be used: a step that is compiled for the registers of the machine.
pub(super) struct Entry<'a> {
    pub(super) wu: &'a mut [f32],
    pub(super) hi: &'a mut [f32],
    pub(super) user: Side<'a>,
    pub(super) item: Side<'a>,
    pub(super) rating: f32,
    pub(super) mean: f32,
    pub(super) step: f32,
    pub(super) l2: f32,
    pub(super) loss: Loss,
}

impl pulp::NullaryFnOnce for Entry<'_> {
    /// What the entry cost before the step.
    type Output = f32;

    #[inline(always)] // as above
    fn call(self) -> f32 {
        let Self { wu, hi, mut user, mut item, rating, mean, step, l2, loss } = self;
        let score = mean + *user.bias + *item.bias + dot(wu, hi);
        let (slope, cost) = loss.slope_and_cost(rating, score);
        descend(wu, hi, &mut user, &mut item, slope, step, l2);
        cost
    }
}

/// A product that is compiled for the registers of the machine.
pub(super) struct Product<'a>(pub(super) &'a [f32], pub(super) &'a [f32]);

impl pulp::NullaryFnOnce for Product<'_> {
    type Output = f32;

    #[inline(always)] // as above
    fn call(self) -> f32 {
        dot(self.0, self.1)
    }
}
