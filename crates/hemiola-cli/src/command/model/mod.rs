//! `hemiola train`, and using what was trained: `recommend`, `similar`, `predict`, `evaluate`, `coefficients`, `topics`, `infer`.

mod coefficients;
mod documents;
mod infer;
mod lda;
mod linear;
mod mf;
mod names;
mod nets;
mod new_user;
mod progress;
mod serving;
mod sparse;
mod topics;
mod train_args;

pub(crate) use coefficients::CoefficientsArgs;
pub(crate) use infer::InferArgs;
pub(crate) use serving::{EvaluateArgs, PredictArgs, RecommendArgs, SimilarArgs};
pub(crate) use topics::TopicsArgs;

use clap::Subcommand;
use std::process::ExitCode;

/// Which model to train.
#[derive(Debug, Subcommand)]
pub(crate) enum TrainCommand {
    /// A net of convolutions: what is on images.
    Cnn(Box<nets::TrainCnn>),
    /// Quantities from few columns, with a penalty of absolute values and squares.
    ElasticNet(Box<sparse::TrainElasticNet>),
    /// Quantities from few columns, with a penalty of absolute values.
    Lasso(Box<sparse::TrainLasso>),
    /// Topic models (latent Dirichlet allocation): what documents are about.
    Lda(Box<lda::TrainLda>),
    /// Logistic regression: the chance of each class.
    Logistic(Box<linear::TrainLogistic>),
    /// A recurrent net: which word comes next.
    Lstm(Box<nets::TrainLstm>),
    /// Matrix factorization: ratings of users for items.
    Mf(Box<mf::TrainMf>),
    /// A net of layers of neurons: what is on images.
    Mlp(Box<nets::TrainMlp>),
    /// Neural collaborative filtering: ratings of users for items.
    Ncf(Box<nets::TrainNcf>),
    /// A net of residual blocks: what is on images.
    Resnet(Box<nets::TrainResnet>),
    /// Linear support vector machine: classes with a margin between them.
    Svm(Box<linear::TrainSvm>),
    /// A net of attention: which word comes next.
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
