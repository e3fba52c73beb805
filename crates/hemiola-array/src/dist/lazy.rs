//! Lazy chains of transformations, executed in a single pass by `materialize`.
//!
//! A chain is a source of records and one function from a record to an entry. `map`, `filter` and
//! `map_keys` compose functions, so the compiler sees a single loop over the text. **Invariant:**
//! nothing is read before [`materialize`](LazyArray::materialize), and then every byte once.

use crate::dist::array::DistArray;
use crate::dist::build::{LocalEntries, build_array_with, by_number};
use crate::dist::duplicate_lines::{MatchVisitor, locate_duplicate};
use crate::dist::element::Element;
use crate::dist::partition::PartitionSpec;
use crate::dist::source::{Entry, RecordSource, assign_units};
use crate::read::{ParseError, ReadReport, ReadSummary};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{BadLine, Error, Result, Shape};
use hemiola_cluster::Cluster;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries that have not been computed yet.
///
/// ```
/// use hemiola_array::dist::{ArrayExt, ReadExt};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("ratings.csv");
/// # std::fs::write(&path, "user,item,rating\n1,7,4.5\n2,7,3\n1,2,1\n").unwrap();
/// # let path = path.to_str().unwrap();
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let ratings = cluster
///         .read_csv(path, |(user, item, rating): (usize, usize, f32)| ([user, item], rating))?
///         .filter(|_key, rating| *rating >= 3.0)
///         .map(|_key, rating| rating * 2.0)
///         .materialize()?;
///     assert_eq!(ratings.shape().extents(), [3, 8]);
///     assert_eq!(ratings.collect()?, [([1, 7], 9.0), ([2, 7], 6.0)]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
#[must_use = "nothing is read before `materialize`"]
pub struct LazyArray<S, F> {
    cluster: Cluster,
    source: S,
    transform: F,
}

impl<S, F> fmt::Debug for LazyArray<S, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lazy").finish_non_exhaustive()
    }
}

impl<S, F> LazyArray<S, F> {
    pub(crate) fn new(cluster: &Cluster, source: S, transform: F) -> Self {
        Self { cluster: cluster.clone(), source, transform }
    }
}

impl<S> LazyArray<S, ()> {
    /// Starts a chain over a user-defined source whose records are entries.
    pub fn from_source<T, const N: usize>(
        cluster: &Cluster,
        source: S,
    ) -> LazyArray<S, impl Fn(Entry<T, N>) -> Option<Entry<T, N>> + Sync>
    where
        S: RecordSource<Record = ([usize; N], T)>,
    {
        LazyArray::new(cluster, source, Some)
    }
}

impl<S: RecordSource, F> LazyArray<S, F> {
    /// Transforms every value, given its key.
    pub fn map<T, U, const N: usize>(
        self,
        change: impl Fn([usize; N], T) -> U + Sync,
    ) -> LazyArray<S, impl Fn(S::Record) -> Option<Entry<U, N>> + Sync>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let Self { cluster, source, transform } = self;
        let transform = move |record| transform(record).map(|(key, value)| (key, change(key, value)));
        LazyArray { cluster, source, transform }
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn filter<T, const N: usize>(
        self,
        keep: impl Fn([usize; N], &T) -> bool + Sync,
    ) -> LazyArray<S, impl Fn(S::Record) -> Option<Entry<T, N>> + Sync>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let Self { cluster, source, transform } = self;
        let transform = move |record| transform(record).filter(|(key, value)| keep(*key, value));
        LazyArray { cluster, source, transform }
    }

    /// Transforms every key, also to another number of dimensions.
    pub fn map_keys<T, const N: usize, const M: usize>(
        self,
        change: impl Fn([usize; N]) -> [usize; M] + Sync,
    ) -> LazyArray<S, impl Fn(S::Record) -> Option<Entry<T, M>> + Sync>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let Self { cluster, source, transform } = self;
        let transform = move |record| transform(record).map(|(key, value)| (change(key), value));
        LazyArray { cluster, source, transform }
    }

    /// *Collective.* Reads everything into an array partitioned along its first dimension. Two
    /// entries with one key are an error.
    pub fn materialize<T: Element, const N: usize>(&self) -> hemiola_cluster::Result<DistArray<T, N>>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        self.materialize_as(&PartitionSpec::default(), DuplicatePolicy::Error)
    }

    /// *Collective.* Reads everything into an array with the given partitioning and duplicate
    /// policy.
    pub fn materialize_as<T: Element, const N: usize>(
        &self,
        partition: &PartitionSpec,
        duplicates: DuplicatePolicy<T>,
    ) -> hemiola_cluster::Result<DistArray<T, N>>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let gathered = read_source(&self.cluster, &self.source, |builder: &mut SparseBuilder<T, N>, record| {
            if let Some((key, value)) = (self.transform)(record) {
                builder.push(key, value);
            }
            Ok(())
        })?;
        let known = self.source.extents().and_then(|extents| <[usize; N]>::try_from(extents).ok()).map(Shape::new);
        let builders = gathered.collected.into_iter().map(|(_, builder)| builder).collect();
        let entries = LocalEntries::from_builders(builders, known);
        let finish = |builder: SparseBuilder<T, N>, shape, order| builder.finish_unnumbered(shape, order, duplicates);
        let built = build_array_with(&self.cluster, entries, partition, finish);
        Ok(built.map_err(|error| self.locate_duplicate(error))?.with_skipped_lines(gathered.skipped))
    }

    /// *Collective.* Adds the two lines to a duplicate-key error, by reading the source once more.
    fn locate_duplicate<T, const N: usize>(&self, error: hemiola_cluster::Error) -> hemiola_cluster::Error
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let is_it = |record, key: &[usize]| (self.transform)(record).is_some_and(|(other, _)| other.as_slice() == key);
        let visit = |unit: usize, key: &[usize], report_matches: &mut MatchVisitor<'_>| {
            self.source.visit(unit, |record| report_matches(usize::from(is_it(record, key))))
        };
        let unit_peers = unit_peers(&self.cluster, &self.source);
        locate_duplicate(&self.cluster, error, &unit_peers, visit, |reports| self.source.merge_reports(reports))
    }

    /// *Collective.* Shuffles entries so that those of a group come together, in the order of the
    /// source. The result has one entry per group that occurs.
    pub fn group_by<T, I: Element, const N: usize>(
        &self,
        group: impl Fn([usize; N], T) -> (usize, I) + Sync,
    ) -> hemiola_cluster::Result<DistArray<Vec<I>, 1>>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let gathered = read_source(&self.cluster, &self.source, |builder: &mut SparseBuilder<I, 1>, record| {
            if let Some((key, value)) = (self.transform)(record) {
                let (group, item) = group(key, value);
                builder.push([group], item);
            }
            Ok(())
        })?;
        let builders = gathered.collected.into_iter().map(|(_, builder)| builder).collect();
        let entries = LocalEntries::from_builders(builders, None);
        let finish = |builder: SparseBuilder<I, 1>, shape, _| builder.finish_groups(shape);
        Ok(build_array_with(&self.cluster, entries, &PartitionSpec::default(), finish)?
            .with_skipped_lines(gathered.skipped))
    }
}

