//! Files of a corpus: their format, and the extent of a document in text.
//!
//! A folder of text either has a document on each line of its files, or a document in each file.
//! **Decision:** a folder of subfolders, and one of at least [`FEWEST_FILES`] files of at most
//! [`LARGEST_MEAN`] bytes on average, has documents in files; everything else has them on lines. The
//! choice is shown before training, and an option overrides it.

use super::data::{CorpusFormat, CorpusReadOptions, DocumentUnit};
use hemiola_array::dist::find_files;
use hemiola_array::read::{DetectedFormat, FileFormat, InputFile, InputPaths};
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Minimum number of files of a folder whose files are documents.
const FEWEST_FILES: usize = 10;
/// Maximum mean size of such files in bytes.
const LARGEST_MEAN: u64 = 64 * 1024;

/// Files of a corpus, inspected by the root.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CorpusFiles {
    pub(super) format: CorpusFormat,
    pub(super) sources: Vec<InputFile>,
    pub(super) units: DocumentUnit,
}

/// *Collective.* Finds the files, their format and the extent of a document on the root.
pub(super) fn detect(cluster: &Cluster, options: &CorpusReadOptions, paths: &InputPaths) -> Result<CorpusFiles> {
    let folders = folders_of(cluster, options, paths)?;
    let sources = match folders {
        Some(sources) => sources,
        None => find_files(cluster, paths.clone())?,
    };
    let inspected = if cluster.is_root() { Some(inspect(options, sources, paths)) } else { None };
    Ok(cluster.broadcast(inspected)?.transpose()?.expect("the root has inspected the files"))
}

/// *Collective.* Returns the files below folders, where these are documents for certain: by option,
/// or because a folder contains nothing but folders.
fn folders_of(cluster: &Cluster, options: &CorpusReadOptions, paths: &InputPaths) -> Result<Option<Vec<InputFile>>> {
    let found = cluster.is_root().then(|| files_below(options, paths));
    Ok(cluster.broadcast(found)?.transpose()?.flatten())
}

fn files_below(options: &CorpusReadOptions, paths: &InputPaths) -> hemiola_array::Result<Option<Vec<InputFile>>> {
    let wanted = match options.units {
        Some(DocumentUnit::Line) => false,
        Some(DocumentUnit::File) => true,
        None => options.format.is_none_or(|format| format == CorpusFormat::Text),
    };
    let folders = paths.patterns().iter().map(Path::new);
    if !wanted || paths.patterns().is_empty() || !folders.clone().all(Path::is_dir) {
        return Ok(None);
    }
    if options.units.is_none() && !folders.clone().all(has_only_folders) {
        return Ok(None);
    }
    let mut files = Vec::new();
    for folder in folders {
        files.extend(InputFile::find_below(folder)?);
    }
    Ok(Some(files))
}

/// Returns true for a folder with subfolders and without files, apart from hidden ones.
fn has_only_folders(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let visible = |name: &std::ffi::OsStr| !name.as_encoded_bytes().starts_with(b".");
    let mut shown = entries.flatten().filter(|entry| visible(&entry.file_name())).peekable();
    shown.peek().is_some() && shown.all(|entry| entry.path().is_dir())
}

fn inspect(
    options: &CorpusReadOptions,
    sources: Vec<InputFile>,
    paths: &InputPaths,
) -> hemiola_array::Result<CorpusFiles> {
    if let Some(column) = &options.text_column {
        let sources = InputFile::as_texts(sources, column)?;
        return Ok(CorpusFiles { format: CorpusFormat::Text, sources, units: DocumentUnit::Line });
    }
    let Some(first) = sources.iter().find(|source| source.bytes() > 0).or(sources.first()) else {
        return Err(hemiola_array::Error::NoFiles { pattern: paths.to_string() });
    };
    let format = match options.format {
        Some(format) => format,
        None if options.units == Some(DocumentUnit::File) => CorpusFormat::Text,
        None => detected_format(first)?,
    };
    let bytes: u64 = sources.iter().map(InputFile::bytes).sum();
    let folder = paths.patterns().iter().any(|path| Path::new(path).is_dir());
    let small = sources.len() >= FEWEST_FILES && bytes / sources.len() as u64 <= LARGEST_MEAN;
    let below = || paths.patterns().iter().all(|path| has_only_folders(Path::new(path)));
    let units =
        options.units.unwrap_or(if folder && (small || below()) { DocumentUnit::File } else { DocumentUnit::Line });
    if format != CorpusFormat::Text || units == DocumentUnit::Line {
        return Ok(CorpusFiles { format, sources, units: DocumentUnit::Line });
    }
    Ok(CorpusFiles { format, sources: sources.into_iter().map(InputFile::as_document).collect(), units })
}

fn detected_format(first: &InputFile) -> hemiola_array::Result<CorpusFormat> {
    Ok(match DetectedFormat::of(first).map(|guess| guess.format) {
        Ok(FileFormat::Docword) => CorpusFormat::Docword,
        Ok(FileFormat::Libsvm) => CorpusFormat::Libsvm,
        Ok(FileFormat::Ldac) => CorpusFormat::Ldac,
        Ok(other @ (FileFormat::MatrixMarket | FileFormat::Npy)) => {
            let problem =
                format!("it is a file of the format `{other}`; documents are read from docword, libsvm, ldac or text");
            return Err(hemiola_array::Error::BadFile { file: first.path().to_owned(), problem });
        }
        Ok(other @ (FileFormat::JsonLines | FileFormat::Parquet | FileFormat::Arrow)) => {
            let problem =
                format!("it is a table of the format `{other}`; name its column of texts with `--text-column NAME`");
            return Err(hemiola_array::Error::BadFile { file: first.path().to_owned(), problem });
        }
        // Separated values and unstructured files.
        _ => CorpusFormat::Text,
    })
}
