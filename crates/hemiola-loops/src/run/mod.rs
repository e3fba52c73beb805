//! Running a loop: plan, put everything in place, run blocks on workers, give everything back.

pub(crate) mod meeting;
mod planning;
pub(crate) mod post;
pub(crate) mod stages;

use crate::Error;
use crate::arrays::Arrays;
use crate::capture::{Capture, Captured, Scene, own_rows};
use crate::foreseen::{Foreseen, Rows};
use crate::plan::route::Route;
use crate::plan::{Block, Choice, Placement, Plan, Schedule, steps, visit};
use crate::profile::subject::Subject;
use crate::site::Site;
use crate::space::Space;
use crate::view::table::Ahead;
use hemiola_analysis::Usage;
use hemiola_cluster::{Cluster, Result, Worker, panic_message};
use meeting::Meeting;
use parking_lot::Mutex;
use post::Post;
use stages::Stages;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a loop has done.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    times: Times,
    unforeseen: Vec<(String, u64)>,
    pub(crate) subject: Subject,
    worked: Vec<Worked>,
}

/// A block that a worker of this peer has run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worked {
    /// Which.
    pub block: Block,
    /// Its entries.
    pub entries: u64,
    /// How long its worker has computed with it. Waiting does not count, nor time in which others had the core.
    pub computing: Duration,
}

/// Where the time of a loop went, on this peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Analysis, histograms and choosing a plan.
    pub planning: Duration,
    /// Moving entries and rows to where the plan wants them.
    pub arranging: Duration,
    /// Running the body.
    pub running: Duration,
}

impl Run {
    /// How it ran.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// By name of a served array: reads that could not be foreseen and took a request each, over all peers.
    #[must_use]
    pub fn unforeseen(&self) -> &[(String, u64)] {
        &self.unforeseen
    }

    /// The blocks that workers of this peer have run, by part and time.
    #[must_use]
    pub fn worked(&self) -> &[Worked] {
        &self.worked
    }

    /// Where the time went.
    #[must_use]
    pub fn times(&self) -> Times {
        self.times
    }
}

/// *Collective.* Runs a loop. `body` gets the address of an entry's value, which no other call has at the same time;
/// `slice` writes down the rows it will read.
pub(crate) fn run<'a, const N: usize, S, C, F, P>(
    cluster: &Cluster,
    site: &'static Site,
    mut space: S,
    captures: &C,
    body: F,
    slice: P,
    choice: Choice<'_>,
) -> Result<Run>
where
    S: Space<N>,
    C: Capture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], *mut S::Value) + Sync,
    P: Fn(&mut C::Recorder, [usize; N], *mut S::Value) + Sync,
{
    if cluster.on_worker() {
        return Err(Error::Nested { site: site.title() }.into());
    }
    let now = || cluster.env().now();
    let start = now();
    let mut arrays = Arrays::default();
    let mut declared = Vec::new();
    captures.declare(&mut arrays, &mut declared);
    let title = site.title();
    let (plan, subject) = planning::make_plan(cluster, site, &space, &arrays, &declared, choice)?;
    let planned = now();
    if site.explain && space.is_news(site, &plan) {
        cluster.println(format_args!("{plan}"));
    }
    space.arrange(cluster, &plan, &title)?;
    let placements: Vec<Placement> = plan.arrays.iter().map(|array| array.placement).collect();
    arrays.place(cluster, &title, &placements, &plan.cuts).inspect_err(|_| arrays.abandon(&title))?;
    let arranged = now();

    let post = Post::new(cluster, &plan.cuts, &placements, plan.workers);
    let scene = Scene {
        cluster,
        arrays: &arrays,
        placements: &placements,
        names: site.names,
        accesses: site.accesses,
        title: &title,
        peers_used: plan.cuts.peers_used,
        requests: post.as_ref().and_then(|post| post.requests.as_ref()),
    };
    let (mut unforeseen, mut worked) = (Vec::new(), Vec::new());
    let outcome = {
        let shared = captures.share(scene, &declared);
        let code = Code { captures, shared: &shared, body: &body, slice: &slice };
        let pass =
            Pass::new(scene, &plan, &space, code, post.as_ref(), (space.foreseen(site), site.repeated), &declared);
        let outcome = pass.and_then(|pass| {
            let outcome = pass.run();
            worked = pass.worked.into_inner();
            outcome
        });
        captures.unforeseen(&shared, &mut unforeseen);
        outcome
    };
    drop(post);
    // The entries may be used again when the arrays are given back.
    drop(space);
    // A peer that is lost is an error here: then nothing can be recovered together.
    let agreed = agree(cluster, site, outcome).inspect_err(|_| arrays.abandon(&title))?;
    if let Some(error) = agreed {
        arrays.recover().inspect_err(|_| arrays.abandon(&title))?;
        return Err(error.into());
    }
    arrays.finish()?;
    let unforeseen = add_up(cluster, site, &plan, unforeseen)?;
    if site.explain {
        for (name, count) in unforeseen.iter().filter(|(_, count)| *count > 0) {
            cluster.println(format_args!("  `{name}`: {count} reads could not be foreseen, and took a request each"));
        }
    }
    let times = Times { planning: planned - start, arranging: arranged - planned, running: now() - arranged };
    worked.sort_unstable_by_key(|worked| (worked.block.part, worked.block.time));
    Ok(Run { plan, times, unforeseen, subject, worked })
}

