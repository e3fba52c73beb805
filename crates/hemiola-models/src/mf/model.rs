//! Trained matrix factorization: factors and biases of users and items.

use super::loss::MfLoss;
use super::settings::MfSettings;
use super::sgd::{BiasState, LANES, SimdArch, dot};
use super::top_k::TopKCandidates;
use crate::estimator::required;
use crate::input::InputSchema;
use crate::training::Checkpointable;
use crate::{Error, Predictor};
use hemiola_array::Dictionary;
use hemiola_array::dist::{ArrayLoader, ArraySaver, PartitionMethod, Storage};
use hemiola_array::{Accumulator, ArrayExt, DistArray, PartitionSpec};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;
use hemiola_loops::parallel_for;

/// Random initialization of the factors, a function of the seed and the position.
#[derive(Clone, Copy, Debug)]
struct FactorInit {
    values: PhiloxRng,
    rank: usize,
    spread: f64,
}

impl FactorInit {
    /// Random streams of users and items.
    const USERS: u64 = 2;
    const ITEMS: u64 = 4;

    fn new(settings: &MfSettings, deviation: f32) -> Self {
        // Dot products of two rows have a spread well below that of ratings, whatever the rank.
        let spread = 0.3 * (f64::from(deviation) / f64::from(settings.rank).sqrt().max(1.0)).sqrt();
        Self { values: PhiloxRng::new(settings.seed), rank: settings.rank as usize, spread }
    }

    /// Number of factors per row, the rank rounded up to whole SIMD lanes.
    fn width(&self) -> usize {
        self.rank.next_multiple_of(LANES)
    }

    fn factor(&self, row: usize, factor: usize, draw: u64) -> f32 {
        if factor < self.rank {
            self.values.normal((row * self.rank + factor) as u64, draw, 0.0, self.spread * 0.3) as f32
        } else {
            0.0
        }
    }
}

/// Trained matrix factorization. Arrays are distributed over all peers.
#[derive(Clone, Debug)]
pub struct MfModel {
    /// Factors of each user, `[users, width]`.
    pub user_factors: DistArray<f32, 2>,
    /// Factors of each item, `[items, width]`.
    pub item_factors: DistArray<f32, 2>,
    /// Bias and AdaGrad sums by user; see `BiasState`.
    pub(super) user_state: DistArray<f32, 2>,
    /// Bias and AdaGrad sums by item.
    pub(super) item_state: DistArray<f32, 2>,
    /// Score of an average rating.
    pub mean: f32,
    /// Standard deviation of the ratings, the unit of learning rates and regularization. 1 for
    /// losses with a unit of their own.
    pub deviation: f32,
    /// Settings of the training.
    pub settings: MfSettings,
    /// Layout of the training files, by which new files are read.
    pub input: Option<InputSchema>,
}

impl MfModel {
    /// Kind of the model in saves and reports.
    pub const KIND: &'static str = "mf";

    /// *Collective.* Returns an initial model that predicts the mean. Values depend on the seed and
    /// the position alone.
    pub(super) fn start(
        cluster: &Cluster,
        shape: [usize; 2],
        (mean, deviation): (f32, f32),
        settings: &MfSettings,
    ) -> Result<Self> {
        let start = FactorInit::new(settings, deviation);
        let factors =
            |rows: usize, draw| cluster.from_fn([rows, start.width()], |[row, factor]| start.factor(row, factor, draw));
        let side = |rows: usize| cluster.from_fn([rows, BiasState::WIDTH], |[_, index]| BiasState::START[index]);
        Ok(Self {
            user_factors: factors(shape[0], FactorInit::USERS)?,
            item_factors: factors(shape[1], FactorInit::ITEMS)?,
            user_state: side(shape[0])?,
            item_state: side(shape[1])?,
            mean,
            deviation,
            settings: settings.clone(),
            input: None,
        })
    }

