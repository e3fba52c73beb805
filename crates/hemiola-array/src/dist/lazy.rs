//! Chains of transformations that cost nothing until they are materialized, and then one pass.
//!
//! A chain is a source of records and one function from a record to an entry; `map`, `filter` and `map_keys` compose
//! functions, so the compiler sees a single loop over the text. **Invariant:** nothing is read before
//! [`materialize`](Lazy::materialize), and then every byte once.

use crate::dist::array::DistArray;
use crate::dist::element::Element;
use crate::dist::partition::Partition;
use crate::dist::place::{Pieces, place_with};
use crate::dist::source::{Entry, RecordSource, deal};
use crate::dist::trace::{Ask, traced};
use crate::read::{Mistake, Report, Summary};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{BadLine, Error, Result, Shape};
use hemiola_cluster::Cluster;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries that have not been computed yet.
///
/// ```
/// use hemiola_array::dist::{MakeArrays, ReadArrays};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("ratings.csv");
/// # std::fs::write(&path, "user,item,rating\n1,7,4.5\n2,7,3\n1,2,1\n").unwrap();
/// # let path = path.to_str().unwrap();
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let ratings = cluster
///         .read_csv(path, |(user, item, rating): (u64, u64, f32)| ([user, item], rating))?
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
pub struct Lazy<S, F> {
    cluster: Cluster,
    source: S,
    transform: F,
}

impl<S, F> fmt::Debug for Lazy<S, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lazy").finish_non_exhaustive()
    }
}

impl<S, F> Lazy<S, F> {
    pub(crate) fn new(cluster: &Cluster, source: S, transform: F) -> Self {
        Self { cluster: cluster.clone(), source, transform }
    }
}

impl<S> Lazy<S, ()> {
    /// The start of a chain over a source of one's own, whose records are entries.
    pub fn over<T, const N: usize>(
        cluster: &Cluster,
        source: S,
    ) -> Lazy<S, impl Fn(Entry<T, N>) -> Option<Entry<T, N>> + Sync>
    where
        S: RecordSource<Record = ([u64; N], T)>,
    {
        Lazy::new(cluster, source, Some)
    }
}

impl<S: RecordSource, F> Lazy<S, F> {
    /// Changes every value.
    pub fn map<T, U, const N: usize>(
        self,
        change: impl Fn([u64; N], T) -> U + Sync,
    ) -> Lazy<S, impl Fn(S::Record) -> Option<Entry<U, N>> + Sync>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let Self { cluster, source, transform } = self;
        let transform = move |record| transform(record).map(|(key, value)| (key, change(key, value)));
        Lazy { cluster, source, transform }
    }

    /// Keeps the entries for which `keep` holds.
    pub fn filter<T, const N: usize>(
        self,
        keep: impl Fn([u64; N], &T) -> bool + Sync,
    ) -> Lazy<S, impl Fn(S::Record) -> Option<Entry<T, N>> + Sync>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let Self { cluster, source, transform } = self;
        let transform = move |record| transform(record).filter(|(key, value)| keep(*key, value));
        Lazy { cluster, source, transform }
    }

    /// Gives every entry another key, of any number of dimensions.
    pub fn map_keys<T, const N: usize, const M: usize>(
        self,
        change: impl Fn([u64; N]) -> [u64; M] + Sync,
    ) -> Lazy<S, impl Fn(S::Record) -> Option<Entry<T, M>> + Sync>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let Self { cluster, source, transform } = self;
        let transform = move |record| transform(record).map(|(key, value)| (change(key), value));
        Lazy { cluster, source, transform }
    }

    /// *Collective.* Reads everything into an array cut along its first dimension. Two entries with one key are an error.
    pub fn materialize<T: Element, const N: usize>(&self) -> hemiola_cluster::Result<DistArray<T, N>>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        self.materialize_as(&Partition::default(), DuplicatePolicy::Error)
    }

    /// *Collective.* Reads everything into an array that is cut and treats duplicates as told.
    pub fn materialize_as<T: Element, const N: usize>(
        &self,
        partition: &Partition,
        duplicates: DuplicatePolicy<T>,
    ) -> hemiola_cluster::Result<DistArray<T, N>>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let gathered = gather(&self.cluster, &self.source, |builder: &mut SparseBuilder<T, N>, record| {
            if let Some((key, value)) = (self.transform)(record) {
                builder.push(key, value);
            }
            Ok(())
        })?;
        let known = self.source.extents().and_then(|extents| <[u64; N]>::try_from(extents).ok()).map(Shape::new);
        let builders = gathered.held.into_iter().map(|(_, builder)| builder).collect();
        let pieces = Pieces::built(builders, known);
        let finish = |builder: SparseBuilder<T, N>, shape, order| builder.finish_unnumbered(shape, order, duplicates);
        let placed = place_with(&self.cluster, pieces, partition, finish);
        Ok(placed.map_err(|error| self.traced(error))?.with_skipped(gathered.skipped))
    }

    /// *Collective.* If the error is a key that was given twice, finds out where, by reading once more.
    fn traced<T, const N: usize>(&self, error: hemiola_cluster::Error) -> hemiola_cluster::Error
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let is_it = |record, key: &[u64]| (self.transform)(record).is_some_and(|(other, _)| other.as_slice() == key);
        let visit = |unit: usize, key: &[u64], ask: &mut Ask<'_>| {
            self.source.visit(unit, |record| ask(usize::from(is_it(record, key))))
        };
        let dealt = dealt(&self.cluster, &self.source);
        traced(&self.cluster, error, &dealt, visit, |reports| self.source.settle(reports))
    }

    /// *Collective.* A shuffle: entries for which `group` names the same group come together, in the order of the source.
    /// The result has one entry per group that occurs.
    pub fn group_by<T, I: Element, const N: usize>(
        &self,
        group: impl Fn([u64; N], T) -> (u64, I) + Sync,
    ) -> hemiola_cluster::Result<DistArray<Vec<I>, 1>>
    where
        F: Fn(S::Record) -> Option<Entry<T, N>> + Sync,
    {
        let gathered = gather(&self.cluster, &self.source, |builder: &mut SparseBuilder<I, 1>, record| {
            if let Some((key, value)) = (self.transform)(record) {
                let (group, item) = group(key, value);
                builder.push([group], item);
            }
            Ok(())
        })?;
        let builders = gathered.held.into_iter().map(|(_, builder)| builder).collect();
        let pieces = Pieces::built(builders, None);
        let finish = |builder: SparseBuilder<I, 1>, shape, _| builder.finish_groups(shape);
        Ok(place_with(&self.cluster, pieces, &Partition::default(), finish)?.with_skipped(gathered.skipped))
    }
}

