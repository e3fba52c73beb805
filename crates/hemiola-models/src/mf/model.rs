//! A trained model: factors and biases of users and items.

use super::best::Best;
use super::loss::Loss;
use super::settings::Settings;
use super::step::{LANES, Machine, Side, dot};
use crate::Error;
use crate::training::Keep;
use hemiola::array::Dictionary;
use hemiola::array::dist::{Load, Save, Storage, Way};
use hemiola::array::random::Values;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Factors of a user or an item, and what it has besides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) factors: Vec<f32>,
    pub(super) side: [f32; 4],
}

/// Factors before anything has been learned: functions of the seed and their place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    values: Values,
    rank: u64,
    spread: f64,
}

impl Start {
    /// The draws of both sides.
    const USERS: u64 = 2;
    const ITEMS: u64 = 4;

    pub(super) fn new(settings: &Settings, deviation: f32) -> Self {
        // Products of two rows have a spread well below that of ratings, whatever the rank.
        let spread = 0.3 * (f64::from(deviation) / f64::from(settings.rank).sqrt().max(1.0)).sqrt();
        Self { values: Values::new(settings.seed), rank: u64::from(settings.rank), spread }
    }

    /// How many factors a row has room for.
    pub(super) fn width(&self) -> u64 {
        self.rank.next_multiple_of(LANES as u64)
    }

    fn factor(&self, row: u64, factor: u64, draw: u64) -> f32 {
        if factor < self.rank {
            self.values.normal(row * self.rank + factor, draw, 0.0, self.spread * 0.3) as f32
        } else {
            0.0
        }
    }

    fn row(&self, row: u64, draw: u64) -> Kept {
        let factors = (0..self.width()).map(|factor| self.factor(row, factor, draw)).collect();
        Kept { factors, side: Side::START }
    }

    /// A user.
    pub(super) fn user(&self, user: u64) -> Kept {
        self.row(user, Self::USERS)
    }

    /// An item.
    pub(super) fn item(&self, item: u64) -> Kept {
        self.row(item, Self::ITEMS)
    }
}

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
    /// How far ratings are from their mean: the unit that steps and penalties count in. 1 where losses have a unit of their own.
    pub deviation: f32,
    /// What it was trained with.
    pub settings: Settings,
}

impl Model {
    /// What a save of this model calls itself.
    pub const KIND: &'static str = "mf";

    /// *Collective.* A model that has learned nothing but the mean. Values depend on the seed and their place alone.
    pub(super) fn start(
        cluster: &Cluster,
        shape: [u64; 2],
        (mean, deviation): (f32, f32),
        settings: &Settings,
    ) -> Result<Self> {
        let start = Start::new(settings, deviation);
        let factors =
            |rows: u64, draw| cluster.from_fn([rows, start.width()], |[row, factor]| start.factor(row, factor, draw));
        let side = |rows: u64| cluster.from_fn([rows, Side::PLACES], |[_, place]| Side::START[place as usize]);
        Ok(Self {
            user_factors: factors(shape[0], Start::USERS)?,
            item_factors: factors(shape[1], Start::ITEMS)?,
            user_side: side(shape[0])?,
            item_side: side(shape[1])?,
            mean,
            deviation,
            settings: settings.clone(),
        })
    }

    /// *Collective.* With other rows for those who have some; all peers must pass the same.
    pub(super) fn filled(
        mut self,
        cluster: &Cluster,
        users: &BTreeMap<u64, Kept>,
        items: &BTreeMap<u64, Kept>,
    ) -> Result<Self> {
        let start = Start::new(&self.settings, self.deviation);
        let [user_count, item_count] = self.shape();
        let factors = |rows: &BTreeMap<u64, Kept>, count: u64, draw| {
            cluster.from_fn([count, start.width()], |[row, factor]| match rows.get(&row) {
                Some(kept) => kept.factors[factor as usize],
                None => start.factor(row, factor, draw),
            })
        };
        let side = |rows: &BTreeMap<u64, Kept>, count: u64| {
            let start = |row: &u64| rows.get(row).map_or(Side::START, |kept| kept.side);
            cluster.from_fn([count, Side::PLACES], |[row, place]| start(&row)[place as usize])
        };
        self.user_factors = factors(users, user_count, Start::USERS)?;
        self.item_factors = factors(items, item_count, Start::ITEMS)?;
        self.user_side = side(users, user_count)?;
        self.item_side = side(items, item_count)?;
        Ok(self)
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
        let users = Rows::fetch(cluster, &self.user_factors, &self.user_side, pairs.iter().map(|pair| pair[0]))?;
        let items = Rows::fetch(cluster, &self.item_factors, &self.item_side, pairs.iter().map(|pair| pair[1]))?;
        let score = |[user, item]: &[u64; 2]| self.score(users.get(*user), items.get(*item));
        Ok(pairs.iter().map(score).map(|score| self.loss().prediction(score)).collect())
    }

