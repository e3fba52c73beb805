//! Parquet and Arrow IPC files as arrays (feature `arrow`): one unit per row group.

use crate::dist::agree::agree;
use crate::dist::lazy::LazyArray;
use crate::dist::readers::find_files;
use crate::dist::source::{Entry, RecordSource};
use crate::read::columnar::{Columnar, FromColumns};
use crate::read::{InputFile, InputPaths, ParseError, ReadReport};
use crate::{Error, Result};
use hemiola_cluster::Cluster;
use std::marker::PhantomData;

/// Record source over the rows of columnar files.
#[derive(Debug)]
pub struct ColumnarSource<R> {
    files: Vec<Columnar>,
    /// File and row group of each unit.
    units: Vec<(usize, usize)>,
    names: Vec<String>,
    record: PhantomData<fn() -> R>,
}

impl<R: FromColumns> RecordSource for ColumnarSource<R> {
    type Record = R;

    fn units(&self) -> usize {
        self.units.len()
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn visit(&self, unit: usize, mut visit: impl FnMut(R) -> Result<(), Box<ParseError>>) -> Result<ReadReport> {
        let (file, group) = self.units[unit];
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        // A visitor that rejects a row is searching for one; rows have no line numbers to report.
        let records = self.files[file].read(group..group + 1, &names, |row: R| drop(visit(row)))?;
        Ok(ReadReport { records, bad: Vec::new() })
    }
}

/// Lazy chain over rows that become an `R` each.
pub type ColumnsLazy<R, F> = LazyArray<ColumnarSource<R>, F>;

/// Extension trait of [`Cluster`] that reads columnar files into arrays.
pub trait ReadColumnsExt {
    /// *Collective.* Reads Parquet or Arrow IPC files: the named columns of each row become an `R`
    /// (a tuple) and then an entry.
    fn read_columns<R: FromColumns, T, const N: usize>(
        &self,
        paths: impl Into<InputPaths>,
        columns: &[&str],
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<ColumnsLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>> {
        self.read_columns_with(paths, columns, std::convert::identity, entry)
    }

    /// *Collective.* Reads columnar files with options, set on the opened files: `|file|
    /// file.non_finite(NonFiniteHandling::Keep)`.
    fn read_columns_with<R: FromColumns, T, const N: usize>(
        &self,
        paths: impl Into<InputPaths>,
        columns: &[&str],
        options: impl Fn(Columnar) -> Columnar,
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<ColumnsLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>>;
}

impl ReadColumnsExt for Cluster {
    fn read_columns_with<R: FromColumns, T, const N: usize>(
        &self,
        paths: impl Into<InputPaths>,
        columns: &[&str],
        options: impl Fn(Columnar) -> Columnar,
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<ColumnsLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>> {
        let sources: Vec<InputFile> = find_files(self, paths)?;
        // Every peer reads the footers: they are small, and a file that a peer cannot open is
        // reported now.
        let open = |source: &InputFile| Columnar::open(source).map(&options);
        let files: Vec<Columnar> = agree(self, sources.iter().map(open).collect())?;
        let missing =
            |file: &Columnar| columns.iter().find(|name| !file.columns().iter().any(|column| column == *name)).copied();
        let checked = files.iter().zip(&sources).try_for_each(|(file, source)| match missing(file) {
            None => Ok(()),
            Some(name) => Err(Error::BadFile {
                file: source.path().to_owned(),
                problem: format!("it has no column `{name}`; its columns are: {}", file.columns().join(", ")),
            }),
        });
        agree(self, checked)?;
        let units =
            files.iter().enumerate().flat_map(|(number, file)| (0..file.groups()).map(move |group| (number, group)));
        let units = units.collect();
        let names = columns.iter().map(|name| (*name).to_owned()).collect();
        let source = ColumnarSource { files, units, names, record: PhantomData };
        Ok(LazyArray::new(self, source, move |record| Some(entry(record))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Float32Array, RecordBatch, UInt32Array};
    use std::sync::Arc;

    /// Two files, one of each format, with three row groups in total.
    fn files(folder: &std::path::Path) {
        let batch = |first: u32, count: u32| {
            let users: UInt32Array = (first..first + count).map(Some).collect();
            let items: UInt32Array = (first..first + count).map(|user| Some(user * 7 % 13)).collect();
            let ratings: Float32Array = (first..first + count).map(|user| Some(user as f32 / 2.0)).collect();
            RecordBatch::try_from_iter([
                ("user", Arc::new(users) as ArrayRef),
                ("item", Arc::new(items) as ArrayRef),
                ("rating", Arc::new(ratings) as ArrayRef),
            ])
            .unwrap()
        };
        let file = std::fs::File::create(folder.join("a.parquet")).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch(0, 1).schema(), None).unwrap();
        for first in [0, 50] {
            writer.write(&batch(first, 50)).unwrap();
            writer.flush().unwrap();
        }
        writer.close().unwrap();
        let file = std::fs::File::create(folder.join("b.arrow")).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch(0, 1).schema()).unwrap();
        writer.write(&batch(100, 30)).unwrap();
        writer.finish().unwrap();
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "halves are exact")]
    fn columnar_files_give_the_same_array_on_any_cluster() {
        let folder = tempfile::tempdir().unwrap();
        files(folder.path());
        let pattern = folder.path().to_str().unwrap();
        for peers in [1, 2, 4] {
            let results = hemiola_cluster::standalone(peers).run(|cluster| {
                let names = ["rating", "user", "item"];
                let entry = |(rating, user, item): (f32, usize, usize)| ([user, item], rating);
                cluster.read_columns(pattern, &names, entry)?.materialize()?.collect()
            });
            for entries in results.unwrap() {
                assert_eq!(entries.len(), 130);
                assert!(
                    entries
                        .iter()
                        .all(|([user, item], rating)| *item == user * 7 % 13 && *rating == *user as f32 / 2.0)
                );
            }
        }
    }

    #[test]
    fn a_missing_column_is_named_with_the_existing_ones() {
        let folder = tempfile::tempdir().unwrap();
        files(folder.path());
        let pattern = folder.path().to_str().unwrap();
        let outcome = hemiola_cluster::standalone(2).run(|cluster| {
            cluster.read_columns(pattern, &["user", "stars"], |(user, stars): (usize, f32)| ([user], stars)).map(drop)
        });
        let error = outcome.unwrap_err().to_string();
        assert!(
            error.ends_with("a.parquet`: it has no column `stars`; its columns are: user, item, rating"),
            "{error}"
        );
    }
}
