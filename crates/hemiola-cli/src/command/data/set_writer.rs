//! Writer of a synthetic data set: the data, an optional vocabulary, the ground truth, and the
//! facts as JSON.
//!
//! **Invariant:** all files are written under temporary names beside the target and synced before
//! the first rename; the data file is renamed last, so that it never exists without the others. A
//! failure, for example a full disk, leaves nothing. Paths are checked before anything is computed,
//! so that a missing folder or an existing file is reported at once.

use super::deal::{deal, local_cluster};
use super::progress::ReadProgress;
use crate::error::CommandError;
use crate::output::{self, CompleteFile, OutputCompression, StagedFile};
use crate::readable;
use clap::Args;
use hemiola_array::save::{Manifest, PartWriter, TensorElement};
use hemiola_array::{DenseArray, Error};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Approximate bytes of text that a worker generates at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Arguments of all synthetic data sets: output, seed and workers.
#[derive(Args, Debug)]
pub(super) struct FileLayout {
    /// Data file to write.
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: PathBuf,

    /// Random seed. The same seed gives the same bytes.
    #[arg(long, value_name = "S", default_value = "1")]
    pub(super) seed: u64,

    /// Overwrite existing files.
    #[arg(long)]
    pub(super) force: bool,

    /// Worker threads [default: the cores of this machine].
    #[arg(short, long, visible_alias = "threads", visible_short_alias = 'j', value_name = "W", value_parser = clap::value_parser!(u32).range(1..=hemiola_cluster::MAX_WORKERS as i64))]
    pub(super) workers: Option<u32>,
}

impl FileLayout {
    /// Returns the extension of the data file, without that of a compression.
    pub(super) fn extension(&self) -> Option<String> {
        let path = match self.output.extension().and_then(|extension| extension.to_str()) {
            Some("gz" | "zst") => self.output.with_extension(""),
            _ => self.output.clone(),
        };
        path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase())
    }

    /// Returns the path of the vocabulary of a bag of words: `vocab.x.txt` for `docword.x.txt.gz`.
    pub(super) fn vocabulary(&self) -> PathBuf {
        let name = self.output.file_name().unwrap_or_default().to_string_lossy();
        match name.strip_prefix("docword.") {
            Some(rest) => {
                let rest = rest.strip_suffix(".gz").or(rest.strip_suffix(".zst")).unwrap_or(rest);
                self.output.with_file_name(format!("vocab.{rest}"))
            }
            None => self.beside("vocab"),
        }
    }

    fn beside(&self, extension: &str) -> PathBuf {
        let mut name = OsString::from(self.output.as_os_str());
        name.push(".");
        name.push(extension);
        PathBuf::from(name)
    }
}

/// Synthetic data set that is being written.
pub(super) struct SetWriter<'a> {
    layout: &'a FileLayout,
    data: StagedFile,
    companion: Option<(StagedFile, PathBuf)>,
    facts: StagedFile,
    truth: PartWriter,
    manifest: Manifest,
    finished: Vec<CompleteFile>,
    paths: Vec<PathBuf>,
}

/// Contents of PATH.json.
#[derive(Serialize)]
struct DataSetFacts<'a, S: Serialize> {
    set: &'a str,
    seed: u64,
    sizes: &'a S,
    found: &'a serde_json::Value,
}

impl<'a> SetWriter<'a> {
    /// Checks all paths and creates the temporary files.
    pub(super) fn begin(layout: &'a FileLayout, companion: Option<&Path>) -> anyhow::Result<Self> {
        let (truth, facts) = (layout.beside("truth"), layout.beside("json"));
        let mut paths = vec![layout.output.clone()];
        paths.extend(companion.map(Path::to_owned));
        paths.extend([facts.clone(), truth.clone()]);
        if let Some(existing) = paths.iter().find(|path| path.symlink_metadata().is_ok() && !layout.force) {
            let message = format!("`{}` exists already", existing.display());
            return Err(CommandError::usage(message)
                .hint("choose another `--output`, or replace it with `--force`")
                .into());
        }
        // The data file comes first: unlike the truth it does not create missing folders.
        let data = StagedFile::create(&layout.output, OutputCompression::of_name(&layout.output)?)?;
        let companion = match companion {
            Some(path) => Some((StagedFile::create(path, OutputCompression::None)?, path.to_owned())),
            None => None,
        };
        let facts = StagedFile::create(&facts, OutputCompression::None)?;
        let (truth, manifest) = (PartWriter::begin(&truth)?, Manifest::default());
        Ok(Self { layout, data, companion, facts, truth, manifest, finished: Vec::new(), paths })
    }

