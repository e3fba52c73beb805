//! Bayesian personalized ranking: implicit feedback as pairs of an item that a user has, and one
//! that the user does not have (Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009).
//!
//! ```text
//! objective = Σ_events (u, i) [-ln σ(s_ui - s_uj) + ½ l2 (|w_u|² + |h_i|² + |h_j|² + c_i² + c_j²)]
//! ```
//! with `s_ui = c_i + w_u · h_i`, and `j` a random item without an event of `u`, drawn anew for every
//! event in every epoch. Weights of events are ignored. Biases of users cancel and stay 0.
//!
//! An epoch visits all events in random order, in mini-batches of [`BATCH`]. In each, the slopes of
//! all pairs are computed from the same factors; then gradients are summed by row, and each row takes
//! one AdaGrad step, as in ratings (see `sgd`). A loop over events that writes both rows at once
//! could not be cut as for ratings: the row of `j` may be anywhere.
//!
//! **Invariant:** draws depend on the seed, the epoch and the event. Sums of a row are in the order
//! of the batch, whichever worker has the row. So an epoch has the same bits on any number of peers
//! and workers.
//!
//! Every peer has all events and factors. Peers divide the pairs of a batch, exchange their slopes,
//! and take the same steps; this suits clusters of a few peers.

use super::model::MfModel;
use super::settings::MfSettings;
use super::sgd::{BiasState, LANES};
use crate::Error;
use hemiola_array::{ArrayExt, DistArray};
use hemiola_cluster::{Cluster, Result, StopPoll};
use hemiola_collective::{Algorithm, CollectiveExt, Communicator};
use hemiola_core::rng::{SplitMix64, mix64};

/// Events per step.
const BATCH: usize = 256;
/// Draws of an item without an event; users with nearly all items are skipped after that.
const DRAWS: usize = 64;
/// No slot: the row does not occur in the batch.
const NO_SLOT: u32 = u32::MAX;

/// Events of all users on every peer, and the order in which they are visited.
#[derive(Debug)]
pub(super) struct BprEvents {
    /// User and item of each event, sorted.
    events: Vec<[u32; 2]>,
    /// First event of each user, and the end.
    starts: Vec<usize>,
    items: usize,
    collectives: Communicator,
}

/// Pair of an item with an event and one without, of a user.
#[derive(Clone, Copy, Debug)]
struct ItemPair {
    user: usize,
    /// Row of the item with the event, counted over users and items.
    chosen: usize,
    /// Row of the item without.
    other: usize,
    /// Negative gradient of the loss with respect to the difference of scores; 0 if no item without
    /// an event was found.
    slope: f32,
    cost: f32,
}

impl BprEvents {
    /// *Collective.* Gathers the events for a model of this shape.
    pub(super) fn new(cluster: &Cluster, events: &DistArray<f32, 2>, [users, items]: [usize; 2]) -> Result<Self> {
        let bytes = 8 * events.len() as u128;
        crate::memory::ensure_available(bytes, || format!("the list of {} events", events.len()))?;
        let mut own = Vec::new();
        events.for_each(|[user, item], _| own.extend([user, item].map(|index| (index as u32).cast_signed())));
        let collectives = cluster.communicator()?.with_algorithm(Algorithm::Ring);
        let (all, _) = collectives.all_gather_ragged(&own, usize::MAX)?;
        let mut events: Vec<[u32; 2]> = all.as_chunks::<2>().0.iter().map(|key| key.map(i32::cast_unsigned)).collect();
        events.sort_unstable();
        let mut starts = vec![0; users + 1];
        for [user, _] in &events {
            starts[*user as usize + 1] += 1;
        }
        for user in 0..users {
            starts[user + 1] += starts[user];
        }
        if (0..users).all(|user| starts[user + 1] - starts[user] == items) {
            return Err(Error::NoUnobservedItems.into());
        }
        Ok(Self { events, starts, items, collectives })
    }

