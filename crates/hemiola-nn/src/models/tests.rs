//! Properties of every network: shapes, learning in a plain loop of Burn on one device, and
//! independence of examples.

use super::*;
use crate::data::{BatchSampler, Dataset, ImageDataset, RatingDataset, TextDataset, synthetic};
use burn::module::{Module as _, ModuleVisitor, Param};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor};
use hemiola_core::Seed;

/// Small networks, each with a data set that it can learn.
fn mlp() -> (Mlp, ImageDataset) {
    let config = MlpConfig { inputs: 3 * 8 * 8, hidden: vec![32, 16], classes: 4, ..MlpConfig::default() };
    (config.init(&device()), images())
}

fn cnn() -> (Cnn, ImageDataset) {
    let config = CnnConfig { image_shape: [3, 8, 8], channels: [4, 8], hidden: 16, classes: 4, ..CnnConfig::default() };
    (config.init(&device()), images())
}

fn resnet() -> (Resnet, ImageDataset) {
    let config = ResnetConfig { stages: vec![8, 16], blocks: 2, classes: 4, ..ResnetConfig::default() };
    (config.init(&device()), images())
}

fn vgg() -> (Vgg, ImageDataset) {
    let config =
        VggConfig { image_shape: [3, 8, 8], stages: vec![8, 16], depth: 2, hidden: vec![32], classes: 4, seed: 2 };
    (config.init(&device()), images())
}

fn lstm() -> (Lstm, TextDataset) {
    let config =
        LstmConfig { vocabulary_size: 20, embedding_size: 16, hidden_size: 24, layers: 2, ..LstmConfig::default() };
    (config.init(&device()), text())
}

fn transformer() -> (Transformer, TextDataset) {
    let config =
        TransformerConfig { vocabulary_size: 20, context_length: 8, embedding_size: 32, heads: 2, blocks: 2, seed: 1 };
    (config.init(&device()), text())
}

fn ncf() -> (Ncf, RatingDataset) {
    let ratings = synthetic::SyntheticRatings { users: 30, items: 40, ratings: 900, seed: 3 }.dataset();
    let config = NcfConfig { users: 30, items: 40, mean_rating: ratings.mean() as f32, ..NcfConfig::default() };
    (config.init(&device()), ratings)
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn images() -> ImageDataset {
    synthetic::SyntheticImages { shape: [3, 8, 8], classes: 4, examples: 160, seed: 1 }.dataset()
}

fn text() -> TextDataset {
    synthetic::SyntheticText { vocabulary_size: 20, length: 1200, sequence_length: 8, seed: 1 }.dataset()
}

/// Returns the mean loss over all examples before and after some steps of a plain loop.
fn learn<N, E>((mut net, examples): (N, E), rate: f64, steps: usize) -> [f64; 2]
where
    N: NeuralNet<Batch = E::Batch>,
    E: Dataset,
{
    let device = device();
    let all: Vec<usize> = (0..examples.len()).collect();
    let loss_of_all = |net: &N| net.evaluate(&examples.batch(&all, &device)).loss;
    let before = loss_of_all(&net);
    let mut optimizer = AdamConfig::new().init();
    let batches = BatchSampler::new(examples.len(), 32, 1, Seed(5));
    for step in 0..steps {
        let (epoch, at) = ((step / batches.steps()) as u32, step % batches.steps());
        let loss = net.loss(&examples.batch(&batches.examples_of(epoch, at, 0), &device));
        let gradients = GradientsParams::from_grads(loss.backward(), &net);
        net = optimizer.step(rate, net, gradients);
    }
    [before, loss_of_all(&net)]
}

#[test]
fn image_networks_learn() {
    for (name, [before, after]) in [
        ("mlp", learn(mlp(), 0.01, 30)),
        ("cnn", learn(cnn(), 0.01, 30)),
        ("resnet", learn(resnet(), 0.01, 40)),
        ("vgg", learn(vgg(), 0.003, 30)),
    ] {
        assert!(after < 0.6 * before, "{name}: from {before} to {after}");
    }
}

#[test]
fn language_models_learn() {
    for (name, [before, after]) in [("lstm", learn(lstm(), 0.02, 60)), ("transformer", learn(transformer(), 0.01, 40))]
    {
        // At first all 20 tokens are about equally likely; at the end only those that can follow.
        assert!((before - 20_f64.ln()).abs() < 0.5, "{name}: {before}");
        assert!(after < 0.6 * before, "{name}: from {before} to {after}");
    }
}

#[test]
fn rating_networks_learn() {
    let [before, after] = learn(ncf(), 0.02, 120);
    assert!(after < 0.6 * before, "from {before} to {after}");
}

/// Checks that the loss and the gradients of a batch are the means of those of its examples.
fn divides<N, E>((net, examples): (N, E))
where
    N: NeuralNet<Batch = E::Batch>,
    E: Dataset,
{
    let device = device();
    let gradients = |examples_here: &[usize]| {
        let loss = net.loss(&examples.batch(examples_here, &device));
        assert_eq!(loss.dims(), [1]);
        let number = f64::from(loss.clone().into_scalar::<f32>());
        let mut sums = Sums { gradients: GradientsParams::from_grads(loss.backward(), &net), numbers: Vec::new() };
        net.visit(&mut sums);
        assert!(!sums.numbers.is_empty());
        (number, sums.numbers)
    };
    let (first, second, both) = (gradients(&[3]), gradients(&[7, 8, 2]), gradients(&[3, 7, 8, 2]));
    let joined = |one: f64, three: f64| 0.25 * one + 0.75 * three;
    assert!((joined(first.0, second.0) - both.0).abs() < 1e-5);
    let largest = both.1.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
    for ((one, three), both) in first.1.iter().zip(&second.1).zip(&both.1) {
        assert!((joined(*one, *three) - both).abs() < 1e-4 * largest, "{one} {three} {both}");
    }
}

struct Sums {
    gradients: GradientsParams,
    numbers: Vec<f64>,
}

impl ModuleVisitor for Sums {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = self.gradients.get::<D>(param.id).expect("every parameter has a gradient");
        assert_eq!(gradient.dims(), param.val().dims());
        self.numbers.extend(gradient.into_data().try_to_vec::<f32>().unwrap().into_iter().map(f64::from));
    }
}

