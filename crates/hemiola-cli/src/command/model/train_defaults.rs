//! Defaults and words of the flags that all `hemiola train` commands share, one table per model.
//!
//! The flags are defined once, in [`TrainArgs`](super::train_args::TrainArgs) and, for nets, in
//! `NetArgs`. Each command completes them with its own table, so that its help has its own numbers.
//!
//! **Invariant:** a default is the value of the argument itself. The help prints what the command
//! reads.

use crate::arguments::conditional_default::{self, ConditionalDefault};
use clap::Arg;

/// Defaults and words of one model.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrainDefaults {
    /// Maximum number of epochs.
    epochs: &'static str,
    /// Maximum number of epochs under a condition.
    epochs_if: &'static [ConditionalDefault],
    /// Other names of `--epochs` that mean the same for this model.
    epochs_aliases: &'static [&'static str],
    /// Epochs without improvement until early stopping; 0 for none.
    patience: &'static str,
    /// What early stopping compares.
    improves: &'static str,
    /// Completes the sentence of `--target`: "Stop when ...".
    target: &'static str,
    /// What a resumed run has in common with an uninterrupted one.
    resume: &'static str,
    /// Stopping tolerance, if the model has one.
    tolerance: &'static str,
    /// Stopping tolerance under a condition.
    tolerance_if: &'static [ConditionalDefault],
    /// Global batch size of a net.
    batch_size: &'static str,
    /// Help of flags that commands for a trained model share, by argument: training has no layout
    /// to go by.
    words: &'static [(&'static str, &'static str)],
}

/// L1 regularization of `hemiola train logistic`, which another solver trains.
const fn with_l1(default: &'static str) -> ConditionalDefault {
    ConditionalDefault { argument: "penalty", is: "l1", default }
}

const SAME_BITS: &str = "The result is bit-identical to that of an uninterrupted run.";

impl TrainDefaults {
    /// Matrix factorization of ratings or events.
    pub(super) const MF: Self = Self {
        epochs: "40",
        epochs_if: &[],
        epochs_aliases: &["iterations", "max-iter"],
        patience: "3",
        improves: "of the validation metric",
        target: "the RMSE or, with --loss logistic, the log loss is at most X; with --loss one-class or bpr, when \
                 NDCG@10 is at least X. It is that of the validation set if there is one",
        resume: SAME_BITS,
        tolerance: "",
        tolerance_if: &[],
        batch_size: "",
        words: &[
            ("separator", "Field separator [default: detected]"),
            (
                "columns",
                "Columns of user, item and rating, by name or number: `userId,movieId,rating` or `1,2,4` [default: the \
                 first three]",
            ),
        ],
    };

    /// Linear support vector machine.
    pub(super) const SVM: Self = Self {
        epochs: "100",
        patience: "0",
        improves: "of the objective (only with a validation set)",
        target: "the objective is at most X",
        tolerance: "0.001",
        words: &[],
        ..Self::MF
    };

    /// Logistic regression, with either penalty.
    pub(super) const LOGISTIC: Self =
        Self { epochs_if: &[with_l1("1000")], tolerance_if: &[with_l1("1e-6")], ..Self::SVM };

    /// Factorization machine.
    pub(super) const FM: Self = Self {
        epochs: "10",
        patience: "3",
        improves: "of the validation metric (only with a validation set)",
        target: "the log loss or, with --loss squared, the RMSE is at most X. It is that of the validation set if \
                 there is one",
        batch_size: "64",
        words: &[(
            "zero_based",
            "Feature indices of LIBSVM files count from 0 [default: if the index 0 occurs, as libFM writes files]",
        )],
        ..Self::MF
    };

    /// Ridge regression and least squares.
    pub(super) const RIDGE: Self = Self { epochs: "1000", tolerance: "1e-8", resume: SAME_BITS, ..Self::SVM };

    /// Softmax regression.
    pub(super) const SOFTMAX: Self = Self { tolerance: "1e-5", ..Self::SVM };

    /// K-means.
    pub(super) const KMEANS: Self = Self {
        epochs: "300",
        patience: "0",
        improves: "of the inertia of the validation set",
        target: "the inertia is at most X. It is that of the validation set if there is one",
        tolerance: "1e-6",
        batch_size: "0",
        words: &[(
            "label",
            "Separated values: column to leave out, such as a known class, by name or number [default: none]",
        )],
        ..Self::SVM
    };

