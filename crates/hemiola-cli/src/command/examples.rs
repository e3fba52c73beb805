//! `hemiola examples`: commands to copy, by job.
//!
//! **Invariant:** the commands of a job run word for word, one after the other, in an empty folder:
//! they generate the data they use. A test runs all of them.

use crate::arguments::named_value::NamedValueParser;
use crate::error::CommandError;
use crate::terminal::Palette;
use crate::{output, suggest};
use clap::Args;
use std::fmt::Write as _;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola examples
  hemiola examples recommender
  hemiola examples mf                 also by the name of a model or a command

The commands generate their own data, so they run as they are, in any empty folder.";

/// Examples of one job.
#[derive(Debug)]
struct Job {
    name: &'static str,
    title: &'static str,
    /// Models and commands that the examples use, by which the job is found as well.
    keywords: &'static [&'static str],
    /// Feature that this build must have.
    needs: Option<Feature>,
    steps: &'static [Step],
}

/// Command of an example, with its purpose.
#[derive(Debug)]
struct Step {
    purpose: &'static str,
    command: &'static str,
}

/// Optional part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feature {
    Nets,
    Sim,
}

impl Feature {
    const fn name(self) -> &'static str {
        match self {
            Self::Nets => "nets",
            Self::Sim => "sim",
        }
    }

    const fn is_present(self) -> bool {
        match self {
            Self::Nets => cfg!(feature = "nets"),
            Self::Sim => cfg!(feature = "sim"),
        }
    }
}

const fn step(purpose: &'static str, command: &'static str) -> Step {
    Step { purpose, command }
}

