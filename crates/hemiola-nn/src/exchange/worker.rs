//! The thread of a peer that has its values and carries the strategy out.
//!
//! **Invariants.** A unit's updates are applied step by step. Whatever goes wrong is told to whoever waits, once, and then nothing is begun any more. The thread waits for events alone, never for a message, except in mixing.

use super::clip::{clip_values, squares};
use super::factors::multiply;
use super::flight::{Flight, Gradient, Stage, padded};
use super::plan::{Layout, Piece, Unit, Way};
use super::rows::{add_rows, by_owner, into_rows, put_rows, with_keys};
use super::turns::Turns;
use crate::error::Error;
use crate::optimizer::{Optimizer, State};
use crate::slots::Slots;
use crate::trace::{Line, Trace};
use crate::trainer::Clip;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{Algorithm, Collectives, Encoder, Encoding, MakeMixing, Mixing, Operator, Pending};
use hemiola_collective_proto::encode::Goal;
use hemiola_core::Rank;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// The gradient of a variable, as its layer gives it.
#[derive(Clone, Debug)]
pub(crate) enum Taken {
    /// A number for each of the variable.
    Whole(Vec<f32>),
    /// Rows of inputs and gradients of outputs, or of keys and gradients.
    Parts(Vec<f32>),
    /// Nothing was computed from it.
    Nothing,
}

/// What the thread is told.
pub(crate) enum Event {
    /// A forward pass is over: so many examples, their mean loss, and the rate of this step.
    Begin {
        step: u64,
        examples: u64,
        loss: f64,
        rate: f64,
    },
    /// A gradient is complete.
    Gradient {
        step: u64,
        variable: usize,
        taken: Taken,
    },
    /// Something that was begun is over.
    Woken,
    /// Units are begun in this order from a step on.
    Order {
        order: Vec<usize>,
        since: u64,
    },
    /// Somebody wants to know when all steps are over, and what is here then if copies are wanted.
    Settle {
        to: Sender<Holdings>,
        copies: bool,
    },
    /// The last good checkpoint.
    Saved(PathBuf),
    Stop,
}

/// What a peer has: values of pieces, and what it remembers of those it updates.
pub(crate) struct Holdings {
    pub(crate) pieces: Vec<(Vec<f32>, Option<State>)>,
}

/// What a thread is made of.
pub(crate) struct Settings {
    pub(crate) optimizer: Optimizer,
    pub(crate) clip: Option<Clip>,
    pub(crate) names: Vec<String>,
    pub(crate) lengths: Vec<usize>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) trace: Option<Arc<Trace>>,
    /// Steps that were made before.
    pub(crate) step: u64,
}

/// What is known of a step.
#[derive(Default)]
pub(super) struct Step {
    rate: f64,
    examples: u64,
    /// By variable; taken when the last piece of it has gone.
    gradients: Vec<Option<Taken>>,
    /// By variable: pieces that have not gone.
    waiting: Vec<usize>,
    counting: Option<Pending<f64>>,
    /// Examples of all peers.
    pub(super) total: Option<f64>,
    /// Units whose gradient is complete, and the squares of what this peer counts.
    pub(super) complete: usize,
    pub(super) squares: f64,
    pub(super) norming: Option<Pending<f64>>,
    /// By what gradients are multiplied so that their norm is small enough.
    pub(super) shrink: Option<f64>,
    /// By variable: pieces that have their new values.
    done: Vec<usize>,
    over: usize,
}

/// The thread's own.
pub(crate) struct Worker {
    pub(super) settings: Settings,
    pieces: Vec<Piece>,
    pub(super) units: Vec<Unit>,
    cuts: Vec<usize>,
    encoders: Vec<Option<Encoder>>,
    mixings: Vec<Option<Mixing<f32>>>,
    /// Updates that each unit has in it.
    applied: Vec<u64>,
    pub(super) me: Rank,
    peers: usize,
    stages: [Collectives; STAGES],
    turns: [Turns; STAGES],
    counts: Collectives,
    pub(super) norms: Collectives,
    pub(super) next_norm: u64,
    pub(super) steps: BTreeMap<u64, Step>,
    flights: Vec<Flight>,
    /// Whoever wants to know when all is over.
    settling: Vec<(Sender<Holdings>, bool)>,
    begun: u64,
    last: Option<PathBuf>,
    failed: bool,
}

