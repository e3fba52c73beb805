//! A trained model: factors and biases of users and items.

use super::loss::Loss;
use super::settings::Settings;
use super::step::{LANES, Side, dot};
use crate::Error;
use crate::training::Keep;
use hemiola::array::dist::{Load, Save, Way};
use hemiola::array::random::Values;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use std::path::Path;

/// Factors and biases. Arrays are shared by all peers.
#[derive(Clone, Debug)]
pub struct Model {
    /// By user: its factors.
    pub user_factors: DistArray<f32, 2>,
    /// By item: its factors.
    pub item_factors: DistArray<f32, 2>,
    /// By user: its bias, and how far its steps have come.
    pub(super) user_side: DistArray<f32, 2>,
    /// The same by item.
    pub(super) item_side: DistArray<f32, 2>,
    /// The score of an average rating.
    pub mean: f32,
    /// What it was trained with.
    pub settings: Settings,
}

impl Model {
    /// What a save of this model calls itself.
    pub const KIND: &'static str = "mf";

    /// *Collective.* A model that has learned nothing but the mean. Values depend on the seed and their place alone.
    pub(super) fn start(cluster: &Cluster, shape: [u64; 2], mean: f32, settings: &Settings) -> Result<Self> {
        let (rank, width) = (u64::from(settings.rank), u64::from(settings.rank).next_multiple_of(LANES as u64));
        let values = Values::new(settings.seed);
        // Products of two rows have a spread well below that of ratings, whatever the rank.
        let spread = 0.3 / f64::from(settings.rank).sqrt().max(1.0).sqrt();
        let factors = |rows: u64, draw| {
            cluster.from_fn([rows, width], |[row, factor]| {
                if factor < rank { values.normal(row * rank + factor, draw, 0.0, spread * 0.3) as f32 } else { 0.0 }
            })
        };
        let side = |rows: u64| cluster.from_fn([rows, Side::PLACES], |[_, place]| Side::START[place as usize]);
        Ok(Self {
            user_factors: factors(shape[0], 2)?,
            item_factors: factors(shape[1], 4)?,
            user_side: side(shape[0])?,
            item_side: side(shape[1])?,
            mean,
            settings: settings.clone(),
        })
    }

    /// The numbers of users and items.
    #[must_use]
    pub fn shape(&self) -> [u64; 2] {
        [self.user_factors.shape().extent(0), self.item_factors.shape().extent(0)]
    }

    /// What is minimized.
    #[must_use]
    pub fn loss(&self) -> Loss {
        self.settings.loss
    }

    /// *Collective.* Predictions for pairs of a user and an item, the same pairs on every peer.
    pub fn predict(&self, cluster: &Cluster, pairs: &[[u64; 2]]) -> Result<Vec<f32>> {
        for pair in pairs {
            self.must_have(*pair)?;
        }
        let users = Self::rows(cluster, &self.user_factors, &self.user_side, pairs.iter().map(|pair| pair[0]))?;
        let items = Self::rows(cluster, &self.item_factors, &self.item_side, pairs.iter().map(|pair| pair[1]))?;
        let score = |(user, item): (&Row, &Row)| self.mean + user.bias + item.bias + dot(&user.factors, &item.factors);
        Ok(users.iter().zip(&items).map(score).map(|score| self.loss().prediction(score)).collect())
    }

    fn must_have(&self, [user, item]: [u64; 2]) -> Result<(), Error> {
        let [users, items] = self.shape();
        if user >= users {
            return Err(Error::Unknown { what: "user", number: user, count: users });
        }
        if item >= items {
            return Err(Error::Unknown { what: "item", number: item, count: items });
        }
        Ok(())
    }

