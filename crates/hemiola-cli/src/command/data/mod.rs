//! `hemiola data`: describes and splits data files, and generates synthetic ones.
//!
//! | file | concept |
//! |---|---|
//! | `describe` | `hemiola data describe`: files, format, view |
//! | `entries`, `table`, `dense`, `columnar` | the views of a data set, each computed in one pass |
//! | `tally`, `counter` | statistics of a pass: ranges and means of values, counts per index |
//! | `description`, `show` | the result: as JSON, as text |
//! | `split` | `hemiola data split`: training, validation and test set |
//! | `make`, `set_writer` | synthetic data sets, and their files with the ground truth |
//! | `deal`, `progress` | dynamic distribution of work to workers; a progress line |

#[cfg(feature = "arrow")]
mod columnar;
mod counter;
mod deal;
mod dense;
mod describe;
mod description;
mod entries;
mod make;
mod progress;
mod set_writer;
mod show;
mod split;
mod table;
mod tally;

use clap::Subcommand;
use std::process::ExitCode;

/// Subcommands of `hemiola data`.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Describe a data file: format, shape, types, memory, skew, first rows.
    Describe(describe::DescribeArgs),
    /// Split a data set into training, validation and test set: at random, by class, group or time.
    Split(split::SplitArgs),
    /// Generate a synthetic data set with known ground truth.
    #[command(subcommand)]
    Make(make::MakeCommand),
}

impl DataCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Describe(describe) => describe.execute(),
            Self::Split(split) => split.execute(),
            Self::Make(make) => make.execute(),
        }
    }
}