#[test]
fn gradients_of_a_batch_are_means_over_its_examples() {
    divides(mlp());
    divides(cnn());
    divides(resnet());
    divides(vgg());
    divides(lstm());
    divides(transformer());
    divides(ncf());
}

#[test]
fn logits_have_the_documented_shapes() {
    let device = device();
    let images = images().batch(&[0, 1, 2], &device).images;
    assert_eq!(mlp().0.forward(images.clone()).dims(), [3, 4]);
    assert_eq!(cnn().0.forward(images.clone()).dims(), [3, 4]);
    assert_eq!(resnet().0.forward(images.clone()).dims(), [3, 4]);
    assert_eq!(vgg().0.forward(images).dims(), [3, 4]);
    let words = text().batch(&[0, 1, 2], &device).tokens;
    assert_eq!(lstm().0.forward(words.clone()).dims(), [3, 8, 20]);
    assert_eq!(transformer().0.forward(words).dims(), [3, 8, 20]);
    let (ncf, ratings) = ncf();
    let batch = ratings.batch(&[0, 1, 2], &device);
    assert_eq!(ncf.forward(batch.users, batch.items).dims(), [3]);
}

#[test]
fn language_models_do_not_see_later_tokens() {
    let device = device();
    let text = text();
    let words = text.batch(&[0], &device).tokens;
    let other = words.clone().slice_assign([0..1, 5..8], words.clone().slice([0..1, 0..3]));
    let early = |scores: Tensor<3>| scores.slice([0..1, 0..5]).into_data().try_to_vec::<f32>().unwrap();
    let (lstm, transformer) = (lstm().0, transformer().0);
    assert_eq!(early(lstm.forward(words.clone())), early(lstm.forward(other.clone())));
    assert_eq!(early(transformer.forward(words)), early(transformer.forward(other)));
}

#[test]
fn default_networks_have_the_documented_sizes() {
    let device = Device::flex();
    let weights = [
        MlpConfig::default().init(&device).num_params(),
        CnnConfig::default().init(&device).num_params(),
        ResnetConfig::default().init(&device).num_params(),
        NcfConfig::default().init(&device).num_params(),
    ];
    // A 20-layer residual network for CIFAR-10 has 0.27 million parameters (He et al., table 6).
    assert_eq!(weights, [235_146, 105_170, 272_474, 43_617]);
}

#[test]
fn configurations_may_be_partial() {
    let config: MlpConfig = serde_json::from_str(r#"{"hidden": [5]}"#).unwrap();
    assert_eq!(config, MlpConfig { hidden: vec![5], ..MlpConfig::default() });
    let problem = serde_json::from_str::<CnnConfig>(r#"{"chanels": [5, 5]}"#).unwrap_err().to_string();
    assert!(problem.contains("chanels"), "{problem}");
}
