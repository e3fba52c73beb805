//! Synthetic data of known structure, to train without files. The same seed gives the same data.

use super::images::ImageDataset;
use super::ratings::RatingDataset;
use super::text::TextDataset;
use hemiola_array::synthetic::SyntheticMf;
use hemiola_core::rng::PhiloxRng;

/// Number of waves in the picture of a class.
const WAVES: u64 = 6;
/// Amplitude of the noise. Pictures have a standard deviation of 0.7, so a network has something to
/// learn.
const NOISE: f64 = 1.0;
/// Maximum shift of a picture, in pixels.
const SHIFT: u64 = 2;
/// Probabilities of the tokens that may follow a token.
const FOLLOWERS: [f64; 4] = [0.6, 0.25, 0.1, 0.05];

/// Synthetic images of classes. Each class has a picture of smooth waves; an image is the picture
/// of its class, shifted, with random brightness and noise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntheticImages {
    /// Channels, rows and columns of an image.
    pub shape: [usize; 3],
    /// Number of classes of images.
    pub classes: usize,
    /// Number of images in total.
    pub examples: usize,
    /// Random seed of pictures and noise.
    pub seed: u64,
}

impl Default for SyntheticImages {
    /// 1,000 grey images of 8 by 8 pixels, in 4 classes.
    fn default() -> Self {
        Self { shape: [1, 8, 8], classes: 4, examples: 1000, seed: 0 }
    }
}

impl SyntheticImages {
    /// Draws the images from the seed.
    #[must_use]
    pub fn dataset(self) -> ImageDataset {
        let Self { shape, classes, examples, seed } = self;
        images(shape, classes, examples, seed)
    }
}

fn images(shape: [usize; 3], classes: usize, examples: usize, seed: u64) -> ImageDataset {
    let pictures: Vec<Vec<f64>> =
        (0..classes as u64).map(|class| picture(shape, PhiloxRng::new(seed), class)).collect();
    let [channels, rows, columns] = shape;
    // Another stream of random numbers than that of the pictures.
    let values = PhiloxRng::new(!seed);
    let mut pixels = Vec::with_capacity(examples * channels * rows * columns);
    let mut labels = Vec::with_capacity(examples);
    for example in 0..examples as u64 {
        let draw = |number: u64, bound: u64| values.random_below(example, number, bound) as usize;
        let class = draw(0, classes as u64);
        let (down, right) = (draw(1, 2 * SHIFT + 1), draw(2, 2 * SHIFT + 1));
        let brightness = values.uniform(example, 3, 0.5..1.0);
        let mut drawn = 4;
        for channel in 0..channels {
            for row in 0..rows {
                for column in 0..columns {
                    let at = (channel * rows + (row + down) % rows) * columns + (column + right) % columns;
                    let noise = values.uniform(example, drawn, -NOISE..NOISE);
                    drawn += 1;
                    pixels.push((128.0 + 40.0 * (brightness * pictures[class][at] + noise)).clamp(0.0, 255.0) as u8);
                }
            }
        }
        labels.push(class as u8);
    }
    ImageDataset::new(shape, classes, pixels, labels)
}

/// Draws a periodic picture with values of about -1 to 1.
fn picture([channels, rows, columns]: [usize; 3], values: PhiloxRng, class: u64) -> Vec<f64> {
    let mut picture = Vec::with_capacity(channels * rows * columns);
    for channel in 0..channels as u64 {
        let wave = |number: u64| {
            let at = (class * channels as u64 + channel) * WAVES + number;
            let turns = |draw| values.random_below(at, draw, 4) as f64;
            (turns(0), turns(1), values.random_f64(at, 2))
        };
        let waves: Vec<(f64, f64, f64)> = (0..WAVES).map(wave).collect();
        for row in 0..rows {
            for column in 0..columns {
                let height = |(down, right, phase): &(f64, f64, f64)| {
                    let turn = down * row as f64 / rows as f64 + right * column as f64 / columns as f64 + phase;
                    (std::f64::consts::TAU * turn).cos()
                };
                picture.push(waves.iter().map(height).sum::<f64>() / (WAVES as f64).sqrt());
            }
        }
    }
    picture
}

/// Synthetic text: a token sequence in which each token is followed by one of four others with
/// fixed probabilities. The best possible perplexity is [`least_perplexity`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntheticText {
    /// Number of different tokens.
    pub vocabulary_size: usize,
    /// Number of tokens of the text.
    pub length: usize,
    /// Number of tokens of an example.
    pub sequence_length: usize,
    /// Random seed of the successors and of the text.
    pub seed: u64,
}