/// *Collective*, where arrays are served: the reads that could not be foreseen, by name, over all peers.
fn add_up(cluster: &Cluster, site: &Site, plan: &Plan, mine: Vec<(usize, u64)>) -> Result<Vec<(String, u64)>> {
    if !plan.arrays.iter().any(|array| array.placement == Placement::Served) {
        return Ok(Vec::new());
    }
    let mut all: Vec<(String, u64)> = mine.iter().map(|(name, _)| (site.names[*name].to_owned(), 0)).collect();
    for peer in cluster.all_gather(mine)? {
        for (sum, (_, count)) in all.iter_mut().zip(peer) {
            sum.1 += count;
        }
    }
    Ok(all)
}

/// *Collective.* Nothing if all peers succeeded; otherwise the same error everywhere.
fn agree(cluster: &Cluster, site: &Site, outcome: Result<()>) -> Result<Option<Error>> {
    let local = outcome.err().map(|error| match error {
        hemiola_cluster::Error::Layer { source, kind } => match source.downcast::<Error>() {
            Ok(error) => *error,
            Err(source) => peer_error(cluster, site, &format!("{kind:?}: {source}")),
        },
        error => peer_error(cluster, site, &error.to_string()),
    });
    // The body's own error says more than that of a peer that could not go on because of it.
    let all: Vec<Error> = cluster.all_gather(local)?.into_iter().flatten().collect();
    let told = all.iter().find(|error| matches!(error, Error::Body { .. } | Error::Rule { .. })).or(all.first());
    Ok(told.cloned())
}

fn peer_error(cluster: &Cluster, site: &Site, message: &str) -> Error {
    Error::Peer { site: site.title(), rank: cluster.rank(), message: message.to_owned() }
}

/// What is run: the body, what it sees, and its slice.
struct Code<'l, C, H, F, P> {
    captures: &'l C,
    shared: &'l H,
    body: &'l F,
    slice: &'l P,
}

/// One pass over all blocks, on this peer.
struct Pass<'l, 'a, const N: usize, S: Space<N>, C: Capture<'a>, F, P> {
    scene: Scene<'l, 'a>,
    plan: &'l Plan,
    space: &'l S,
    code: Code<'l, C, C::Shared, F, P>,
    /// The parts of this peer.
    parts: Range<usize>,
    stages: Stages,
    post: Option<&'l Post<'l>>,
    /// What earlier passes have found out.
    foreseen: Option<Arc<Foreseen>>,
    /// There will be another pass.
    repeated: bool,
    /// Entries after which buffered writes must be applied, if not only at the end of a block.
    bound: Option<u64>,
    meeting: Option<Meetings>,
    failed: AtomicBool,
    /// What the first worker that failed has to say.
    problem: Mutex<Option<hemiola_cluster::Error>>,
    /// Blocks that were run.
    worked: Mutex<Vec<Worked>>,
}