    /// Appends bytes to the data file.
    pub(super) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.data.write(bytes)
    }

    /// Appends `count` rows of about `bytes` bytes each, generated on all workers, in order. `make`
    /// appends a row to a buffer and returns the number of its entries; the sum is returned.
    pub(super) fn rows(
        &mut self,
        count: usize,
        bytes: usize,
        make: impl Fn(usize, &mut Vec<u8>) -> io::Result<u64> + Sync,
    ) -> anyhow::Result<u64> {
        let piece = (PIECE_BYTES / bytes.max(1)).clamp(1, 1 << 16);
        let pieces = count.div_ceil(piece);
        let mut total = 0;
        local_cluster(self.layout.workers).run(|cluster| -> anyhow::Result<()> {
            let progress = ReadProgress::new(cluster.env(), "rows generated");
            // A few pieces per worker at a time bound the memory of the generated text.
            let round = 4 * cluster.workers();
            for start in (0..pieces).step_by(round) {
                let here = round.min(pieces - start);
                let (_, texts) = deal(
                    cluster,
                    here,
                    || (),
                    |(), number| {
                        let first = (start + number) * piece;
                        let mut text = Vec::new();
                        let mut entries = 0;
                        for row in first..count.min(first + piece) {
                            entries +=
                                make(row, &mut text).unwrap_or_else(|_| unreachable!("writing to memory cannot fail"));
                        }
                        Ok((text, entries))
                    },
                )?;
                for (text, entries) in texts {
                    self.data.write(&text)?;
                    total += entries;
                }
                progress.add((count.min((start + here) * piece) - start * piece) as u64);
            }
            Ok(())
        })?;
        Ok(total)
    }

    /// Returns the sum of a number over all rows, computed on all workers.
    pub(super) fn sum_over_rows(&self, count: usize, of: impl Fn(usize) -> u64 + Sync) -> anyhow::Result<u64> {
        const ROWS: usize = 1 << 10;
        local_cluster(self.layout.workers).run(|cluster| {
            let (sums, _) = deal(
                cluster,
                count.div_ceil(ROWS),
                || 0,
                |sum, number| {
                    let first = number * ROWS;
                    *sum += (first..count.min(first + ROWS)).map(&of).sum::<u64>();
                    Ok(())
                },
            )?;
            Ok(sums.into_iter().sum())
        })
    }

    /// Writes the companion file of the data, for example the vocabulary.
    pub(super) fn companion(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if let Some((mut staged, _)) = self.companion.take() {
            staged.write(bytes)?;
            self.finished.push(staged.finish()?);
        }
        Ok(())
    }

    /// Writes an array of the ground truth.
    pub(super) fn truth<T: TensorElement, const N: usize>(
        &mut self,
        name: &str,
        dense: &DenseArray<T, N>,
    ) -> Result<(), Error> {
        let part = self.truth.write_dense(name, 0, 0, dense)?;
        self.manifest.add_dense::<T, N>(name, dense.shape(), vec![part]);
        Ok(())
    }

    /// Writes the facts, makes all files visible, and prints their names.
    pub(super) fn finish(
        mut self,
        set: &str,
        sizes: &impl Serialize,
        found: &serde_json::Value,
    ) -> anyhow::Result<ExitCode> {
        let facts = DataSetFacts { set, seed: self.layout.seed, sizes, found };
        self.facts.write(format!("{}\n", serde_json::to_string_pretty(&facts)?).as_bytes())?;
        self.finished.push(self.facts.finish()?);
        let data = self.data.finish()?;
        self.truth.commit(&self.manifest)?;
        self.finished.into_iter().try_for_each(CompleteFile::publish)?;
        data.publish()?;
        let mut text = String::new();
        for path in &self.paths {
            let size = match path.metadata() {
                Ok(metadata) if metadata.is_file() => format!(" ({})", readable::bytes(metadata.len())),
                _ => String::new(),
            };
            let _ = writeln!(text, "wrote {}{size}", path.display());
        }
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(output: &str) -> FileLayout {
        FileLayout { output: output.into(), seed: 1, force: false, workers: None }
    }

    #[test]
    fn companion_paths_follow_from_the_data_path() {
        assert_eq!(layout("a/ratings.TSV.zst").extension().as_deref(), Some("tsv"));
        assert_eq!(layout("ratings").extension(), None);
        assert_eq!(layout("a/docword.x.txt.gz").vocabulary(), Path::new("a/vocab.x.txt"));
        assert_eq!(layout("a/words.txt").vocabulary(), Path::new("a/words.txt.vocab"));
    }
}
