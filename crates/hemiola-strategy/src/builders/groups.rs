//! Grouping (bucketing) of all-reduced variables into messages.
//!
//! Neighbours are grouped. With few variables per message each pays its latency; with many, the
//! first gradients wait for the last, and more is sent after the backward pass: a net with a single
//! message computes first and communicates afterwards. If all reductions take a time `T` and a
//! message has the latency `l`, `n` messages lose about `n l` to latency and `T / n` to the last
//! one, which nothing hides. The loss is least for messages that take `√(T l)`. Towards the end
//! they become shorter: a message holds at most half of what is left, and at least what travels in
//! `l`. So the backward pass hides all but the variables of the first layers, which the next
//! forward pass needs first.

use crate::cost::CostModel;
use crate::node::Synchronizer;
use crate::strategy::VariablePlan;
use hemiola_collective_proto::{Compression, Route};
use std::collections::BTreeSet;

/// Maximum size of a group in bytes, as in `PyTorch`.
const MAX_BUCKET_BYTES: u64 = 25 << 20;

/// Assigns groups to neighbouring all-reduced variables, from the last, whose gradient comes first.
/// Variables with different routes never share a group.
pub(super) fn assign_groups(plans: &mut [VariablePlan], costs: &CostModel<'_>) {
    let is_summed = |plan: &VariablePlan| plan.partitioning.is_whole() && plan.nodes[0].group().is_some();
    let routes: BTreeSet<Option<Route>> =
        plans.iter().filter(|plan| is_summed(plan)).map(|plan| plan.nodes[0].route.clone()).collect();
    let mut group = 0;
    for route in routes {
        let along = |plan: &&mut VariablePlan| is_summed(plan) && plan.nodes[0].route == route;
        group = assign_along(plans.iter_mut().filter(along).rev().collect(), costs, group);
    }
}

/// Assigns groups to variables with one route, from the group `group` on. Returns the next group.
fn assign_along(mut plans: Vec<&mut VariablePlan>, costs: &CostModel<'_>, mut group: u32) -> u32 {
    let length = |plan: &VariablePlan| plan.shape.iter().map(|extent| *extent as u64).product::<u64>();
    let mut left = plans.iter().map(|plan| length(plan)).sum();
    let ((least, enough), mut elements) = (sizes(costs, left), 0_u64);
    for plan in &mut plans {
        let own = length(plan);
        let most = enough.min(u64::midpoint(elements, left)).max(least);
        if elements > 0 && (elements >= most || 4 * (elements + own) > MAX_BUCKET_BYTES) {
            (group, elements) = (group + 1, 0);
        }
        elements += own;
        left -= own;
        plan.nodes[0].synchronizer = Synchronizer::AllReduce { algorithm: None, group };
    }
    group + 1
}

/// Number of elements that travel in the latency of a message, and number of elements of a message
/// for a given total.
fn sizes(costs: &CostModel<'_>, all: u64) -> (u64, u64) {
    let seconds = |elements: usize| costs.all_reduce(None, Compression::Plain, (elements, 1)).0.seconds();
    // Time per element of the algorithm that is best for long messages, without latency.
    let long = MAX_BUCKET_BYTES as usize / 4;
    let per_element = (seconds(2 * long) - seconds(long)) / long as f64;
    if per_element <= 0.0 {
        return (all, all);
    }
    let least = seconds(1) / per_element;
    (least as u64, (all as f64 * least).sqrt() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::all_reduce::all_reduced;
    use crate::model::{ModelSpec, VariableSpec};
    use crate::resources::{LinkSpec, ResourceSpec};

    #[test]
    fn messages_are_neither_many_nor_long() {
        let model =
            ModelSpec::new((0..400).map(|index| VariableSpec::dense(format!("v{index}"), [1000])).collect()).unwrap();
        let cluster = ResourceSpec::uniform(4, LinkSpec { bytes_per_second: 1e8, latency: 1e-4 });
        let plans = all_reduced(&model, &cluster);
        let groups: Vec<u32> =
            plans.iter().rev().map(|plan| plan.nodes[0].group().expect("small ones are summed")).collect();
        assert!(groups.is_sorted() && groups[0] == 0);
        let sizes: Vec<usize> = groups.chunk_by(|one, other| one == other).map(<[u32]>::len).collect();
        // An element takes 1.5 · 4 / 10⁸ s, all of them 24 ms, and a short message 0.2 ms: messages
        // of 2.19 ms have 36,515 elements. The last become shorter, down to what travels in 0.2 ms,
        // 3,333 elements.
        assert_eq!(sizes, [37, 37, 37, 37, 37, 37, 37, 37, 37, 34, 17, 8, 4, 4]);
    }
}