    /// *Collective.* Predictions of items for a user who was [folded in](Self::fold_in).
    pub fn predict_for(&self, cluster: &Cluster, user: &Row, items: &[u64]) -> Result<Vec<f32>> {
        for item in items {
            self.must_have_item(*item)?;
        }
        let rows = Rows::fetch(cluster, &self.item_factors, &self.item_side, items.iter().copied())?;
        let score = |item: &u64| self.score((&user.factors, user.bias), rows.get(*item));
        Ok(items.iter().map(score).map(|score| self.loss().prediction(score)).collect())
    }

    fn score(&self, (user, user_bias): (&[f32], f32), (item, item_bias): (&[f32], f32)) -> f32 {
        self.mean + user_bias + item_bias + dot(user, item)
    }

    fn must_have(&self, [user, item]: [u64; 2]) -> Result<(), Error> {
        let [users, _] = self.shape();
        if user >= users {
            return Err(Error::Unknown { what: "user", number: user, count: users });
        }
        self.must_have_item(item)
    }

    pub(super) fn must_have_item(&self, item: u64) -> Result<(), Error> {
        let [_, items] = self.shape();
        if item < items { Ok(()) } else { Err(Error::Unknown { what: "item", number: item, count: items }) }
    }

    /// *Collective.* The factors and the bias of a user.
    pub fn user_row(&self, cluster: &Cluster, user: u64) -> Result<Row> {
        self.must_have([user, 0])?;
        let rows = Rows::fetch(cluster, &self.user_factors, &self.user_side, std::iter::once(user))?;
        let (factors, bias) = rows.get(user);
        Ok(Row { factors: factors.to_vec(), bias })
    }

    /// *Collective.* The best items for a user, with their predictions, best first. `seen` are left out.
    pub fn recommend(&self, cluster: &Cluster, user: u64, count: usize, seen: &[u64]) -> Result<Vec<(u64, f32)>> {
        let row = self.user_row(cluster, user)?;
        self.recommend_for(cluster, &row, count, seen)
    }

    /// *Collective.* The same for a user who was [folded in](Self::fold_in).
    pub fn recommend_for(&self, cluster: &Cluster, user: &Row, count: usize, seen: &[u64]) -> Result<Vec<(u64, f32)>> {
        let Self { item_factors, item_side, mean, .. } = self;
        let mut seen = seen.to_vec();
        seen.sort_unstable();
        let best = Accumulator::new(cluster, Best::default(), |left: Best, right| left.joined(count, right));
        let (items, machine) = (item_factors.shape().extents()[0] as usize, Machine::this());
        parallel_for!(
            cluster,
            for i in 0..items {
                if seen.binary_search(&(i as u64)).is_err() {
                    let score = mean + user.bias + item_side[i][0] + machine.dot(&user.factors, &item_factors[i]);
                    best.add(Best::one(score, i as u64));
                }
            }
        )?;
        let loss = self.loss();
        let best = best.take()?.sorted(count);
        Ok(best.into_iter().map(|(item, score)| (item, loss.prediction(score))).collect())
    }

