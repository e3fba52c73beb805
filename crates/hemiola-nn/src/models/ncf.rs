//! Neural collaborative filtering (He et al. 2017): predicts the rating of a user for an item.
//!
//! As in the paper, the element-wise product of both embeddings (matrix factorization) and a
//! multilayer perceptron over both go into the last layer together. Unlike there, the two parts
//! share embeddings, and ratings are numbers, not clicks.

use super::batch::{NeuralNet, RatingBatch};
use super::initializer::{LINEAR_GAIN, LayerInitializer, RELU_GAIN};
use crate::layers::{Embedding, Linear, relu};
use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor};
use serde::{Deserialize, Serialize};

/// Sizes and seed of a [`Ncf`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NcfConfig {
    /// Number of users. Default: 943, of MovieLens 100K.
    pub users: usize,
    /// Number of items. Default: 1682.
    pub items: usize,
    /// Size of user and item embeddings. Default: 16.
    pub embedding_size: usize,
    /// Neurons of each hidden layer. Default: 32 and 16.
    pub hidden: Vec<usize>,
    /// Mean rating, added to every prediction. Default: 3.5.
    pub mean_rating: f32,
    /// Random seed of the initial weights. Default: 1.
    pub seed: u64,
}

impl Default for NcfConfig {
    fn default() -> Self {
        Self { users: 943, items: 1682, embedding_size: 16, hidden: vec![32, 16], mean_rating: 3.5, seed: 1 }
    }
}

impl NcfConfig {
    /// Creates the network with seeded initial weights on `device`.
    #[must_use]
    pub fn init(&self, device: &Device) -> Ncf {
        let mut initializer = LayerInitializer::new(self.seed, device);
        let users = initializer.embedding(self.users, self.embedding_size, 0.1);
        let items = initializer.embedding(self.items, self.embedding_size, 0.1);
        let mut inputs = 2 * self.embedding_size;
        let mut hidden = Vec::new();
        for neurons in &self.hidden {
            hidden.push(initializer.linear(inputs, *neurons, RELU_GAIN));
            inputs = *neurons;
        }
        let output = initializer.linear(inputs + self.embedding_size, 1, LINEAR_GAIN);
        Ncf { users, items, hidden, output, mean: self.mean_rating }
    }
}

/// A collaborative-filtering network; see the module documentation.
#[derive(Module, Debug)]
pub struct Ncf {
    users: Embedding,
    items: Embedding,
    hidden: Vec<Linear>,
    output: Linear,
    mean: f32,
}

impl Ncf {
    /// Predicts the ratings, `[batch]`.
    #[must_use]
    pub fn forward(&self, users: Tensor<1, Int>, items: Tensor<1, Int>) -> Tensor<1> {
        let [examples] = users.dims();
        let user: Tensor<2> = self.users.forward(users.reshape([examples, 1])).squeeze_dim(1);
        let item: Tensor<2> = self.items.forward(items.reshape([examples, 1])).squeeze_dim(1);
        let mut both = Tensor::cat(vec![user.clone(), item.clone()], 1);
        for layer in &self.hidden {
            both = relu(layer.forward(both));
        }
        self.output.forward(Tensor::cat(vec![user * item, both], 1)).reshape([examples]) + self.mean
    }
}

impl NeuralNet for Ncf {
    type Batch = RatingBatch;

    /// Mean squared error of the predicted ratings.
    fn loss(&self, batch: &RatingBatch) -> Tensor<1> {
        let error = self.forward(batch.users.clone(), batch.items.clone()) - batch.ratings.clone();
        let error = error.cast(DType::F32);
        (error.clone() * error).mean()
    }
}