const JOBS: &[Job] = &[
    Job {
        name: "recommender",
        title: "Recommend items from ratings or clicks",
        keywords: &["mf", "recommend", "similar", "evaluate", "predict", "als"],
        needs: None,
        steps: &[
            step("Synthetic ratings: user,item,rating", "hemiola data make mf --output ratings.csv"),
            step("Train a matrix factorization", "hemiola train mf --data ratings.csv --rank 16 --output recommender"),
            step("Recommend items to a user", "hemiola recommend --model recommender --user 42 -k 5"),
            step(
                "Recommend items to a new user",
                "hemiola recommend --model recommender --ratings '3:5,8:1,11:4' -k 5",
            ),
            step("Find similar items", "hemiola similar --model recommender --item 3 -k 5"),
            step("Evaluate", "hemiola evaluate --model recommender --data ratings.csv"),
            step(
                "Implicit feedback: ratings of at least 4 count as events",
                "hemiola train mf --data ratings.csv --loss one-class --event-threshold 4 --epochs 3 --output events",
            ),
            step("Rank items by it", "hemiola evaluate --model events --data ratings.csv --event-threshold 4"),
            step(
                "The same by Bayesian personalized ranking",
                "hemiola train mf --data ratings.csv --loss bpr --event-threshold 4 --epochs 3",
            ),
        ],
    },
    Job {
        name: "topics",
        title: "Find the topics of documents",
        keywords: &["lda", "infer"],
        needs: None,
        steps: &[
            step("Synthetic documents: a UCI bag of words", "hemiola data make lda --output docword.toy.txt"),
            step(
                "Train a topic model; the vocabulary is found beside the data",
                "hemiola train lda --data docword.toy.txt --topics 20 --epochs 20 --output topics",
            ),
            step("List topics with their top words", "hemiola topics --model topics --words 5"),
            step(
                "Infer the topics of documents",
                "hemiola infer --model topics --data docword.toy.txt --output mixtures.csv",
            ),
            step("Perplexity and coherence", "hemiola evaluate --model topics --data docword.toy.txt"),
        ],
    },
    Job {
        name: "classifier",
        title: "Classify examples",
        keywords: &["svm", "logistic", "softmax", "predict"],
        needs: None,
        steps: &[
            step("Synthetic examples in LIBSVM format", "hemiola data make logistic --output train.libsvm"),
            step("Other examples", "hemiola data make logistic --output test.libsvm --rows 1000"),
            step(
                "Logistic regression, with the inverse regularization strength C of scikit-learn",
                "hemiola train logistic --data train.libsvm -C 0.1 --output classifier",
            ),
            step("Accuracy, AUC and log loss", "hemiola evaluate --model classifier --data test.libsvm"),
            step(
                "Classes of new examples",
                "hemiola predict --model classifier --data test.libsvm --report classes.json",
            ),
            step("Probabilities of many classes, fitted together", "hemiola train softmax --data train.libsvm"),
            step("Linear support vector machine", "hemiola train svm --data train.libsvm --tol 0.01 --output svm"),
        ],
    },
    Job {
        name: "regression",
        title: "Predict quantities, and select features",
        keywords: &["lasso", "elastic-net", "ridge", "least-squares", "coefficients", "sparse"],
        needs: None,
        steps: &[
            step(
                "Synthetic data with 20 relevant columns of 200",
                "hemiola data make lasso --output lasso.libsvm --columns 200",
            ),
            step(
                "Lasso, with the penalty alpha of scikit-learn",
                "hemiola train lasso --data lasso.libsvm --alpha 0.05 --output lasso",
            ),
            step("The largest coefficients", "hemiola coefficients --model lasso -k 10"),
            step(
                "Penalty by cross-validation",
                "hemiola train lasso --data lasso.libsvm --cv 3 --tol 1e-4 --workers 1 --output lasso-cv",
            ),
            step(
                "Elastic net",
                "hemiola train elastic-net --data lasso.libsvm --l1-ratio 0.8 --alpha 0.05 --output elastic-net",
            ),
            step("R² and errors", "hemiola evaluate --model elastic-net --data lasso.libsvm"),
            step(
                "Ridge regression; `--alpha 0` for ordinary least squares",
                "hemiola train ridge --data lasso.libsvm --alpha 1 --output ridge",
            ),
        ],
    },
    Job {
        name: "clicks",
        title: "Predict clicks with pairs of features",
        keywords: &["fm", "ctr"],
        needs: None,
        steps: &[
            step("Synthetic examples in LIBSVM format", "hemiola data make logistic --output clicks.libsvm"),
            step("Other examples", "hemiola data make logistic --output test.libsvm --rows 1000"),
            step(
                "Factorization machine, with early stopping on a tenth of the examples",
                "hemiola train fm --data clicks.libsvm --rank 8 --validation 0.1 --output machine",
            ),
            step("Accuracy, AUC and log loss", "hemiola evaluate --model machine --data test.libsvm"),
            step(
                "Probabilities of new examples",
                "hemiola predict --model machine --data test.libsvm --report clicks.json",
            ),
        ],
    },
    Job {
        name: "groups",
        title: "Divide rows into groups",
        keywords: &["kmeans", "k-means", "clusters", "clustering"],
        needs: None,
        steps: &[
            step("Synthetic rows in LIBSVM format", "hemiola data make logistic --output rows.libsvm --rows 2000"),
            step("Five clusters", "hemiola train kmeans --data rows.libsvm --clusters 5 --output groups"),
            step("The cluster of each row", "hemiola predict --model groups --data rows.libsvm --report groups.json"),
        ],
    },
    Job {
        name: "nets",
        title: "Train neural nets",
        keywords: &["mlp", "cnn", "resnet", "lstm", "transformer", "gpt", "ncf", "net"],
        needs: Some(Feature::Nets),
        steps: &[
            step(
                "A multilayer perceptron on synthetic images",
                "hemiola train mlp --max-examples 600 --epochs 2 --optimizer adamw --weight-decay 0.01 --output mlp",
            ),
            step("Two data-parallel peers", "hemiola train mlp --max-examples 600 --epochs 2 --peers 2 --workers 1"),
            step(
                "Synchronization of each variable, and its reason",
                "hemiola train mlp --max-examples 600 --epochs 1 --peers 2 --workers 1 --strategy poseidon --explain",
            ),
            step("Describe the net", "hemiola show mlp"),
            step(
                "Continue training",
                "hemiola train mlp --max-examples 600 --epochs 3 --optimizer adamw --weight-decay 0.01 --output mlp --resume",
            ),
        ],
    },
    Job {
        name: "plots",
        title: "Plot learning curves",
        keywords: &["plot", "report"],
        needs: None,
        steps: &[
            step("Synthetic ratings", "hemiola data make mf --output ratings.csv"),
            step("A run with a report", "hemiola train mf --data ratings.csv --rank 8 --report small.json"),
            step("Another one", "hemiola train mf --data ratings.csv --rank 32 --report large.json"),
            step("Both in one figure", "hemiola plot small.json large.json --output curves.svg"),
            step("In the terminal", "hemiola plot small.json large.json --text"),
        ],
    },
    Job {
        name: "processes",
        title: "Use several processes, machines and launchers",
        keywords: &["run", "peers", "probe", "cluster", "mpirun", "srun", "serve"],
        needs: None,
        steps: &[
            step("Check this machine", "hemiola doctor || true"),
            step("Synthetic ratings", "hemiola data make mf --output ratings.csv"),
            step(
                "Two peers on this machine, with a worker each",
                "hemiola train mf --data ratings.csv --peers 2 --workers 1",
            ),
            step(
                "Under a launcher: `hemiola run`, or in its place `mpirun`, `srun`, `torchrun`",
                "hemiola run -n 2 --workers 1 hemiola train mf --data ratings.csv",
            ),
            step("Bandwidth and latency between the peers", "hemiola run -n 2 hemiola probe --output cluster.toml"),
            step("Your own program", "hemiola run -n 2 sh -c 'echo rank $HEMIOLA_RANK of $HEMIOLA_SIZE'"),
            step(
                "Gossip averaging over a sparse graph",
                "hemiola train svm --peers 4 --workers 1 --graph root-expander --epochs 5",
            ),
            step("Properties of the graph", "hemiola topology --peers 4 --kind root-expander"),
        ],
    },
    Job {
        name: "checkpoints",
        title: "Stop, resume and inspect",
        keywords: &["resume", "show", "checkpoint", "output"],
        needs: None,
        steps: &[
            step("Ratings", "hemiola data make mf --output ratings.csv"),
            step(
                "Save a checkpoint every two epochs",
                "hemiola train mf --data ratings.csv --patience 0 --epochs 4 --checkpoint-every 2 --output model",
            ),
            step(
                "Go on to eight epochs",
                "hemiola train mf --data ratings.csv --patience 0 --epochs 8 --output model --resume",
            ),
            step("Describe the model", "hemiola show model"),
        ],
    },
    Job {
        name: "simulation",
        title: "Predict the time on a cluster",
        keywords: &["simulate", "sim", "study"],
        needs: Some(Feature::Sim),
        steps: &[
            step("Ratings", "hemiola data make mf --output ratings.csv"),
            step(
                "A profile of training on this machine",
                "hemiola train mf --data ratings.csv --epochs 3 --workers 1 --profile mf.json",
            ),
            step("Sixteen peers", "hemiola simulate train mf --profile mf.json --peers 16 --bandwidth 1gbit"),
        ],
    },
];

