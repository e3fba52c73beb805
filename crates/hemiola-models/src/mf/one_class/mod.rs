//! Implicit feedback: alternating least squares over all pairs of a user and an item.
//!
//! Only positives are known: who clicked, bought or watched what, and perhaps how often. Every
//! unobserved pair counts as a weak negative. The objective is
//!
//! ```text
//! Σ_events c (1 - w·h)² + unobserved_weight Σ_all pairs (w·h)² + Σ_users λ_u |w|² + Σ_items λ_i |h|²
//! ```
//! with `c` the weight of an event and `λ = l2 (events of the row + unobserved_weight · rows of the
//! other side)^frequency_exponent`. With the items fixed, each user is an independent least-squares
//! problem (`row_equations`), and vice versa. The sum over all pairs is one small matrix (`gram`)
//! that all rows of a side share. So an epoch is two loops whose rows are independent. There is no
//! learning rate and no divergence. Hu, Koren and Volinsky 2008; regularization by frequency makes
//! the model competitive with later ones: Rendle, Krichene, Zhang and Koren 2022.
//!
//! **Invariant:** an epoch depends on the factors and the lists alone, so resumed training is
//! bit-identical.

#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod conjugate_gradient;
mod event_lists;
mod gram;
mod row_equations;

use self::event_lists::{EventLists, lists};
use self::gram::GramMatrix;
use self::row_equations::RowEquations;
use super::loss::MfLoss;
use super::model::MfModel;
use super::settings::MfSettings;
use super::sgd::{LANES, dot};
use crate::Error;
use hemiola_array::{Accumulator, AccumulatorExt, DistArray};
use hemiola_cluster::{Cluster, Result};
use hemiola_loops::LoopPlan;
use hemiola_loops::parallel_for;

/// Event lists of users and of items.
#[derive(Debug)]
pub(super) struct OneClassEvents {
    users: EventLists,
    items: EventLists,
}

impl OneClassEvents {
    /// *Collective.* Builds the event lists for a model of this shape.
    pub(super) fn new(
        cluster: &Cluster,
        events: &DistArray<f32, 2>,
        [users, items]: [usize; 2],
        settings: &MfSettings,
    ) -> Result<Self> {
        must_be_weights(cluster, events, MfLoss::OneClass)?;
        let fixed = RowEquations::fixed((settings.rank as usize).next_multiple_of(LANES));
        Ok(Self { users: lists(cluster, events, 0, users, fixed)?, items: lists(cluster, events, 1, items, fixed)? })
    }

    /// *Collective.* Solves for all users, then for all items. Returns the total objective and the
    /// plan of the first loop.
    pub(super) fn epoch(&self, cluster: &Cluster, model: &mut MfModel) -> Result<(f64, LoopPlan)> {
        let MfModel { user_factors: w, item_factors: h, settings, .. } = model;
        let (_, plan) = solve_side(cluster, settings, (&self.users, &mut *w), (&self.items, &*h))?;
        let (objective, _) = solve_side(cluster, settings, (&self.items, h), (&self.users, w))?;
        Ok((objective, plan))
    }
}

/// Returns the ridge of a row with so many events.
pub(super) fn penalty(settings: &MfSettings, events: usize, others: usize) -> f32 {
    let pairs = events as f64 + f64::from(settings.unobserved_weight) * others as f64;
    (f64::from(settings.l2) * pairs.powf(f64::from(settings.frequency_exponent))) as f32
}

/// *Collective.* Solves for every row of one side with the other side fixed. Returns the objective
/// afterwards and the plan.
fn solve_side(
    cluster: &Cluster,
    settings: &MfSettings,
    (lists, own): (&EventLists, &mut DistArray<f32, 2>),
    (other_lists, other): (&EventLists, &DistArray<f32, 2>),
) -> Result<(f64, LoopPlan)> {
    let [own_rows, width] = own.shape().extents();
    let [other_rows, _] = other.shape().extents();
    let grams = Accumulator::new(cluster, GramMatrix::default(), GramMatrix::joined);
    let costs = cluster.accumulator::<f64>();
    parallel_for!(
        cluster,
        for ([row, share], events) in other_lists {
            if share > 0 {
                continue;
            }
            let factors = &other[row];
            costs += f64::from(penalty(settings, events.len(), own_rows)) * f64::from(dot(factors, factors));
            grams.add(GramMatrix::of(factors));
        }
    )?;
    let matrix = grams.take()?.scaled(width, settings.unobserved_weight);
    let run = parallel_for!(
        cluster,
        repeated,
        for ([row, share], events) in lists {
            if share > 0 {
                continue;
            }
            let ridge = penalty(settings, events.len(), other_rows);
            let mut equations = RowEquations::start(width, &matrix, ridge, events.len());
            for (number, weight) in events {
                equations.add(&other[*number as usize], *weight);
            }
            costs += equations.solve(&mut own[row]);
        }
    )?;
    Ok((costs.take()?, run.plan().clone()))
}

/// *Collective.* Returns the weighted Gram matrix of all items, for folding in new users.
pub(super) fn item_gram(cluster: &Cluster, model: &MfModel) -> Result<Vec<f32>> {
    let items = &model.item_factors;
    let [count, width] = items.shape().extents();
    let grams = Accumulator::new(cluster, GramMatrix::default(), GramMatrix::joined);
    parallel_for!(
        cluster,
        for i in 0..count {
            grams.add(GramMatrix::of(&items[i]));
        }
    )?;
    Ok(grams.take()?.scaled(width, model.settings.unobserved_weight))
}

/// *Collective.* Returns an error that names the first event whose weight is not a positive number.
pub(super) fn must_be_weights(cluster: &Cluster, events: &DistArray<f32, 2>, loss: MfLoss) -> Result<()> {
    let mut wrong: Option<([usize; 2], f32)> = None;
    events.for_each(|key, weight| {
        if !(*weight > 0.0 && weight.is_finite()) && wrong.is_none_or(|(first, _)| key < first) {
            wrong = Some((key, *weight));
        }
    });
    let first = cluster.all_gather(wrong)?.into_iter().flatten().min_by_key(|(key, _)| *key);
    match first {
        Some(([user, item], rating)) => {
            let name = |dimension: usize, number: usize| {
                let names = events.names(dimension);
                let name = names.and_then(|names| Some(names.name_lossy(u32::try_from(number).ok()?)?.into_owned()));
                name.unwrap_or_else(|| number.to_string())
            };
            let (user, item) = (name(0, user), name(1, item));
            let expected = "weights above 0; choose the rating threshold of events (`--event-threshold`)";
            Err(Error::InvalidRating { user, item, rating, loss: loss.name(), expected }.into())
        }
        None => Ok(()),
    }
}
