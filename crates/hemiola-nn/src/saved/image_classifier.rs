//! Saved image classifier: classes, probabilities and evaluation.

use super::{ImageInput, NetArchitecture, NetInput, SavedNet};
use crate::data::{BatchSampler, Dataset as _, ImageDataset};
use crate::error::Error;
use crate::models::batch::{self, ImageBatch};
use crate::models::{Cnn, Mlp, Resnet};
use crate::training::Metrics;
use crate::variables::to_f32;
use burn::tensor::{DType, Device, Tensor};
use hemiola_core::Seed;
use serde::Serialize;

/// Number of images of a forward pass.
const BATCH: usize = 256;

/// A saved `mlp`, `cnn` or `resnet`.
#[derive(Debug)]
pub struct ImageClassifier {
    net: ImageNet,
    input: ImageInput,
    device: Device,
}

#[derive(Debug)]
enum ImageNet {
    Mlp(Box<Mlp>),
    Cnn(Box<Cnn>),
    Resnet(Box<Resnet>),
}

/// Prediction for one image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImagePrediction {
    /// Index of the most probable class.
    pub class: usize,
    /// Probability of that class.
    pub probability: f32,
    /// Probability of each class.
    pub probabilities: Vec<f32>,
}

/// Evaluation of a classifier on labelled images.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImageEvaluation {
    /// Mean cross-entropy (`loss`) and share of correct predictions (`accuracy`).
    pub metrics: Metrics,
    /// Number of images.
    pub examples: usize,
    /// For each true class, the number of its images by predicted class.
    pub confusion: Vec<Vec<u64>>,
}

impl ImageClassifier {
    pub(super) fn new(saved: &SavedNet, device: &Device) -> Result<Self, Error> {
        let description = saved.description();
        let NetInput::Images(input) = &description.input else { return Err(saved.other_kind("an image classifier")) };
        let pixels = input.shape.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent));
        let (net, fits, classes) = match &description.architecture {
            NetArchitecture::Mlp(config) => {
                let net = ImageNet::Mlp(Box::new(saved.restore(config.init(device), device)?));
                (net, pixels == Some(config.inputs), config.classes)
            }
            NetArchitecture::Cnn(config) => {
                let net = ImageNet::Cnn(Box::new(saved.restore(config.init(device), device)?));
                (net, config.image_shape == input.shape, config.classes)
            }
            NetArchitecture::Resnet(config) => {
                let net = ImageNet::Resnet(Box::new(saved.restore(config.init(device), device)?));
                (net, config.image_channels == input.shape[0], config.classes)
            }
            _ => return Err(saved.other_kind("an image classifier")),
        };
        if !fits || input.classes.len() != classes || input.normalization.len() != input.shape[0] {
            return Err(saved.damaged("its images are not those of its sizes"));
        }
        Ok(Self { net, input: input.clone(), device: device.clone() })
    }

    /// Returns shape, normalization and classes of the images.
    #[must_use]
    pub fn input(&self) -> &ImageInput {
        &self.input
    }

    /// Computes the logits of normalized images, `[batch, classes]`.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        match &self.net {
            ImageNet::Mlp(net) => net.forward(images),
            ImageNet::Cnn(net) => net.forward(images),
            ImageNet::Resnet(net) => net.forward(images),
        }
    }

    /// Predicts the class of every image. Labels are ignored.
    pub fn predict(&self, images: &ImageDataset) -> Result<Vec<ImagePrediction>, Error> {
        let images = self.normalized(images)?;
        let mut predictions = Vec::with_capacity(images.len());
        for part in batches(images.len()) {
            let logits = self.logits(&images.batch(&part, &self.device))?;
            predictions.extend(logits.chunks_exact(self.input.classes.len()).map(ImagePrediction::of));
        }
        Ok(predictions)
    }

    /// Evaluates the classifier on labelled images.
    pub fn evaluate(&self, images: &ImageDataset) -> Result<ImageEvaluation, Error> {
        let images = self.normalized(images)?;
        let classes = self.input.classes.len();
        if let Some(label) = images.labels().iter().find(|label| usize::from(**label) >= classes) {
            return Err(Error::OtherData {
                problem: format!("an image has the label {label}, and the net knows {classes} classes"),
            });
        }
        if images.is_empty() {
            return Err(Error::OtherData { problem: "there are no images".to_owned() });
        }
        let mut confusion = vec![vec![0; classes]; classes];
        let (mut loss, mut right) = (0.0, 0);
        for part in batches(images.len()) {
            let batch = images.batch(&part, &self.device);
            let logits = self.forward(batch.images);
            loss += batch::evaluate(logits.clone(), batch.labels).loss * part.len() as f64;
            let logits = numbers(logits)?;
            for (logits, image) in logits.chunks_exact(classes).zip(&part) {
                let (class, predicted) = (usize::from(images.labels()[*image]), best(logits));
                confusion[class][predicted] += 1;
                right += u64::from(class == predicted);
            }
        }
        let examples = images.len();
        let metrics = Metrics::from([
            ("loss".to_owned(), loss / examples as f64),
            ("accuracy".to_owned(), right as f64 / examples as f64),
        ]);
        Ok(ImageEvaluation { metrics, examples, confusion })
    }

    /// Returns the images with the normalization of the training set.
    fn normalized(&self, images: &ImageDataset) -> Result<ImageDataset, Error> {
        if images.shape() == self.input.shape {
            return Ok(images.clone().normalized_by(&self.input.normalization));
        }
        let text = |[channels, rows, columns]: [usize; 3]| {
            let plural = if channels == 1 { "" } else { "s" };
            format!("{rows} by {columns} pixels in {channels} channel{plural}")
        };
        let (found, wanted) = (text(images.shape()), text(self.input.shape));
        Err(Error::OtherData { problem: format!("the images have {found}, and the net takes {wanted}") })
    }

    fn logits(&self, batch: &ImageBatch) -> Result<Vec<f32>, Error> {
        numbers(self.forward(batch.images.clone()))
    }
}

impl ImagePrediction {
    /// Computes the softmax of the logits of an image.
    fn of(logits: &[f32]) -> Self {
        let class = best(logits);
        let powers: Vec<f64> = logits.iter().map(|logit| f64::from(logit - logits[class]).exp()).collect();
        let sum: f64 = powers.iter().sum();
        let probabilities: Vec<f32> = powers.into_iter().map(|power| (power / sum) as f32).collect();
        Self { class, probability: probabilities[class], probabilities }
    }
}

/// Batches of `count` examples in their order.
pub(super) fn batches(count: usize) -> impl Iterator<Item = Vec<usize>> {
    BatchSampler::new(count, BATCH, 1, Seed(0)).in_order(0)
}

/// Elements of a tensor in row-major order.
pub(super) fn numbers<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, Error> {
    to_f32(tensor.cast(DType::F32).into_data()).map_err(|problem| Error::OtherData { problem })
}

/// Index of the largest element; the first one of equals.
fn best(logits: &[f32]) -> usize {
    (1..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best })
}