/// Result of reading all units on all peers.
pub(crate) struct UnitCollection<B> {
    /// Units of this peer with the data collected from each, in order.
    pub(crate) collected: Vec<(usize, B)>,
    /// Number of records of every unit of the job.
    pub(crate) records: Vec<u64>,
    /// Skipped bad lines of the whole job, in file order.
    pub(crate) skipped: Vec<BadLine>,
}

/// *Collective.* Collects the records of a source; see [`read_units`].
fn read_source<S: RecordSource, B: Default + Send>(
    cluster: &Cluster,
    source: &S,
    add: impl Fn(&mut B, S::Record) -> Result<(), Box<ParseError>> + Sync,
) -> hemiola_cluster::Result<UnitCollection<B>> {
    let read = |unit: usize, collected: &mut B| source.visit(unit, |record| add(collected, record));
    read_units(cluster, &unit_peers(cluster, source), read, |reports| source.merge_reports(reports))
}

/// Peer that reads each unit.
fn unit_peers<S: RecordSource>(cluster: &Cluster, source: &S) -> Vec<usize> {
    assign_units((0..source.units()).map(|unit| (source.cost(unit), source.pinned_peer(unit))), cluster.size())
}

/// *Collective.* Reads units on all workers of all peers, each into its own collection.
/// `unit_peers` is the peer of each unit. All peers fail together.
pub(crate) fn read_units<B: Default + Send>(
    cluster: &Cluster,
    unit_peers: &[usize],
    read: impl Fn(usize, &mut B) -> Result<ReadReport> + Sync,
    merge_reports: impl Fn(Vec<ReadReport>) -> Result<ReadSummary>,
) -> hemiola_cluster::Result<UnitCollection<B>> {
    let mine: Vec<usize> = (0..unit_peers.len()).filter(|unit| unit_peers[*unit] == cluster.rank().index()).collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    cluster.each_worker(|_| {
        // Relaxed: the counter only hands out units; the data goes through the mutex.
        while let Some(unit) = mine.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut data = B::default();
            let report = read(*unit, &mut data);
            done.lock().push((*unit, (data, report)));
        }
    })?;
    let mut collected = Vec::new();
    let mut reports = Vec::new();
    for (unit, (data, report)) in by_number(done.into_inner()) {
        collected.push((unit, data));
        reports.push((unit, report));
    }
    let UnitReports { records, skipped } = merge_unit_reports(cluster, reports, &merge_reports)?;
    Ok(UnitCollection { collected, records, skipped })
}

/// Reports of all units of a job.
struct UnitReports {
    /// Number of records of every unit.
    records: Vec<u64>,
    /// Skipped bad lines, in file order.
    skipped: Vec<BadLine>,
}

/// *Collective.* Merges the reports of the units of all peers. In unit order, a file system error
/// counts as much as a bad line: the first of either is returned.
fn merge_unit_reports(
    cluster: &Cluster,
    reports: Vec<(usize, Result<ReadReport>)>,
    merge_reports: &dyn Fn(Vec<ReadReport>) -> Result<ReadSummary>,
) -> hemiola_cluster::Result<UnitReports> {
    let all: Vec<(usize, Result<ReadReport>)> = cluster.all_gather(reports)?.into_iter().flatten().collect();
    let mut good = Vec::new();
    for (_, report) in by_number(all) {
        match report {
            Ok(report) => good.push(report),
            Err(error) => {
                // An earlier bad line comes first. Other complaints of the merge are caused by the
                // missing reports.
                let verdict = match merge_reports(good) {
                    Err(bad @ (Error::BadLine(_) | Error::TooManyBadLines { .. })) => bad,
                    _ => error,
                };
                return Err(verdict.into());
            }
        }
    }
    let records = good.iter().map(|report| report.records).collect();
    Ok(UnitReports { records, skipped: merge_reports(good)?.skipped })
}
