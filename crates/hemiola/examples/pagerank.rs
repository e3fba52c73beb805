//! `PageRank`: how often a reader who follows links at random comes to a page.
//!
//! The links are a sparse array with the target first. A link adds a share of its source's rank to its target, so two links
//! depend on each other only if they have the same target: parts along the target need nothing of each other. Ranks of
//! sources are read by all.
//!
//! `cargo run --release --example pagerank`, or on several peers: `hemiola run -n 2 -- target/release/examples/pagerank`

use hemiola::array::random::Values;
use hemiola::loops::Run;
use hemiola::prelude::*;

/// The chance that the reader follows a link rather than going anywhere.
const FOLLOW: f64 = 0.85;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let web = Web::new(cluster, made_up(cluster, 2000)?)?;
        for round in 1..=100 {
            let (change, _) = web.round(cluster)?;
            if round % 5 == 0 || change < 1e-9 {
                cluster.println(format_args!("round {round}: ranks changed by {change:.1e}"));
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
    /// By page: how many links it has to others.
    out: DistArray<u32, 1>,
    ranks: DistArray<f64, 1>,
    next: DistArray<f64, 1>,
}

impl Web {
    fn new(cluster: &Cluster, links: DistArray<(), 2>) -> hemiola::Result<Self> {
        let pages = links.shape().extent(0).max(links.shape().extent(1));
        let out = cluster.zeros([pages])?;
        // The same array, but a link depends on another if it has the same source: this one runs along the source.
        parallel_for!(
            cluster,
            for ([_, source], ()) in &links {
                out[source] += 1;
            }
        )?;
        let ranks = cluster.from_fn([pages], |_| 1.0 / pages as f64)?;
        Ok(Self { links, out, ranks, next: cluster.zeros([pages])? })
    }

    /// Lets every reader move once: the sum of all changes of ranks.
    fn round(&self, cluster: &Cluster) -> hemiola::Result<(f64, [Run; 2])> {
        let Self { links, out, ranks, next } = self;
        let pages = ranks.shape().extent(0) as usize;
        let (stuck, change) = (cluster.accumulator::<f64>(), cluster.accumulator::<f64>());
        let over_pages = parallel_for!(
            cluster,
            for p in 0..pages {
                next[p] = 0.0;
                if out[p] == 0 {
                    stuck += ranks[p];
                }
            }
        )?;
        // Readers of pages without links go anywhere.
        let anywhere = ((1.0 - FOLLOW) + FOLLOW * stuck.take()?) / pages as f64;
        let over_links = parallel_for!(
            cluster,
            for ([target, source], ()) in links {
                next[target] += ranks[source] / f64::from(out[source]);
            }
        )?;
        parallel_for!(
            cluster,
            for p in 0..pages {
                let rank = anywhere + FOLLOW * next[p];
                change += (rank - ranks[p]).abs();
                ranks[p] = rank;
            }
        )?;
        Ok((change.take()?, [over_pages, over_links]))
    }
}

/// Links between pages; those with small numbers are more popular. One page in fifty has none.
fn made_up(cluster: &Cluster, pages: u64) -> hemiola::Result<DistArray<(), 2>> {
    let random = Values::new(1);
    let linked = |target: u64, source: u64| {
        let chance = 20.0 / (pages as f64 * (target + 1) as f64).sqrt();
        source != target && source % 50 != 49 && random.unit(target * pages + source, 0) < chance
    };
    let all = cluster.from_fn([pages, pages], |[target, source]| linked(target, source))?;
    all.entries().filter(|_, linked| *linked).map(|_, _| ()).materialize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::Plan;

    /// The same in plain Rust.
    fn serial([over_pages, over_links]: [&Plan; 2], links: Vec<([u64; 2], ())>, out: &[u32], ranks: &mut [f64]) {
        // What an accumulator gives is the sum of the workers' sums.
        let mut stuck = vec![0.0; over_pages.cuts.parts()];
        for p in (0..ranks.len()).filter(|p| out[*p] == 0) {
            stuck[over_pages.block_of(&[p as u64]).part] += ranks[p];
        }
        let stuck = stuck.into_iter().fold(0.0, |sum, part| sum + part);
        let anywhere = ((1.0 - FOLLOW) + FOLLOW * stuck) / ranks.len() as f64;
        let mut next = vec![0.0; ranks.len()];
        for ([target, source], ()) in over_links.in_order(links) {
            next[target as usize] += ranks[source as usize] / f64::from(out[source as usize]);
        }
        ranks.iter_mut().zip(next).for_each(|(rank, next)| *rank = anywhere + FOLLOW * next);
    }

    #[test]
    fn equals_the_serial_loops_over_the_links_in_the_plans_order() {
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let web = Web::new(cluster, made_up(cluster, 150)?)?;
                let links = web.links.collect()?;
                let mut out = vec![0; 150];
                for ([_, source], ()) in &links {
                    out[*source as usize] += 1;
                }
                assert!(web.out.collect()?.into_iter().map(|(_, count)| count).eq(out.iter().copied()));
                let mut twin = vec![1.0 / 150.0; 150];
                for _ in 0..3 {
                    let (_, [over_pages, over_links]) = web.round(cluster)?;
                    let plan = over_links.plan();
                    let along_the_target = plan.dimensions == (0, None) && plan.cuts.parts() == peers * workers;
                    assert!(along_the_target, "{plan}");
                    if cluster.is_root() {
                        serial([over_pages.plan(), plan], links.clone(), &out, &mut twin);
                    }
                }
                Ok(web.ranks.collect()?.into_iter().map(|(_, rank)| rank).eq(twin))
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
