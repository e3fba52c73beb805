//! An LSTM layer over whole sequences.

use super::host_function::{self, HostFunction, HostOutput, HostPass};
use super::{Linear, wants_structured};
use burn::tensor::Tensor;
use hemiola_kernels::lstm::{self, LstmShape, LstmTrace};

/// Runs an LSTM layer from a state of zero. `gates` is a linear layer over the input and the
/// previous output, with input, forget and output gate and the cell candidate as its outputs; the
/// forget gate gets a bias of 1 in addition. Takes and returns `[batch, positions, features]`.
///
/// Returns `None` where the layer has to be composed of single steps: on other devices, in other
/// precisions, without bias, and if the gradient of the weights is wanted in structured form.
#[must_use]
pub(crate) fn lstm_sequence(gates: &Linear, input: &Tensor<3>) -> Option<Tensor<3>> {
    let bias = gates.bias.as_ref()?;
    if !host_function::is_supported(input) || wants_structured(&gates.factors) {
        return None;
    }
    let [batch, positions, inputs] = input.dims();
    let weight = gates.weight.val();
    let shape = LstmShape { batch, positions, inputs, hidden: weight.dims()[1] / 4 };
    Some(host_function::apply(vec![input.clone().into(), weight.into(), bias.val().into()], LstmSequence { shape }))
}

#[derive(Debug)]
struct LstmSequence {
    shape: LstmShape,
}

impl HostFunction for LstmSequence {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let LstmShape { batch, positions, hidden, .. } = self.shape;
        let (values, LstmTrace { gates, cells }) = lstm::forward(inputs[0], inputs[1], inputs[2], self.shape);
        HostOutput { values, shape: vec![batch, positions, hidden], saved: vec![gates, cells] }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        let trace = (&pass.saved[0][..], &pass.saved[1][..]);
        let inputs = (pass.inputs[0], pass.inputs[1]);
        let found = lstm::backward(inputs, pass.output, trace, pass.gradient, self.shape, pass.wanted[0]);
        vec![pass.wanted[0].then_some(found.input), Some(found.weight), Some(found.bias)]
    }

    fn keeps_output(&self) -> bool {
        true
    }
}