/// Arguments of `hemiola examples`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExamplesArgs {
    /// Job, model or command [default: all jobs].
    #[arg(value_name = "NAME", value_parser = NAME, hide_possible_values = true)]
    name: Option<String>,
}

/// Parser of a name; an unknown one gets a hint of this command.
const NAME: NamedValueParser<String> =
    NamedValueParser::new(|text| Ok(text.to_owned()), || names().into_iter().map(str::to_owned).collect());

/// Names by which examples are found: jobs first.
fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = JOBS.iter().map(|job| job.name).collect();
    for keyword in JOBS.iter().flat_map(|job| job.keywords) {
        if !names.contains(keyword) {
            names.push(keyword);
        }
    }
    names
}

impl ExamplesArgs {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let palette = Palette::stdout();
        let Some(name) = &self.name else {
            let mut text: String = JOBS.iter().map(|job| job.text(palette)).collect();
            let names: Vec<&str> = JOBS.iter().map(|job| job.name).collect();
            let _ = writeln!(text, "One job at a time: hemiola examples NAME, with NAME one of {}", names.join(", "));
            output::print_styled(&text)?;
            return Ok(ExitCode::SUCCESS);
        };
        let found: Vec<&Job> =
            JOBS.iter().filter(|job| job.name == name || job.keywords.contains(&name.as_str())).collect();
        if found.is_empty() {
            let failure = CommandError::usage(format!("there are no examples of `{name}`"));
            let near = suggest::hint(name, names());
            return Err(failure.hint(near.unwrap_or_else(|| "`hemiola examples` prints all".to_owned())).into());
        }
        output::print_styled(&found.iter().map(|job| job.text(palette)).collect::<String>())?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Job {
    fn text(&self, palette: Palette) -> String {
        let mut text = format!("{}\n", palette.heading(&format!("{} ({})", self.title, self.name)));
        if let Some(feature) = self.needs.filter(|feature| !feature.is_present()) {
            let name = feature.name();
            let _ = writeln!(text, "  # this build lacks it: cargo build --release --features {name}");
        }
        for Step { purpose, command } in self.steps {
            let _ = writeln!(text, "  # {purpose}\n  {}", palette.code(command));
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::definition;

    #[test]
    fn every_command_of_an_example_is_one_of_ours() {
        let root = definition();
        for step in JOBS.iter().flat_map(|job| job.steps) {
            let mut words = step.command.split_whitespace();
            assert_eq!(words.next(), Some("hemiola"), "{}", step.command);
            let name = words.next().unwrap();
            assert!(root.find_subcommand(name).is_some(), "{}", step.command);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut jobs: Vec<&str> = JOBS.iter().map(|job| job.name).collect();
        jobs.sort_unstable();
        jobs.dedup();
        assert_eq!(jobs.len(), JOBS.len());
        assert!(JOBS.iter().all(|job| !job.steps.is_empty()));
    }
}