/// What a reading by all peers came to.
pub(crate) struct Gathered<B> {
    /// Units of this peer with what was collected from each, in order.
    pub(crate) held: Vec<(usize, B)>,
    /// The number of records of every unit of the job.
    pub(crate) records: Vec<u64>,
    /// The lines that were left out, of the whole job, in file order.
    pub(crate) skipped: Vec<BadLine>,
}

/// *Collective.* Collects the records of a source; see [`gather_units`].
fn gather<S: RecordSource, B: Default + Send>(
    cluster: &Cluster,
    source: &S,
    add: impl Fn(&mut B, S::Record) -> Result<(), Box<Mistake>> + Sync,
) -> hemiola_cluster::Result<Gathered<B>> {
    let read = |unit: usize, collected: &mut B| source.visit(unit, |record| add(collected, record));
    gather_units(cluster, &dealt(cluster, source), read, |reports| source.settle(reports))
}

/// Which peer reads which unit.
fn dealt<S: RecordSource>(cluster: &Cluster, source: &S) -> Vec<usize> {
    deal((0..source.units()).map(|unit| (source.cost(unit), source.home(unit))), cluster.size())
}

/// *Collective.* Has every worker of every peer read units (`dealt` says which peer reads which) into collections of their
/// own; all peers fail together.
pub(crate) fn gather_units<B: Default + Send>(
    cluster: &Cluster,
    dealt: &[usize],
    read: impl Fn(usize, &mut B) -> Result<Report> + Sync,
    settle: impl Fn(Vec<Report>) -> Result<Summary>,
) -> hemiola_cluster::Result<Gathered<B>> {
    let mine: Vec<usize> = (0..dealt.len()).filter(|unit| dealt[*unit] == cluster.rank().index()).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, B, Result<Report>)>> = Mutex::new(Vec::new());
    cluster.each_worker(|_| {
        // Relaxed: the counter only deals units out; what is read travels through the mutex.
        while let Some(unit) = mine.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut collected = B::default();
            let report = read(*unit, &mut collected);
            done.lock().push((*unit, collected, report));
        }
    })?;
    let mut done = done.into_inner();
    done.sort_by_key(|(unit, ..)| *unit);
    let mut held = Vec::with_capacity(done.len());
    let mut reports: Vec<(usize, Result<Report, Error>)> = Vec::with_capacity(done.len());
    for (unit, builder, report) in done {
        held.push((unit, builder));
        reports.push((unit, report));
    }
    // In unit order, an error of the file system counts as much as a bad line: the first of either is the verdict.
    let mut all: Vec<(usize, Result<Report, Error>)> = cluster.all_gather(reports)?.into_iter().flatten().collect();
    all.sort_by_key(|(unit, _)| *unit);
    let mut good = Vec::new();
    for (_, report) in all {
        match report {
            Ok(report) => good.push(report),
            Err(error) => {
                // A bad line before it comes first; anything else the reports lack is because of this error.
                let verdict = match settle(good) {
                    Err(bad @ (Error::BadLine(_) | Error::TooManyBadLines { .. })) => bad,
                    _ => error,
                };
                return Err(verdict.into());
            }
        }
    }
    let records = good.iter().map(|report| report.records).collect();
    let skipped = settle(good)?.skipped;
    Ok(Gathered { held, records, skipped })
}
