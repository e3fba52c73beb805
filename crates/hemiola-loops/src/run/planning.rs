//! Planning of a loop: collects the input of the planner, identically on all peers.
//!
//! **Invariant:** everything that enters a plan is the same on every peer: the source, shapes,
//! entry counts over all peers, and the numbers of peers and workers.

use crate::Error;
use crate::arrays::LoopArrays;
use crate::capture::CaptureKind;
use crate::plan::{LoopPlan, PlanSelector, TablePlan, candidate_cuts, choose, finest_bounds, steps};
use crate::profile::description::{ArraySize, EntryCounts, LoopDescription};
use crate::site::LoopSite;
use crate::space::IterationSpace;
use hemiola_analysis::{ArrayAccesses, LoopSpec, analyze};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use hemiola_tables_proto::ClockInterval;
use std::collections::BTreeMap;

/// *Collective.* Chooses the plan of a loop.
pub(super) fn make_plan<const N: usize>(
    cluster: &Cluster,
    site: &'static LoopSite,
    space: &impl IterationSpace<N>,
    arrays: &LoopArrays<'_>,
    declared: &[CaptureKind],
    selector: PlanSelector<'_>,
) -> Result<(LoopPlan, LoopDescription)> {
    let workers = agree_on_workers(cluster, site, arrays)?;
    let spec = loop_spec(site, N, arrays, declared)?;
    let not_understood =
        |problem: &dyn std::fmt::Display| Error::Unanalyzable { site: site.title(), problem: problem.to_string() };
    let analysis = analyze(&spec).map_err(|error| not_understood(&error))?.with_indices(site.indices.iter().copied());
    let mut histograms = Vec::with_capacity(N);
    for dimension in 0..N {
        histograms.push(space.histogram(dimension)?);
    }
    let sparse = histograms.iter().any(Option::is_some);
    let candidates = candidate_cuts(&analysis, cluster.size(), workers, sparse);
    let mut bounds = BTreeMap::new();
    for (dimension, parts) in &candidates.cuts {
        bounds.insert((*dimension, *parts), space.cut(*dimension, *parts)?);
    }
    let mut joints = Vec::new();
    for dimensions in &candidates.pairs {
        joints
            .extend(space.joint_histogram(*dimensions, dimensions.map(|dimension| finest_bounds(&bounds, dimension)))?);
    }
    let memo = space.prediction_memo(site);
    let description = LoopDescription {
        title: site.title(),
        space_text: site.space.to_owned(),
        indices: site.indices.iter().map(|&name| name.to_owned()).collect(),
        extents: space.extents().to_vec(),
        entries: space.entries(),
        spec,
        arrays: (0..arrays.len())
            .map(|array| ArraySize { shape: arrays.get(array).extents(), cell_bytes: arrays.get(array).cell_bytes() })
            .collect(),
        buffer_groups: declared
            .iter()
            .filter_map(|captured| match captured {
                CaptureKind::Buffer { targets, .. } => Some(targets.clone()),
                _ => None,
            })
            .collect(),
        tables: declared
            .iter()
            .zip(site.names)
            .filter(|(captured, _)| matches!(captured, CaptureKind::Table { .. }))
            .map(|(_, &name)| name.to_owned())
            .collect(),
        sortable: space.sortable(),
        rows_only: space.rows_only(),
    };
    let input = description.planner_input(
        EntryCounts { histograms, bounds, joints },
        (candidates.max_ratio, &memo),
        (cluster.size(), workers),
    );
    let mut plan = choose(&description.spec, analysis, &input, selector);
    plan.tables = table_plans(site, &plan, declared);
    Ok((plan, description))
}

/// Plans of the tables of a loop: announcements and clocks.
fn table_plans(site: &LoopSite, plan: &LoopPlan, declared: &[CaptureKind]) -> Vec<TablePlan> {
    // A worker with a single block has a next one only in the next pass.
    let several = steps(&plan.cuts) > 1 || plan.cuts.parts() > plan.cuts.peers_used * plan.workers;
    let used = |name: usize, writes: bool| {
        site.accesses.iter().any(|access| access.name == name && access.mode.writes() == writes)
    };
    let table = |(name, captured): (usize, &CaptureKind)| match *captured {
        CaptureKind::Table { clocks, consistency, announces } => Some(TablePlan {
            name: site.names[name].to_owned(),
            announced: announces && (several || site.repeated || matches!(clocks, ClockInterval::Iterations(_))),
            next_pass: announces && site.repeated,
            clocks,
            consistency,
            read_and_added: used(name, false) && used(name, true),
        }),
        _ => None,
    };
    declared.iter().enumerate().filter_map(table).collect()
}

