//! Users, items and ratings, from files as those of MovieLens: one rating per line, with any
//! separator, or a row of JSON lines, Parquet or Arrow IPC. Further fields are ignored.

use super::{Dataset, bytes};
use crate::models::RatingBatch;
use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_array::read::detect::DetectedFormat;
use hemiola_array::read::{ByteRange, Csv, InputFile, ReadReport};
use hemiola_array::{Dictionary, Result};
use hemiola_core::Seed;
use hemiola_core::rng::PhiloxRng;
use std::sync::Arc;

/// Ratings of users for items.
#[derive(Clone, Debug)]
pub struct RatingDataset {
    entries: Vec<([u32; 2], f32)>,
    users: usize,
    items: usize,
    /// Names of users and items, if read from files.
    names: Option<Arc<[Dictionary; 2]>>,
}

impl RatingDataset {
    /// Creates a data set from user and item indices.
    ///
    /// # Panics
    /// If an index is not below `users` or `items`.
    #[must_use]
    pub fn new(users: usize, items: usize, entries: Vec<([u32; 2], f32)>) -> Self {
        let known = |([user, item], _): &([u32; 2], f32)| (*user as usize) < users && (*item as usize) < items;
        assert!(entries.iter().all(known), "every index is below the number of users or items");
        Self { entries, users, items, names: None }
    }

    /// Reads files with `user, item, rating` on each line.
    pub fn read(pattern: &str) -> Result<Self> {
        let mut names = [Dictionary::new(), Dictionary::new()];
        let mut entries = Vec::new();
        each(pattern, |[user, item], rating| {
            entries.push(([names[0].intern(user), names[1].intern(item)], rating));
        })?;
        let [users, items] = [names[0].len(), names[1].len()];
        Ok(Self { entries, users, items, names: Some(Arc::new(names)) })
    }

    /// Reads a validation set with the users and items of `known`. Returns it, and the number of
    /// skipped ratings of other users or items.
    pub fn read_validation(pattern: &str, known: &Self) -> Result<(Self, usize)> {
        let index = |column: usize, name: &[u8]| known.names.as_ref()?[column].index_of(name);
        let (Self { entries, .. }, others) = Self::read_with(pattern, [known.users, known.items], index)?;
        if entries.is_empty() {
            return Err(bytes::bad_file(
                pattern.as_ref(),
                "no rating has a user and an item of the training set; check both files",
            ));
        }
        Ok((Self { entries, ..known.clone() }, others))
    }

    /// Splits into a training set and a random validation set with this share of the ratings.
    #[must_use]
    pub fn split(self, share: f64, Seed(seed): Seed) -> [Self; 2] {
        let values = PhiloxRng::new(seed);
        let is_validation = |([user, item], _): &([u32; 2], f32)| {
            values.random_bool_for_key([u64::from(*user), u64::from(*item)], share)
        };
        let (validation, train) = self.entries.iter().copied().partition(is_validation);
        [Self { entries: train, ..self.clone() }, Self { entries: validation, ..self }]
    }

    /// Reads ratings with the users and items of a trained model, by name: `known` gives the index
    /// of a user (column 0) or an item (column 1). Returns them with the number of skipped ratings
    /// of other users or items.
    pub fn read_with(
        pattern: &str,
        [users, items]: [usize; 2],
        known: impl Fn(usize, &[u8]) -> Option<u32>,
    ) -> Result<(Self, usize)> {
        let (mut entries, mut others) = (Vec::new(), 0);
        each(pattern, |[user, item], rating| match (known(0, user), known(1, item)) {
            (Some(user), Some(item)) => entries.push(([user, item], rating)),
            _ => others += 1,
        })?;
        Ok((Self { entries, users, items, names: None }, others))
    }

    /// User index, item index and rating of each entry.
    #[must_use]
    pub fn entries(&self) -> &[([u32; 2], f32)] {
        &self.entries
    }

    /// Names of users and items, if they were read from files.
    #[must_use]
    pub fn names(&self) -> Option<&[Dictionary; 2]> {
        self.names.as_deref()
    }

    /// Number of users of the data set.
    #[must_use]
    pub fn users(&self) -> usize {
        self.users
    }

    /// Number of items of the data set.
    #[must_use]
    pub fn items(&self) -> usize {
        self.items
    }

    /// Mean of all ratings; 0 if there are none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.entries.iter().map(|(_, rating)| f64::from(*rating)).sum::<f64>() / self.entries.len().max(1) as f64
    }
}

