//! What holds of every net: shapes, that it learns on one device by a plain loop of Burn, and that a batch may be divided.

use super::*;
use crate::data::{Batches, Examples, Images, Ratings, Text, made};
use burn::module::{Module as _, ModuleVisitor, Param};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor};

/// Small nets, each with examples that it can learn.
fn mlp() -> (Mlp, Images) {
    let config = MlpConfig { inputs: 3 * 8 * 8, hidden: vec![32, 16], classes: 4, ..MlpConfig::default() };
    (config.init(&device()), images())
}

fn cnn() -> (Cnn, Images) {
    let config = CnnConfig { image: [3, 8, 8], channels: [4, 8], hidden: 16, classes: 4, ..CnnConfig::default() };
    (config.init(&device()), images())
}

fn resnet() -> (Resnet, Images) {
    let config = ResnetConfig { stages: vec![8, 16], blocks: 2, classes: 4, ..ResnetConfig::default() };
    (config.init(&device()), images())
}

fn vgg() -> (Vgg, Images) {
    let config = VggConfig { image: [3, 8, 8], stages: vec![8, 16], depth: 2, hidden: vec![32], classes: 4, seed: 2 };
    (config.init(&device()), images())
}

fn lstm() -> (Lstm, Text) {
    let config = LstmConfig { words: 20, width: 16, memory: 24, layers: 2, ..LstmConfig::default() };
    (config.init(&device()), text())
}

fn transformer() -> (Transformer, Text) {
    let config = TransformerConfig { words: 20, positions: 8, width: 32, heads: 2, blocks: 2, seed: 1 };
    (config.init(&device()), text())
}

fn ncf() -> (Ncf, Ratings) {
    let ratings = made::ratings(30, 40, 900, 3);
    let config = NcfConfig { users: 30, items: 40, mean: ratings.mean() as f32, ..NcfConfig::default() };
    (config.init(&device()), ratings)
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn images() -> Images {
    made::images([3, 8, 8], 4, 160, 1)
}

fn text() -> Text {
    made::text(20, 1200, 8, 1)
}

/// The mean loss of all examples before and after some steps of a plain loop.
fn learn<N, E>((mut net, examples): (N, E), rate: f64, steps: usize) -> [f64; 2]
where
    N: Net<Batch = E::Batch>,
    E: Examples,
{
    let device = device();
    let all: Vec<usize> = (0..examples.len()).collect();
    let loss_of_all = |net: &N| net.judge(&examples.batch(&all, &device)).loss;
    let before = loss_of_all(&net);
    let mut optimizer = AdamConfig::new().init();
    let batches = Batches::new(examples.len(), 32, 1, 5);
    for step in 0..steps {
        let (epoch, at) = ((step / batches.steps()) as u32, step % batches.steps());
        let loss = net.loss(&examples.batch(&batches.share(epoch, at, 0), &device));
        let gradients = GradientsParams::from_grads(loss.backward(), &net);
        net = optimizer.step(rate, net, gradients);
    }
    [before, loss_of_all(&net)]
}

#[test]
fn nets_of_images_learn() {
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
fn nets_of_text_learn() {
    for (name, [before, after]) in [("lstm", learn(lstm(), 0.02, 60)), ("transformer", learn(transformer(), 0.01, 40))]
    {
        // In the beginning every word is about as likely; in the end as few as follow.
        assert!((before - 20_f64.ln()).abs() < 0.5, "{name}: {before}");
        assert!(after < 0.6 * before, "{name}: from {before} to {after}");
    }
}

#[test]
fn nets_of_ratings_learn() {
    let [before, after] = learn(ncf(), 0.02, 120);
    assert!(after < 0.6 * before, "from {before} to {after}");
}

/// A batch's loss and the gradients of all parameters are the means of those of its examples.
fn divides<N, E>((net, examples): (N, E))
where
    N: Net<Batch = E::Batch>,
    E: Examples,
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
fn a_batch_may_be_divided_over_peers() {
    divides(mlp());
    divides(cnn());
    divides(resnet());
    divides(vgg());
    divides(lstm());
    divides(transformer());
    divides(ncf());
}

#[test]
fn scores_have_the_shapes_that_they_should() {
    let device = device();
    let images = images().batch(&[0, 1, 2], &device).images;
    assert_eq!(mlp().0.forward(images.clone()).dims(), [3, 4]);
    assert_eq!(cnn().0.forward(images.clone()).dims(), [3, 4]);
    assert_eq!(resnet().0.forward(images.clone()).dims(), [3, 4]);
    assert_eq!(vgg().0.forward(images).dims(), [3, 4]);
    let words = text().batch(&[0, 1, 2], &device).words;
    assert_eq!(lstm().0.forward(words.clone()).dims(), [3, 8, 20]);
    assert_eq!(transformer().0.forward(words).dims(), [3, 8, 20]);
    let (ncf, ratings) = ncf();
    let batch = ratings.batch(&[0, 1, 2], &device);
    assert_eq!(ncf.forward(batch.users, batch.items).dims(), [3]);
}

#[test]
fn language_models_do_not_see_what_comes_after() {
    let device = device();
    let text = text();
    let words = text.batch(&[0], &device).words;
    let other = words.clone().slice_assign([0..1, 5..8], words.clone().slice([0..1, 0..3]));
    let early = |scores: Tensor<3>| scores.slice([0..1, 0..5]).into_data().try_to_vec::<f32>().unwrap();
    let (lstm, transformer) = (lstm().0, transformer().0);
    assert_eq!(early(lstm.forward(words.clone())), early(lstm.forward(other.clone())));
    assert_eq!(early(transformer.forward(words)), early(transformer.forward(other)));
}

#[test]
fn defaults_are_the_nets_that_they_are_said_to_be() {
    let device = Device::flex();
    let weights = [
        MlpConfig::default().init(&device).num_params(),
        CnnConfig::default().init(&device).num_params(),
        ResnetConfig::default().init(&device).num_params(),
        NcfConfig::default().init(&device).num_params(),
    ];
    // Of a residual net of 20 layers for CIFAR-10: 0.27 million (He et al., table 6).
    assert_eq!(weights, [235_146, 105_170, 272_474, 43_617]);
}

#[test]
fn configurations_may_be_written_in_part() {
    let config: MlpConfig = serde_json::from_str(r#"{"hidden": [5]}"#).unwrap();
    assert_eq!(config, MlpConfig { hidden: vec![5], ..MlpConfig::default() });
    let problem = serde_json::from_str::<CnnConfig>(r#"{"chanels": [5, 5]}"#).unwrap_err().to_string();
    assert!(problem.contains("chanels"), "{problem}");
}