    /// *Collective.* Runs an epoch; returns the sum of the losses.
    pub(super) fn epoch(
        &self,
        cluster: &Cluster,
        model: &mut MfModel,
        (epoch, learning_rate): (u32, f32),
    ) -> Result<f64> {
        let mut rows = FactorRows::of(model)?;
        let seed = mix64(model.settings.seed ^ (u64::from(epoch) << 32));
        let mut order: Vec<u32> = (0..self.events.len() as u32).collect();
        SplitMix64::new(seed).shuffle(&mut order);
        let rule = BprRule::new(&model.settings, learning_rate);
        let (peers, rank) = (cluster.size(), cluster.rank().index());
        let workers = cluster.workers();
        let bounds: Vec<usize> = (0..=workers).map(|worker| worker * rows.count() / workers).collect();
        let mut gradients: Vec<RowGradients> =
            bounds.windows(2).map(|bounds| RowGradients::new(bounds[0], bounds[1] - bounds[0])).collect();
        let mut parts: Vec<Vec<ItemPair>> = vec![Vec::new(); workers];
        let arch = pulp::Arch::new();
        let mut total = 0.0;
        let mut poll = StopPoll::new(cluster);
        cluster.worker_team(|team| {
            for batch in order.chunks(BATCH) {
                poll.check(cluster)?;
                let share = |index: usize, count: usize, length: usize| index * length / count;
                let mine = &batch[share(rank, peers, batch.len())..share(rank + 1, peers, batch.len())];
                let factors = &rows;
                team.each_with(&mut parts, |worker, part| {
                    part.clear();
                    let own = &mine[share(worker, workers, mine.len())..share(worker + 1, workers, mine.len())];
                    arch.dispatch(|| part.extend(own.iter().map(|event| self.pair(*event, seed, factors))));
                })?;
                let pairs = self.gathered(&parts, batch, seed, peers, factors.users)?;
                team.each_with(&mut gradients, |_, gradients| {
                    arch.dispatch(|| gradients.sum(&pairs, factors));
                })?;
                let mut shares = RowShare::split(&mut rows, &bounds, &mut gradients);
                team.each_with(&mut shares, |_, share| arch.dispatch(|| share.step(rule)))?;
                total += pairs.iter().map(|pair| f64::from(pair.cost)).sum::<f64>();
            }
            Ok(())
        })?;
        rows.store(cluster, model)?;
        Ok(total)
    }

    /// Draws an item without an event for an event.
    fn draw(&self, event: u32, seed: u64) -> Option<usize> {
        let [user, _] = self.events[event as usize];
        let seen = &self.events[self.starts[user as usize]..self.starts[user as usize + 1]];
        let mut random = SplitMix64::new(mix64(seed.wrapping_add(u64::from(event) + 1)));
        let mut draws = std::iter::repeat_with(|| random.below(self.items)).take(DRAWS);
        draws.find(|item| seen.binary_search(&[user, *item as u32]).is_err())
    }

    /// Draws a pair without its slope.
    fn drawn(&self, event: u32, seed: u64, users: usize) -> ItemPair {
        let [user, item] = self.events[event as usize].map(|index| index as usize);
        let chosen = users + item;
        let other = self.draw(event, seed).map_or(chosen, |other| users + other);
        ItemPair { user, chosen, other, slope: 0.0, cost: 0.0 }
    }

