//! Neural collaborative filtering (He et al. 2017): the rating of a user for an item, by what is learned of both.
//!
//! As in their net, the product of both (matrix factorization) and a hidden layer over both go into the last layer together; unlike there, they share the embeddings, and ratings are numbers rather than yes or no.

use super::batch::{self, Judged, Net, RatingBatch};
use super::draw::{Draw, PLAIN, RELU};
use crate::layers::{Embedding, Linear};
use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{DType, Device, Int, Tensor};
use serde::{Deserialize, Serialize};

/// How large it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NcfConfig {
    /// Users that there are. Default: 943, of MovieLens 100K.
    pub users: usize,
    /// Items that there are. Default: 1682.
    pub items: usize,
    /// Numbers that stand for a user or an item. Default: 16.
    pub width: usize,
    /// Neurons of each hidden layer. Default: 32 and 16.
    pub hidden: Vec<usize>,
    /// What is said of those of whom nothing is known: the mean of all ratings. Default: 3.5.
    pub mean: f32,
    /// What first values come from. Default: 1.
    pub seed: u64,
}

impl Default for NcfConfig {
    fn default() -> Self {
        Self { users: 943, items: 1682, width: 16, hidden: vec![32, 16], mean: 3.5, seed: 1 }
    }
}

impl NcfConfig {
    /// The net.
    #[must_use]
    pub fn init(&self, device: &Device) -> Ncf {
        let mut draw = Draw::new(self.seed, device);
        let users = draw.embedding(self.users, self.width, 0.1);
        let items = draw.embedding(self.items, self.width, 0.1);
        let mut inputs = 2 * self.width;
        let mut hidden = Vec::new();
        for neurons in &self.hidden {
            hidden.push(draw.linear(inputs, *neurons, RELU));
            inputs = *neurons;
        }
        let output = draw.linear(inputs + self.width, 1, PLAIN);
        Ncf { users, items, hidden, output, mean: self.mean }
    }
}

/// The net.
#[derive(Module, Debug)]
pub struct Ncf {
    users: Embedding,
    items: Embedding,
    hidden: Vec<Linear>,
    output: Linear,
    mean: f32,
}

impl Ncf {
    /// What each user would rate the item beside.
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

impl Net for Ncf {
    type Batch = RatingBatch;

    /// The mean of squared errors.
    fn loss(&self, batch: &RatingBatch) -> Tensor<1> {
        let error = self.forward(batch.users.clone(), batch.items.clone()) - batch.ratings.clone();
        let error = error.cast(DType::F32);
        (error.clone() * error).mean()
    }

    fn judge(&self, batch: &RatingBatch) -> Judged {
        Judged { loss: batch::number(self.loss(batch)), right: None }
    }
}
