//! Execution of a loop: plan, place arrays, run blocks on workers, release arrays.
//!
//! Workers run blocks in the order of the plan. They wait for each other only through the stages of
//! time blocks (`stages`) and, where buffers need it, at barriers (`worker_barrier`). The driver
//! receives messages of other peers meanwhile (`endpoint`). The pass itself is in `execution`. See
//! README.md, section Life cycle of a loop.

mod chunks;
pub(crate) mod clock_schedule;
pub(crate) mod endpoint;
mod entry_slices;
mod execution;
mod planning;
mod report;
pub(crate) mod row_requests;
pub(crate) mod stages;
pub(crate) mod worker_barrier;

use crate::Error;
use crate::arrays::LoopArrays;
use crate::capture::{LoopContext, PassCapture, PrefetchCapture};
use crate::plan::route::BlockRoute;
use crate::plan::{ArrayPlacement, LoopPlan, PlanSelector};
use crate::site::LoopSite;
use crate::space::IterationSpace;
use clock_schedule::{PeerBlocks, clock_schedules};
use endpoint::LoopEndpoint;
use execution::{LoopExecution, LoopFns, needs_barriers};
use hemiola_analysis::WriteMode;
use hemiola_cluster::{Cluster, Result};
pub use report::{BlockTiming, LoopReport, LoopTimes};
use report::{sum_prefetch_misses, sum_table_bytes, table_bytes};

/// *Collective.* Runs a loop. `body` gets the address of an entry's value, which no other call has
/// at the same time. `slice` records the rows that the body will read.
pub(crate) fn run<'a, const N: usize, S, C, F, P>(
    cluster: &Cluster,
    site: &'static LoopSite,
    mut space: S,
    captures: &C,
    body: F,
    slice: P,
    selector: PlanSelector<'_>,
) -> Result<LoopReport>
where
    S: IterationSpace<N>,
    C: PrefetchCapture<'a> + PassCapture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], *mut S::Value) + Sync,
    P: Fn(&mut C::Recorder, [usize; N], *mut S::Value) + Sync,
{
    if cluster.on_worker() {
        return Err(Error::Nested { site: site.title() }.into());
    }
    let now = || cluster.env().now();
    let start = now();
    let mut arrays = LoopArrays::default();
    let mut declared = Vec::new();
    captures.declare(&mut arrays, &mut declared);
    let title = site.title();
    let (plan, description) = planning::make_plan(cluster, site, &space, &arrays, &declared, selector)?;
    let planned = now();
    let explained = site.explain && space.plan_changed(site, &plan);
    if explained {
        cluster.println(format_args!("{plan}"));
    }
    let bytes_before = table_bytes(cluster);
    space.arrange(cluster, &plan, &title)?;
    let placements: Vec<ArrayPlacement> = plan.arrays.iter().map(|array| array.placement).collect();
    arrays.place(cluster, &title, &placements, &plan.cuts).inspect_err(|_| arrays.abandon(&title))?;
    let arranged = now();

    let route = BlockRoute::new(&plan.cuts, cluster.rank());
    let has_barriers = needs_barriers(&plan, &placements, &declared);
    let blocks = PeerBlocks { route: &route, count: |block| space.count(block), has_barriers };
    let clocks = clock_schedules(cluster, &declared, &blocks).inspect_err(|_| arrays.abandon(&title))?;
    let endpoint = LoopEndpoint::new(cluster, &plan.cuts, &placements, plan.workers);
    let context = LoopContext {
        cluster,
        arrays: &arrays,
        placements: &placements,
        names: site.names,
        accesses: site.accesses,
        title: &title,
        peers_used: plan.cuts.peers_used,
        clocks: &clocks,
        requests: endpoint.as_ref().and_then(|endpoint| endpoint.requests.as_ref()),
    };
    captures.advise(context, &plan);
    let (mut misses, mut timings) = (Vec::new(), Vec::new());
    let outcome = {
        let shared = captures.share(context, &declared);
        let fns = LoopFns { captures, shared: &shared, body: &body, slice: &slice };
        let execution = LoopExecution::new(
            context,
            &plan,
            &space,
            fns,
            endpoint.as_ref(),
            (space.prefetch_memo(site), site.repeated),
            &declared,
        );
        let outcome = execution.and_then(|execution| {
            let outcome = execution.run();
            timings = execution.block_timings.into_inner();
            outcome
        });
        captures.prefetch_misses(&shared, &mut misses);
        outcome
    };
    drop(endpoint);
    let outcome = outcome.and_then(|()| check_finite(cluster, site, &plan, &arrays, &space));
    // Entries are released before the arrays.
    drop(space);
    // A lost peer is an error here; the arrays cannot be recovered collectively then.
    let agreed = agree_on_outcome(cluster, site, outcome).inspect_err(|_| arrays.abandon(&title))?;
    if let Some(error) = agreed {
        arrays.recover().inspect_err(|_| arrays.abandon(&title))?;
        return Err(error.into());
    }
    arrays.finish()?;
    let misses = sum_prefetch_misses(cluster, site, &plan, misses)?;
    if site.explain {
        for (name, count) in misses.iter().filter(|(_, count)| *count > 0) {
            cluster.println(format_args!("  `{name}`: {count} reads were not prefetched and sent one request each"));
        }
    }
    let table_bytes = sum_table_bytes(cluster, &plan, bytes_before)?;
    if explained && table_bytes > 0 {
        cluster.println(format_args!("  tables: {table_bytes} bytes between peers in this pass"));
    }
    let times = LoopTimes { planning: planned - start, arranging: arranged - planned, running: now() - arranged };
    timings.sort_unstable_by_key(|timing| (timing.block.part, timing.block.time));
    Ok(LoopReport { plan, times, prefetch_misses: misses, table_bytes, description, block_timings: timings })
}