/// What a worker works with.
struct Desk<V, R> {
    worker: Worker,
    view: V,
    recorder: R,
    /// The block after the one it is about to run, if its rows are to be announced.
    next: Option<(Block, Ahead)>,
    /// The rows of a block that was announced.
    known: Option<(Block, Rows)>,
    /// Meetings it has been to in this step.
    met: u64,
    /// A meeting has decided that nobody goes on: there will be no other.
    dismissed: bool,
    /// Blocks it has run.
    worked: Vec<Worked>,
}

/// When workers meet so that buffers can be applied.
struct Meetings {
    meeting: Meeting,
    /// Meetings in each step: the same on every peer.
    per_step: u64,
}

/// All entries of a block.
const ALL: Range<u64> = 0..u64::MAX;

/// A worker need not go on.
struct Ended;

impl<'l, 'a, const N: usize, S, C, F, P> Pass<'l, 'a, N, S, C, F, P>
where
    S: Space<N>,
    C: Capture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], *mut S::Value) + Sync,
    P: Fn(&mut C::Recorder, [usize; N], *mut S::Value) + Sync,
{
    fn new(
        scene: Scene<'l, 'a>,
        plan: &'l Plan,
        space: &'l S,
        code: Code<'l, C, C::Shared, F, P>,
        post: Option<&'l Post<'l>>,
        (foreseen, repeated): (Option<Arc<Foreseen>>, bool),
        declared: &[Captured],
    ) -> Result<Self> {
        let cuts = &plan.cuts;
        let parts = cuts.parts_of(scene.cluster.rank());
        let route = Route::new(cuts, scene.cluster.rank(), scene.cluster.size());
        let stages = Stages::new((0..cuts.times()).map(|time| route.first_stage(time)));
        let (failed, problem) = (AtomicBool::new(false), Mutex::new(None));
        let bounds = declared.iter().filter_map(|captured| match captured {
            Captured::Buffer { bound, .. } => *bound,
            _ => None,
        });
        let (bound, meeting) = (bounds.min(), None);
        let mut pass = Self {
            scene,
            plan,
            space,
            code,
            parts,
            stages,
            post,
            foreseen,
            repeated,
            bound,
            meeting,
            failed,
            problem,
            worked: Mutex::default(),
        };
        pass.meeting = pass.meetings(declared)?;
        Ok(pass)
    }

    /// *Collective*, if buffers need meetings.
    fn meetings(&self, declared: &[Captured]) -> Result<Option<Meetings>> {
        let needed = declared.iter().any(|captured| match captured {
            Captured::Buffer { targets, .. } => !own_rows(self.scene.placements, targets),
            _ => false,
        });
        let written =
            self.plan.arrays.iter().any(|array| array.usage == Usage::Buffered || array.usage == Usage::Written);
        if !needed || !written {
            return Ok(None);
        }
        let per_step = match self.bound {
            None => 1,
            Some(bound) => {
                let blocks = self
                    .parts
                    .clone()
                    .flat_map(|part| (0..self.plan.cuts.times()).map(move |time| Block { part, time }));
                let largest = blocks.map(|block| self.space.count(block)).max().unwrap_or(0);
                // A worker may have several parts in a step, and each may need as many meetings. Peers differ in workers.
                let parts = self.parts.len().div_ceil(self.scene.cluster.workers()) as u64;
                let all = self.scene.cluster.all_gather((largest, parts))?;
                let most = |of: fn(&(u64, u64)) -> u64| all.iter().map(of).max().unwrap_or(0).max(1);
                most(|(largest, _)| *largest).div_ceil(bound) * most(|(_, parts)| *parts)
            }
        };
        Ok(Some(Meetings { meeting: Meeting::new(self.scene.cluster.workers()), per_step }))
    }

    /// Runs the blocks of this peer.
    fn run(&self) -> Result<()> {
        if self.parts.is_empty() {
            return self.sit_out();
        }
        let meanwhile = || self.post.map_or(Ok(()), |post| post.drive(self.scene.arrays, &self.stages));
        let (workers, drive) = self.scene.cluster.each_worker_while(|worker| self.work(worker), meanwhile);
        let problem = self.problem.lock().take();
        problem.map_or(Ok(()), Err).and(drive).and(workers.map(|_| ()))
    }

    /// What the workers of a peer without blocks do: they end their clocks, for which others wait.
    fn sit_out(&self) -> Result<()> {
        if self.plan.tables.is_empty() {
            return Ok(());
        }
        let Code { captures, shared, .. } = self.code;
        let ended = self.scene.cluster.each_worker(|worker| {
            captures.end_pass(&mut captures.view(shared, self.scene, worker.id()), self.scene, self.steps())
        })?;
        ended.into_iter().collect()
    }

    fn steps(&self) -> u64 {
        steps(&self.plan.cuts) as u64
    }

    /// What one worker does.
    fn work(&self, worker: Worker) {
        let Code { captures, shared, .. } = self.code;
        let mut desk = Desk {
            worker,
            view: captures.view(shared, self.scene, worker.id()),
            recorder: captures.recorder(shared, self.scene),
            next: None,
            known: None,
            met: 0,
            dismissed: false,
            worked: Vec::new(),
        };
        self.run_steps(&mut desk);
        self.worked.lock().append(&mut desk.worked);
        // Also if it has failed: others may wait for its clocks.
        if let Err(error) = captures.end_pass(&mut desk.view, self.scene, self.steps()) {
            self.fail(error);
        }
        captures.leave(shared, &mut desk.view);
        if let Some(post) = self.post {
            post.ended();
        }
    }

    fn run_steps(&self, desk: &mut Desk<C::View, C::Recorder>) {
        for step in 0..steps(&self.plan.cuts) {
            desk.met = 0;
            let done = self.my_parts(desk.worker).try_for_each(|part| self.run_block(desk, part, step));
            let ended = if done.is_ok() { self.code.captures.end_step(&mut desk.view, self.scene) } else { Ok(()) };
            let done = done.and(ended.map_err(|error| self.fail(error)));
            let Some(meetings) = &self.meeting else {
                if done.is_err() {
                    return;
                }
                continue;
            };
            // Everybody comes to every meeting, those who failed too: the others wait for them there.
            while desk.met < meetings.per_step && !desk.dismissed {
                self.meet(desk, meetings);
            }
            if desk.dismissed {
                return;
            }
        }
    }

    /// The parts of this peer that a worker runs.
    fn my_parts(&self, worker: Worker) -> Range<usize> {
        let share = |at: usize| self.parts.start + self.parts.len() * at / worker.count();
        share(worker.index())..share(worker.index() + 1)
    }

    /// Waits for a block, runs it and hands it on.
    fn run_block(&self, desk: &mut Desk<C::View, C::Recorder>, part: usize, step: usize) -> Result<(), Ended> {
        if self.failed.load(Ordering::SeqCst) {
            return Err(Ended);
        }
        let Some((block, stage)) = visit(&self.plan.cuts, part, step) else { return Ok(()) };
        match self.stages.wait(self.scene.cluster, desk.worker.id(), block.time, stage) {
            Ok(Ok(())) => {}
            Ok(Err(stages::Stopped)) => return Err(Ended),
            Err(error) => return Err(self.fail(error)),
        }
        let Code { captures, shared, .. } = self.code;
        captures.bind(shared, &mut desk.view, self.scene, block);
        let announces = self.plan.tables.iter().any(|table| table.announced);
        desk.next = if announces { self.after(desk.worker, part, step) } else { None };
        let computed = || self.scene.cluster.env().computed();
        let before = computed();
        let entries = self.run_entries(desk, block)?;
        self.end_block(desk, block)?;
        desk.worked.push(Worked { block, entries, computing: computed().saturating_sub(before) });
        match self.post {
            Some(post) if post.leaves(part) => {
                post.send(self.scene.arrays, block.time).map_err(|error| self.fail(error))
            }
            _ if self.plan.cuts.schedule == Schedule::Independent => Ok(()),
            _ => {
                self.stages.advance(block.time, stage + 1);
                Ok(())
            }
        }
    }

    /// The block that a worker runs after the one of this part and step; the first of the next pass, if there will be one.
    fn after(&self, worker: Worker, part: usize, step: usize) -> Option<(Block, Ahead)> {
        let (parts, steps) = (self.my_parts(worker), steps(&self.plan.cuts));
        let from = |first: usize| (first..steps).flat_map(|step| parts.clone().map(move |part| (part, step)));
        let block = |(part, at): (usize, usize)| visit(&self.plan.cuts, part, at).map(|(block, _)| (block, at));
        let later = (part + 1..parts.end).map(|part| (part, step)).chain(from(step + 1)).find_map(block);
        if let Some((block, at)) = later {
            return Some((block, Ahead { steps: (at - step) as u64, passes: 0 }));
        }
        let (block, at) = from(0).find_map(block).filter(|_| self.repeated)?;
        Some((block, Ahead { steps: (steps - step + at) as u64, passes: 1 }))
    }

    /// The rows that entries of a block read, by the slice. `begun` is told of each entry.
    fn foresee(&self, recorder: &mut C::Recorder, block: Block, entries: Range<u64>, begun: impl Fn()) -> Rows {
        let Code { captures, slice, .. } = self.code;
        let all = entries == ALL;
        let first = entries.start;
        let memory = self.foreseen.as_ref().filter(|_| !all || self.bound.is_none());
        if let Some(rows) = memory.and_then(|foreseen| foreseen.find(block, first)) {
            return rows;
        }
        self.space.visit(block, entries, |key, value| {
            begun();
            captures.touch_by_key(recorder, &key);
            slice(recorder, key, value);
        });
        let mut rows = Vec::new();
        captures.foreseen(recorder, &mut rows);
        let rows = Arc::new(rows);
        if let Some(foreseen) = memory {
            foreseen.remember(block, first, Arc::clone(&rows));
        }
        rows
    }

    /// Runs the entries of a block: all at once, or so many before buffered writes are applied. How many there were.
    fn run_entries(&self, desk: &mut Desk<C::View, C::Recorder>, block: Block) -> Result<u64, Ended> {
        let Some(bound) = self.bound else {
            return self.run_some(desk, block, ALL);
        };
        let count = self.space.count(block);
        for start in (0..count).step_by(bound as usize) {
            if start > 0 {
                self.end_block(desk, block)?;
                if self.meeting.as_ref().is_some_and(|meetings| !self.meet(desk, meetings)) {
                    return Err(Ended);
                }
            }
            self.run_some(desk, block, start..start + bound)?;
        }
        Ok(count)
    }

    /// Applies what a worker has to itself.
    fn end_block(&self, desk: &mut Desk<C::View, C::Recorder>, block: Block) -> Result<(), Ended> {
        let Code { captures, shared, .. } = self.code;
        let ended = catch_unwind(AssertUnwindSafe(|| captures.end_block(shared, &mut desk.view, self.scene, block)));
        ended.map_err(|panic| self.fail(self.scene.rule_failed(&*panic)))
    }

    /// Fetches what some entries of a block need, and runs them. How many there were.
    fn run_some(&self, desk: &mut Desk<C::View, C::Recorder>, block: Block, entries: Range<u64>) -> Result<u64, Ended> {
        let Code { captures, body, .. } = self.code;
        // How many entries were begun, and of which block, to find the key of one that panics. (Copying each key instead costs a
        // tenth of a short body: it is read whole just after it was written in halves.)
        let (begun, of) = (Cell::new(entries.start), Cell::new(block));
        let count = || begun.set(begun.get() + 1);
        let first = entries.start;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if self.scene.requests.is_some() || !self.plan.tables.is_empty() {
                let known = desk.known.take().filter(|(known, _)| *known == block && self.bound.is_none());
                let rows = known.map(|(_, rows)| rows);
                let rows = rows.unwrap_or_else(|| self.foresee(&mut desk.recorder, block, entries.clone(), count));
                captures.prefetch(&mut rows.iter(), &mut desk.view, self.scene)?;
            }
            if let Some((next, ahead)) = desk.next.take() {
                of.set(next);
                begun.set(0);
                let rows = self.foresee(&mut desk.recorder, next, ALL, count);
                of.set(block);
                captures.announce(&mut rows.iter(), &mut desk.view, self.scene, ahead)?;
                desk.known = Some((next, rows));
            }
            let view = &mut desk.view;
            begun.set(first);
            self.space.visit(block, entries, |key, value| {
                count();
                body(view, key, value);
            });
            Ok(begun.get() - first)
        }));
        let outcome = outcome.unwrap_or_else(|panic| {
            let last = begun.get();
            let mut found = Vec::new();
            let first = if of.get() == block { first } else { 0 };
            self.space.visit(of.get(), last.saturating_sub(1).max(first)..last, |key, _| {
                found = key.iter().map(|index| *index as u64).collect();
            });
            Err(Error::Body {
                site: self.plan.title.clone(),
                key: found,
                rank: self.scene.cluster.rank(),
                message: panic_message(&*panic),
            }
            .into())
        });
        outcome.map_err(|error| self.fail(error))
    }

    /// Remembers why this peer cannot go on, and tells everybody who waits for it.
    fn fail(&self, error: hemiola_cluster::Error) -> Ended {
        self.problem.lock().get_or_insert(error);
        self.stop();
        Ended
    }

    /// Tells everybody who waits for this peer that it does not go on.
    fn stop(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.stages.stop();
        if let Some(post) = self.post {
            post.send_stop();
        }
    }

    /// Meets the other workers, of this peer and of all; whether to go on.
    fn meet(&self, desk: &mut Desk<C::View, C::Recorder>, meetings: &Meetings) -> bool {
        let Code { captures, shared, .. } = self.code;
        desk.met += 1;
        captures.hand_in(shared, &mut desk.view, desk.worker.id());
        let work = || {
            let failed = self.failed.load(Ordering::SeqCst) || self.stages.is_stopped();
            let anywhere = if self.plan.cuts.peers_used == 1 {
                Ok(failed)
            } else {
                self.scene.cluster.all_gather(failed).map(|all| all.into_iter().any(|failed| failed))
            };
            match anywhere {
                Ok(false) => {
                    let settled = catch_unwind(AssertUnwindSafe(|| captures.settle(shared, self.scene)));
                    if let Err(error) = settled.unwrap_or_else(|panic| Err(self.scene.rule_failed(&*panic))) {
                        self.fail(error);
                    }
                    // The others may know nothing of a failure here. They hear of it at the next meeting, to which
                    // the workers of this peer come without running anything before.
                    true
                }
                Ok(true) => {
                    self.stop();
                    false
                }
                Err(error) => {
                    self.fail(error);
                    false
                }
            }
        };
        let go_on = meetings.meeting.attend(self.scene.cluster, desk.worker.id(), work).unwrap_or_else(|error| {
            self.fail(error);
            false
        });
        desk.dismissed = !go_on;
        go_on
    }
}