    /// *Collective.* Rows of a side of the model, in the order asked for.
    fn rows(
        cluster: &Cluster,
        factors: &DistArray<f32, 2>,
        side: &DistArray<f32, 2>,
        wanted: impl Iterator<Item = u64>,
    ) -> Result<Vec<Row>> {
        let wanted: Vec<u64> = wanted.collect();
        let mut mine: Vec<(u64, Vec<f32>, f32)> = Vec::new();
        let mut biases = std::collections::BTreeMap::new();
        side.for_each(|[row, place], value| {
            if place == 0 && wanted.contains(&row) {
                biases.insert(row, *value);
            }
        });
        factors.for_each(|[row, _], value| {
            if wanted.contains(&row) {
                match mine.last_mut() {
                    Some((last, factors, _)) if *last == row => factors.push(*value),
                    _ => mine.push((row, vec![*value], 0.0)),
                }
            }
        });
        // Factors and biases of a row may lie on different peers.
        let all: Vec<_> = cluster.all_gather(mine)?.into_iter().flatten().collect();
        let biases: std::collections::BTreeMap<u64, f32> = cluster.all_gather(biases)?.into_iter().flatten().collect();
        let row = |number: &u64| {
            let factors = all.iter().find(|(row, ..)| row == number).map(|(_, factors, _)| factors.clone());
            Row { factors: factors.unwrap_or_default(), bias: biases.get(number).copied().unwrap_or(0.0) }
        };
        Ok(wanted.iter().map(row).collect())
    }

    /// *Collective.* The best items for a user, with their predictions, best first. `seen` are left out.
    pub fn recommend(&self, cluster: &Cluster, user: u64, count: usize, seen: &[u64]) -> Result<Vec<(u64, f32)>> {
        self.must_have([user, 0])?;
        let row = Self::rows(cluster, &self.user_factors, &self.user_side, std::iter::once(user))?.remove(0);
        self.best_items(cluster, &row, count, seen)
    }

    /// *Collective.* The best items for a row of factors.
    fn best_items(&self, cluster: &Cluster, user: &Row, count: usize, seen: &[u64]) -> Result<Vec<(u64, f32)>> {
        let Self { item_factors, item_side, mean, .. } = self;
        let best =
            hemiola::array::Accumulator::new(cluster, Vec::new(), |left: Vec<(f32, u64)>, right: Vec<(f32, u64)>| {
                let mut all = left;
                all.extend(right);
                // The better first; of equals, the one with the smaller number.
                all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                all.truncate(count);
                all
            });
        let items = item_factors.shape().extents()[0] as usize;
        parallel_for!(
            cluster,
            for i in 0..items {
                if seen.contains(&(i as u64)) {
                    continue;
                }
                let score = mean + user.bias + item_side[i][0] + dot(&user.factors, &item_factors[i]);
                best.add(vec![(score, i as u64)]);
            }
        )?;
        let loss = self.loss();
        Ok(best.take()?.into_iter().map(|(score, item)| (item, loss.prediction(score))).collect())
    }

    /// *Collective.* The items whose factors point in the most similar direction, with the cosine, most similar first.
    pub fn similar(&self, cluster: &Cluster, item: u64, count: usize) -> Result<Vec<(u64, f32)>> {
        self.must_have([0, item])?;
        let row = Self::rows(cluster, &self.item_factors, &self.item_side, std::iter::once(item))?.remove(0);
        let length = dot(&row.factors, &row.factors).sqrt().max(f32::MIN_POSITIVE);
        let direction = Row { factors: row.factors.iter().map(|factor| factor / length).collect(), bias: 0.0 };
        let mut all = Vec::new();
        let mut current: Option<(u64, Vec<f32>)> = None;
        let mut finish = |(other, factors): (u64, Vec<f32>)| {
            let norm = dot(&factors, &factors).sqrt().max(f32::MIN_POSITIVE);
            if other != item {
                all.push((dot(&factors, &direction.factors) / norm, other));
            }
        };
        self.item_factors.for_each(|[row, _], value| match &mut current {
            Some((last, factors)) if *last == row => factors.push(*value),
            _ => {
                if let Some(done) = current.replace((row, vec![*value])) {
                    finish(done);
                }
            }
        });
        if let Some(done) = current {
            finish(done);
        }
        let mut all: Vec<(f32, u64)> = cluster.all_gather(all)?.into_iter().flatten().collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Ok(all.into_iter().take(count).map(|(cosine, other)| (other, cosine)).collect())
    }