impl Dataset for RatingDataset {
    type Batch = RatingBatch;

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn batch(&self, examples: &[usize], device: &Device) -> RatingBatch {
        let indices = |column: usize| {
            let numbers: Vec<i32> =
                examples.iter().map(|example| self.entries[*example].0[column].cast_signed()).collect();
            Tensor::<1, Int>::from_data(TensorData::new(numbers, [examples.len()]), device)
        };
        let ratings: Vec<f32> = examples.iter().map(|example| self.entries[*example].1).collect();
        let ratings = Tensor::from_data(TensorData::new(ratings, [examples.len()]), device);
        RatingBatch { users: indices(0), items: indices(1), ratings }
    }

    fn digest(&self) -> u64 {
        let words = |([user, item], rating): &([u32; 2], f32)| {
            [u64::from(*user) << 32 | u64::from(*item), u64::from(rating.to_bits())]
        };
        bytes::digest(self.users as u64 ^ (self.items as u64) << 32, self.entries.iter().flat_map(words))
    }
}

/// Calls `visit` with user name, item name and rating of every line.
fn each(pattern: &str, mut visit: impl FnMut([&[u8]; 2], f32)) -> Result<()> {
    let sources = InputFile::as_tables(InputFile::find(pattern)?)?;
    let mut reports = Vec::new();
    // The separator is guessed from the first file.
    let guess = sources.first().map(DetectedFormat::separator_of).transpose()?;
    let mut csv = Csv::new().comment(guess.as_ref().and_then(|guess| guess.comment));
    if let Some(separator) = guess.and_then(|guess| guess.separator) {
        csv = csv.separator(&separator.text());
    }
    for source in &sources {
        reports.push(csv.read_fields(&ByteRange::whole(source.clone()), |fields| {
            let (user, item) = (fields.text()?, fields.text()?);
            visit([&user, &item], fields.next::<f32>()?);
            Ok(())
        })?);
    }
    ReadReport::merge(&sources, reports, 0)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ratings.dat");
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (folder, path)
    }

    #[test]
    fn formats_of_movielens_are_read_alike() {
        let texts = [
            "1\t10\t3\t881250949\n2\t10\t4.5\t0\n1\t11\t1\t7\n",
            "1::10::3::881250949\n2::10::4.5::0\n1::11::1::7\n",
            "userId,movieId,rating,timestamp\n1,10,3.0,9\n2,10,4.5,0\n1,11,1,7\n",
        ];
        for text in texts {
            let (_folder, path) = file(text);
            let ratings = RatingDataset::read(&path).unwrap();
            assert_eq!(ratings.entries, [([0, 0], 3.0), ([1, 0], 4.5), ([0, 1], 1.0)]);
            assert_eq!((ratings.users(), ratings.items()), (2, 2));
        }
    }

    #[test]
    fn bad_lines_are_refused_by_number() {
        let (_folder, path) = file("1\t10\t3\n2\t10\tgood\n");
        let problem = RatingDataset::read(&path).unwrap_err().to_string();
        assert!(problem.contains("ratings.dat:2") && problem.contains("good"), "{problem}");
    }

    #[test]
    fn ratings_of_unknown_users_are_counted() {
        let (_first, train) = file("a,x,1\nb,y,2\n");
        let (_second, test) = file("a,y,5\nc,x,1\nb,z,1\n");
        let (_third, other) = file("c,z,5\n");
        let ratings = RatingDataset::read(&train).unwrap();
        let (held, others) = RatingDataset::read_validation(&test, &ratings).unwrap();
        assert_eq!((held.entries, others), (vec![([0, 1], 5.0)], 2));
        assert!(RatingDataset::read_validation(&other, &ratings).unwrap_err().to_string().contains("check both"));
    }

    #[test]
    fn a_split_has_all_and_depends_on_the_seed() {
        let entries: Vec<_> = (0..1000).map(|place| ([place / 40, place % 40], place as f32)).collect();
        let ratings = RatingDataset::new(25, 40, entries);
        let [train, held] = ratings.clone().split(0.2, Seed(3));
        assert_eq!(train.len() + held.len(), 1000);
        assert!((150..250).contains(&held.len()), "{}", held.len());
        assert_eq!(ratings.clone().split(0.2, Seed(3))[1].entries, held.entries);
        assert_ne!(ratings.split(0.2, Seed(4))[1].entries, held.entries);
    }
}
