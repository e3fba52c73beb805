//! `PageRank` equals the serial loop over the links in the order of the plan.

use super::programs::pagerank::{DAMPING, iterate, synthetic_links};
use super::{equals_on_all_clusters, values};
use hemiola::prelude::*;

const PAGES: usize = 150;

#[test]
fn equals_the_serial_loop_over_the_links_in_the_plans_order() {
    equals_on_all_clusters(|cluster| {
        let links = synthetic_links(cluster, PAGES)?;
        let (mut ranks, mut next) = (cluster.from_fn([PAGES], |_| 1.0 / PAGES as f64)?, cluster.zeros([PAGES])?);
        let mut expected = values(&ranks)?;
        for _ in 0..3 {
            let (_, run) = iterate(cluster, &links, [&mut ranks, &mut next])?;
            let plan = run.plan();
            let along_the_target =
                plan.dimensions == (0, None) && plan.cuts.parts() == cluster.size() * cluster.workers();
            assert!(along_the_target, "{plan}");
            let mut sums = vec![0.0; PAGES];
            for ([target, source], share) in plan.in_order(links.collect()?) {
                sums[target] += share * expected[source];
            }
            expected = sums.iter().map(|sum| (1.0 - DAMPING) / PAGES as f64 + DAMPING * sum).collect();
        }
        let total: f64 = expected.iter().sum();
        assert!((total - 1.0).abs() < 1e-9, "ranks are probabilities: {total}");
        Ok(values(&ranks)? == expected)
    });
}
