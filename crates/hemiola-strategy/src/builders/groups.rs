//! Which variables that are summed share a message.
//!
//! Neighbours are put together. With few variables in a message each pays its latency; with many, the first gradients wait for the last, and what travels after the backward pass is longer: a net whose variables all
//! go in one message computes first and sends afterwards. If all that is summed takes a time `T` and a message `l` before its first byte, `n` messages lose about `n l` to latency and `T / n` to the last one, which nothing hides. That is
//! least for messages that take `√(T l)`. Towards the end they become shorter: a message holds half of what is left at most, and what travels in `l` at least, so that of all that no backward pass hides only the variables of the first layers are left, which the
//! next forward pass waits for first.

use crate::cost::Costs;
use crate::node::Synchronizer;
use crate::strategy::Plan;
use hemiola_collective_proto::Encoding;

/// No message is made longer than this by putting together. As in `PyTorch`.
const MOST_BYTES: u64 = 25 << 20;

/// Gives neighbours that are summed a group, from the last, whose gradients are the first to come.
pub(super) fn put_together(plans: &mut [Plan], costs: &Costs<'_>) {
    let is_summed = |plan: &Plan| plan.partitioning.is_whole() && plan.nodes[0].group().is_some();
    let length = |plan: &Plan| plan.shape.iter().map(|extent| *extent as u64).product::<u64>();
    let mut left = plans.iter().filter(|plan| is_summed(plan)).map(length).sum();
    let (least, enough) = sizes(costs, left);
    let (mut group, mut elements) = (0_u32, 0_u64);
    for plan in plans.iter_mut().rev().filter(|plan| is_summed(plan)) {
        let own = length(plan);
        let most = enough.min(u64::midpoint(elements, left)).max(least);
        if elements > 0 && (elements >= most || 4 * (elements + own) > MOST_BYTES) {
            (group, elements) = (group + 1, 0);
        }
        elements += own;
        left -= own;
        plan.nodes[0].synchronizer = Synchronizer::AllReduce { algorithm: None, group };
    }
}

/// Elements that travel in the latency of a message, and those of a message if there are so many in all.
fn sizes(costs: &Costs<'_>, all: u64) -> (u64, u64) {
    let seconds = |elements: usize| costs.all_reduce(None, Encoding::Plain, (elements, 1)).0.seconds();
    // The way that is best for long messages is the one to compare with: what a number takes there, without latency.
    let long = MOST_BYTES as usize / 4;
    let per_element = (seconds(2 * long) - seconds(long)) / long as f64;
    if per_element <= 0.0 {
        return (all, all);
    }
    let least = seconds(1) / per_element;
    (least as u64, (all as f64 * least).sqrt() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::collective::summed;
    use crate::cluster::{Cluster, Link};
    use crate::model::{Model, Variable};

    #[test]
    fn messages_are_neither_many_nor_long() {
        let model = Model::new((0..400).map(|at| Variable::dense(format!("v{at}"), [1000])).collect()).unwrap();
        let cluster = Cluster::uniform(4, Link { bytes_per_second: 1e8, latency: 1e-4 });
        let plans = summed(&model, &cluster);
        let groups: Vec<u32> =
            plans.iter().rev().map(|plan| plan.nodes[0].group().expect("small ones are summed")).collect();
        assert!(groups.is_sorted() && groups[0] == 0);
        let sizes: Vec<usize> = groups.chunk_by(|one, other| one == other).map(<[u32]>::len).collect();
        // An element takes 1.5 · 4 / 10⁸ s, all of them 24 ms, and a short message 0.2 ms: messages of 2.19 ms have 36,515 elements. The last become shorter, down to what travels in 0.2 ms, 3,333 elements.
        assert_eq!(sizes, [37, 37, 37, 37, 37, 37, 37, 37, 37, 34, 17, 8, 4, 4]);
    }
}