    /// Returns the numbers of users and items.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.user_factors.shape().extent(0), self.item_factors.shape().extent(0)]
    }

    /// Returns the training loss.
    #[must_use]
    pub fn loss(&self) -> MfLoss {
        self.settings.loss
    }

    /// *Collective.* Predicts ratings of items for a user that was [folded in](Self::fold_in).
    pub fn predict_for(&self, cluster: &Cluster, user: &UserFactors, items: &[usize]) -> Result<Vec<f32>> {
        for item in items {
            self.check_item(*item)?;
        }
        let rows = FetchedRows::fetch(cluster, &self.item_factors, &self.item_state, items.iter().copied())?;
        let score = |item: &usize| self.score((&user.factors, user.bias), rows.get(*item));
        Ok(items.iter().map(score).map(|score| self.loss().prediction(score)).collect())
    }

    fn score(&self, (user, user_bias): (&[f32], f32), (item, item_bias): (&[f32], f32)) -> f32 {
        self.mean + user_bias + item_bias + dot(user, item)
    }

    fn check_pair(&self, [user, item]: [usize; 2]) -> Result<(), Error> {
        let [users, _] = self.shape();
        if user >= users {
            return Err(Error::IndexOutOfRange { what: "user", number: user, count: users });
        }
        self.check_item(item)
    }

    pub(super) fn check_item(&self, item: usize) -> Result<(), Error> {
        let [_, items] = self.shape();
        if item < items { Ok(()) } else { Err(Error::IndexOutOfRange { what: "item", number: item, count: items }) }
    }

    /// *Collective.* Returns the factors and the bias of a user.
    pub fn user_row(&self, cluster: &Cluster, user: usize) -> Result<UserFactors> {
        self.check_pair([user, 0])?;
        let rows = FetchedRows::fetch(cluster, &self.user_factors, &self.user_state, std::iter::once(user))?;
        let (factors, bias) = rows.get(user);
        Ok(UserFactors { factors: factors.to_vec(), bias })
    }

    /// *Collective.* Returns the best `count` items for a user with their predictions, best first.
    /// Items in `seen` are excluded.
    pub fn recommend(&self, cluster: &Cluster, user: usize, count: usize, seen: &[usize]) -> Result<Vec<(usize, f32)>> {
        let row = self.user_row(cluster, user)?;
        self.recommend_for(cluster, &row, count, seen)
    }

    /// *Collective.* Returns the best `count` items for a user that was [folded in](Self::fold_in),
    /// best first. Items in `seen` are excluded.
    pub fn recommend_for(
        &self,
        cluster: &Cluster,
        user: &UserFactors,
        count: usize,
        seen: &[usize],
    ) -> Result<Vec<(usize, f32)>> {
        let Self { item_factors, item_state, mean, .. } = self;
        let mut seen = seen.to_vec();
        seen.sort_unstable();
        let best = Accumulator::new(cluster, TopKCandidates::default(), |left: TopKCandidates, right| {
            left.joined(count, right)
        });
        let (items, machine) = (item_factors.shape().extent(0), SimdArch::this());
        parallel_for!(
            cluster,
            for i in 0..items {
                if seen.binary_search(&i).is_err() {
                    let score = mean + user.bias + item_state[i][0] + machine.dot(&user.factors, &item_factors[i]);
                    best.add(TopKCandidates::one(score, i));
                }
            }
        )?;
        let loss = self.loss();
        let best = best.take()?.sorted(count);
        Ok(best.into_iter().map(|(item, score)| (item, loss.prediction(score))).collect())
    }

    /// *Collective.* Returns the `count` items most similar to `item` by cosine similarity of
    /// factors, most similar first.
    pub fn similar(&self, cluster: &Cluster, item: usize, count: usize) -> Result<Vec<(usize, f32)>> {
        self.check_item(item)?;
        let Self { item_factors, .. } = self;
        let rows = FetchedRows::fetch(cluster, item_factors, &self.item_state, std::iter::once(item))?;
        let own = rows.get(item).0;
        let length = |factors: &[f32]| dot(factors, factors).sqrt().max(f32::MIN_POSITIVE);
        let direction: Vec<f32> = own.iter().map(|factor| factor / length(own)).collect();
        let best = Accumulator::new(cluster, TopKCandidates::default(), |left: TopKCandidates, right| {
            left.joined(count, right)
        });
        let items = item_factors.shape().extent(0);
        parallel_for!(
            cluster,
            for i in 0..items {
                if i != item {
                    let factors = &item_factors[i];
                    best.add(TopKCandidates::one(dot(factors, &direction) / length(factors), i));
                }
            }
        )?;
        Ok(best.take()?.sorted(count))
    }

    /// *Collective.* Attaches the names of users and items in `ratings` to the model.
    #[must_use]
    pub(super) fn named(mut self, ratings: &DistArray<f32, 2>) -> Self {
        self.user_factors = self.user_factors.with_names([ratings.shared_names(0), None]);
        self.item_factors = self.item_factors.with_names([ratings.shared_names(1), None]);
        self
    }

    /// Returns the index of a user by name, or by number if users have no names.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<usize> {
        find(&self.user_factors, name)
    }

    /// Returns the index of an item by name, or by number if items have no names.
    #[must_use]
    pub fn item(&self, name: &str) -> Option<usize> {
        find(&self.item_factors, name)
    }

    /// Returns the names of users, if they have any.
    #[must_use]
    pub fn user_names(&self) -> Option<&Dictionary> {
        self.user_factors.names(0)
    }

    /// Returns the names of items, if they have any.
    #[must_use]
    pub fn item_names(&self) -> Option<&Dictionary> {
        self.item_factors.names(0)
    }

    /// Returns the name of a user, or its number if users have no names.
    #[must_use]
    pub fn user_name(&self, user: usize) -> String {
        name_of(&self.user_factors, user)
    }

    /// Returns the name of an item, or its number if items have no names.
    #[must_use]
    pub fn item_name(&self, item: usize) -> String {
        name_of(&self.item_factors, item)
    }
}

