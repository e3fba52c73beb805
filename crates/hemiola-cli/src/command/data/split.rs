//! `hemiola data split`: writes training, validation and test set of a data set.
//!
//! The files appear together or not at all: all are complete before the first gets its name.

use crate::error::CommandError;
use crate::output::{self, CompleteFile, OutputCompression, StagedFile};
use crate::plural::counted;
use clap::Args;
use hemiola_array::read::InputPaths;
use hemiola_core::Seed;
use hemiola_models::input::split::{SplitFractions, SplitSet};
use hemiola_models::input::{FileSplit, SplitBy};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola data split ratings.csv --output sets
  hemiola data split ratings.csv --output sets --validation 0.1 --test 0.2 --seed 7
  hemiola data split ratings.csv --output sets --by group:userId       no user in two sets
  hemiola data split ratings.csv --output sets --by time:timestamp     validate on the newest
  hemiola data split examples.libsvm --output sets --by class          classes keep their shares
  hemiola train mf --data sets/train.csv --validation sets/validation.csv

Records are the lines of separated values, LIBSVM, LDA-C or text, which are copied unchanged, each file with the header. JSON lines \
and Parquet become separated values. Times are numbers, or texts in the order of time, such as 2024-05-01T12:00:00. \
The same files and seed give the same sets.

Exit codes:
  0  all sets were written
  2  wrong use, or a file does not match its format; nothing was written
  3  the system failed, for example a full disk";

/// Arguments of `hemiola data split`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SplitArgs {
    /// Files, folders, quoted patterns, zip archives, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,

    /// Folder for `train`, `validation` and `test`, with the extension of the first file.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,

    /// Fraction of the records in the validation set.
    #[arg(long, value_name = "FRACTION", default_value = "0.1", value_parser = fraction)]
    validation: f64,

    /// Fraction of the records in the test set.
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = fraction)]
    test: f64,

    /// Keep the shares of classes (class for LIBSVM, class:COLUMN), keep groups together
    /// (group:COLUMN), or validate on the newest records (time:COLUMN) [default: at random]
    #[arg(long, value_name = "KEY[:COLUMN]")]
    by: Option<SplitBy>,

    /// Field separator of separated values [default: detected]
    #[arg(long, value_name = "TEXT", value_parser = super::describe::separator, allow_hyphen_values = true)]
    separator: Option<String>,

    /// Random seed. The same seed gives the same sets.
    #[arg(long, visible_alias = "random-state", value_name = "N", default_value = "1")]
    seed: u64,
}

impl SplitArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let fractions = SplitFractions { validation: self.validation, test: self.test };
        if fractions.validation + fractions.test >= 1.0 {
            let failure = CommandError::usage("no records are left for training");
            return Err(failure.hint("--validation and --test are fractions whose sum is below 1").into());
        }
        let files = InputPaths::from(&self.files).find()?;
        let name = files[0].path().to_owned();
        let by = self.by.unwrap_or(SplitBy::Record);
        let split = FileSplit::plan(files, self.separator.as_deref(), &by, fractions, Seed(self.seed))?;
        let mut sets = Vec::new();
        let wanted = [
            (SplitSet::Train, "train", true),
            (SplitSet::Validation, "validation", fractions.validation > 0.0),
            (SplitSet::Test, "test", fractions.test > 0.0),
        ];
        for (set, title, _) in wanted.into_iter().filter(|(.., wanted)| *wanted) {
            if split.records(set) == 0 {
                let failure = CommandError::usage(format!("the {title} set would have no records"));
                return Err(failure.hint("use more records, another fraction, or another `--by`").into());
            }
            sets.push((set, self.output.join(format!("{title}{}", extension(&name)))));
        }
        std::fs::create_dir_all(&self.output).map_err(|error| CommandError::io("create", &self.output, &error))?;
        let create = |(set, path): &(SplitSet, PathBuf)| {
            Ok((*set, StagedFile::create(path, OutputCompression::of_name(path)?)?))
        };
        let mut staged = sets.iter().map(create).collect::<anyhow::Result<Vec<_>>>()?;
        split.write(|of, line| {
            for (_, file) in staged.iter_mut().filter(|(set, _)| of.is_none_or(|of| of == *set)) {
                file.write(line)?;
                file.write(b"\n")?;
            }
            Ok::<_, anyhow::Error>(())
        })?;
        let complete = staged.into_iter().map(|(_, file)| file.finish()).collect::<anyhow::Result<Vec<_>>>()?;
        complete.into_iter().try_for_each(CompleteFile::publish)?;
        let lines = sets.iter().map(|(set, path)| {
            let records = counted(split.records(*set), "record");
            format!("{}: {records}\n", path.display())
        });
        output::print(&lines.collect::<String>())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the extension for sets of a file: that of text, without a compression.
fn extension(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = [".gz", ".zst", ".bz2"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    match name.rsplit_once('.') {
        Some((_, "jsonl" | "ndjson" | "json" | "parquet" | "arrow" | "feather" | "ipc")) => ".csv".to_owned(),
        Some((_, extension)) if !extension.is_empty() => format!(".{extension}"),
        _ => ".txt".to_owned(),
    }
}

/// Parses a fraction from 0, inclusive, to 1, exclusive.
fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..1.0).contains(number));
    number.ok_or_else(|| "expected a fraction from 0 to below 1, such as `0.1`".to_owned())
}