    #[inline(always)]
    fn pair(&self, event: u32, seed: u64, rows: &FactorRows) -> ItemPair {
        let pair = self.drawn(event, seed, rows.users);
        if pair.other == pair.chosen {
            return pair;
        }
        let (user, chosen, other) = (rows.row(pair.user), rows.row(pair.chosen), rows.row(pair.other));
        let mut lanes = [0.0_f32; LANES];
        let chunks = user.as_chunks::<LANES>().0.iter().zip(chosen.as_chunks::<LANES>().0);
        for ((user, chosen), other) in chunks.zip(other.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                lanes[lane] += user[lane] * (chosen[lane] - other[lane]);
            }
        }
        let difference = total_of(lanes) + rows.states[pair.chosen][0] - rows.states[pair.other][0];
        let tail = (-difference.abs()).exp();
        let slope = if difference >= 0.0 { tail / (1.0 + tail) } else { 1.0 / (1.0 + tail) };
        ItemPair { slope, cost: (-difference).max(0.0) + tail.ln_1p(), ..pair }
    }

    /// *Collective.* Returns the pairs of a batch of all peers, in order.
    fn gathered(
        &self,
        parts: &[Vec<ItemPair>],
        batch: &[u32],
        seed: u64,
        peers: usize,
        users: usize,
    ) -> Result<Vec<ItemPair>> {
        if peers == 1 {
            return Ok(parts.concat());
        }
        let own: Vec<f32> = parts.iter().flatten().flat_map(|pair| [pair.slope, pair.cost]).collect();
        let (all, _) = self.collectives.all_gather_ragged(&own, 2 * batch.len())?;
        let pairs = batch.iter().zip(all.as_chunks::<2>().0);
        Ok(pairs
            .map(|(event, [slope, cost])| ItemPair { slope: *slope, cost: *cost, ..self.drawn(*event, seed, users) })
            .collect())
    }
}

/// Sums the lanes: the upper half onto the lower half, repeatedly.
#[inline(always)]
fn total_of(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for at in 0..half {
            lanes[at] += lanes[at + half];
        }
        half /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn square(row: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for row in row.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            lanes[lane] += row[lane] * row[lane];
        }
    }
    total_of(lanes)
}

/// Factors and states of all users, then of all items, on this peer.
#[derive(Debug)]
struct FactorRows {
    users: usize,
    width: usize,
    factors: Vec<f32>,
    states: Vec<[f32; BiasState::WIDTH]>,
}

impl FactorRows {
    /// *Collective.* Gathers the rows of a model.
    fn of(model: &MfModel) -> Result<Self> {
        let [users, width] = model.user_factors.shape().extents();
        let numbers = |array: &DistArray<f32, 2>| -> Result<Vec<f32>> {
            Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
        };
        let factors = [numbers(&model.user_factors)?, numbers(&model.item_factors)?].concat();
        let states = [numbers(&model.user_state)?, numbers(&model.item_state)?].concat();
        Ok(Self { users, width, factors, states: states.as_chunks().0.to_vec() })
    }

    /// *Collective.* Stores the rows in the model.
    fn store(&self, cluster: &Cluster, model: &mut MfModel) -> Result<()> {
        let [users, items] = model.shape();
        let names = [model.user_factors.shared_names(0), model.item_factors.shared_names(0)];
        let factors = |first: usize, count: usize| {
            cluster.from_fn([count, self.width], |[row, index]| self.factors[(first + row) * self.width + index])
        };
        let states = |first: usize, count: usize| {
            cluster.from_fn([count, BiasState::WIDTH], |[row, index]| self.states[first + row][index])
        };
        let [of_users, of_items] = names;
        model.user_factors = factors(0, users)?.with_names([of_users, None]);
        model.item_factors = factors(users, items)?.with_names([of_items, None]);
        model.user_state = states(0, users)?;
        model.item_state = states(users, items)?;
        Ok(())
    }

    fn count(&self) -> usize {
        self.states.len()
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[f32] {
        &self.factors[row * self.width..][..self.width]
    }
}

/// Learning rate and regularization of a step.
#[derive(Clone, Copy, Debug)]
struct BprRule {
    learning_rate: f32,
    l2: f32,
    /// Reciprocal of the rank.
    mean: f32,
}

impl BprRule {
    fn new(settings: &MfSettings, learning_rate: f32) -> Self {
        Self { learning_rate, l2: settings.l2, mean: 1.0 / settings.rank as f32 }
    }
}

/// Summed gradients of the rows of a worker that occur in a batch.
#[derive(Debug)]
struct RowGradients {
    /// First row.
    first: usize,
    slots: Vec<u32>,
    /// Row, number of pairs, and gradient of the bias by slot.
    rows: Vec<(u32, f32, f32)>,
    /// Gradients of the factors by slot.
    sums: Vec<f32>,
}

impl RowGradients {
    fn new(first: usize, rows: usize) -> Self {
        Self { first, slots: vec![NO_SLOT; rows], rows: Vec::new(), sums: Vec::new() }
    }

