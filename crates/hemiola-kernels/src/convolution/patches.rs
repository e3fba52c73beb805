//! The matrix of patches of one image, in a buffer.
//!
//! Row `k` of the matrix begins at `offsets[k]` of the buffer. With a stride of 1 the buffer is the
//! padded image, rows overlap, and a row of outputs takes as many positions as a padded row has
//! columns. With other strides the buffer holds a copy of every patch.
//!
//! **Invariant:** `offset + positions` is at most the length of the buffer for every row, and
//! `positions` is a multiple of [`POSITIONS`], so that products need no bounds of their own.

use super::ConvolutionShape;

/// Divisor of the number of positions: two of the widest registers.
pub(super) const POSITIONS: usize = 32;

/// Offsets of the rows of a matrix of patches.
#[derive(Debug)]
pub(super) struct PatchLayout {
    pub(super) offsets: Vec<usize>,
    /// Columns of the matrix, of which some belong to no output.
    pub(super) positions: usize,
    /// Length of the buffer.
    pub(super) buffer: usize,
    /// Positions from one row of outputs to the next.
    pitch: usize,
}

impl PatchLayout {
    pub(super) fn new(shape: ConvolutionShape) -> Self {
        let (rows, columns) = (shape.output_rows(), shape.output_columns());
        let padded = (shape.rows + 2 * shape.padding, shape.columns + 2 * shape.padding);
        let pitch = if shape.stride == 1 { padded.1 } else { columns };
        let positions = ((rows - 1) * pitch + columns).next_multiple_of(POSITIONS);
        let mut offsets = Vec::with_capacity(shape.terms());
        for input in 0..shape.inputs {
            for row in 0..shape.window {
                for column in 0..shape.window {
                    offsets.push(if shape.stride == 1 {
                        (input * padded.0 + row) * padded.1 + column
                    } else {
                        offsets.len() * positions
                    });
                }
            }
        }
        let buffer = offsets.last().map_or(0, |last| last + positions);
        // The whole padded image, too: its last rows may be longer than what the products read.
        let image = if shape.stride == 1 { shape.inputs * padded.0 * padded.1 } else { 0 };
        Self { offsets, positions, buffer: buffer.max(image).max(1), pitch }
    }

    /// Writes the patches of an image to a buffer that holds zeros or the patches of another image.
    pub(super) fn fill(&self, buffer: &mut [f32], image: &[f32], shape: ConvolutionShape) {
        let ConvolutionShape { rows, columns, padding, window, stride, .. } = shape;
        if stride == 1 {
            let padded = (rows + 2 * padding, columns + 2 * padding);
            for (at, row) in image.chunks_exact(columns).enumerate() {
                let start = (at / rows * padded.0 + at % rows + padding) * padded.1 + padding;
                buffer[start..start + columns].copy_from_slice(row);
            }
            return;
        }
        for (term, offset) in self.offsets.iter().enumerate() {
            let channel = &image[term / (window * window) * rows * columns..][..rows * columns];
            let (down, right) = (term / window % window, term % window);
            for (row, to) in buffer[*offset..].chunks_mut(self.pitch).take(shape.output_rows()).enumerate() {
                let from = (row * stride + down).checked_sub(padding).filter(|from| *from < rows);
                for (column, to) in to.iter_mut().enumerate() {
                    let across = (column * stride + right).checked_sub(padding).filter(|across| *across < columns);
                    *to = from.zip(across).map_or(0.0, |(row, column)| channel[row * columns + column]);
                }
            }
        }
    }

    /// Adds a buffer of patches, of a stride above 1, to the image that they were taken from.
    pub(super) fn scatter(&self, image: &mut [f32], buffer: &[f32], shape: ConvolutionShape) {
        let ConvolutionShape { rows, columns, padding, window, stride, .. } = shape;
        for (term, offset) in self.offsets.iter().enumerate() {
            let channel = &mut image[term / (window * window) * rows * columns..][..rows * columns];
            let (down, right) = (term / window % window, term % window);
            for (row, from) in buffer[*offset..].chunks(self.pitch).take(shape.output_rows()).enumerate() {
                let Some(row) = (row * stride + down).checked_sub(padding).filter(|row| *row < rows) else { continue };
                for (column, value) in from.iter().enumerate() {
                    let across = (column * stride + right).checked_sub(padding).filter(|across| *across < columns);
                    if let Some(column) = across {
                        channel[row * columns + column] += value;
                    }
                }
            }
        }
    }

    /// Copies the outputs out of rows of positions.
    pub(super) fn narrow(&self, output: &mut [f32], wide: &[f32], shape: ConvolutionShape) {
        let (rows, columns) = (shape.output_rows(), shape.output_columns());
        for (channel, output) in output.chunks_exact_mut(rows * columns).enumerate() {
            for (row, output) in output.chunks_exact_mut(columns).enumerate() {
                let start = channel * self.positions + row * self.pitch;
                output.copy_from_slice(&wide[start..start + columns]);
            }
        }
    }

    /// Copies outputs into rows of positions that hold zeros.
    pub(super) fn widen(&self, wide: &mut [f32], output: &[f32], shape: ConvolutionShape) {
        let (rows, columns) = (shape.output_rows(), shape.output_columns());
        for (channel, output) in output.chunks_exact(rows * columns).enumerate() {
            for (row, output) in output.chunks_exact(columns).enumerate() {
                let start = channel * self.positions + row * self.pitch;
                wide[start..start + columns].copy_from_slice(output);
            }
        }
    }
}