/// Gradients, parts of gradients, values (or how many), rows of values. Updates come between the second and the third: what they wait for must not wait for them.
const STAGES: usize = 4;

fn stages_of(way: &Way) -> &'static [usize] {
    match way {
        Way::Sum { .. } | Way::Mix { .. } => &[0],
        Way::Served { .. } => &[0, 2],
        Way::Factors => &[0, 1],
        Way::Rows { .. } => &[0, 1, 2, 3],
    }
}

impl Worker {
    /// *Collective.*
    pub(crate) fn new(
        cluster: &Cluster,
        layout: Layout,
        settings: Settings,
        wake: impl Fn() + Send + Sync + Clone + 'static,
    ) -> Result<Self> {
        use hemiola_collective::MakeCollectives;
        let Layout { pieces, units, cuts, .. } = layout;
        let first = cluster.collectives()?.notifying(wake);
        let stages = [first.clone(), first.sibling()?, first.sibling()?, first.sibling()?];
        // As few numbers as can be: nobody needs to measure for them.
        let small = first.by(Algorithm::Doubling);
        let (counts, norms) = (small.sibling()?, small.sibling()?);
        let mut encoders = Vec::new();
        let mut mixings = Vec::new();
        for unit in &units {
            let piece = &pieces[unit.pieces[0]];
            let encoded = unit.encoding != Encoding::Plain && !matches!(unit.way, Way::Factors);
            encoders.push(match unit.encoding {
                _ if !encoded => None,
                Encoding::LowRank { .. } => Some(first.matrix_encoder(unit.encoding, piece.rows, piece.width)?),
                encoding => Some(first.encoder(encoding, unit.length)?),
            });
            mixings.push(match &unit.way {
                Way::Mix { topology } => Some(cluster.mixing::<f32>(&cluster.graph(topology)?, unit.length).build()?),
                _ => None,
            });
        }
        let start = settings.step;
        let turns = std::array::from_fn(|stage| {
            let order = (0..units.len()).filter(|unit| stages_of(&units[*unit].way).contains(&stage)).collect();
            Turns::new(order, start)
        });
        let (me, peers, applied) = (cluster.rank(), cluster.size(), vec![start; units.len()]);
        Ok(Self {
            settings,
            pieces,
            units,
            cuts,
            encoders,
            mixings,
            applied,
            me,
            peers,
            stages,
            turns,
            counts,
            norms,
            next_norm: start,
            steps: BTreeMap::new(),
            flights: Vec::new(),
            settling: Vec::new(),
            begun: start,
            last: None,
            failed: false,
        })
    }

