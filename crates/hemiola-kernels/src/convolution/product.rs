//! Products of weights and patches, in tiles that stay in registers.
//!
//! A tile of [`apply`] is some output channels times two registers of positions: every element of
//! the weights is multiplied with both registers. A tile of [`correlate_positions`] is some output
//! channels times some rows of patches, and sums over positions. Tiles have more rows where
//! registers are wider, as those processors have more registers.

use super::patches::{POSITIONS, PatchLayout};
use pulp::{Simd, WithSimd};

/// Largest number of output channels in a tile.
const CHANNELS: usize = 8;

/// Weights by blocks of [`CHANNELS`] output channels, and in a block by term.
#[derive(Debug)]
pub(super) struct PackedWeights {
    packed: Vec<f32>,
    terms: usize,
}

impl PackedWeights {
    /// Packs weights of shape `[outputs, terms]`. Missing channels of the last block are zero.
    pub(super) fn new(weight: &[f32], outputs: usize, terms: usize) -> Self {
        let mut packed = vec![0.0; outputs.next_multiple_of(CHANNELS) * terms];
        for (output, weight) in weight.chunks_exact(terms.max(1)).enumerate() {
            let block = output / CHANNELS * CHANNELS * terms + output % CHANNELS;
            for (term, value) in weight.iter().enumerate() {
                packed[block + term * CHANNELS] = *value;
            }
        }
        Self { packed, terms }
    }

    /// Number of output channels of all blocks.
    pub(super) fn padded_rows(&self) -> usize {
        self.packed.len() / self.terms.max(1)
    }
}

/// Writes the product of weights and patches to `wide`, `[padded channels, positions]`.
pub(super) fn apply(wide: &mut [f32], weights: &PackedWeights, patches: &[f32], layout: &PatchLayout) {
    pulp::Arch::new().dispatch(Apply { wide, weights, patches, layout });
}

struct Apply<'a> {
    wide: &'a mut [f32],
    weights: &'a PackedWeights,
    patches: &'a [f32],
    layout: &'a PatchLayout,
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { wide, weights, patches, layout } = self;
        let (positions, width) = (layout.positions, 2 * S::F32_LANES);
        debug_assert_eq!(POSITIONS % width, 0);
        for start in (0..positions).step_by(width) {
            let blocks =
                weights.packed.chunks_exact(CHANNELS * weights.terms).zip(wide.chunks_exact_mut(CHANNELS * positions));
            for (weights, wide) in blocks {
                if S::F32_LANES >= 16 {
                    apply_tile::<S, CHANNELS>(simd, wide, (weights, 0), (patches, &layout.offsets), (start, positions));
                } else {
                    apply_tile::<S, 4>(simd, wide, (weights, 0), (patches, &layout.offsets), (start, positions));
                    apply_tile::<S, 4>(simd, wide, (weights, 4), (patches, &layout.offsets), (start, positions));
                }
            }
        }
    }
}

/// Channels `first..first + ROWS` of a block at the positions from `start` on.
#[inline(always)]
fn apply_tile<S: Simd, const ROWS: usize>(
    simd: S,
    wide: &mut [f32],
    (weights, first): (&[f32], usize),
    (patches, offsets): (&[f32], &[usize]),
    (start, positions): (usize, usize),
) {
    let width = 2 * S::F32_LANES;
    let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
    for (weights, offset) in weights.as_chunks::<CHANNELS>().0.iter().zip(offsets) {
        let (patch, _) = S::as_simd_f32s(&patches[offset + start..offset + start + width]);
        let (left, right) = (patch[0], patch[1]);
        for (row, sums) in sums.iter_mut().enumerate() {
            let weight = simd.splat_f32s(weights[first + row]);
            sums[0] = simd.mul_add_e_f32s(weight, left, sums[0]);
            sums[1] = simd.mul_add_e_f32s(weight, right, sums[1]);
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        let at = (first + row) * positions + start;
        let (to, _) = S::as_mut_simd_f32s(&mut wide[at..at + width]);
        (to[0], to[1]) = (sums[0], sums[1]);
    }
}

/// Adds to `to[output, term]` the sum over all positions of all images of `wide[output]` times row
/// `term` of the patches. Positions without an output are zero in `wide`.
pub(super) fn correlate_positions(to: &mut [f32], wide: &[f32], patches: &[f32], layout: &PatchLayout, images: usize) {
    pulp::Arch::new().dispatch(CorrelatePositions { to, wide, patches, layout, images });
}

struct CorrelatePositions<'a> {
    to: &'a mut [f32],
    wide: &'a [f32],
    patches: &'a [f32],
    layout: &'a PatchLayout,
    images: usize,
}

impl WithSimd for CorrelatePositions<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::F32_LANES >= 16 { self.run::<S, 4, 4>(simd) } else { self.run::<S, 2, 4>(simd) }
    }
}

impl CorrelatePositions<'_> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const TERMS: usize>(self, simd: S) {
        let terms = self.layout.offsets.len();
        let outputs = self.to.len() / terms.max(1);
        for output in (0..outputs).step_by(ROWS) {
            for term in (0..terms).step_by(TERMS) {
                // Tiles at the edges compute their last row or term several times.
                let rows: [usize; ROWS] = std::array::from_fn(|row| (output + row).min(outputs - 1));
                let own: [usize; TERMS] = std::array::from_fn(|at| self.layout.offsets[(term + at).min(terms - 1)]);
                let sums = self.tile::<S, ROWS, TERMS>(simd, rows, own, outputs);
                for (row, sums) in sums.iter().enumerate().take(outputs - output) {
                    for (at, sum) in sums.iter().enumerate().take(terms - term) {
                        self.to[(output + row) * terms + term + at] += simd.reduce_sum_f32s(*sum);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize, const TERMS: usize>(
        &self,
        simd: S,
        rows: [usize; ROWS],
        terms: [usize; TERMS],
        outputs: usize,
    ) -> [[S::f32s; TERMS]; ROWS] {
        let positions = self.layout.positions;
        let mut sums = [[simd.splat_f32s(0.0); TERMS]; ROWS];
        for image in 0..self.images {
            let wide = &self.wide[image * outputs * positions..(image + 1) * outputs * positions];
            let patches = &self.patches[image * self.layout.buffer..(image + 1) * self.layout.buffer];
            let wide = rows.map(|row| S::as_simd_f32s(&wide[row * positions..(row + 1) * positions]).0);
            let patches = terms.map(|term| S::as_simd_f32s(&patches[term..term + positions]).0);
            for at in 0..positions / S::F32_LANES {
                let patch = patches.map(|patches| patches[at]);
                for (sums, wide) in sums.iter_mut().zip(wide) {
                    for (sum, patch) in sums.iter_mut().zip(patch) {
                        *sum = simd.mul_add_e_f32s(wide[at], patch, *sum);
                    }
                }
            }
        }
        sums
    }
}