    /// Lasso and elastic net.
    pub(super) const SPARSE: Self = Self {
        epochs: "1000",
        resume: "The result reaches the same minimum as an uninterrupted run.",
        tolerance: "1e-6",
        ..Self::SVM
    };

    /// Latent Dirichlet allocation of documents.
    pub(super) const LDA: Self = Self {
        epochs: "100",
        patience: "0",
        improves: "of the validation perplexity",
        target: "the perplexity of the validation set is at most X or, without a validation set, the log-likelihood \
                 per token is at least X",
        words: &[("zero_based", "Ids of LIBSVM files, of words or features, count from 0")],
        ..Self::MF
    };

    /// Nets that classify images.
    #[cfg(feature = "nets")]
    pub(super) const IMAGES: Self = Self {
        epochs: "10",
        // An iteration of PyTorch is one mini-batch.
        epochs_aliases: &["max-iter"],
        patience: "0",
        improves: "of the validation accuracy",
        target: "the validation accuracy is at least X, such as 0.985",
        resume: "The number of peers may differ; on the same number the result is bit-identical to that of an \
                 uninterrupted run.",
        batch_size: "64",
        words: &[],
        ..Self::MF
    };

    /// Nets that are language models.
    #[cfg(feature = "nets")]
    pub(super) const TEXT: Self = Self {
        improves: "of the validation perplexity",
        target: "the validation perplexity is at most X",
        batch_size: "32",
        ..Self::IMAGES
    };

    /// Neural collaborative filtering of ratings.
    #[cfg(feature = "nets")]
    pub(super) const NCF: Self = Self {
        improves: "of the validation RMSE",
        target: "the validation RMSE is at most X",
        batch_size: "256",
        ..Self::IMAGES
    };

