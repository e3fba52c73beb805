//! `hemiola train`, and the commands that use trained models: `recommend`, `similar`, `predict`,
//! `evaluate`, `coefficients`, `topics`, `infer`.

mod bar_line;
mod coefficients;
mod documents;
mod infer;
mod input_args;
mod lda;
mod linear;
mod mf;
mod names;
mod nets;
mod new_user;
mod progress;
mod read_hints;
mod serving;
mod sparse;
mod topics;
mod train_args;
mod train_defaults;

pub(crate) use coefficients::CoefficientsArgs;
pub(crate) use infer::InferArgs;
pub(crate) use serving::{EvaluateArgs, PredictArgs, RecommendArgs, SimilarArgs};
pub(crate) use topics::TopicsArgs;

use clap::Subcommand;
use std::process::ExitCode;

/// Models of `hemiola train`.
#[derive(Debug, Subcommand)]
pub(crate) enum TrainCommand {
    /// Convolutional neural network: image classification.
    Cnn(Box<nets::TrainCnn>),
    /// Elastic net: linear regression with an L1 and an L2 penalty.
    ElasticNet(Box<sparse::TrainElasticNet>),
    /// Lasso: linear regression with an L1 penalty.
    Lasso(Box<sparse::TrainLasso>),
    /// Latent Dirichlet allocation (LDA): topic model of documents.
    Lda(Box<lda::TrainLda>),
    /// Logistic regression: classification with probabilities.
    Logistic(Box<linear::TrainLogistic>),
    /// LSTM, a recurrent neural network: language model.
    Lstm(Box<nets::TrainLstm>),
    /// Matrix factorization: recommendations from ratings or events.
    Mf(Box<mf::TrainMf>),
    /// Multilayer perceptron: image classification.
    Mlp(Box<nets::TrainMlp>),
    /// Neural collaborative filtering: recommendations from ratings.
    Ncf(Box<nets::TrainNcf>),
    /// Residual network: image classification.
    Resnet(Box<nets::TrainResnet>),
    /// Linear support vector machine: classification with a margin.
    Svm(Box<linear::TrainSvm>),
    /// Transformer: language model.
    Transformer(Box<nets::TrainTransformer>),
}

impl TrainCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Cnn(cnn) => cnn.execute(),
            Self::ElasticNet(elastic_net) => elastic_net.execute(),
            Self::Lasso(lasso) => lasso.execute(),
            Self::Lda(lda) => lda.execute(),
            Self::Logistic(logistic) => logistic.execute(),
            Self::Lstm(lstm) => lstm.execute(),
            Self::Mf(mf) => mf.execute(),
            Self::Mlp(mlp) => mlp.execute(),
            Self::Ncf(ncf) => ncf.execute(),
            Self::Resnet(resnet) => resnet.execute(),
            Self::Svm(svm) => svm.execute(),
            Self::Transformer(transformer) => transformer.execute(),
        }
    }
}
