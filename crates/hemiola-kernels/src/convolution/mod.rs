//! 2-D convolution without groups and dilation, forward and backward.
//!
//! A convolution is the product of the weights, `[outputs, inputs · window²]`, and a matrix of
//! patches, whose row `k` is one input channel moved by one element of the window. With a stride of
//! 1 that matrix is never built: in an image with its padding, row `k` is the image itself from some
//! offset (`patches::PatchLayout`) on, and the products (`product`) read it there. Rows of the result
//! are then as wide as padded rows, and the surplus columns are dropped. With other strides the
//! patches are copied.
//!
//! The gradient of the input is, with a stride of 1, a convolution of the gradient with the turned
//! weights. The gradient of the weights is a product of gradient and patches along the positions.
//!
//! **Invariant:** images are processed in groups whose size depends on the shape alone. The
//! gradients of the weights of the groups are added in their order.

mod patches;
mod product;

use crate::matrix::{MatrixView, multiply};
use crate::{math, parallel};
use patches::PatchLayout;
use product::PackedWeights;

/// Sizes of a convolution with square windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionShape {
    /// Number of images.
    pub batch: usize,
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// Rows of an input image.
    pub rows: usize,
    /// Columns of an input image.
    pub columns: usize,
    /// Rows and columns of a window.
    pub window: usize,
    /// Distance of windows.
    pub stride: usize,
    /// Zeros around an image, fewer than the window has rows.
    pub padding: usize,
}

impl ConvolutionShape {
    /// Tells whether these kernels compute such a convolution: its windows fit into the padded image
    /// and no window lies in the padding alone.
    #[must_use]
    pub fn is_supported(self) -> bool {
        let fits = |size: usize| size > 0 && size + 2 * self.padding >= self.window;
        self.window > 0 && self.stride > 0 && self.padding < self.window && fits(self.rows) && fits(self.columns)
    }

    /// Rows of an output image.
    #[must_use]
    pub fn output_rows(self) -> usize {
        (self.rows + 2 * self.padding - self.window) / self.stride + 1
    }

    /// Columns of an output image.
    #[must_use]
    pub fn output_columns(self) -> usize {
        (self.columns + 2 * self.padding - self.window) / self.stride + 1
    }

    /// Rows of the matrix of patches.
    fn terms(self) -> usize {
        self.inputs * self.window * self.window
    }

    fn image(self) -> usize {
        self.inputs * self.rows * self.columns
    }

    fn output_image(self) -> usize {
        self.outputs * self.output_rows() * self.output_columns()
    }

    fn check(self, input: &[f32], weight: &[f32]) {
        assert!(self.is_supported(), "a convolution of this shape is not supported: {self:?}");
        assert_eq!(input.len(), self.batch * self.image(), "the size of the images");
        assert_eq!(weight.len(), self.outputs * self.terms(), "the size of the weights");
    }

    /// Images of a group: as many as fit into half a megabyte with their gradients, but at least an
    /// eighth of the batch, since every group has its own gradients of the weights.
    fn group(self, layout: &PatchLayout) -> usize {
        const ELEMENTS: usize = 128 * 1024;
        let fitting = ELEMENTS / (layout.buffer + self.outputs * layout.positions);
        fitting.max(self.batch.div_ceil(8)).clamp(1, self.batch.max(1))
    }

    /// The convolution that computes the gradient of the input from that of the output.
    fn turned(self) -> Self {
        Self {
            inputs: self.outputs,
            outputs: self.inputs,
            rows: self.output_rows(),
            columns: self.output_columns(),
            padding: self.window - 1 - self.padding,
            ..self
        }
    }
}

/// Returns the output, `[batch, outputs, output rows, output columns]`, without bias.
///
/// # Panics
/// If the shape is not [supported](ConvolutionShape::is_supported) or a slice has another size.
#[must_use]
pub fn forward(input: &[f32], weight: &[f32], shape: ConvolutionShape) -> Vec<f32> {
    shape.check(input, weight);
    correlate(input, &PackedWeights::new(weight, shape.outputs, shape.terms()), shape)
}

