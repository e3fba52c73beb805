//! Deciding how to run a loop: what the planner has to know is put together here, on all peers alike.
//!
//! **Invariant:** everything that goes into a plan is the same on every peer: the source, shapes, what peers have counted
//! together, and the numbers of peers and workers.

use crate::Error;
use crate::arrays::Arrays;
use crate::capture::Captured;
use crate::plan::{Choice, Plan, TablePlan, choose, fine, steps, ways};
use crate::profile::subject::{Cells, Counted, Subject};
use crate::site::Site;
use crate::space::Space;
use hemiola_analysis::{ArrayUse, LoopSpec, analyze};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use hemiola_tables_proto::ClockEnds;
use std::collections::BTreeMap;

/// *Collective.* Decides how to run a loop.
pub(super) fn make_plan<const N: usize>(
    cluster: &Cluster,
    site: &'static Site,
    space: &impl Space<N>,
    arrays: &Arrays<'_>,
    declared: &[Captured],
    choice: Choice<'_>,
) -> Result<(Plan, Subject)> {
    let workers = ready(cluster, site, arrays)?;
    let spec = spec(site, N, arrays, declared)?;
    let not_understood =
        |problem: &dyn std::fmt::Display| Error::NotUnderstood { site: site.title(), problem: problem.to_string() };
    let analysis = analyze(&spec).map_err(|error| not_understood(&error))?.with_indices(site.indices.iter().copied());
    let mut histograms = Vec::with_capacity(N);
    for dimension in 0..N {
        histograms.push(space.histogram(dimension)?);
    }
    let sparse = histograms.iter().any(Option::is_some);
    let ways = ways(&analysis, cluster.size(), workers, sparse);
    let mut bounds = BTreeMap::new();
    for (dimension, parts) in &ways.cuts {
        bounds.insert((*dimension, *parts), space.cut(*dimension, *parts)?);
    }
    let mut joints = Vec::new();
    for dimensions in &ways.pairs {
        joints.extend(space.joint(*dimensions, dimensions.map(|dimension| fine(&bounds, dimension)))?);
    }
    let known = space.predictions(site);
    let subject = Subject {
        title: site.title(),
        space_text: site.space.to_owned(),
        indices: site.indices.iter().map(|&name| name.to_owned()).collect(),
        extents: space.extents().to_vec(),
        entries: space.entries(),
        spec,
        arrays: (0..arrays.len())
            .map(|array| Cells { shape: arrays.get(array).extents(), cell_bytes: arrays.get(array).cell_bytes() })
            .collect(),
        together: declared
            .iter()
            .filter_map(|captured| match captured {
                Captured::Buffer { targets, .. } => Some(targets.clone()),
                _ => None,
            })
            .collect(),
        tables: declared
            .iter()
            .zip(site.names)
            .filter(|(captured, _)| matches!(captured, Captured::Table { .. }))
            .map(|(_, &name)| name.to_owned())
            .collect(),
        sortable: space.sortable(),
        rows_only: space.rows_only(),
    };
    let facts = subject.facts(Counted { histograms, bounds, joints }, (ways.most, &known), (cluster.size(), workers));
    let mut plan = choose(&subject.spec, analysis, &facts, choice);
    plan.tables = tables(site, &plan, declared);
    Ok((plan, subject))
}

/// What is done for the tables of a loop.
fn tables(site: &Site, plan: &Plan, declared: &[Captured]) -> Vec<TablePlan> {
    // A worker that runs one block has a next one only if there is a next pass.
    let several = steps(&plan.cuts) > 1 || plan.cuts.parts() > plan.cuts.peers_used * plan.workers;
    let table = |(name, captured): (usize, &Captured)| match *captured {
        Captured::Table { clocks, announces } => Some(TablePlan {
            name: site.names[name].to_owned(),
            announced: announces && (several || site.repeated),
            next_pass: announces && site.repeated,
            clock_each_block: clocks == ClockEnds::Step,
        }),
        _ => None,
    };
    declared.iter().enumerate().filter_map(table).collect()
}

/// *Collective.* Workers of each peer, the most any has, if all arrays can be had on all peers. What one peer alone cannot
/// have is an error for all: the others would wait for it.
fn ready(cluster: &Cluster, site: &Site, arrays: &Arrays<'_>) -> Result<usize> {
    let title = site.title();
    let free = arrays.must_be_free(&title);
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

/// What the analysis has to know: the accesses of names that are arrays, under the numbers of the arrays.
fn spec(site: &Site, dimensions: usize, arrays: &Arrays<'_>, declared: &[Captured]) -> Result<LoopSpec> {
    let mut uses: Vec<ArrayUse> = (0..arrays.len())
        .map(|array| ArrayUse {
            name: String::new(),
            dimensions: arrays.get(array).extents().len(),
            accesses: Vec::new(),
            buffered: Vec::new(),
        })
        .collect();
    must_have_one_name(site, declared)?;
    for (name, captured) in declared.iter().enumerate() {
        let accesses = || site.accesses.iter().filter(move |access| access.name == name).cloned();
        match captured {
            Captured::Array(array) => {
                site.names[name].clone_into(&mut uses[*array].name);
                uses[*array].accesses.extend(accesses());
            }
            Captured::Buffer { targets, .. } => {
                for target in targets {
                    if uses[*target].name.is_empty() {
                        uses[*target].name = format!("the array behind {}", site.names[name]);
                    }
                    uses[*target].buffered.extend(accesses());
                }
                if (1..targets.len()).any(|at| targets[..at].contains(&targets[at])) {
                    return Err(Error::BufferRepeats { name: site.names[name].to_owned() }.into());
                }
                let shape = |target: &usize| arrays.get(*target).extents();
                if let Some(other) = targets.iter().find(|target| shape(target) != shape(&targets[0])) {
                    return Err(Error::BufferShapes { first: shape(&targets[0]), second: shape(other) }.into());
                }
            }
            Captured::Table { .. } | Captured::Other => {}
        }
    }
    if let Some(sparse) = (0..arrays.len()).find(|array| arrays.get(*array).is_sparse()) {
        return Err(Error::SparseIndexed { site: site.title(), name: uses[sparse].name.clone() }.into());
    }
    Ok(LoopSpec { dimensions, ordered: site.ordered, arrays: uses })
}

/// An array that is written may have one name only: each name has a view of its own, and the compiler sees no conflict
/// between two of them.
fn must_have_one_name(site: &Site, declared: &[Captured]) -> Result<()> {
    let written = |name: usize| site.accesses.iter().any(|access| access.name == name && access.mode.writes());
    for (second, captured) in declared.iter().enumerate().filter(|(_, one)| matches!(one, Captured::Array(_))) {
        let conflicts = |first: &usize| declared[*first] == *captured && (written(*first) || written(second));
        if let Some(first) = (0..second).find(conflicts) {
            let [first, second] = [first, second].map(|name| site.names[name].to_owned());
            return Err(Error::TwoNames { site: site.title(), first, second }.into());
        }
    }
    Ok(())
}
