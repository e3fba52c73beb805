//! `hemiola train` and `hemiola search`, and the commands that use trained models: `recommend`,
//! `similar`, `predict`, `evaluate`, `coefficients`, `topics`, `infer`, `generate`, `export`.

mod bar_line;
mod batch;
mod coefficients;
mod documents;
mod example_models;
mod example_training;
mod export;
mod fm;
mod folds;
mod infer;
mod input_args;
mod job;
mod kmeans;
mod lda;
mod linear;
mod metric_arg;
mod mf;
mod names;
mod nets;
mod new_user;
#[cfg(feature = "arrow")]
mod parquet_output;
mod preparation_args;
mod progress;
mod read_hints;
mod ridge;
mod search;
mod serving;
mod softmax;
mod sparse;
mod table_output;
mod time_left;
mod topics;
mod train_args;
mod train_defaults;
mod weight_args;

pub(crate) use coefficients::CoefficientsArgs;
pub(crate) use export::ExportArgs;
pub(crate) use infer::InferArgs;
pub(crate) use nets::GenerateArgs;
pub(crate) use search::SearchCommand;
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
    /// Factorization machine: classification or regression with a weight for each pair of features.
    Fm(Box<fm::TrainFm>),
    /// GPT-2, a transformer: language model.
    Gpt(Box<nets::TrainGpt>),
    /// K-means: clusters of rows around their means.
    #[command(name = "kmeans", alias = "k-means")]
    KMeans(Box<kmeans::TrainKMeans>),
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
    /// Ridge regression: linear regression with an L2 penalty, or ordinary least squares.
    Ridge(Box<ridge::TrainRidge>),
    /// Softmax regression: multinomial logistic regression.
    Softmax(Box<softmax::TrainSoftmax>),
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
            Self::Fm(fm) => fm.execute(),
            Self::Gpt(gpt) => gpt.execute(),
            Self::KMeans(kmeans) => kmeans.execute(),
            Self::Lasso(lasso) => lasso.execute(),
            Self::Lda(lda) => lda.execute(),
            Self::Logistic(logistic) => logistic.execute(),
            Self::Lstm(lstm) => lstm.execute(),
            Self::Mf(mf) => mf.execute(),
            Self::Mlp(mlp) => mlp.execute(),
            Self::Ncf(ncf) => ncf.execute(),
            Self::Resnet(resnet) => resnet.execute(),
            Self::Ridge(ridge) => ridge.execute(),
            Self::Softmax(softmax) => softmax.execute(),
            Self::Svm(svm) => svm.execute(),
            Self::Transformer(transformer) => transformer.execute(),
        }
    }
}