    /// Completes a flag of a command that trains this model. Other flags are returned unchanged.
    pub(super) fn complete(&self, argument: Arg) -> Arg {
        match argument.get_id().as_str() {
            "epochs" => conditional_default::set(argument, self.epochs, self.epochs_if)
                .visible_aliases(self.epochs_aliases.iter().copied()),
            "patience" => conditional_default::set(argument, self.patience, &[]).help(format!(
                "Early stopping: stop after N epochs without improvement {}; 0 disables it",
                self.improves
            )),
            "target" => argument.help(format!("Stop when {}", self.target)),
            "resume" => {
                argument.help(format!("Resume from the checkpoint in --output. {}", self.resume.trim_end_matches('.')))
            }
            "tolerance" => conditional_default::set(argument, self.tolerance, self.tolerance_if),
            "batch_size" => conditional_default::set(argument, self.batch_size, &[]),
            name => match self.words.iter().find(|(word, _)| *word == name) {
                Some((_, help)) => argument.help(*help),
                None => argument,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::CommandLine;
    use crate::arguments::definition;
    use clap::{ArgMatches, FromArgMatches as _};
    use hemiola_models::fm::{FmLoss, FmSettings};
    use hemiola_models::kmeans::KMeansSettings;
    use hemiola_models::mf::MfLoss;
    use hemiola_models::ridge::RidgeSettings;
    use hemiola_models::softmax::SoftmaxSettings;
    use hemiola_models::sparse::{CoordinateSchedule, SparseLoss};
    use hemiola_models::training::TrainingLimits;
    use hemiola_models::{
        Estimator as _, FactorizationMachine, KMeans, LinearClassifier, MatrixFactorization, RidgeRegression,
        SoftmaxRegression, SparseRegression, TopicModelling,
    };

    /// Arguments of `hemiola train MODEL FLAGS`, with the help of the command.
    fn train(flags: &str) -> (ArgMatches, String) {
        let line = format!("hemiola train {flags}");
        let mut matches = definition().try_get_matches_from(line.split_whitespace()).unwrap();
        CommandLine::from_arg_matches(&matches).unwrap();
        let mut train = definition().find_subcommand("train").unwrap().clone();
        let model = train.find_subcommand_mut(flags.split_whitespace().next().unwrap()).unwrap();
        let help = model.clone().term_width(100_000).render_long_help().to_string();
        let (_, mut matches) = matches.remove_subcommand().unwrap();
        (matches.remove_subcommand().unwrap().1, help)
    }

    fn flag_help<'a>(help: &'a str, flag: &str) -> &'a str {
        let start = help.find(&format!("{flag} <")).unwrap_or_else(|| panic!("no {flag} in {help}"));
        help[start..].split("\n\n").next().unwrap()
    }

    #[test]
    fn the_stopping_defaults_are_those_of_the_library() {
        let limits: [(&str, TrainingLimits); 10] = [
            ("mf", MatrixFactorization::builder().build().unwrap().settings().limits.clone()),
            ("svm", svm().settings().limits.clone()),
            ("logistic", svm().settings().limits.clone()),
            ("logistic --penalty l1", sparse().settings().limits.clone()),
            ("lasso --data x", sparse().settings().limits.clone()),
            ("fm", fm().limits.clone()),
            ("ridge", ridge().limits.clone()),
            ("softmax", softmax().limits.clone()),
            ("kmeans", kmeans().limits.clone()),
            ("lda", TopicModelling::builder(10).build().unwrap().settings().limits.clone()),
        ];
        for (flags, expected) in limits {
            let (matches, help) = train(flags);
            assert_eq!(matches.get_one::<u32>("epochs"), Some(&expected.epochs), "{flags}");
            assert_eq!(matches.get_one::<u32>("patience"), Some(&expected.patience.unwrap_or(0)), "{flags}");
            assert!(flag_help(&help, "--epochs").contains(&expected.epochs.to_string()), "{flags}: {help}");
        }
        let tolerance = |flags: &str| *train(flags).0.get_one::<f64>("tolerance").unwrap();
        assert_eq!(tolerance("svm").to_bits(), svm().settings().tolerance.to_bits());
        assert_eq!(tolerance("lasso --data x").to_bits(), sparse().settings().tolerance.to_bits());
        assert_eq!(tolerance("logistic --penalty l1").to_bits(), sparse().settings().tolerance.to_bits());
        assert_eq!(tolerance("ridge").to_bits(), ridge().tolerance.to_bits());
        assert_eq!(tolerance("softmax").to_bits(), softmax().tolerance.to_bits());
        assert_eq!(tolerance("kmeans").to_bits(), kmeans().tolerance.to_bits());
    }

    fn svm() -> LinearClassifier {
        LinearClassifier::builder(hemiola_models::linear::LinearLoss::SquaredHinge).build().unwrap()
    }

    fn fm() -> FmSettings {
        FactorizationMachine::builder(FmLoss::Logistic).build().unwrap().settings().clone()
    }

    fn ridge() -> RidgeSettings {
        RidgeRegression::builder().build().unwrap().settings().clone()
    }

    fn softmax() -> SoftmaxSettings {
        SoftmaxRegression::builder().build().unwrap().settings().clone()
    }

    fn kmeans() -> KMeansSettings {
        KMeans::builder(8).build().unwrap().settings().clone()
    }

    fn sparse() -> SparseRegression {
        SparseRegression::builder(SparseLoss::Squared).build().unwrap()
    }

    #[test]
    fn defaults_that_the_library_fills_in_are_stated_in_the_help() {
        let mf = |loss| MatrixFactorization::builder().loss(loss).build().unwrap().settings().clone();
        let (squared, one_class, order) = (mf(MfLoss::Squared), mf(MfLoss::OneClass), CoordinateSchedule::default());
        let stated = [
            ("mf", "--l2", {
                let bpr = mf(MfLoss::Bpr).l2;
                format!("[default: {}; {} with --loss one-class, {bpr} with --loss bpr]", squared.l2, one_class.l2)
            }),
            ("mf", "--learning-rate", format!("[default: {}]", squared.learning_rate)),
            ("mf", "--unobserved-weight", format!("[default: {}]", one_class.unobserved_weight)),
            ("mf", "--frequency-exponent", format!("[default: {}]", one_class.frequency_exponent)),
            ("mf", "--rank", format!("[default: {}]", squared.rank)),
            ("fm", "--rank", format!("[default: {}]", fm().rank)),
            ("fm", "--l2-linear", format!("[default: {:.5}]", fm().l2_linear)),
            ("fm", "--l2-factors", format!("[default: {}]", fm().l2_factors)),
            ("fm", "--learning-rate", format!("[default: {}]", fm().learning_rate)),
            ("fm", "--normalize", {
                let squared = FactorizationMachine::builder(FmLoss::Squared).build().unwrap();
                format!("[default: {}; {} with --loss squared]", fm().normalize, squared.settings().normalize)
            }),
            ("fm", "--batch-size", format!("[default: {}]", fm().batch_size)),
            ("fm", "--validation", format!("[default: {}]", fm().validation)),
            ("ridge", "--alpha", format!("[default: {}]", ridge().alpha)),
            ("ridge", "--validation", format!("[default: {}]", ridge().validation)),
            ("softmax", "--c", format!("[default: {}]", softmax().c)),
            ("softmax", "--validation", format!("[default: {}]", softmax().validation)),
            ("kmeans", "--batch-size", format!("[default: {}]", kmeans().batch_size)),
            ("svm", "--validation", format!("[default: {}]", svm().settings().validation)),
            ("lasso --data x", "--validation", format!("[default: {}]", sparse().settings().validation)),
            ("svm", "--bias", format!("[default: {}]", svm().settings().bias)),
            ("svm", "--rounds", format!("[default: {}]", svm().settings().rounds)),
            ("lasso --data x", "--concurrent", format!("[default: {}]", order.concurrent)),
            ("lasso --data x", "--pipeline-depth", format!("[default: {}]", order.depth)),
            ("lasso --data x", "--max-correlation", format!("[default: {}]", order.correlation)),
        ];
        for (flags, flag, expected) in stated {
            let help = train(flags).1;
            assert!(flag_help(&help, flag).contains(&expected), "{flags}: {}", flag_help(&help, flag));
        }
    }

    #[test]
    fn common_names_of_other_libraries_are_accepted() {
        let same = [
            ("mf --lr 0.1 --factors 8", "mf --learning-rate 0.1 --rank 8"),
            ("mf --iterations 5 --threads 2", "mf --epochs 5 --workers 2"),
            ("mf -j 2 --random-state 7", "mf --workers 2 --seed 7"),
            ("lda --n-components 5 --max-iter 3", "lda --topics 5 --epochs 3"),
            ("svm -C 3 --tol 0.1", "svm -c 3 --tolerance 0.1"),
            ("logistic -C 0.5 --max-iter 9", "logistic --c 0.5 --epochs 9"),
            ("lasso --data x --alpha 0.2", "lasso --data x --lambda 0.2"),
            ("lasso --data x --cv 5", "lasso --data x --folds 5"),
            ("fm --factors 8 --lr 0.05 --l2 0.001", "fm --rank 8 --learning-rate 0.05 --l2-factors 0.001"),
            ("ridge --l2 3 --tol 0.1 --max-iter 9", "ridge --alpha 3 --tolerance 0.1 --epochs 9"),
            ("softmax -C 3 --random-state 2", "softmax --c 3 --seed 2"),
            ("kmeans --n-clusters 5 --max-iter 3", "kmeans -k 5 --epochs 3"),
        ];
        for (theirs, ours) in same {
            // The parsed commands have all values in their debug format.
            let parsed = |flags: &str| {
                let line = format!("hemiola train {flags}");
                let matches = definition().try_get_matches_from(line.split_whitespace());
                let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
                format!("{:?}", CommandLine::from_arg_matches(&matches).unwrap())
            };
            assert_eq!(parsed(theirs), parsed(ours), "{theirs}");
        }
    }

    #[cfg(feature = "nets")]
    #[test]
    fn nets_have_the_defaults_of_their_optimizer_and_their_data() {
        let value = |flags: &str, name: &str| *train(flags).0.get_one::<f64>(name).unwrap();
        for (flags, rate, decay) in [
            ("mlp", 0.001, 0.0),
            ("mlp --optimizer sgd", 0.05, 0.0),
            ("mlp --optimizer adagrad", 0.05, 0.0),
            ("lstm --optimizer adamw", 0.001, 0.01),
            ("ncf --optimizer adamw --weight-decay 0.2 --lr 1", 1.0, 0.2),
        ] {
            let found = (value(flags, "learning_rate"), value(flags, "weight_decay"));
            assert_eq!(found, (rate, decay), "{flags}");
        }
        for (model, size) in [("mlp", 64), ("resnet", 64), ("lstm", 32), ("transformer", 32), ("gpt", 32), ("ncf", 256)]
        {
            let (matches, help) = train(model);
            assert_eq!(matches.get_one::<u32>("batch_size"), Some(&size), "{model}");
            assert!(flag_help(&help, "--batch-size").contains(&format!("[default: {size}]")), "{model}: {help}");
        }
    }
}