/// Returns the name of a row, or its number if rows have no names.
fn name_of(factors: &DistArray<f32, 2>, row: usize) -> String {
    let name = factors.names(0).and_then(|names| Some(names.name_lossy(u32::try_from(row).ok()?)?.into_owned()));
    name.unwrap_or_else(|| row.to_string())
}

impl Predictor for MfModel {
    type Input = [[usize; 2]];
    type Prediction = f32;
    const KINDS: &'static [&'static str] = &[Self::KIND];

    fn kind(&self) -> &'static str {
        Self::KIND
    }

    /// *Collective.* Predicts ratings for pairs of user and item; every peer passes the same pairs.
    fn predict(&self, cluster: &Cluster, pairs: &[[usize; 2]]) -> Result<Vec<f32>> {
        for pair in pairs {
            self.check_pair(*pair)?;
        }
        let users =
            FetchedRows::fetch(cluster, &self.user_factors, &self.user_state, pairs.iter().map(|pair| pair[0]))?;
        let items =
            FetchedRows::fetch(cluster, &self.item_factors, &self.item_state, pairs.iter().map(|pair| pair[1]))?;
        let score = |[user, item]: &[usize; 2]| self.score(users.get(*user), items.get(*item));
        Ok(pairs.iter().map(score).map(|score| self.loss().prediction(score)).collect())
    }
}