    /// Sums the gradients of all pairs, for the rows of this worker.
    #[inline(always)]
    fn sum(&mut self, pairs: &[ItemPair], factors: &FactorRows) {
        for pair in pairs {
            if pair.other == pair.chosen {
                continue;
            }
            let (user, chosen, other) = (factors.row(pair.user), factors.row(pair.chosen), factors.row(pair.other));
            if let Some(sums) = self.slot(pair.user, 0.0, factors.width) {
                for ((sum, chosen), other) in sums.iter_mut().zip(chosen).zip(other) {
                    *sum += pair.slope * (chosen - other);
                }
            }
            for (item, slope) in [(pair.chosen, pair.slope), (pair.other, -pair.slope)] {
                if let Some(sums) = self.slot(item, slope, factors.width) {
                    for (sum, user) in sums.iter_mut().zip(user) {
                        *sum += slope * user;
                    }
                }
            }
        }
    }

    /// Returns the gradient of a row, if it is of this worker, and counts a pair.
    #[inline(always)]
    fn slot(&mut self, row: usize, slope: f32, width: usize) -> Option<&mut [f32]> {
        let index = row.wrapping_sub(self.first);
        let mut slot = *self.slots.get(index)?;
        if slot == NO_SLOT {
            slot = self.rows.len() as u32;
            self.slots[index] = slot;
            self.rows.push((index as u32, 0.0, 0.0));
            self.sums.resize((slot as usize + 1) * width, 0.0);
        }
        let (_, count, bias) = &mut self.rows[slot as usize];
        *count += 1.0;
        *bias += slope;
        Some(&mut self.sums[slot as usize * width..][..width])
    }
}

/// Rows of a worker, to be updated.
struct RowShare<'a> {
    width: usize,
    factors: &'a mut [f32],
    states: &'a mut [[f32; BiasState::WIDTH]],
    gradients: &'a mut RowGradients,
    /// Number of users among the rows; they have no bias.
    users: usize,
}

impl<'a> RowShare<'a> {
    fn split(rows: &'a mut FactorRows, bounds: &[usize], gradients: &'a mut [RowGradients]) -> Vec<Self> {
        let (width, users) = (rows.width, rows.users);
        let (mut factors, mut states) = (&mut rows.factors[..], &mut rows.states[..]);
        let mut shares = Vec::with_capacity(gradients.len());
        for (bounds, gradients) in bounds.windows(2).zip(gradients) {
            let (own, rest) = factors.split_at_mut((bounds[1] - bounds[0]) * width);
            factors = rest;
            let (own_states, rest) = states.split_at_mut(bounds[1] - bounds[0]);
            states = rest;
            let users = users.saturating_sub(bounds[0]);
            shares.push(Self { width, factors: own, states: own_states, gradients, users });
        }
        shares
    }

    /// Takes the step of the batch for these rows.
    #[inline(always)]
    fn step(&mut self, rule: BprRule) {
        let Self { width, factors, states, gradients: RowGradients { slots, rows, sums, .. }, users } = self;
        for (slot, (row, count, bias_gradient)) in rows.iter().enumerate() {
            let row = *row as usize;
            slots[row] = NO_SLOT;
            let (factors, sums) = (&mut factors[row * *width..][..*width], &mut sums[slot * *width..][..*width]);
            let shrink = count * rule.l2;
            for (sum, factor) in sums.iter_mut().zip(&*factors) {
                *sum -= shrink * factor;
            }
            let state = BiasState::of(&mut states[row]);
            *state.factor_sum += square(sums) * rule.mean;
            let rate = rule.learning_rate / state.factor_sum.sqrt();
            for (factor, sum) in factors.iter_mut().zip(&*sums) {
                *factor += rate * sum;
            }
            if row >= *users {
                let gradient = bias_gradient - shrink * *state.bias;
                *state.bias_sum += gradient * gradient;
                *state.bias += rule.learning_rate / state.bias_sum.sqrt() * gradient;
            }
        }
        rows.clear();
        sums.clear();
    }
}
