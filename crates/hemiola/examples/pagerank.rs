//! `PageRank` by power iteration.
//!
//! The links are a sparse array indexed by target and source. A link adds a share of its source's
//! rank to its target, so two links depend on each other only if they have the same target. The
//! plan cuts the links along the target, and all workers read the ranks of the sources.
//!
//! `cargo run --release --example pagerank`:
//! ```text
//! iteration 1: ranks changed by 5.7e-1
//! iteration 2: ranks changed by 4.0e-1
//! ```

use hemiola::Result;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

type Links = DistArray<f64, 2>;
type Ranks = DistArray<f64, 1>;
pub(crate) const DAMPING: f64 = 0.85;

fn main() -> Result<()> {
    hemiola::run(|cluster| {
        let links = synthetic_links(cluster, 500)?;
        let (mut ranks, mut next) = (cluster.from_fn([500], |_| 1.0 / 500.0)?, cluster.zeros([500])?);
        for iteration in 1..=2 {
            let (change, _) = iterate(cluster, &links, [&mut ranks, &mut next])?;
            cluster.println(format_args!("iteration {iteration}: ranks changed by {change:.1e}"));
        }
        Ok(())
    })
}

/// One power iteration. Returns the sum of the absolute changes of all ranks.
pub(crate) fn iterate(cluster: &Cluster, links: &Links, [ranks, next]: [&mut Ranks; 2]) -> Result<(f64, LoopReport)> {
    let (pages, change) = (ranks.shape().extent(0), cluster.accumulator::<f64>());
    let run = parallel_for!(
        cluster,
        for ([target, source], share) in links {
            next[target] += share * ranks[source];
        }
    )?;
    parallel_for!(
        cluster,
        for p in 0..pages {
            let rank = (1.0 - DAMPING) / pages as f64 + DAMPING * next[p];
            change += (rank - ranks[p]).abs();
            ranks[p] = rank;
            next[p] = 0.0;
        }
    )?;
    Ok((change.take()?, run))
}

/// Links of a synthetic web: a page gives a third of its rank to each of three pages.
pub(crate) fn synthetic_links(cluster: &Cluster, pages: usize) -> Result<Links> {
    let targets = |source: usize| [source / 2, source / 3, (source + 1) % pages];
    let share = |[target, source]: [usize; 2]| targets(source).iter().filter(|page| **page == target).count();
    let all = cluster.from_fn([pages, pages], |key| share(key) as f64 / 3.0)?;
    Ok(all.entries().filter(|_, share| *share > 0.0).materialize()?)
}