impl Default for SyntheticText {
    /// 20,000 tokens of a vocabulary of 100, in sequences of 32.
    fn default() -> Self {
        Self { vocabulary_size: 100, length: 20_000, sequence_length: 32, seed: 0 }
    }
}

impl SyntheticText {
    /// Draws the text from the seed.
    #[must_use]
    pub fn dataset(self) -> TextDataset {
        let Self { vocabulary_size, length, sequence_length, seed } = self;
        TextDataset::new(text(vocabulary_size, length, seed), sequence_length)
    }
}

fn text(words: usize, length: usize, seed: u64) -> Vec<u32> {
    let (follows, chances) = (PhiloxRng::new(seed), PhiloxRng::new(!seed));
    let mut word = 0;
    let mut text = Vec::with_capacity(length);
    for place in 0..length as u64 {
        text.push(word as u32);
        let mut left = chances.random_f64(place, 0);
        let choice = FOLLOWERS
            .iter()
            .position(|chance| {
                left -= chance;
                left < 0.0
            })
            .unwrap_or(0);
        word = follows.random_below(word, choice as u64, words as u64);
    }
    text
}

/// Perplexity of the true distribution of the next token.
#[must_use]
pub fn least_perplexity() -> f64 {
    FOLLOWERS.iter().map(|chance| -chance * chance.ln()).sum::<f64>().exp()
}

/// Synthetic ratings from a low-rank matrix plus noise of standard deviation 0.5, which is the best
/// possible error. User activity and item popularity are skewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntheticRatings {
    /// Number of users that rate.
    pub users: usize,
    /// Number of items to rate.
    pub items: usize,
    /// Number of ratings in total.
    pub ratings: usize,
    /// Random seed of factors, noise and choices.
    pub seed: u64,
}

impl Default for SyntheticRatings {
    /// 60,000 ratings of 1,000 users and 800 items.
    fn default() -> Self {
        Self { users: 1000, items: 800, ratings: 60_000, seed: 0 }
    }
}

impl SyntheticRatings {
    /// Draws the ratings from the seed.
    #[must_use]
    pub fn dataset(self) -> RatingDataset {
        let Self { users, items, ratings, seed } = self;
        let set = SyntheticMf { users, items, entries: ratings, rank: 4, noise: 0.5, seed, ..SyntheticMf::default() };
        let made = set.generator();
        let entries = made.entries().map(|(key, rating)| (key.map(|number| number as u32), rating)).collect();
        RatingDataset::new(users, items, entries)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dataset as _;
    use super::*;

    #[test]
    fn the_seed_determines_the_data() {
        let of = |seed| {
            let images = SyntheticImages { classes: 3, examples: 20, seed, ..SyntheticImages::default() };
            let text = SyntheticText { vocabulary_size: 30, length: 200, sequence_length: 5, seed };
            let ratings = SyntheticRatings { users: 9, items: 8, ratings: 30, seed };
            [images.dataset().digest(), text.dataset().digest(), ratings.dataset().digest()]
        };
        assert_eq!(of(1), of(1));
        assert!(of(1).iter().zip(of(2)).all(|(one, other)| *one != other));
    }

    #[test]
    fn images_of_a_class_are_more_alike() {
        let images = SyntheticImages { shape: [2, 12, 12], classes: 4, examples: 120, seed: 5 }.dataset();
        let size = 2 * 12 * 12;
        let image = |place: usize| &images.pixels()[place * size..(place + 1) * size];
        let apart = |one: usize, other: usize| {
            image(one).iter().zip(image(other)).map(|(one, other)| f64::from(one.abs_diff(*other))).sum::<f64>()
        };
        let mut sums = [[0.0; 2]; 2];
        for one in 0..120 {
            for other in 0..one {
                let sum = &mut sums[usize::from(images.labels()[one] == images.labels()[other])];
                *sum = [sum[0] + apart(one, other), sum[1] + 1.0];
            }
        }
        let [others, same] = sums.map(|[sum, count]| sum / count);
        assert!(same < 0.97 * others, "{same} {others}");
    }

    #[test]
    fn a_token_has_at_most_four_successors() {
        let text = SyntheticText { vocabulary_size: 50, length: 5000, sequence_length: 10, seed: 3 }.dataset();
        let batch = text.batch(&(0..text.len()).collect::<Vec<_>>(), &burn::tensor::Device::flex());
        let words = batch.tokens.into_data().try_to_vec::<i32>().unwrap();
        let next = batch.targets.into_data().try_to_vec::<i32>().unwrap();
        let pairs: std::collections::BTreeSet<(i32, i32)> = words.into_iter().zip(next).collect();
        assert!(pairs.len() <= 4 * 50 && pairs.len() > 50, "{}", pairs.len());
        assert!((2.0..3.0).contains(&least_perplexity()));
    }
}
