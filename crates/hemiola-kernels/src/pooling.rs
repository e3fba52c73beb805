//! Max pooling over windows of 2 × 2, which do not overlap, with a rectifier after it.
//!
//! Odd last rows and columns are left out, as a window would not fit. `relu(max(window))` is the
//! largest positive element or zero, so the backward pass needs only a number per window: the
//! position of the element that the gradient goes to, or 4 for none. A window with NaN gives NaN.

use crate::parallel;

/// Sizes of images: planes (images times channels), rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneShape {
    /// Number of planes.
    pub planes: usize,
    /// Rows of a plane.
    pub rows: usize,
    /// Columns of a plane.
    pub columns: usize,
}

impl PlaneShape {
    fn size(self) -> usize {
        self.rows * self.columns
    }

    /// Elements of the output of a plane.
    fn pooled(self) -> usize {
        (self.rows / 2) * (self.columns / 2)
    }
}

/// Number that stands for no element of a window.
const NONE: f32 = 4.0;

/// Returns `relu(max)` of every window, and the position of the largest element in its window.
///
/// # Panics
/// If the input has another size.
#[must_use]
pub fn forward(input: &[f32], shape: PlaneShape) -> (Vec<f32>, Vec<f32>) {
    assert_eq!(input.len(), shape.planes * shape.size(), "the size of the planes");
    let (pooled, columns) = (shape.pooled(), shape.columns / 2);
    let (mut output, mut chosen) = (vec![0.0; shape.planes * pooled], vec![NONE; shape.planes * pooled]);
    if output.is_empty() {
        return (output, chosen);
    }
    parallel::zip_blocks([&mut output, &mut chosen], [pooled, pooled], |plane, [output, chosen]| {
        let input = &input[plane * shape.size()..(plane + 1) * shape.size()];
        pulp::Arch::new().dispatch(|| {
            let rows = output.chunks_exact_mut(columns).zip(chosen.chunks_exact_mut(columns));
            for (row, (output, chosen)) in rows.enumerate() {
                let (upper, lower) =
                    input[2 * row * shape.columns..(2 * row + 2) * shape.columns].split_at(shape.columns);
                let windows = upper.as_chunks::<2>().0.iter().zip(lower.as_chunks::<2>().0);
                for ((output, chosen), (upper, lower)) in output.iter_mut().zip(chosen).zip(windows) {
                    let (mut most, mut at) = (0.0, NONE);
                    for (index, value) in [upper[0], upper[1], lower[0], lower[1]].into_iter().enumerate() {
                        let larger = value > most || value.is_nan();
                        most = if larger { value } else { most };
                        at = if larger { index as f32 } else { at };
                    }
                    (*output, *chosen) = (most, at);
                }
            }
        });
    });
    (output, chosen)
}

/// Gradient of the input, given the chosen positions and the gradient of the output.
///
/// # Panics
/// If sizes differ from those of the forward pass.
#[must_use]
#[expect(clippy::float_cmp, reason = "positions are small whole numbers")]
pub fn backward(chosen: &[f32], gradient: &[f32], shape: PlaneShape) -> Vec<f32> {
    let (pooled, columns) = (shape.pooled(), shape.columns / 2);
    let sizes = (chosen.len(), gradient.len());
    assert_eq!(sizes, (shape.planes * pooled, shape.planes * pooled), "sizes of the forward pass");
    let mut to = vec![0.0; shape.planes * shape.size()];
    if pooled == 0 {
        return to;
    }
    parallel::for_blocks(&mut to, shape.size(), |plane, to| {
        let range = plane * pooled..(plane + 1) * pooled;
        pulp::Arch::new().dispatch(|| {
            let rows = chosen[range.clone()].chunks_exact(columns).zip(gradient[range.clone()].chunks_exact(columns));
            for (row, (chosen, gradient)) in rows.enumerate() {
                let (upper, lower) =
                    to[2 * row * shape.columns..(2 * row + 2) * shape.columns].split_at_mut(shape.columns);
                let windows = upper.as_chunks_mut::<2>().0.iter_mut().zip(lower.as_chunks_mut::<2>().0);
                for ((chosen, gradient), (upper, lower)) in chosen.iter().zip(gradient).zip(windows) {
                    upper[0] = if *chosen == 0.0 { *gradient } else { 0.0 };
                    upper[1] = if *chosen == 1.0 { *gradient } else { 0.0 };
                    lower[0] = if *chosen == 2.0 { *gradient } else { 0.0 };
                    lower[1] = if *chosen == 3.0 { *gradient } else { 0.0 };
                }
            }
        });
    });
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::on_threads;
    use crate::testing::numbers;

    #[test]
    fn windows_give_their_largest_positive_element_and_its_gradient() {
        for (planes, rows, columns) in [(1, 1, 1), (2, 2, 2), (3, 5, 7), (40, 30, 36)] {
            let shape = PlaneShape { planes, rows, columns };
            let input: Vec<f32> = numbers(planes * shape.size(), 1).iter().map(|value| value - 0.4).collect();
            let slopes = numbers(planes * shape.pooled(), 2);
            let (mut expected, mut to) = (Vec::new(), vec![0.0; input.len()]);
            for plane in 0..planes {
                for row in 0..rows / 2 {
                    for column in 0..columns / 2 {
                        let first = plane * shape.size() + 2 * row * columns + 2 * column;
                        let window = [first, first + 1, first + columns, first + columns + 1];
                        let best =
                            window.into_iter().max_by(|left, right| input[*left].total_cmp(&input[*right])).unwrap();
                        if input[best] > 0.0 {
                            to[best] = slopes[expected.len()];
                        }
                        expected.push(input[best].max(0.0));
                    }
                }
            }
            let run = || {
                let (output, chosen) = forward(&input, shape);
                (backward(&chosen, &slopes, shape), output)
            };
            assert!(run() == (to, expected));
            assert!(on_threads(2, run) == run());
        }
    }
}