/// *Collective.* Returns the number of workers of each peer (the largest of all), if no peer holds
/// an array of the loop. An error on one peer is an error on all, because the others would wait for
/// it.
fn agree_on_workers(cluster: &Cluster, site: &LoopSite, arrays: &LoopArrays<'_>) -> Result<usize> {
    let title = site.title();
    let free = arrays.check_free(&title);
    let problem = free.as_ref().err().map(ToString::to_string);
    let all = cluster.all_gather((cluster.workers(), problem))?;
    free?;
    for (rank, (_, problem)) in Rank::all(cluster.size()).zip(&all) {
        if let Some(message) = problem {
            return Err(Error::Peer { site: title, rank, message: message.clone() }.into());
        }
    }
    Ok(all.iter().map(|(workers, _)| *workers).max().unwrap_or(1))
}

/// Input of the analysis: the accesses of captured arrays and buffers, by array.
fn loop_spec(
    site: &LoopSite,
    dimensions: usize,
    arrays: &LoopArrays<'_>,
    declared: &[CaptureKind],
) -> Result<LoopSpec> {
    let mut uses: Vec<ArrayAccesses> = (0..arrays.len())
        .map(|array| ArrayAccesses {
            name: String::new(),
            dimensions: arrays.get(array).extents().len(),
            accesses: Vec::new(),
            buffered: Vec::new(),
        })
        .collect();
    check_aliases(site, declared)?;
    for (name, captured) in declared.iter().enumerate() {
        let accesses = || site.accesses.iter().filter(move |access| access.name == name).cloned();
        match captured {
            CaptureKind::Array(array) => {
                site.names[name].clone_into(&mut uses[*array].name);
                uses[*array].accesses.extend(accesses());
            }
            CaptureKind::Buffer { targets, .. } => {
                for target in targets {
                    if uses[*target].name.is_empty() {
                        uses[*target].name = format!("the array behind {}", site.names[name]);
                    }
                    uses[*target].buffered.extend(accesses());
                }
                if (1..targets.len()).any(|at| targets[..at].contains(&targets[at])) {
                    return Err(Error::DuplicateBufferTarget { name: site.names[name].to_owned() }.into());
                }
                let shape = |target: &usize| arrays.get(*target).extents();
                if let Some(other) = targets.iter().find(|target| shape(target) != shape(&targets[0])) {
                    return Err(Error::BufferShapeMismatch { first: shape(&targets[0]), second: shape(other) }.into());
                }
            }
            CaptureKind::Table { .. } | CaptureKind::Other => {}
        }
    }
    if let Some(sparse) = (0..arrays.len()).find(|array| arrays.get(*array).is_sparse()) {
        return Err(Error::SparseIndexed { site: site.title(), name: uses[sparse].name.clone() }.into());
    }
    Ok(LoopSpec { dimensions, ordered: site.ordered, arrays: uses })
}

/// Rejects a written array that is captured under two names: each name has its own view.
/// `parallel_for!` borrows written arrays by `&mut`, so only captures made by hand get here.
fn check_aliases(site: &LoopSite, declared: &[CaptureKind]) -> Result<()> {
    let written = |name: usize| site.accesses.iter().any(|access| access.name == name && access.mode.writes());
    for (second, captured) in declared.iter().enumerate().filter(|(_, one)| matches!(one, CaptureKind::Array(_))) {
        let conflicts = |first: &usize| declared[*first] == *captured && (written(*first) || written(second));
        if let Some(first) = (0..second).find(conflicts) {
            let [first, second] = [first, second].map(|name| site.names[name].to_owned());
            return Err(Error::AliasedArray { site: site.title(), first, second }.into());
        }
    }
    Ok(())
}
