//! Gradients: of a variable as its layer gives it, and of a unit as the sum over all peers.

/// Gradient of a variable, in the form in which its layer gives it.
#[derive(Clone, Debug)]
pub enum GradientPayload {
    /// One element for each element of the variable.
    Dense(Vec<f32>),
    /// Rows of `[input, output gradient]` (factors) or `[key, gradient]` (rows).
    Structured(Vec<f32>),
    /// The loss does not depend on the variable.
    Absent,
}

/// Gradient of a unit, summed over all peers.
#[derive(Debug)]
pub(crate) enum SummedGradient {
    /// Gradients of all pieces, concatenated.
    Dense(Vec<f32>),
    /// Rows of the only piece, in ascending order, and their gradients.
    Rows(Vec<usize>, Vec<f32>),
}

impl SummedGradient {
    pub(crate) fn elements(&self) -> &[f32] {
        match self {
            Self::Dense(elements) | Self::Rows(_, elements) => elements,
        }
    }
}
