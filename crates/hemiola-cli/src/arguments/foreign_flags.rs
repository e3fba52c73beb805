//! Flags that other programs have: scikit-learn, PyTorch, Spark, gensim, LIBLINEAR, launchers.
//!
//! Names that mean exactly what a flag of a command means are aliases of it, and do not appear
//! here. The others get advice: the flag to use instead, or the reason why there is none.
//!
//! **Invariant:** advice is given by a command only if the command has the flag that the advice
//! depends on, so no command recommends a flag that it refuses.

use clap::Command;

/// Advice about one flag of other programs.
#[derive(Debug)]
struct ForeignFlag {
    /// Names in other programs, without dashes.
    names: &'static [&'static str],
    /// Answers in order of preference: the first whose flag the command has.
    answers: &'static [Answer],
}

#[derive(Debug)]
enum Answer {
    /// For commands with the first flag: use this, which need not be a flag of the command.
    With(&'static str, &'static str),
    /// For commands that train a model.
    Training(&'static str),
    /// For commands of any kind.
    Always(&'static str),
}

use Answer::{Always, Training, With};

const FLAGS: &[ForeignFlag] = &[
    ForeignFlag {
        names: &["learning-rate", "lr", "step", "step-size", "eta", "eta0", "rate", "learning-rate-init"],
        answers: &[
            With("learning-rate", "the learning rate is set by `--learning-rate X`"),
            With("learning-rates", "the learning rates are set by `--learning-rates X,..`"),
            With("rounds", "there is no learning rate: the solver is dual coordinate ascent"),
            With("clusters", "there is no learning rate: centers are means of their rows"),
            With("lambda", "there is no learning rate: the solver is coordinate descent"),
            With("no-intercept", "there is no learning rate: the solver computes its steps"),
            With("sampler", "there is no learning rate: topic models are trained by Gibbs sampling"),
        ],
    },
    ForeignFlag {
        names: &["epochs", "n-epochs", "num-epochs", "max-epochs", "n-iter", "num-iterations", "passes"],
        answers: &[With("epochs", "the maximum number of epochs is set by `--epochs N`")],
    },
    ForeignFlag {
        names: &["iterations", "max-iterations", "iters", "steps", "max-steps", "num-steps"],
        answers: &[
            With("weight-decay", "an iteration is one mini-batch; `--epochs N` limits the passes over the data"),
            With("epochs", "the maximum number of epochs is set by `--epochs N`"),
        ],
    },
    ForeignFlag {
        names: &["factors", "n-factors", "num-factors", "latent-factors", "dim", "n-components", "components"],
        answers: &[
            With("rank", "the number of latent factors is set by `--rank N`"),
            With("topics", "the number of topics is set by `--topics N`"),
            With("embedding-size", "the size of the embeddings is set by `--embedding-size N`"),
        ],
    },
    ForeignFlag {
        names: &["num-clusters", "nclusters", "n-centers", "centers"],
        answers: &[With("clusters", "the number of clusters is set by `--clusters N` (`-k`)")],
    },
    ForeignFlag {
        names: &["task", "objective", "link"],
        answers: &[With("loss", "classes or quantities are chosen by `--loss NAME`")],
    },
    ForeignFlag {
        names: &["n-init", "init"],
        answers: &[With("clusters", "centers start by k-means++ once; compare several runs with `--seed N`")],
    },
    ForeignFlag {
        names: &["multi-class", "multinomial", "softmax"],
        answers: &[With(
            "rounds",
            "classes are trained one against the rest; `hemiola train softmax` fits their probabilities together",
        )],
    },
    ForeignFlag {
        names: &["num-topics", "n-topics", "ntopics"],
        answers: &[With("topics", "the number of topics is set by `--topics N`")],
    },
    ForeignFlag {
        names: &[
            "workers",
            "threads",
            "j",
            "jobs",
            "n-jobs",
            "num-threads",
            "nthreads",
            "n-threads",
            "cores",
            "num-workers",
        ],
        answers: &[With("workers", "the number of threads of each peer is set by `--workers N`")],
    },
    ForeignFlag {
        names: &[
            "np",
            "nproc-per-node",
            "nproc",
            "world-size",
            "processes",
            "num-processes",
            "nprocs",
            "ranks",
            "num-peers",
        ],
        answers: &[With("peers", "the number of processes is set by `--peers N`")],
    },
    ForeignFlag {
        names: &["nodes", "nnodes", "hostfile", "machinefile", "host", "hosts"],
        answers: &[
            With("hosts", "hosts are given by `--hosts ada,bob`"),
            With("peers", "`hemiola run --hosts ada,bob -- hemiola train ..` launches peers on several hosts"),
        ],
    },
    ForeignFlag {
        names: &["gpu", "gpus", "cuda", "use-gpu", "use-cuda", "n-gpus", "device"],
        answers: &[
            With("device", "GPUs are selected by `--device cuda`, in a build with the feature `cuda`"),
            Training("this model is trained on CPUs; the nets have `--device cuda`"),
        ],
    },
    ForeignFlag {
        names: &["amp", "fp16", "bf16", "half", "mixed-precision"],
        answers: &[With("precision", "mixed precision is set by `--precision bf16` or `--precision f16`")],
    },
    ForeignFlag {
        names: &["dropout", "dropout-rate", "p-dropout"],
        answers: &[
            With(
                "weight-decay",
                "only `train gpt` has dropout; regularize with `--weight-decay X`, or stop early with `--patience N`",
            ),
            With("l2", "there is no dropout in a matrix factorization; regularize with `--l2 X`"),
            Training("the model has no dropout"),
        ],
    },
    ForeignFlag {
        names: &["weight-decay", "wd", "decay", "l2", "l2-reg", "reg", "reg-param", "regularization", "lambda", "lam"],
        answers: &[
            With("weight-decay", "L2 regularization is set by `--weight-decay X`"),
            With("l2", "L2 regularization is set by `--l2 X`"),
            With("l2-factors", "L2 regularization is set by `--l2-factors X` and `--l2-linear X`"),
            With("c", "regularization is set by its inverse, `-C X`"),
            With("lambda", "the regularization strength is set by `--lambda X` (`--alpha`)"),
            With("beta", "topic models are regularized by the Dirichlet priors `--alpha X` and `--beta X`"),
            With("alpha", "L2 regularization is set by `--alpha X`"),
        ],
    },
    ForeignFlag {
        names: &["alpha"],
        answers: &[
            With(
                "unobserved-weight",
                "the weight of unobserved pairs is set by `--unobserved-weight X`, L2 regularization by `--l2 X`",
            ),
            With("weight-decay", "L2 regularization is set by `--weight-decay X`"),
            With("c", "regularization is set by its inverse, `-C X`"),
        ],
    },
    ForeignFlag {
        names: &["C", "c", "cost"],
        answers: &[
            With("c", "the inverse regularization strength is set by `-C X`"),
            With("lambda", "the regularization strength is set by `--lambda X` (`--alpha`); C is its inverse"),
            With("l2", "L2 regularization is set by `--l2 X`"),
            With("weight-decay", "L2 regularization is set by `--weight-decay X`"),
        ],
    },
    ForeignFlag {
        names: &["cv", "folds", "n-folds", "k-fold", "kfold", "cross-validation"],
        answers: &[
            With("folds", "cross-validation is set by `--folds N` (`--cv`)"),
            Training(
                "`mf`, `lda`, `svm`, `logistic`, `lasso` and `elastic-net` have cross-validation; here `--validation 0.1` holds out a tenth",
            ),
        ],
    },
    ForeignFlag {
        names: &["tol", "tolerance", "eps", "epsilon"],
        answers: &[
            With("tolerance", "the stopping tolerance is set by `--tolerance X`"),
            With(
                "patience",
                "there is no tolerance; `--patience N` stops without improvement, `--target X` at a value of the metric",
            ),
        ],
    },
    ForeignFlag {
        names: &["seed", "random-state", "random-seed", "manual-seed"],
        answers: &[With("seed", "the random seed is set by `--seed N`")],
    },
    ForeignFlag {
        names: &["class-weight", "class-weights", "scale-pos-weight", "pos-weight", "sample-weight", "sample-weights"],
        answers: &[
            With(
                "class-weight",
                "weights of classes are set by `--class-weight balanced|CLASS=W,..`, those of examples by `--weight-column COLUMN`",
            ),
            With(
                "weight-column",
                "weights of examples are set by `--weight-column COLUMN`; quantities have no classes",
            ),
            Training("this model takes no weights of classes or examples; repeat examples in the data"),
        ],
    },
    ForeignFlag {
        names: &["test", "test-data", "test-file", "test-size", "eval", "eval-data"],
        answers: &[Training(
            "a test set is evaluated after training: `hemiola evaluate --model DIR --data FILES`; a validation set is given by `--validation`",
        )],
    },
    ForeignFlag {
        names: &[
            "valid",
            "val",
            "validation-data",
            "val-data",
            "validation-split",
            "validation-fraction",
            "eval-set",
            "dev",
        ],
        answers: &[
            With("validation", "a validation set is given by `--validation FRACTION|FILES`"),
            Training("the validation set is that of the data: the test files of MNIST and CIFAR-10"),
        ],
    },
    ForeignFlag {
        names: &["train", "input", "file", "files", "dataset", "data-dir", "data-path", "train-data", "training-data"],
        answers: &[With("data", "the data are given by `--data FILES`")],
    },
    ForeignFlag {
        names: &["out", "save", "save-dir", "output-dir", "model-dir", "checkpoint-dir", "model-path", "model"],
        answers: &[
            With("model", "the trained model is given by `--model DIR`"),
            Training("the folder for the model is given by `--output DIR`"),
        ],
    },
    ForeignFlag {
        names: &["load", "checkpoint", "restore", "resume-from", "ckpt", "ckpt-path", "warm-start"],
        answers: &[With("resume", "`--output DIR --resume` resumes from the checkpoint in DIR")],
    },
    ForeignFlag {
        names: &["save-every", "save-steps", "checkpoint-interval"],
        answers: &[With("checkpoint-every", "the interval of checkpoints is set by `--checkpoint-every N`, in epochs")],
    },
    ForeignFlag {
        names: &["early-stopping", "early-stop", "early-stopping-rounds", "n-iter-no-change"],
        answers: &[With("patience", "early stopping is set by `--patience N`")],
    },
    ForeignFlag {
        names: &["verbose", "v", "debug", "log-level", "progress", "silent"],
        answers: &[
            With("quiet", "progress is printed by default; `--quiet` suppresses it"),
            Always("there are no levels of verbosity; errors always name their cause"),
        ],
    },
    ForeignFlag {
        names: &["batch-size", "batch", "minibatch", "mini-batch-size", "bs"],
        answers: &[
            With("batch-size", "the batch size is set by `--batch-size N`"),
            With("rank", "there are no mini-batches: every rating is an update"),
            With("sampler", "there are no mini-batches: every token is sampled"),
            Training("the solver has no mini-batches"),
        ],
    },
    ForeignFlag {
        names: &["optim", "optimizer", "solver", "algorithm"],
        answers: &[
            With("optimizer", "the optimizer is set by `--optimizer NAME`"),
            Training("the solver of this model is fixed, see `hemiola examples` and the guide of the model"),
        ],
    },
    ForeignFlag {
        names: &["scheduler", "lr-scheduler", "lr-scheduler-type", "schedule"],
        answers: &[With("lr-schedule", "the learning rate schedule is set by `--lr-schedule NAME`")],
    },
    ForeignFlag {
        names: &["warmup", "warmup-epochs", "num-warmup-steps", "warmup-ratio"],
        answers: &[With("warmup-steps", "linear warm-up is set by `--warmup-steps N`")],
    },
    ForeignFlag {
        names: &["grad-clip", "clip", "clip-grad", "clip-grad-norm", "max-grad-norm", "gradient-clip-val"],
        answers: &[With("clip-norm", "gradient clipping is set by `--clip-norm X`")],
    },
    ForeignFlag {
        names: &["gradient-accumulation-steps", "accumulation-steps", "accumulate-grad-batches", "grad-accum"],
        answers: &[With("accumulate", "gradient accumulation is set by `--accumulate N`")],
    },
    ForeignFlag {
        names: &["hidden-layer-sizes", "hidden-sizes", "hidden-layers", "hidden-dim", "nhid"],
        answers: &[
            With("hidden-size", "the size of the hidden state is set by `--hidden-size N`"),
            With("hidden", "hidden layers are set by `--hidden N,..`"),
        ],
    },
    ForeignFlag {
        names: &["num-layers", "nlayers", "n-layers", "layers", "depth"],
        answers: &[
            With("layers", "the number of layers is set by `--layers N`"),
            With("heads", "the number of transformer blocks is set by `--blocks N`"),
            With("stages", "residual blocks per stage are set by `--blocks N`"),
            With("hidden", "hidden layers are set by `--hidden N,..`"),
        ],
    },
    ForeignFlag {
        names: &["seq-len", "bptt", "context-length", "block-size", "max-length", "max-seq-len"],
        answers: &[With("sequence-length", "the sequence length is set by `--sequence-length N`")],
    },
    ForeignFlag {
        names: &["embed-dim", "embedding-dim", "d-model", "emsize", "n-embd"],
        answers: &[With("embedding-size", "the embedding size is set by `--embedding-size N`")],
    },
    ForeignFlag {
        names: &["nhead", "num-heads", "n-heads", "n-head"],
        answers: &[With("heads", "the number of attention heads is set by `--heads N`")],
    },
    ForeignFlag {
        names: &["kernel", "gamma"],
        answers: &[With("c", "the classifiers are linear: there are no kernels")],
    },
    ForeignFlag {
        names: &["fit-intercept", "intercept"],
        answers: &[
            With("bias", "a bias is fitted by default; `--bias 0` leaves it out"),
            With("no-intercept", "an intercept is fitted by default; `--no-intercept` leaves it out"),
        ],
    },
    ForeignFlag {
        names: &["normalize", "standardise", "scale"],
        answers: &[With("standardize", "columns are standardized by `--standardize`")],
    },
    ForeignFlag {
        names: &["delimiter", "sep", "delim"],
        answers: &[With("separator", "the field separator is set by `--separator TEXT`")],
    },
    ForeignFlag {
        names: &["header", "skip-header", "no-header"],
        answers: &[With("separator", "header lines are detected")],
    },
    ForeignFlag {
        names: &["label-column", "target-column", "response", "y"],
        answers: &[With("label", "the label column is set by `--label COLUMN`")],
    },
    ForeignFlag {
        names: &["implicit", "implicit-feedback"],
        answers: &[With("unobserved-weight", "implicit feedback is learned with `--loss one-class`")],
    },
    ForeignFlag { names: &["json", "format-json"], answers: &[With("report", "`--report -` prints JSON")] },
    ForeignFlag {
        names: &["top-k", "topk", "top-n", "n", "num", "limit"],
        answers: &[With("k", "the number of results is set by `-k N`")],
    },
    ForeignFlag { names: &["user-id", "userid", "users"], answers: &[With("user", "a user is given by `--user ID`")] },
    ForeignFlag { names: &["item-id", "itemid", "items"], answers: &[With("item", "an item is given by `--item ID`")] },
];

/// Returns advice about a flag that `command` does not have. `name` is without dashes, and `path`
/// has the names of the command from below the root: `["train", "mf"]`.
pub(crate) fn advice(name: &str, command: &Command, path: &[String]) -> Option<&'static str> {
    let known = FLAGS.iter().filter(|flag| flag.names.contains(&name));
    known.flat_map(|flag| flag.answers).find_map(|answer| match answer {
        With(flag, text) => has_flag(command, flag).then_some(*text),
        Training(text) => path.first().is_some_and(|first| first == "train").then_some(*text),
        Always(text) => Some(*text),
    })
}

/// Returns true if a command has a flag with this long name, not counting aliases.
fn has_flag(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::definition;
    use crate::arguments::tests::leaves;

    #[test]
    fn a_condition_is_a_flag_of_some_command() {
        // Flags of nets and of the simulator exist in builds with these features alone.
        if !cfg!(all(feature = "nets", feature = "sim")) {
            return;
        }
        let commands = leaves(&definition(), "");
        for flag in FLAGS {
            for answer in flag.answers {
                let With(condition, _) = answer else { continue };
                let found = commands.iter().any(|(_, command)| has_flag(command, condition));
                assert!(found, "no command has `--{condition}` ({:?})", flag.names);
            }
        }
    }

    #[test]
    fn a_recommended_flag_exists() {
        let commands = leaves(&definition(), "");
        for (path, command) in &commands {
            for flag in FLAGS {
                for answer in flag.answers {
                    let With(condition, text) = answer else { continue };
                    if !has_flag(command, condition) || text.contains("hemiola run") {
                        continue;
                    }
                    let words = text.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("--"));
                    for word in words.map(|code| code.split(' ').next().unwrap_or_default()) {
                        let known = command.get_arguments().any(|argument| {
                            let aliases = argument.get_all_aliases().unwrap_or_default();
                            argument.get_long() == Some(word) || aliases.contains(&word)
                        });
                        assert!(known, "`{path}` has no `--{word}`, which {:?} recommends", flag.names);
                    }
                }
            }
        }
    }
}