/// *Collective.* Returns `None` if all peers succeeded, and the same error on every peer otherwise.
fn agree_on_outcome(cluster: &Cluster, site: &LoopSite, outcome: Result<()>) -> Result<Option<Error>> {
    let local = outcome.err().map(|error| match error {
        hemiola_cluster::Error::Layer { source, kind } => match source.downcast::<Error>() {
            Ok(error) => *error,
            Err(source) => peer_error(cluster, site, &format!("{kind:?}: {source}")),
        },
        hemiola_cluster::Error::Stopped => Error::Stopped { site: site.title() },
        error => peer_error(cluster, site, &error.to_string()),
    });
    // An error of the body is more informative than that of a peer that stopped because of it.
    let all: Vec<Error> = cluster.all_gather(local)?.into_iter().flatten().collect();
    let first = all
        .iter()
        .find(|error| matches!(error, Error::Body { .. } | Error::Rule { .. } | Error::NonFinite { .. }))
        .or(all.first());
    Ok(first.cloned())
}

/// Searches what the body wrote directly for NaN and infinity, on this peer. Buffers are searched when
/// they are applied. A pass has more work than this search: it reads each written cell once.
fn check_finite<const N: usize>(
    cluster: &Cluster,
    site: &LoopSite,
    plan: &LoopPlan,
    arrays: &LoopArrays<'_>,
    space: &impl IterationSpace<N>,
) -> Result<()> {
    let mut written = plan.arrays.iter().enumerate().filter(|(_, array)| array.write_mode == WriteMode::Written);
    let found = written
        .find_map(|(number, array)| Some((array.name.clone(), arrays.get(number).first_non_finite()?)))
        .or_else(|| Some((site.space.to_owned(), space.first_non_finite()?)));
    found.map_or(Ok(()), |(name, (index, value))| {
        let (site, value, rank) = (site.title(), value.to_string(), cluster.rank());
        Err(Error::NonFinite { site, name, index, value, rank }.into())
    })
}

fn peer_error(cluster: &Cluster, site: &LoopSite, message: &str) -> Error {
    Error::Peer { site: site.title(), rank: cluster.rank(), message: message.to_owned() }
}
