//! What can be wrong with models, clusters and strategies.

use std::fmt;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model that cannot be.
    #[error("variable {variable}: {problem}")]
    Model {
        /// Its name.
        variable: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A cluster that cannot be.
    #[error("the description of the cluster: {0}")]
    Cluster(String),
    /// A strategy that cannot work. All problems are listed.
    #[error("the strategy cannot be used: {}", list(.0))]
    Strategy(Vec<Problem>),
    /// A file that is not what it should be.
    #[error("{what} cannot be read: {problem}")]
    File {
        /// What it should have been.
        what: &'static str,
        /// Why it is not.
        problem: String,
    },
}

/// The result of anything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Something that makes a strategy unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The variable, if it is about one.
    pub variable: Option<String>,
    /// The shard of that variable, if it is cut into several.
    pub shard: Option<usize>,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.variable, self.shard) {
            (Some(variable), Some(shard)) => write!(formatter, "{variable}, shard {shard}: {}", self.reason),
            (Some(variable), None) => write!(formatter, "{variable}: {}", self.reason),
            (None, _) => formatter.write_str(&self.reason),
        }
    }
}

/// So many problems are spelled out.
const SHOWN: usize = 5;

fn list(problems: &[Problem]) -> String {
    let shown: Vec<String> = problems.iter().take(SHOWN).map(ToString::to_string).collect();
    let rest = problems.len().saturating_sub(SHOWN);
    let more = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    shown.join("; ") + &more
}
