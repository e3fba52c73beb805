//! Sufficient factors of a gradient (Poseidon; Zhang et al. 2017).

use burn::tensor::{DType, Device, Tensor, TensorData};

/// Sum of the outer products of all factor pairs, as one matrix multiplication. Pairs are in the
/// order of ranks, so all peers get the same bits.
pub(super) fn multiply(all: &[f32], lengths: &[usize], (rows, width): (usize, usize)) -> Vec<f32> {
    let (device, both) = (Device::flex(), rows + width);
    let most = all.len() / lengths.len().max(1);
    let mut pairs = Vec::with_capacity(lengths.iter().sum());
    for (from, length) in lengths.iter().enumerate() {
        pairs.extend_from_slice(&all[from * most..from * most + length]);
    }
    let count = pairs.len() / both;
    if count == 0 {
        return vec![0.0; rows * width];
    }
    let pairs = Tensor::<2>::from_data(TensorData::new(pairs, [count, both]), (&device, DType::F32));
    let inputs = pairs.clone().slice([0..count, 0..rows]);
    let outputs = pairs.slice([0..count, rows..both]);
    inputs.transpose().matmul(outputs).into_data().try_into_vec().expect("an f32 tensor stays f32")
}
