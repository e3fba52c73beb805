//! Long fuzzing campaigns, and the replay of single inputs. See the documentation of the library.
#![expect(clippy::print_stdout, reason = "a command-line program")]

use anyhow::Context as _;
use clap::Parser;
use hemiola_fuzz::campaign::Campaign;
use hemiola_fuzz::targets;
use std::path::PathBuf;

/// Fuzz targets of everything in Hemiola that reads bytes from outside.
#[derive(Debug, Parser)]
enum Command {
    /// Lists the targets.
    List,
    /// Runs a target on its seeds and on mutations of them.
    Run {
        /// Name of the target.
        target: String,
        /// Number of mutated inputs.
        #[arg(long, default_value_t = 100_000)]
        inputs: u64,
        /// Random seed of the mutations.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Folder of the input that failed.
        #[arg(long, default_value = "target/fuzz")]
        folder: PathBuf,
    },
    /// Runs a target on one input.
    Replay {
        /// Name of the target.
        target: String,
        /// File with the input.
        input: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::List => targets().iter().for_each(|target| println!("{:<16} {}", target.name, target.about)),
        Command::Run { target, inputs, seed, folder } => {
            let campaign = Campaign { target: targets::find(&target)?, inputs, seed, folder };
            println!("{target}: {} inputs, no failure", campaign.run()?);
        }
        Command::Replay { target, input } => {
            let bytes = std::fs::read(&input).with_context(|| format!("cannot read `{}`", input.display()))?;
            let accepted = targets::find(&target)?.prepare()?.accepts(&bytes);
            println!("{target}: {} without a failure", if accepted { "accepted" } else { "refused" });
        }
    }
    Ok(())
}
