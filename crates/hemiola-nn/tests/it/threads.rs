//! Training gives the same bits with any number of compute threads, for every ready-made net.

use burn::module::{ModuleVisitor, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_nn::models::{
    CnnConfig, GptConfig, ImageBatch, LstmConfig, MlpConfig, NeuralNet, ResnetConfig, TextBatch, TransformerConfig,
    VggConfig,
};
use hemiola_nn::{Optimizer, Trainer};

struct Values(Vec<u32>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.val().into_data().iter::<f32>().map(f32::to_bits));
    }
}

/// Bits of the parameters after some steps with this many workers.
fn trained<N: NeuralNet>(
    workers: usize,
    init: impl Fn(&Device) -> N + Sync,
    batch: impl Fn(&Device) -> N::Batch + Sync,
) -> Vec<u32> {
    let runs = hemiola_cluster::standalone(1).workers(workers).run(|cluster| {
        let device = Device::flex().autodiff();
        let optimizer = Optimizer::sgd(0.05).momentum(0.9);
        let mut trainer = Trainer::builder(cluster, init(&device), optimizer).batch_size(8).build()?;
        // The pool of the peer, and not one of all cores.
        assert_eq!(hemiola_nn::use_compute_threads(1), workers);
        let batch = batch(&device);
        for _ in 0..3 {
            trainer.step(8, |net| net.loss(&batch))?;
        }
        let mut values = Values(Vec::new());
        trainer.synced_model()?.visit(&mut values);
        Ok(values.0)
    });
    runs.unwrap().remove(0)
}

fn check<N: NeuralNet>(name: &str, init: impl Fn(&Device) -> N + Sync, batch: impl Fn(&Device) -> N::Batch + Sync) {
    let one = trained(1, &init, &batch);
    for workers in [2, 3] {
        assert!(trained(workers, &init, &batch) == one, "{name} with {workers} workers");
    }
}

fn numbers(count: usize, below: usize) -> Vec<i64> {
    (0..count).map(|at| ((at * 7919 + at / 13) % below).try_into().unwrap()).collect()
}

fn images(channels: usize, side: usize) -> impl Fn(&Device) -> ImageBatch + Sync {
    move |device| {
        let pixels: Vec<f32> =
            numbers(8 * channels * side * side, 251).iter().map(|number| *number as f32 / 251.0).collect();
        let images = Tensor::from_data(TensorData::new(pixels, [8, channels, side, side]), device);
        ImageBatch { images, labels: Tensor::<1, Int>::from_data(TensorData::new(numbers(8, 10), [8]), device) }
    }
}

fn text(device: &Device) -> TextBatch {
    let part = |count: usize| Tensor::<2, Int>::from_data(TensorData::new(numbers(count, 500), [8, count / 8]), device);
    TextBatch { tokens: part(8 * 20), targets: part(8 * 20) }
}

#[test]
fn bits_do_not_depend_on_the_number_of_compute_threads() {
    let mlp = MlpConfig { hidden: vec![300], ..MlpConfig::default() };
    check("mlp", |device| mlp.init(device), images(1, 28));
    check("cnn", |device| CnnConfig::default().init(device), images(1, 28));
    let resnet = ResnetConfig { blocks: 1, ..ResnetConfig::default() };
    check("resnet", |device| resnet.init(device), images(3, 20));
    let vgg = VggConfig { hidden: vec![64], ..VggConfig::default() };
    check("vgg", |device| vgg.init(device), images(3, 32));
    let lstm = LstmConfig { vocabulary_size: 500, ..LstmConfig::default() };
    check("lstm", |device| lstm.init(device), text);
    let transformer = TransformerConfig { vocabulary_size: 500, ..TransformerConfig::default() };
    check("transformer", |device| transformer.init(device), text);
    let gpt = GptConfig { vocabulary_size: 500, embedding_size: 64, heads: 4, blocks: 1, ..GptConfig::default() };
    check("gpt", |device| gpt.init(device), text);
}
