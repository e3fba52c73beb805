//! Saved collaborative filter: predicted ratings, recommendations and similar items.
//!
//! **Invariant:** lists are ordered by descending score, then by ascending index.

use super::description::decode;
use super::image_classifier::{batches, numbers};
use super::{NetArchitecture, NetInput, RatingInput, SavedNet};
use crate::data::{Dataset as _, RatingDataset};
use crate::error::Error;
use crate::models::Ncf;
use crate::training::Metrics;
use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_array::Dictionary;
use serde::Serialize;

/// Number of pairs of a forward pass.
const PAIRS: usize = 4096;

/// A saved `ncf`.
#[derive(Debug)]
pub struct RatingModel {
    net: Ncf,
    counts: [usize; 2],
    /// Names of users and of items.
    names: [Option<Dictionary>; 2],
    /// Embeddings of the items.
    items: Vec<f32>,
    device: Device,
}

/// Evaluation of predicted ratings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatingEvaluation {
    /// Root mean squared error (`rmse`) and mean absolute error (`mae`).
    pub metrics: Metrics,
    /// Number of ratings, with those of unknown users or items.
    pub entries: usize,
    /// Number of ratings of users or items that the model does not know. They are not in the
    /// metrics.
    pub cold: usize,
}

impl RatingModel {
    pub(super) fn new(saved: &SavedNet, device: &Device) -> Result<Self, Error> {
        let description = saved.description();
        let needed = "a model of users and items";
        let (NetArchitecture::Ncf(config), NetInput::Ratings(input)) = (&description.architecture, &description.input)
        else {
            return Err(saved.other_kind(needed));
        };
        let counts = [config.users, config.items];
        let RatingInput { users, items } = input;
        let mut names = [None, None];
        for (column, given) in [users, items].into_iter().enumerate() {
            let Some(given) = given else { continue };
            let mut dictionary = Dictionary::new();
            for name in given {
                dictionary.intern(name.as_bytes());
            }
            if dictionary.len() != counts[column] {
                let found = dictionary.len();
                return Err(saved.damaged(format!("it has {found} names for {} users or items", counts[column])));
            }
            names[column] = Some(dictionary);
        }
        let net = saved.restore(config.init(device), device)?;
        let items = saved.weights().get("items.weight").map(|weights| weights.values.clone()).unwrap_or_default();
        Ok(Self { net, counts, names, items, device: device.clone() })
    }

