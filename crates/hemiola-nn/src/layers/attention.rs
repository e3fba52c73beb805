//! Causal self-attention of several heads.

use super::host_function::{self, HostFunction, HostOutput, HostPass};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor};
use hemiola_kernels::attention::{self, AttentionShape};

/// Causal self-attention: every position attends to itself and to earlier ones. `qkv` holds
/// queries, keys and values side by side, `[batch, positions, 3 · width]`; `heads` heads share the
/// width. Returns `[batch, positions, width]`.
///
/// # Panics
/// If the width is not a multiple of the number of heads.
#[must_use]
pub fn causal_attention(qkv: Tensor<3>, heads: usize) -> Tensor<3> {
    let [batch, positions, width] = qkv.dims();
    let width = width / 3;
    assert_eq!(width % heads, 0, "{heads} heads cannot share a width of {width}");
    let head = width / heads;
    if host_function::is_supported(&qkv) {
        let shape = AttentionShape { batch, positions, heads, head };
        return host_function::apply(vec![qkv.into()], CausalAttention { shape });
    }
    let mask = Tensor::<2, Bool>::tril_mask([positions; 2], 0, &qkv.device());
    let part = |number: usize| {
        let part = qkv.clone().narrow(2, number * width, width);
        part.reshape([batch, positions, heads, head]).swap_dims(1, 2)
    };
    let logits = part(0).matmul(part(1).swap_dims(2, 3)) / (head as f32).sqrt();
    let weights = softmax(logits.mask_fill(mask.unsqueeze::<4>(), f32::NEG_INFINITY), 3);
    weights.matmul(part(2)).swap_dims(1, 2).reshape([batch, positions, width])
}

#[derive(Debug)]
struct CausalAttention {
    shape: AttentionShape,
}

impl HostFunction for CausalAttention {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let AttentionShape { batch, positions, heads, head } = self.shape;
        let (values, weights) = attention::forward(inputs[0], self.shape);
        HostOutput { values, shape: vec![batch, positions, heads * head], saved: vec![weights] }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        vec![Some(attention::backward(pass.inputs[0], &pass.saved[0], pass.gradient, self.shape))]
    }
}
