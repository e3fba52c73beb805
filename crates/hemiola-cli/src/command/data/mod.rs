//! `hemiola data`: what is in a file, and files to try things with.
//!
//! | file | concept |
//! |---|---|
//! | `describe` | the command: which files, which format, which view |
//! | `entries`, `table`, `dense`, `columnar` | one pass over the data for each view of it |
//! | `tally`, `counter` | what a pass keeps: ranges and means of values, counts per index |
//! | `description`, `show` | what was found: as JSON, as text |
//! | `make`, `set_writer` | synthetic sets, and the files they go to with their truth |
//! | `deal`, `progress` | dealing pieces of work to all workers; telling a person how far it is |

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
mod table;
mod tally;

use clap::Subcommand;
use std::process::ExitCode;

/// What to do with data.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Say what is in a data file: format, shape, types, memory, skew, first rows.
    Describe(describe::DescribeArgs),
    /// Write a synthetic set with known truth.
    #[command(subcommand)]
    Make(make::MakeCommand),
}

impl DataCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Describe(describe) => describe.execute(),
            Self::Make(make) => make.execute(),
        }
    }
}