    /// Carries the strategy out until it is told to stop.
    pub(crate) fn run(mut self, events: &Receiver<Event>) {
        while let Ok(event) = events.recv() {
            match event {
                Event::Stop => return,
                Event::Settle { to, copies } => self.settling.push((to, copies)),
                Event::Saved(folder) => self.last = Some(folder),
                event if self.failed => drop(event),
                event => {
                    if let Err(error) = self.take(event).and_then(|()| self.go_on()) {
                        self.failed = true;
                        self.settings.slots.fail(error);
                        self.flights.clear();
                    }
                }
            }
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.failed {
            // Whoever waits finds the channel closed.
            self.settling.clear();
        } else if self.steps.is_empty() {
            for (sender, copies) in self.settling.drain(..) {
                let owned =
                    |place: usize| self.units.iter().any(|unit| unit.pieces.contains(&place) && updates(unit, self.me));
                let copy =
                    |(place, piece): (usize, &Piece)| (piece.values.clone(), owned(place).then(|| piece.state.clone()));
                let pieces = self.pieces.iter().enumerate().filter(|_| copies).map(copy).collect();
                // Whoever asked may have gone.
                let _ = sender.send(Holdings { pieces });
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Begin { step, examples, loss, rate } => {
                let counted = vec![examples as f64, if examples == 0 { 0.0 } else { loss * examples as f64 }];
                let counting = Some(self.counts.begin_all_reduce(counted, Operator::Sum)?);
                let variables = self.settings.names.len();
                let (gradients, done) = (vec![None; variables], vec![0; variables]);
                let waiting = self.cuts.clone();
                self.steps.insert(step, Step { rate, examples, gradients, waiting, counting, done, ..Step::default() });
                self.begun = step + 1;
            }
            Event::Gradient { step, variable, taken } => {
                let step = self.steps.get_mut(&step).expect("a step begins before its gradients come");
                step.gradients[variable] = Some(taken);
            }
            Event::Order { order, since } => self.turns.iter_mut().for_each(|turns| turns.reorder(&order, since)),
            Event::Woken | Event::Settle { .. } | Event::Saved(_) | Event::Stop => {}
        }
        Ok(())
    }

    /// Goes as far as it can.
    fn go_on(&mut self) -> Result<()> {
        loop {
            let mut moved = self.count()?;
            while self.begin_next()? {
                moved = true;
            }
            let flights = std::mem::take(&mut self.flights);
            for mut flight in flights {
                while self.advance(&mut flight)? {
                    moved = true;
                }
                if !matches!(flight.stage, Stage::Over) {
                    self.flights.push(flight);
                }
            }
            moved |= self.norm()?;
            // A peer that updates nothing may have all values of a step before it has heard of the norm that it took part in.
            let (units, norms) = (self.units.len(), matches!(self.settings.clip, Some(Clip::Norm(_))));
            self.steps.retain(|_, step| step.over < units || norms && step.shrink.is_none());
            if !moved {
                return Ok(());
            }
        }
    }

    /// Takes in how many examples a step has.
    fn count(&mut self) -> Result<bool> {
        let mut moved = false;
        for (number, step) in &mut self.steps {
            if step.counting.as_ref().is_some_and(Pending::is_over) {
                let pending = step.counting.take().expect("looked at just now");
                let counted = pending.finish()?;
                if counted[0] == 0.0 {
                    return Err(Error::Nothing { step: number + 1 }.into());
                }
                let loss = counted[1] / counted[0];
                if !loss.is_finite() {
                    let bad = self.pieces.iter().find(|piece| piece.values.iter().any(|value| !value.is_finite()));
                    let what = bad.map_or("the loss".to_owned(), |piece| {
                        format!("the loss (and a value of {})", self.settings.names[piece.variable])
                    });
                    return Err(Error::NotFinite { step: number + 1, what, last: self.last.clone() }.into());
                }
                self.settings.slots.report(*number, loss);
                step.total = Some(counted[0]);
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Begins the unit whose turn it is, if its gradients are here.
    fn begin_next(&mut self) -> Result<bool> {
        let Some((number, at)) = self.turns[0].next() else { return Ok(false) };
        let Some(step) = self.steps.get_mut(&number) else { return Ok(false) };
        let unit = &self.units[at];
        let encoded = unit.encoding != Encoding::Plain && !matches!(unit.way, Way::Factors);
        if unit.variables.iter().any(|variable| step.gradients[*variable].is_none())
            || encoded && self.encoders[at].is_none()
        {
            return Ok(false);
        }
        self.turns[0].pass();
        let stage = match &unit.way {
            Way::Sum { .. } | Way::Served { .. } => {
                let gradient = whole(unit, &self.pieces, step);
                self.begin_sum(at, gradient)?
            }
            Way::Mix { .. } => {
                let gradient = whole(unit, &self.pieces, step);
                Stage::Apply(Gradient::Whole(gradient))
            }
            Way::Factors => {
                let parts = parts(unit, step);
                let length = i64::try_from(parts.len()).unwrap_or(i64::MAX);
                Stage::Lengths(self.stages[0].begin_all_gather(&[length])?, parts)
            }
            Way::Rows { owners } => {
                let width = self.pieces[unit.pieces[0]].width;
                let mine = by_owner(&parts(unit, step), width, owners, self.peers);
                let lengths: Vec<i64> = mine.iter().map(|rows| i64::try_from(rows.len()).unwrap_or(i64::MAX)).collect();
                Stage::RowLengths(self.stages[0].begin_all_gather(&lengths)?, mine)
            }
        };
        let began = self.settings.trace.as_ref().map_or(0.0, |trace| trace.now());
        self.flights.push(Flight { step: number, unit: at, stage, counted: false, began });
        Ok(true)
    }

    fn begin_sum(&mut self, at: usize, gradient: Vec<f32>) -> Result<Stage> {
        let unit = &self.units[at];
        let (goal, algorithm) = match unit.way {
            Way::Served { owner } => (Goal::Reduce { root: owner }, Algorithm::Tree),
            Way::Sum { algorithm } => (Goal::AllReduce, algorithm),
            _ => unreachable!("only these sum"),
        };
        let collectives = self.stages[0].by(algorithm);
        Ok(match (self.encoders[at].take(), goal) {
            (Some(encoder), goal) => {
                Stage::SumEncoded(collectives.begin_encoded(goal, &gradient, Operator::Sum, encoder)?)
            }
            (None, Goal::Reduce { root }) => Stage::Sum(collectives.begin_reduce(root, gradient, Operator::Sum)?),
            (None, _) => Stage::Sum(collectives.begin_all_reduce(gradient, Operator::Sum)?),
        })
    }

    /// Takes one step with a unit; whether it could.
    fn advance(&mut self, flight: &mut Flight) -> Result<bool> {
        let (at, number) = (flight.unit, flight.step);
        let stage = std::mem::replace(&mut flight.stage, Stage::Over);
        let (moved, stage) = match stage {
            Stage::Sum(pending) if pending.is_over() => {
                let sum = pending.finish()?;
                (true, self.summed(at, sum))
            }
            Stage::SumEncoded(pending) if pending.is_over() => {
                let (encoder, sum) = pending.finish();
                self.encoders[at] = Some(encoder);
                (true, self.summed(at, sum?))
            }
            Stage::ToBroadcast(values) if self.turns[2].is_of(number, at) => {
                self.turns[2].pass();
                let Way::Served { owner } = self.units[at].way else { unreachable!("only served units come here") };
                (true, Stage::Broadcast(self.stages[2].begin_broadcast(owner, values)?))
            }
            Stage::Broadcast(pending) if pending.is_over() && self.applied[at] == number => {
                let values = pending.finish()?;
                let Way::Served { owner } = self.units[at].way else { unreachable!("only served units come here") };
                if owner != self.me {
                    self.put(at, &values);
                }
                (true, self.end(flight))
            }
            Stage::Lengths(pending, mine) if pending.is_over() => {
                let lengths = pending.finish()?.into_iter().map(length).collect();
                (true, Stage::ToGather(lengths, mine))
            }
            Stage::ToGather(lengths, mine) if self.turns[1].is_of(number, at) => {
                self.turns[1].pass();
                let most = lengths.iter().copied().max().unwrap_or(0);
                (true, Stage::Gather(self.stages[1].begin_all_gather(&padded(&mine, most))?, lengths))
            }
            Stage::Gather(pending, lengths) if pending.is_over() => {
                let all = pending.finish()?;
                let piece = &self.pieces[self.units[at].pieces[0]];
                (true, Stage::Apply(Gradient::Whole(multiply(&all, &lengths, (piece.rows, piece.width)))))
            }
            Stage::RowLengths(pending, mine) if pending.is_over() => {
                let lengths = pending.finish()?.into_iter().map(length).collect();
                (true, Stage::ToPush(lengths, mine))
            }
            Stage::ToPush(lengths, mine) if self.turns[1].is_of(number, at) => {
                self.turns[1].pass();
                let most = lengths.iter().copied().max().unwrap_or(0);
                let blocks: Vec<f32> = mine.iter().flat_map(|rows| padded(rows, most)).collect();
                (true, Stage::Push(self.stages[1].begin_all_to_all(blocks)?, lengths))
            }
            Stage::Push(pending, lengths) if pending.is_over() => {
                let blocks = pending.finish()?;
                let width = self.pieces[self.units[at].pieces[0]].width;
                let most = blocks.len() / self.peers;
                let mut sums = BTreeMap::new();
                for from in 0..self.peers {
                    let length = lengths[from * self.peers + self.me.index()];
                    add_rows(&mut sums, &blocks[from * most..from * most + length], width);
                }
                (true, Stage::Apply(into_rows(sums)))
            }
            Stage::Apply(gradient) => self.try_apply(flight, gradient)?,
            Stage::ToBackLengths(rows) if self.turns[2].is_of(number, at) => {
                self.turns[2].pass();
                let length = i64::try_from(rows.len()).unwrap_or(i64::MAX);
                (true, Stage::BackLengths(self.stages[2].begin_all_gather(&[length])?, rows))
            }
            Stage::BackLengths(pending, rows) if pending.is_over() => {
                let lengths = pending.finish()?.into_iter().map(length).collect();
                (true, Stage::ToBack(lengths, rows))
            }
            Stage::ToBack(lengths, rows) if self.turns[3].is_of(number, at) => {
                self.turns[3].pass();
                let most = lengths.iter().copied().max().unwrap_or(0);
                (true, Stage::Back(self.stages[3].begin_all_gather(&padded(&rows, most))?, lengths))
            }
            Stage::Back(pending, lengths) if pending.is_over() && self.applied[at] == number => {
                let all = pending.finish()?;
                let piece = &mut self.pieces[self.units[at].pieces[0]];
                let most = all.len() / self.peers;
                for (from, length) in lengths.iter().enumerate() {
                    put_rows(&all[from * most..from * most + length], &mut piece.values, piece.width);
                }
                (true, self.end(flight))
            }
            other => (false, other),
        };
        flight.stage = stage;
        Ok(moved)
    }

    /// What follows a sum that is here, or has left for its owner.
    fn summed(&self, at: usize, sum: Vec<f32>) -> Stage {
        match self.units[at].way {
            Way::Served { owner } if owner != self.me => Stage::ToBroadcast(vec![0.0; self.units[at].length]),
            _ => Stage::Apply(Gradient::Whole(sum)),
        }
    }

    /// Applies a gradient if it is its turn and everything is known that it takes.
    fn try_apply(&mut self, flight: &mut Flight, gradient: Gradient) -> Result<(bool, Stage)> {
        let (at, number) = (flight.unit, flight.step);
        let unit = &self.units[at];
        let step = self.steps.get_mut(&number).expect("a step is there until its units are over");
        let (Some(total), true) = (step.total, self.applied[at] == number) else {
            return Ok((false, Stage::Apply(gradient)));
        };
        let mixed = matches!(unit.way, Way::Mix { .. });
        let mut scale = if mixed { 1.0 / step.examples.max(1) as f64 } else { 1.0 / total };
        if let Some(Clip::Norm(_)) = self.settings.clip {
            if !flight.counted {
                flight.counted = true;
                step.complete += 1;
                step.squares += squares(unit, &gradient, self.me) * scale * scale;
            }
            match step.shrink {
                Some(shrink) => scale *= shrink,
                None => return Ok((false, Stage::Apply(gradient))),
            }
        }
        let (rate, clip) = (step.rate, self.settings.clip);
        let stage = match gradient {
            Gradient::Whole(mut numbers) => {
                self.check_finite(at, number, &numbers)?;
                clip_values(&mut numbers, clip, scale);
                self.update_whole(at, rate, &mut numbers, scale as f32);
                if let Some(mixing) = &mut self.mixings[at] {
                    let unit = &self.units[at];
                    let mut values = Vec::with_capacity(unit.length);
                    unit.pieces.iter().for_each(|piece| values.extend_from_slice(&self.pieces[*piece].values));
                    mixing.mix(&mut values)?;
                    self.put(at, &values);
                }
                match self.units[at].way {
                    Way::Served { .. } => {
                        let unit = &self.units[at];
                        let mut values = Vec::with_capacity(unit.length);
                        unit.pieces.iter().for_each(|piece| values.extend_from_slice(&self.pieces[*piece].values));
                        Stage::ToBroadcast(values)
                    }
                    _ => self.end(flight),
                }
            }
            Gradient::Rows(rows, mut numbers) => {
                self.check_finite(at, number, &numbers)?;
                clip_values(&mut numbers, clip, scale);
                let piece = &mut self.pieces[self.units[at].pieces[0]];
                let (width, optimizer) = (piece.width, &self.settings.optimizer);
                let touched = (&rows[..], &mut numbers[..], width);
                optimizer.update_rows(rate, &mut piece.values, touched, scale as f32, &mut piece.state);
                Stage::ToBackLengths(with_keys(rows, &piece.values, width))
            }
        };
        Ok((true, stage))
    }

    fn check_finite(&self, at: usize, number: u64, gradient: &[f32]) -> Result<()> {
        if gradient.iter().all(|number| number.is_finite()) {
            return Ok(());
        }
        let mut start = 0;
        let bad = self.units[at].pieces.iter().map(|piece| &self.pieces[*piece]).find(|piece| {
            let place = start..(start + piece.block.len()).min(gradient.len());
            start = place.end;
            gradient[place].iter().any(|number| !number.is_finite())
        });
        let name = bad.map_or("a variable", |piece| &self.settings.names[piece.variable]);
        let what = format!("the gradient of {name}");
        Err(Error::NotFinite { step: number + 1, what, last: self.last.clone() }.into())
    }

    fn update_whole(&mut self, at: usize, rate: f64, gradient: &mut [f32], scale: f32) {
        let optimizer = &self.settings.optimizer;
        let mut rest = gradient;
        for place in &self.units[at].pieces {
            let piece = &mut self.pieces[*place];
            let (mine, others) = rest.split_at_mut(piece.block.len());
            rest = others;
            if piece.by_rows && optimizer.takes_rows() {
                let width = piece.width;
                let touched: Vec<usize> = (0..piece.rows)
                    .filter(|row| mine[row * width..(row + 1) * width].iter().any(|number| *number != 0.0))
                    .collect();
                let mut numbers: Vec<f32> =
                    touched.iter().flat_map(|row| mine[row * width..(row + 1) * width].iter().copied()).collect();
                let rows = (&touched[..], &mut numbers[..], width);
                optimizer.update_rows(rate, &mut piece.values, rows, scale, &mut piece.state);
            } else {
                optimizer.update(rate, &mut piece.values, mine, scale, &mut piece.state);
            }
        }
    }

    /// Values of a unit's pieces, one after the other.
    fn put(&mut self, at: usize, values: &[f32]) {
        let mut start = 0;
        for place in &self.units[at].pieces {
            let piece = &mut self.pieces[*place];
            let end = start + piece.block.len();
            piece.values.copy_from_slice(&values[start..end]);
            start = end;
        }
    }

    /// A unit has its new values: publishes variables that are whole now.
    fn end(&mut self, flight: &Flight) -> Stage {
        let Self { settings, pieces, units, cuts, steps, applied, .. } = self;
        let (at, number) = (flight.unit, flight.step);
        applied[at] = number + 1;
        if let Some(trace) = &settings.trace {
            let name = &settings.names[units[at].variables[units[at].variables.len() - 1]];
            let more = units[at].variables.len() - 1;
            let what = if more == 0 { name.clone() } else { format!("{name} and {more} more") };
            trace.ended(what, Line::Travel(at), flight.began);
        }
        let step = steps.get_mut(&number).expect("a step is there until its units are over");
        for place in &units[at].pieces {
            step.done[pieces[*place].variable] += 1;
        }
        for variable in &units[at].variables {
            if step.done[*variable] == cuts[*variable] {
                let own = pieces.iter().filter(|piece| piece.variable == *variable);
                let mut values;
                if cuts[*variable] == 1 {
                    values = own.map(|piece| piece.values.clone()).next().unwrap_or_default();
                } else {
                    values = vec![0.0; settings.lengths[*variable]];
                    own.for_each(|piece| piece.block.scatter(&piece.values, &mut values));
                }
                settings.slots.publish(*variable, values, number + 1);
            }
        }
        step.over += 1;
        Stage::Over
    }
}

/// Whether a peer updates a unit.
pub(super) fn updates(unit: &Unit, peer: Rank) -> bool {
    match &unit.way {
        Way::Sum { .. } | Way::Factors | Way::Mix { .. } | Way::Rows { .. } => true,
        Way::Served { owner } => *owner == peer,
    }
}

fn length(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// The gradients of a unit's pieces, one after the other.
fn whole(unit: &Unit, pieces: &[Piece], step: &mut Step) -> Vec<f32> {
    let mut numbers = Vec::new();
    for place in &unit.pieces {
        let piece = &pieces[*place];
        step.waiting[piece.variable] -= 1;
        let last = step.waiting[piece.variable] == 0;
        let gradient = &mut step.gradients[piece.variable];
        match gradient {
            Some(Taken::Whole(whole)) if last && unit.pieces.len() == 1 && whole.len() == piece.block.len() => {
                numbers = std::mem::take(whole);
            }
            Some(Taken::Whole(whole)) => {
                if numbers.is_empty() {
                    numbers.reserve_exact(unit.length);
                }
                piece.block.gather(whole, &mut numbers);
            }
            _ => numbers.resize(numbers.len() + piece.block.len(), 0.0),
        }
        if last {
            *gradient = None;
        }
    }
    numbers
}

/// The parts of a unit's only gradient.
fn parts(unit: &Unit, step: &mut Step) -> Vec<f32> {
    match step.gradients[unit.variables[0]].take() {
        Some(Taken::Parts(parts)) => parts,
        _ => Vec::new(),
    }
}