impl Checkpointable for MfModel {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let Self { user_factors, item_factors, user_state, item_state, mean, deviation, settings, input } = self;
        let arrays = [
            ("user_factors", user_factors),
            ("item_factors", item_factors),
            ("user_state", user_state),
            ("item_state", item_state),
        ];
        for (name, array) in arrays {
            // A loop partitions arrays as it likes and a load evenly. Repartitioning here makes the
            // files independent of the last loop.
            save.put(
                &format!("{prefix}{name}"),
                &array.repartition(&PartitionSpec::along(0).method(PartitionMethod::Range))?,
            )?;
        }
        save.put_metadata("mean", mean);
        save.put_metadata("deviation", deviation);
        save.put_metadata("settings", settings);
        InputSchema::put(input.as_ref(), save);
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let array = |name: &str| load.get_finite::<f32, 2>(&format!("{prefix}{name}"));
        Ok(Self {
            user_factors: array("user_factors")?,
            item_factors: array("item_factors")?,
            user_state: array("user_state")?,
            item_state: array("item_state")?,
            mean: required(load, "mean")?,
            deviation: required(load, "deviation")?,
            settings: required(load, "settings")?,
            input: InputSchema::get(load)?,
        })
    }

    fn bytes(&self) -> u64 {
        let Self { user_factors, item_factors, user_state, item_state, .. } = self;
        let cells: usize = [user_factors, item_factors, user_state, item_state].into_iter().map(DistArray::len).sum();
        let names = [user_factors, item_factors].into_iter().filter_map(|factors| factors.names(0));
        let names: usize = names.map(Dictionary::memory_bytes).sum();
        (cells * size_of::<f32>() + names) as u64
    }
}

/// Factors and bias of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct UserFactors {
    /// Factors: as many as the rank, padded with zeros to a multiple of sixteen.
    pub factors: Vec<f32>,
    /// Bias added to every score of the user.
    pub bias: f32,
}

/// Copies of selected rows of users or items, gathered to every peer.
pub(super) struct FetchedRows {
    /// Numbers of the fetched rows, ascending.
    numbers: Vec<usize>,
    width: usize,
    factors: Vec<f32>,
    biases: Vec<f32>,
}

impl FetchedRows {
    /// *Collective.* Gathers rows to every peer. All peers must ask for the same rows.
    pub(super) fn fetch(
        cluster: &Cluster,
        factors: &DistArray<f32, 2>,
        side: &DistArray<f32, 2>,
        wanted: impl Iterator<Item = usize>,
    ) -> Result<Self> {
        let mut numbers: Vec<usize> = wanted.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let width = factors.shape().extent(1);
        let factors = gathered(cluster, factors, &numbers, width)?;
        // Factors and biases of a row may lie on different peers.
        let biases = gathered(cluster, side, &numbers, 1)?;
        Ok(Self { numbers, width, factors, biases })
    }

    /// Returns the factors and the bias of a fetched row.
    pub(super) fn get(&self, number: usize) -> (&[f32], f32) {
        let at = self.numbers.binary_search(&number).expect("every row used was fetched");
        (&self.factors[at * self.width..][..self.width], self.biases[at])
    }
}

/// *Collective.* Gathers the first `width` cells of ascending `rows`, row by row.
fn gathered(cluster: &Cluster, array: &DistArray<f32, 2>, rows: &[usize], width: usize) -> Result<Vec<f32>> {
    let mut mine: Vec<(usize, Vec<f32>)> = Vec::new();
    if let Storage::Dense(blocks) = &*array.storage() {
        for block in blocks {
            let end = block.first + block.cells.shape().extent(0);
            let first = rows.partition_point(|row| *row < block.first);
            let here = &rows[first..rows.partition_point(|row| *row < end)];
            let cells = here.iter().flat_map(|row| &block.cells.row(row - block.first)[..width]);
            mine.push((first, cells.copied().collect()));
        }
    }
    let mut all = vec![0.0; rows.len() * width];
    for (first, cells) in cluster.all_gather(mine)?.into_iter().flatten() {
        all[first * width..][..cells.len()].copy_from_slice(&cells);
    }
    Ok(all)
}

fn find(factors: &DistArray<f32, 2>, name: &str) -> Option<usize> {
    match factors.names(0) {
        Some(names) => names.index_of(name.as_bytes()).map(|index| index as usize),
        None => name.parse().ok().filter(|number| *number < factors.shape().extents()[0]),
    }
}
