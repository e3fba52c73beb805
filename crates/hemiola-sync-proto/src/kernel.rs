//! Arithmetic on values and gradients, which the framework that trains the model provides.

/// Optimizer and matrix product of the framework that trains the model.
///
/// **Invariant:** results depend on the arguments only, bit for bit. Peers that update their copies
/// of a piece with the same gradients therefore keep equal copies.
pub trait UpdateKernel: Clone + Send + 'static {
    /// Optimizer state of one piece; the default is the state before the first update.
    type State: Clone + Default + Send + 'static;

    /// Updates a piece with `scale` times the gradient. The gradient may be overwritten.
    fn update(&self, rate: f64, values: &mut [f32], gradient: &mut [f32], scale: f32, state: &mut Self::State);

    /// Updates some rows of a piece, each of `width` elements, and leaves the other rows and their
    /// state unchanged. `gradients` holds the gradients of the rows, concatenated.
    fn update_rows(
        &self,
        rate: f64,
        values: &mut [f32],
        touched: (&[usize], &mut [f32], usize),
        scale: f32,
        state: &mut Self::State,
    );

    /// Tells whether [`update_rows`](Self::update_rows) is supported.
    fn can_update_rows(&self) -> bool;

    /// Sums the outer products of factor pairs as one matrix product. Each pair is one input of
    /// `rows` elements and one output gradient of `width` elements. There is at least one pair.
    fn multiply_factors(&self, pairs: Vec<f32>, shape: (usize, usize)) -> Vec<f32>;
}
