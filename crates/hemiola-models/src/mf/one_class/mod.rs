//! Events without ratings: alternating least squares over all pairs of a user and an item.
//!
//! Only a yes is known: who clicked, bought or watched what, and perhaps how often. Every pair that did *not* happen counts
//! as a weak no. What is minimized is
//!
//! ```text
//! Σ_events c (1 - w·h)² + unobserved Σ_all pairs (w·h)² + Σ_users λ_u |w|² + Σ_items λ_i |h|²
//! ```
//! with `c` the weight of an event and `λ = l2 (events of the row + unobserved · rows of the other side)^nu`. With the items
//! fixed each user is a problem of least squares of its own (`equations`), and the other way round; the sum over all pairs is
//! one small matrix (`gram`) that all rows of a side share. So an epoch is two loops in which no row depends on another. No step
//! has to be chosen and nothing can diverge. Hu, Koren and Volinsky 2008; penalties that grow with the number of events are what makes it
//! hold its own against later models: Rendle, Krichene, Zhang and Koren 2022.
//!
//! **Invariant:** a pass depends on the factors and the lists alone, so training that is resumed goes on to the same bits.

#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod conjugate;
mod equations;
mod gram;
mod lists;

use self::equations::Equations;
use self::gram::Gram;
use self::lists::{Lists, lists};
use super::model::Model;
use super::settings::Settings;
use super::step::{LANES, dot};
use crate::Error;
use hemiola::loops::Plan;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// Events of both sides.
#[derive(Debug)]
pub(super) struct OneClass {
    users: Lists,
    items: Lists,
}

impl OneClass {
    /// *Collective.* Arranges events for training a model of this shape.
    pub(super) fn new(
        cluster: &Cluster,
        events: &DistArray<f32, 2>,
        [users, items]: [u64; 2],
        settings: &Settings,
    ) -> Result<Self> {
        must_be_weights(cluster, events)?;
        let fixed = Equations::fixed((settings.rank as usize).next_multiple_of(LANES));
        Ok(Self { users: lists(cluster, events, 0, users, fixed)?, items: lists(cluster, events, 1, items, fixed)? })
    }

    /// *Collective.* Solves for all users, then for all items: what is minimized, in all, and the plan of the first loop.
    pub(super) fn pass(&self, cluster: &Cluster, model: &Model) -> Result<(f64, Plan)> {
        let Model { user_factors: w, item_factors: h, settings, .. } = model;
        let (_, plan) = half(cluster, settings, (&self.users, w), (&self.items, h))?;
        let (objective, _) = half(cluster, settings, (&self.items, h), (&self.users, w))?;
        Ok((objective, plan))
    }
}

/// The penalty of a row with so many events.
pub(super) fn penalty(settings: &Settings, events: usize, others: u64) -> f32 {
    let pairs = events as f64 + f64::from(settings.unobserved) * others as f64;
    (f64::from(settings.l2) * pairs.powf(f64::from(settings.nu))) as f32
}

/// *Collective.* Solves for every row of one side, with the other as it is. What is then minimized, and the plan.
fn half(
    cluster: &Cluster,
    settings: &Settings,
    (lists, own): (&Lists, &DistArray<f32, 2>),
    (other_lists, other): (&Lists, &DistArray<f32, 2>),
) -> Result<(f64, Plan)> {
    let [own_rows, width] = own.shape().extents();
    let [other_rows, _] = other.shape().extents();
    let width = width as usize;
    let grams = Accumulator::new(cluster, Gram::default(), Gram::joined);
    let costs = cluster.accumulator::<f64>();
    parallel_for!(
        cluster,
        for ([row, share], events) in other_lists {
            if share > 0 {
                continue;
            }
            let factors = &other[row];
            costs += f64::from(penalty(settings, events.len(), own_rows)) * f64::from(dot(factors, factors));
            grams.add(Gram::of(factors));
        }
    )?;
    let matrix = grams.take()?.scaled(width, settings.unobserved);
    let run = parallel_for!(
        cluster,
        repeated,
        for ([row, share], events) in lists {
            if share > 0 {
                continue;
            }
            let ridge = penalty(settings, events.len(), other_rows);
            let mut equations = Equations::start(width, &matrix, ridge, events.len());
            for (number, weight) in events {
                equations.add(&other[*number as usize], *weight);
            }
            costs += equations.solve(&mut own[row]);
        }
    )?;
    Ok((costs.take()?, run.plan().clone()))
}

/// *Collective.* The matrix that all pairs of a user with the items cost, for users who were not trained.
pub(super) fn all_items(cluster: &Cluster, model: &Model) -> Result<Vec<f32>> {
    let items = &model.item_factors;
    let [count, width] = items.shape().extents();
    let grams = Accumulator::new(cluster, Gram::default(), Gram::joined);
    parallel_for!(
        cluster,
        for i in 0..count as usize {
            grams.add(Gram::of(&items[i]));
        }
    )?;
    Ok(grams.take()?.scaled(width as usize, model.settings.unobserved))
}

fn must_be_weights(cluster: &Cluster, events: &DistArray<f32, 2>) -> Result<()> {
    let mut wrong: Option<([u64; 2], f32)> = None;
    events.for_each(|key, weight| {
        if !(*weight > 0.0 && weight.is_finite()) && wrong.is_none_or(|(first, _)| key < first) {
            wrong = Some((key, *weight));
        }
    });
    let first = cluster.all_gather(wrong)?.into_iter().flatten().min_by_key(|(key, _)| *key);
    match first {
        Some(([user, item], rating)) => {
            let name = |dimension: usize, number: u64| {
                let names = events.names(dimension);
                let name = names.and_then(|names| Some(names.text(u32::try_from(number).ok()?)?.into_owned()));
                name.unwrap_or_else(|| number.to_string())
            };
            let (user, item) = (name(0, user), name(1, item));
            let expected = "weights above 0; choose which ratings are events (`--events-from`)";
            Err(Error::Rating { user, item, rating, loss: "one-class", expected }.into())
        }
        None => Ok(()),
    }
}
