//! Errors of models, clusters and strategies.

use std::fmt;

/// Reason why a model, a cluster, a strategy or a file is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model with an invalid variable.
    #[error("variable {variable}: {problem}")]
    Model {
        /// Name of the variable.
        variable: String,
        /// Violated condition, as a clause for the message.
        problem: String,
    },
    /// An invalid description of a cluster.
    #[error("the cluster description is invalid: {0}")]
    Cluster(String),
    /// A strategy that cannot work. All problems are listed.
    #[error("the strategy cannot be used: {}", list(.0))]
    Strategy(Vec<StrategyProblem>),
    /// A file that cannot be parsed.
    #[error("{what} cannot be read: {problem}")]
    File {
        /// Expected content of the file.
        what: &'static str,
        /// Error of the parser.
        problem: String,
    },
}

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Problem that makes a strategy unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyProblem {
    /// Name of the variable, if the problem concerns one.
    pub variable: Option<String>,
    /// Index of the shard, if the variable is cut into several.
    pub shard: Option<usize>,
    /// Violated condition, and a way to satisfy it.
    pub reason: String,
}

impl fmt::Display for StrategyProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.variable, self.shard) {
            (Some(variable), Some(shard)) => write!(formatter, "{variable}, shard {shard}: {}", self.reason),
            (Some(variable), None) => write!(formatter, "{variable}: {}", self.reason),
            (None, _) => formatter.write_str(&self.reason),
        }
    }
}

/// Maximum number of problems spelled out in the message.
const MAX_LISTED_PROBLEMS: usize = 5;

fn list(problems: &[StrategyProblem]) -> String {
    let shown: Vec<String> = problems.iter().take(MAX_LISTED_PROBLEMS).map(ToString::to_string).collect();
    let rest = problems.len().saturating_sub(MAX_LISTED_PROBLEMS);
    let more = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    shown.join("; ") + &more
}