    /// *Collective.* The items whose factors point in the most similar direction, with the cosine, most similar first.
    pub fn similar(&self, cluster: &Cluster, item: u64, count: usize) -> Result<Vec<(u64, f32)>> {
        self.must_have_item(item)?;
        let Self { item_factors, .. } = self;
        let rows = Rows::fetch(cluster, item_factors, &self.item_side, std::iter::once(item))?;
        let own = rows.get(item).0;
        let length = |factors: &[f32]| dot(factors, factors).sqrt().max(f32::MIN_POSITIVE);
        let direction: Vec<f32> = own.iter().map(|factor| factor / length(own)).collect();
        let best = Accumulator::new(cluster, Best::default(), |left: Best, right| left.joined(count, right));
        let items = item_factors.shape().extents()[0] as usize;
        parallel_for!(
            cluster,
            for i in 0..items {
                if i as u64 != item {
                    let factors = &item_factors[i];
                    best.add(Best::one(dot(factors, &direction) / length(factors), i as u64));
                }
            }
        )?;
        Ok(best.take()?.sorted(count))
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

    /// The names of users, if they have any.
    #[must_use]
    pub fn user_names(&self) -> Option<&Dictionary> {
        self.user_factors.names(0)
    }

    /// The names of items, if they have any.
    #[must_use]
    pub fn item_names(&self) -> Option<&Dictionary> {
        self.item_factors.names(0)
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

    /// *Collective.* Loads what [`save`](Self::save) or a training wrote, on any number of peers. If it is replaced meanwhile, as
    /// a training does with its checkpoints, the newer one is loaded.
    pub fn load(cluster: &Cluster, folder: &Path) -> Result<Self> {
        Load::steady(cluster, folder, |load| {
            let kind: String = load.note("model")?.ok_or_else(|| missing("note `model`"))?;
            if kind != Self::KIND {
                return Err(Error::NotThisModel { problem: format!("it is of a model `{kind}`") }.into());
            }
            Self::get(load, "")
        })
    }
}

fn missing(what: &str) -> Error {
    Error::NotThisModel { problem: format!("it has no {what}") }
}

impl Keep for Model {
    fn put(&self, save: &mut Save, prefix: &str) -> Result<()> {
        let Self { user_factors, item_factors, user_side, item_side, mean, deviation, settings } = self;
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
        save.note("deviation", deviation);
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
            deviation: load.note("deviation")?.ok_or_else(|| missing("note `deviation`"))?,
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

/// Factors and the bias of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// As many as the model's rows have: the rank, and zeros up to a multiple of sixteen.
    pub factors: Vec<f32>,
    /// What is added to every score.
    pub bias: f32,
}

/// Some rows of a side of the model.
pub(super) struct Rows {
    /// Ascending.
    numbers: Vec<u64>,
    width: usize,
    factors: Vec<f32>,
    biases: Vec<f32>,
}

impl Rows {
    /// *Collective.* Brings rows to every peer. All ask for the same ones.
    pub(super) fn fetch(
        cluster: &Cluster,
        factors: &DistArray<f32, 2>,
        side: &DistArray<f32, 2>,
        wanted: impl Iterator<Item = u64>,
    ) -> Result<Self> {
        let mut numbers: Vec<u64> = wanted.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let width = factors.shape().extents()[1] as usize;
        let factors = gathered(cluster, factors, &numbers, width)?;
        // Factors and biases of a row may lie on different peers.
        let biases = gathered(cluster, side, &numbers, 1)?;
        Ok(Self { numbers, width, factors, biases })
    }

    /// The factors and the bias of a row that was fetched.
    pub(super) fn get(&self, number: u64) -> (&[f32], f32) {
        let at = self.numbers.binary_search(&number).expect("all rows that are used were asked for");
        (&self.factors[at * self.width..][..self.width], self.biases[at])
    }
}

/// *Collective.* The first `width` cells of rows, which are ascending, one row after the other.
fn gathered(cluster: &Cluster, array: &DistArray<f32, 2>, rows: &[u64], width: usize) -> Result<Vec<f32>> {
    let mut mine: Vec<(u64, Vec<f32>)> = Vec::new();
    if let Storage::Dense(blocks) = &*array.storage() {
        for block in blocks {
            let end = block.first + block.cells.shape().extent(0);
            let first = rows.partition_point(|row| *row < block.first);
            let here = &rows[first..rows.partition_point(|row| *row < end)];
            let cells = here.iter().flat_map(|row| &block.cells.row((row - block.first) as usize)[..width]);
            mine.push((first as u64, cells.copied().collect()));
        }
    }
    let mut all = vec![0.0; rows.len() * width];
    for (first, cells) in cluster.all_gather(mine)?.into_iter().flatten() {
        all[first as usize * width..][..cells.len()].copy_from_slice(&cells);
    }
    Ok(all)
}

fn find(factors: &DistArray<f32, 2>, name: &str) -> Option<u64> {
    match factors.names(0) {
        Some(names) => names.number(name.as_bytes()).map(u64::from),
        None => name.parse().ok().filter(|number| *number < factors.shape().extents()[0]),
    }
}