    /// *Collective.* Keeps the names of users and items with the model.
    #[must_use]
    pub(super) fn named(mut self, ratings: &DistArray<f32, 2>) -> Self {
        self.user_factors = self.user_factors.named([ratings.names_shared(0), None]);
        self.item_factors = self.item_factors.named([ratings.names_shared(1), None]);
        self
    }

    /// The number of a user by its name; by its number, if users have no names.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<u64> {
        find(&self.user_factors, name)
    }

    /// The same of an item.
    #[must_use]
    pub fn item(&self, name: &str) -> Option<u64> {
        find(&self.item_factors, name)
    }

    /// The name of an item; its number, if items have no names.
    #[must_use]
    pub fn item_name(&self, item: u64) -> String {
        let name =
            self.item_factors.names(0).and_then(|names| Some(names.text(u32::try_from(item).ok()?)?.into_owned()));
        name.unwrap_or_else(|| item.to_string())
    }

    /// *Collective.* Saves it in a folder, where nothing but an older save may be.
    pub fn save(&self, cluster: &Cluster, folder: &Path) -> Result<()> {
        let mut save = Save::begin(cluster, folder)?;
        self.put(&mut save, "")?;
        save.note("model", &Self::KIND);
        save.commit()
    }

    /// *Collective.* Loads what [`save`](Self::save) wrote, on any number of peers.
    pub fn load(cluster: &Cluster, folder: &Path) -> Result<Self> {
        let load = Load::open(cluster, folder)?;
        let kind: String = load.note("model")?.ok_or_else(|| missing("note `model`"))?;
        if kind != Self::KIND {
            return Err(Error::NotThisModel { problem: format!("it is of a model `{kind}`") }.into());
        }
        Self::get(&load, "")
    }
}

fn missing(what: &str) -> Error {
    Error::NotThisModel { problem: format!("it has no {what}") }
}

impl Keep for Model {
    fn put(&self, save: &mut Save, prefix: &str) -> Result<()> {
        let Self { user_factors, item_factors, user_side, item_side, mean, settings } = self;
        let arrays = [
            ("user_factors", user_factors),
            ("item_factors", item_factors),
            ("user_side", user_side),
            ("item_side", item_side),
        ];
        for (name, array) in arrays {
            // A loop divides arrays as it likes, a load evenly. Files must not show which was the last.
            save.put(&format!("{prefix}{name}"), &array.repartition(&Partition::along(0).by(Way::Range))?)?;
        }
        save.note("mean", mean);
        save.note("settings", settings);
        Ok(())
    }

    fn get(load: &Load, prefix: &str) -> Result<Self> {
        let array = |name: &str| load.get::<f32, 2>(&format!("{prefix}{name}"));
        Ok(Self {
            user_factors: array("user_factors")?,
            item_factors: array("item_factors")?,
            user_side: array("user_side")?,
            item_side: array("item_side")?,
            mean: load.note("mean")?.ok_or_else(|| missing("note `mean`"))?,
            settings: load.note("settings")?.ok_or_else(|| missing("note `settings`"))?,
        })
    }

    fn bytes(&self) -> u64 {
        let Self { user_factors, item_factors, user_side, item_side, .. } = self;
        let cells: u64 = [user_factors, item_factors, user_side, item_side].into_iter().map(DistArray::len).sum();
        let names = [user_factors, item_factors].into_iter().filter_map(|factors| factors.names(0));
        let names: u64 = names.map(|names| names.memory_bytes() as u64).sum();
        cells * size_of::<f32>() as u64 + names
    }
}

/// Factors and the bias of a user or an item.
struct Row {
    factors: Vec<f32>,
    bias: f32,
}

fn find(factors: &DistArray<f32, 2>, name: &str) -> Option<u64> {
    match factors.names(0) {
        Some(names) => names.number(name.as_bytes()).map(u64::from),
        None => name.parse().ok().filter(|number| *number < factors.shape().extents()[0]),
    }
}