    /// Returns the numbers of users and items.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.counts
    }

    /// Returns the index of a user by name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<usize> {
        self.index(0, name.as_bytes())
    }

    /// Returns the index of an item by name.
    #[must_use]
    pub fn item(&self, name: &str) -> Option<usize> {
        self.index(1, name.as_bytes())
    }

    /// Returns the names of users, if they have names.
    #[must_use]
    pub fn user_names(&self) -> Option<&Dictionary> {
        self.names[0].as_ref()
    }

    /// Returns the names of items, if they have names.
    #[must_use]
    pub fn item_names(&self) -> Option<&Dictionary> {
        self.names[1].as_ref()
    }

    /// Returns the name of an item, or its index if items have no names.
    #[must_use]
    pub fn item_name(&self, item: usize) -> String {
        let name = self.names[1].as_ref().and_then(|names| names.name_lossy(u32::try_from(item).ok()?));
        name.map_or_else(|| item.to_string(), std::borrow::Cow::into_owned)
    }

    fn index(&self, column: usize, name: &[u8]) -> Option<usize> {
        match &self.names[column] {
            Some(names) => names.index_of(name).map(|index| index as usize),
            None => std::str::from_utf8(name).ok()?.parse().ok().filter(|index| *index < self.counts[column]),
        }
    }

    /// Predicts the ratings of a user for items.
    ///
    /// # Panics
    /// If the user or an item is out of range.
    pub fn predict(&self, user: usize, items: &[usize]) -> Result<Vec<f32>, Error> {
        let mut scores = Vec::with_capacity(items.len());
        for part in items.chunks(PAIRS) {
            scores.extend(self.scores(&vec![user; part.len()], part)?);
        }
        Ok(scores)
    }

    /// Returns the best `count` items for a user with their predicted ratings. Items in `seen` are
    /// excluded.
    ///
    /// # Panics
    /// If the user is out of range.
    pub fn recommend(&self, user: usize, count: usize, seen: &[usize]) -> Result<Vec<(usize, f32)>, Error> {
        let mut seen = seen.to_vec();
        seen.sort_unstable();
        let items: Vec<usize> = (0..self.counts[1]).filter(|item| seen.binary_search(item).is_err()).collect();
        let scores = self.predict(user, &items)?;
        Ok(best(items.into_iter().zip(scores).collect(), count))
    }

    /// Returns the `count` items most similar to `item` by cosine similarity of embeddings, without
    /// the item itself.
    ///
    /// # Panics
    /// If the item is out of range.
    #[must_use]
    pub fn similar(&self, item: usize, count: usize) -> Vec<(usize, f32)> {
        let width = self.items.len() / self.counts[1].max(1);
        let row = |item: usize| &self.items[item * width..(item + 1) * width];
        let dot =
            |left: &[f32], right: &[f32]| -> f32 { left.iter().zip(right).map(|(left, right)| left * right).sum() };
        let length = |row: &[f32]| dot(row, row).sqrt().max(f32::MIN_POSITIVE);
        let own = row(item);
        let cosine = |other: usize| dot(own, row(other)) / (length(own) * length(row(other)));
        best((0..self.counts[1]).filter(|other| *other != item).map(|other| (other, cosine(other))).collect(), count)
    }

    /// Reads ratings of the users and items of this model. Returns them with the number of other
    /// ratings.
    pub fn read(&self, pattern: &str) -> Result<(RatingDataset, usize), Error> {
        // Names that are not UTF-8 are stored decoded.
        let known = |column: usize, name: &[u8]| self.index(column, decode(name).as_bytes()).map(|index| index as u32);
        Ok(RatingDataset::read_with(pattern, self.counts, known)?)
    }

    /// Evaluates predictions of known ratings; `cold` is the number of ratings of unknown users or
    /// items beside them.
    pub fn evaluate(&self, ratings: &RatingDataset, cold: usize) -> Result<RatingEvaluation, Error> {
        if ratings.is_empty() {
            let problem = "no rating has a user and an item that the model knows".to_owned();
            return Err(Error::OtherData { problem });
        }
        let (mut squares, mut absolute) = (0.0, 0.0);
        for part in batches(ratings.len()) {
            let entries = ratings.entries();
            let index = |column: usize| part.iter().map(|at| entries[*at].0[column] as usize).collect::<Vec<_>>();
            for (score, at) in self.scores(&index(0), &index(1))?.into_iter().zip(&part) {
                let error = f64::from(score - entries[*at].1);
                squares += error * error;
                absolute += error.abs();
            }
        }
        let count = ratings.len() as f64;
        let metrics =
            Metrics::from([("rmse".to_owned(), (squares / count).sqrt()), ("mae".to_owned(), absolute / count)]);
        Ok(RatingEvaluation { metrics, entries: ratings.len() + cold, cold })
    }

    fn scores(&self, users: &[usize], items: &[usize]) -> Result<Vec<f32>, Error> {
        let [user_count, item_count] = self.counts;
        assert!(users.iter().all(|user| *user < user_count), "a user is out of range");
        assert!(items.iter().all(|item| *item < item_count), "an item is out of range");
        let tensor = |indices: &[usize]| {
            let numbers: Vec<i32> = indices.iter().map(|index| (*index as u32).cast_signed()).collect();
            Tensor::<1, Int>::from_data(TensorData::new(numbers, [indices.len()]), &self.device)
        };
        if users.is_empty() {
            return Ok(Vec::new());
        }
        numbers(self.net.forward(tensor(users), tensor(items)))
    }
}

/// Returns the best `count` by descending score, then by ascending index.
fn best(mut scored: Vec<(usize, f32)>, count: usize) -> Vec<(usize, f32)> {
    scored.retain(|(_, score)| !score.is_nan());
    let order = |left: &(usize, f32), right: &(usize, f32)| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0));
    if count < scored.len() && count > 0 {
        scored.select_nth_unstable_by(count, order);
    }
    scored.truncate(count);
    scored.sort_unstable_by(order);
    scored
}
