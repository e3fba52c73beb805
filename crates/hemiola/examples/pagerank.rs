//! `PageRank` by power iteration.
//!
//! The links are a sparse array indexed by target and source. A link adds a share of its source's
//! rank to its target, so two links depend on each other only if they have the same target. Parts
//! along the target are independent. The ranks of sources are read by all workers.
//!
//! `cargo run --release --example pagerank`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/pagerank`

use hemiola::core::rng::PhiloxRng;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

/// Damping factor: the probability that the random surfer follows a link instead of jumping
/// anywhere.
const DAMPING: f64 = 0.85;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let web = Web::new(cluster, synthetic_links(cluster, 2000)?)?;
        for iteration in 1..=100 {
            let (change, _) = web.iterate(cluster)?;
            if iteration % 5 == 0 || change < 1e-9 {
                cluster.println(format_args!("iteration {iteration}: ranks changed by {change:.1e}"));
            }
            if change < 1e-9 {
                break;
            }
        }
        let mut pages = web.ranks.collect()?;
        pages.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        for ([page], rank) in pages.iter().take(5) {
            cluster.println(format_args!("page {page}: {rank:.5}"));
        }
        Ok(())
    })
}

struct Web {
    links: DistArray<(), 2>,
    /// Number of outgoing links, by page.
    out: DistArray<u32, 1>,
    ranks: DistArray<f64, 1>,
    next: DistArray<f64, 1>,
}

impl Web {
    fn new(cluster: &Cluster, links: DistArray<(), 2>) -> hemiola::Result<Self> {
        let pages = links.shape().extent(0).max(links.shape().extent(1));
        let out = cluster.zeros([pages])?;
        // In this loop two links depend on each other if they have the same source, so it is cut
        // along the source.
        parallel_for!(
            cluster,
            for ([_, source], ()) in &links {
                out[source] += 1;
            }
        )?;
        let ranks = cluster.from_fn([pages], |_| 1.0 / pages as f64)?;
        Ok(Self { links, out, ranks, next: cluster.zeros([pages])? })
    }

    /// One power iteration. Returns the sum of the absolute changes of all ranks.
    fn iterate(&self, cluster: &Cluster) -> hemiola::Result<(f64, [LoopReport; 2])> {
        let Self { links, out, ranks, next } = self;
        let pages = ranks.shape().extent(0) as usize;
        let (dangling, change) = (cluster.accumulator::<f64>(), cluster.accumulator::<f64>());
        let over_pages = parallel_for!(
            cluster,
            for p in 0..pages {
                next[p] = 0.0;
                if out[p] == 0 {
                    dangling += ranks[p];
                }
            }
        )?;
        // The rank of pages without outgoing links is spread over all pages.
        let teleport = ((1.0 - DAMPING) + DAMPING * dangling.take()?) / pages as f64;
        let over_links = parallel_for!(
            cluster,
            for ([target, source], ()) in links {
                next[target] += ranks[source] / f64::from(out[source]);
            }
        )?;
        parallel_for!(
            cluster,
            for p in 0..pages {
                let rank = teleport + DAMPING * next[p];
                change += (rank - ranks[p]).abs();
                ranks[p] = rank;
            }
        )?;
        Ok((change.take()?, [over_pages, over_links]))
    }
}

/// Synthetic links. Pages with small indices have more incoming links; one page in fifty has no
/// outgoing links.
fn synthetic_links(cluster: &Cluster, pages: u64) -> hemiola::Result<DistArray<(), 2>> {
    let random = PhiloxRng::new(1);
    let linked = |target: u64, source: u64| {
        let probability = 20.0 / (pages as f64 * (target + 1) as f64).sqrt();
        source != target && source % 50 != 49 && random.random_f64(target * pages + source, 0) < probability
    };
    let all = cluster.from_fn([pages, pages], |[target, source]| linked(target, source))?;
    all.entries().filter(|_, linked| *linked).map(|_, _| ()).materialize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::LoopPlan;

    /// Serial reference implementation in plain Rust.
    fn serial([over_pages, over_links]: [&LoopPlan; 2], links: Vec<([u64; 2], ())>, out: &[u32], ranks: &mut [f64]) {
        // An accumulator returns the sum of the workers' sums.
        let mut dangling = vec![0.0; over_pages.cuts.parts()];
        for p in (0..ranks.len()).filter(|p| out[*p] == 0) {
            dangling[over_pages.block_of(&[p as u64]).part] += ranks[p];
        }
        let dangling = dangling.into_iter().fold(0.0, |sum, part| sum + part);
        let teleport = ((1.0 - DAMPING) + DAMPING * dangling) / ranks.len() as f64;
        let mut next = vec![0.0; ranks.len()];
        for ([target, source], ()) in over_links.in_order(links) {
            next[target as usize] += ranks[source as usize] / f64::from(out[source as usize]);
        }
        ranks.iter_mut().zip(next).for_each(|(rank, next)| *rank = teleport + DAMPING * next);
    }

    #[test]
    fn equals_the_serial_loops_over_the_links_in_the_plans_order() {
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let web = Web::new(cluster, synthetic_links(cluster, 150)?)?;
                let links = web.links.collect()?;
                let mut out = vec![0; 150];
                for ([_, source], ()) in &links {
                    out[*source as usize] += 1;
                }
                assert!(web.out.collect()?.into_iter().map(|(_, count)| count).eq(out.iter().copied()));
                let mut expected = vec![1.0 / 150.0; 150];
                for _ in 0..3 {
                    let (_, [over_pages, over_links]) = web.iterate(cluster)?;
                    let plan = over_links.plan();
                    let along_the_target = plan.dimensions == (0, None) && plan.cuts.parts() == peers * workers;
                    assert!(along_the_target, "{plan}");
                    if cluster.is_root() {
                        serial([over_pages.plan(), plan], links.clone(), &out, &mut expected);
                    }
                }
                Ok(web.ranks.collect()?.into_iter().map(|(_, rank)| rank).eq(expected))
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
