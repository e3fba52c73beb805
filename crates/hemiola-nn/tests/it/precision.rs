//! Mixed precision: passes use `bf16` or `f16`, values are kept in `f32`.

use crate::test_net::{BATCH, ROWS, share};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use hemiola_nn::layers::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use hemiola_nn::{Optimizer, Trainer};
use hemiola_strategy::StrategyBuilder;
use parking_lot::Mutex;

/// An embedding with lookups of rows beyond 256, the largest integer that `bf16` counts to, and a
/// linear layer.
#[derive(Module, Debug)]
struct Net {
    words: Embedding,
    linear: Linear,
}

const EMBEDDING_ROWS: usize = 40 * ROWS;

struct Cast(DType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let device = param.lazy_device();
        let shape = param.lazy_shape();
        let values: Vec<f32> = (0..shape.num_elements()).map(|at| ((at * 37 % 101) as f32 - 50.0) / 101.0).collect();
        let tensor = Tensor::<D>::from_data(TensorData::new(values, shape), (&device, self.0));
        Param::initialized(param.id, tensor.require_grad())
    }
}

impl Net {
    fn new(precision: DType) -> Self {
        let device = Device::flex().autodiff();
        let net = Self {
            words: EmbeddingConfig::new(EMBEDDING_ROWS, 4).init(&device),
            linear: LinearConfig::new(8, 8).init(&device),
        };
        net.map(&mut Cast(precision))
    }

    fn loss(&self, examples: &[usize]) -> Tensor<1> {
        let device = Device::flex().autodiff();
        let ids =
            examples.iter().flat_map(|example| [example * 131 % EMBEDDING_ROWS, (example * 17 + 5) % EMBEDDING_ROWS]);
        let ids: Vec<i64> = ids.map(|id| i64::try_from(id).unwrap_or(0)).collect();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [examples.len(), 2]), &device);
        let outputs = self.linear.forward(self.words.forward(ids).reshape([examples.len(), 8]));
        (outputs.cast(DType::F32) - 1.0).powi_scalar(2).mean()
    }
}

/// Returns the weights of both layers and the losses after `steps` steps.
fn train(peers: usize, precision: DType, rate: f64, builder: StrategyBuilder, steps: usize) -> (Vec<f32>, Vec<f64>) {
    let (values, losses) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let run = hemiola_cluster::standalone(peers).run(|cluster| {
        let mut trainer = Trainer::builder(cluster, Net::new(precision), Optimizer::sgd(rate))
            .batch_size(BATCH / peers)
            .strategy(builder)
            .build()?;
        for step in 0..steps {
            let examples = share(step, cluster);
            trainer.step(examples.len(), |net| {
                assert_eq!(net.linear.weight.val().dtype(), precision);
                net.loss(&examples)
            })?;
            if cluster.is_root() && step > 0 {
                losses.lock().extend(trainer.loss().map(|(_, loss)| loss));
            }
        }
        let net = trainer.synced_model()?;
        assert_eq!(net.words.weight.val().dtype(), precision);
        if cluster.is_root() {
            for tensor in [net.words.weight.val(), net.linear.weight.val()] {
                values.lock().extend(tensor.into_data().iter::<f32>());
            }
        }
        Ok(())
    });
    run.unwrap();
    (values.into_inner(), losses.into_inner())
}

#[test]
fn mixed_precision_learns_like_single_precision() {
    for precision in [DType::BF16, DType::F16] {
        for builder in
            [StrategyBuilder::AllReduce { chunk: None }, StrategyBuilder::Poseidon, StrategyBuilder::Parallax]
        {
            let (single, losses) = train(2, DType::F32, 0.05, builder, 40);
            let (half, rough) = train(2, precision, 0.05, builder, 40);
            let (fine, lost) = (losses[losses.len() - 1], rough[rough.len() - 1]);
            assert!(lost < 0.5 * rough[0], "{builder} with {precision:?}: {} to {lost}", rough[0]);
            assert!((lost - fine).abs() < 0.05, "{builder} with {precision:?}: {lost}, and {fine} with f32");
            let furthest = single.iter().zip(&half).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
            assert!(furthest < 0.03, "{builder} with {precision:?}: values are {furthest} apart");
        }
    }
}

#[test]
fn updates_below_the_resolution_of_bf16_are_not_lost() {
    let weights = |rate, steps| {
        train(1, DType::BF16, rate, StrategyBuilder::AllReduce { chunk: None }, steps).0.split_off(EMBEDDING_ROWS * 4)
    };
    let before = weights(1e-9, 1);
    let moved =
        |after: Vec<f32>| before.iter().zip(after).filter(|(one, other)| one.to_bits() != other.to_bits()).count();
    // An update is smaller than the spacing of most values in `bf16`. If values were kept in
    // `bf16`, no number of updates would move them.
    let (one, many) = (moved(weights(1e-3, 1)), moved(weights(1e-3, 400)));
    assert!(one < 8 && many > 32, "of 64 weights {one} moved in one step, and {many} in 400");
}