fn correlate(input: &[f32], weights: &PackedWeights, shape: ConvolutionShape) -> Vec<f32> {
    let layout = PatchLayout::new(shape);
    let (group, image) = (shape.group(&layout), shape.output_image());
    let mut output = vec![0.0; shape.batch * image];
    if image == 0 {
        return output;
    }
    parallel::for_blocks(&mut output, group * image, |block, output| {
        let mut patches = vec![0.0; layout.buffer];
        let mut wide = vec![0.0; weights.padded_rows() * layout.positions];
        for (at, output) in output.chunks_exact_mut(image).enumerate() {
            let start = (block * group + at) * shape.image();
            layout.fill(&mut patches, &input[start..start + shape.image()], shape);
            product::apply(&mut wide, weights, &patches, &layout);
            layout.narrow(output, &wide, shape);
        }
    });
    output
}

/// Gradient of the input, given that of the output.
///
/// # Panics
/// As [`forward`].
#[must_use]
pub fn backward_input(weight: &[f32], gradient: &[f32], shape: ConvolutionShape) -> Vec<f32> {
    assert!(shape.is_supported(), "a convolution of this shape is not supported: {shape:?}");
    assert_eq!(weight.len(), shape.outputs * shape.terms(), "the size of the weights");
    assert_eq!(gradient.len(), shape.batch * shape.output_image(), "the size of the gradient");
    if shape.stride == 1 {
        let turned = shape.turned();
        let (square, terms) = (shape.window * shape.window, turned.terms());
        let mut other = vec![0.0; weight.len()];
        for (output, of_output) in weight.chunks_exact(shape.terms()).enumerate() {
            for (input, window) in of_output.chunks_exact(square).enumerate() {
                let start = input * terms + output * square;
                for (to, from) in other[start..start + square].iter_mut().zip(window.iter().rev()) {
                    *to = *from;
                }
            }
        }
        return correlate(gradient, &PackedWeights::new(&other, turned.outputs, terms), turned);
    }
    let layout = PatchLayout::new(shape);
    let (group, image) = (shape.group(&layout), shape.output_image());
    let count = shape.output_rows() * shape.output_columns();
    let mut to = vec![0.0; shape.batch * shape.image()];
    parallel::for_blocks(&mut to, (group * shape.image()).max(1), |block, to| {
        let mut patches = vec![0.0; layout.buffer];
        for (at, to) in to.chunks_exact_mut(shape.image()).enumerate() {
            let start = (block * group + at) * image;
            let gradient = MatrixView::dense(&gradient[start..start + image], shape.outputs, count);
            let weight = MatrixView::dense(weight, shape.outputs, shape.terms()).transposed();
            multiply(&mut patches, layout.positions, weight, gradient, 1.0, false);
            layout.scatter(to, &patches, shape);
        }
    });
    to
}

/// Gradient of the weights, given that of the output.
///
/// # Panics
/// As [`forward`].
#[must_use]
pub fn backward_weight(input: &[f32], gradient: &[f32], shape: ConvolutionShape) -> Vec<f32> {
    assert!(shape.is_supported(), "a convolution of this shape is not supported: {shape:?}");
    let sizes = (input.len(), gradient.len());
    assert_eq!(
        sizes,
        (shape.batch * shape.image(), shape.batch * shape.output_image()),
        "sizes of images and gradient"
    );
    let layout = PatchLayout::new(shape);
    let group = shape.group(&layout);
    let work = input.len() + gradient.len();
    let parts = parallel::map_blocks(shape.batch.div_ceil(group), work, |block| {
        let images = block * group..shape.batch.min((block + 1) * group);
        let mut patches = vec![0.0; images.len() * layout.buffer];
        let mut wide = vec![0.0; images.len() * shape.outputs * layout.positions];
        let buffers = patches
            .chunks_exact_mut(layout.buffer)
            .zip(wide.chunks_exact_mut((shape.outputs * layout.positions).max(1)));
        for (image, (patches, wide)) in images.clone().zip(buffers) {
            layout.fill(patches, &input[image * shape.image()..(image + 1) * shape.image()], shape);
            let start = image * shape.output_image();
            layout.widen(wide, &gradient[start..start + shape.output_image()], shape);
        }
        let mut to = vec![0.0; shape.outputs * shape.terms()];
        product::correlate_positions(&mut to, &wide, &patches, &layout, images.len());
        to
    });
    let mut parts = parts.into_iter();
    let mut sum = parts.next().unwrap_or_else(|| vec![0.0; shape.outputs * shape.terms()]);
    parts.for_each(|part| math::add_to(&mut sum, &part));
    sum
}

#[cfg(test)]
mod tests;
