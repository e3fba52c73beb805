//! Sets that are made up, of a known structure: to see a net learn where no data are at hand. The same for the same seed.

use super::images::Images;
use super::ratings::Ratings;
use super::text::Text;
use hemiola_array::random::Values;
use hemiola_array::synthetic::Mf;

/// Waves that the picture of a class is made of.
const WAVES: u64 = 6;
/// How much noise there is, where the heights of a picture have the deviation 0.7: enough that a net has something to learn.
const NOISE: f64 = 1.0;
/// How far a picture may be off its place, in pixels.
const SHIFT: u64 = 2;
/// How likely the words are that may follow another.
const FOLLOWERS: [f64; 4] = [0.6, 0.25, 0.1, 0.05];

/// Images of classes: each class has a picture of smooth waves, and an image is the picture of its class, moved a little, more or less bright, and noisy.
#[must_use]
pub fn images(shape: [usize; 3], classes: usize, examples: usize, seed: u64) -> Images {
    let pictures: Vec<Vec<f64>> = (0..classes as u64).map(|class| picture(shape, Values::new(seed), class)).collect();
    let [channels, rows, columns] = shape;
    // What makes one image another than the next, apart from what makes classes.
    let values = Values::new(!seed);
    let mut pixels = Vec::with_capacity(examples * channels * rows * columns);
    let mut labels = Vec::with_capacity(examples);
    for example in 0..examples as u64 {
        let draw = |number: u64, bound: u64| values.below(example, number, bound) as usize;
        let class = draw(0, classes as u64);
        let (down, right) = (draw(1, 2 * SHIFT + 1), draw(2, 2 * SHIFT + 1));
        let bright = values.uniform(example, 3, 0.5..1.0);
        let mut drawn = 4;
        for channel in 0..channels {
            for row in 0..rows {
                for column in 0..columns {
                    let at = (channel * rows + (row + down) % rows) * columns + (column + right) % columns;
                    let noise = values.uniform(example, drawn, -NOISE..NOISE);
                    drawn += 1;
                    pixels.push((128.0 + 40.0 * (bright * pictures[class][at] + noise)).clamp(0.0, 255.0) as u8);
                }
            }
        }
        labels.push(class as u8);
    }
    Images::new(shape, classes, pixels, labels)
}

/// A picture with numbers in about -1..1, whose edges meet.
fn picture([channels, rows, columns]: [usize; 3], values: Values, class: u64) -> Vec<f64> {
    let mut picture = Vec::with_capacity(channels * rows * columns);
    for channel in 0..channels as u64 {
        let wave = |number: u64| {
            let at = (class * channels as u64 + channel) * WAVES + number;
            let turns = |draw| values.below(at, draw, 4) as f64;
            (turns(0), turns(1), values.unit(at, 2))
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

/// A text in which each of `words` words is followed by one of four others, one more likely than the next. A net that knows them all has a perplexity of [`least_perplexity`].
#[must_use]
pub fn text(words: usize, length: usize, positions: usize, seed: u64) -> Text {
    let (follows, chances) = (Values::new(seed), Values::new(!seed));
    let mut word = 0;
    let mut text = Vec::with_capacity(length);
    for place in 0..length as u64 {
        text.push(word as u32);
        let mut left = chances.unit(place, 0);
        let choice = FOLLOWERS
            .iter()
            .position(|chance| {
                left -= chance;
                left < 0.0
            })
            .unwrap_or(0);
        word = follows.below(word, choice as u64, words as u64);
    }
    Text::new(text, positions)
}

/// The perplexity of a net that knows which word follows which how often.
#[must_use]
pub fn least_perplexity() -> f64 {
    FOLLOWERS.iter().map(|chance| -chance * chance.ln()).sum::<f64>().exp()
}

/// Ratings of a matrix of low rank with noise of deviation 0.5, which is the least error that is possible. Some users are busier than others, and some items more popular.
#[must_use]
pub fn ratings(users: usize, items: usize, count: usize, seed: u64) -> Ratings {
    let made = Mf::new(users as u64, items as u64, count as u64, 4, seed).noise(0.5);
    let entries = made.entries().map(|(key, rating)| (key.map(|number| number as u32), rating)).collect();
    Ratings::new(users, items, entries)
}

#[cfg(test)]
mod tests {
    use super::super::Examples as _;
    use super::*;

    #[test]
    fn the_seed_says_it_all() {
        let of = |seed| {
            [images([1, 8, 8], 3, 20, seed).digest(), text(30, 200, 5, seed).digest(), ratings(9, 8, 30, seed).digest()]
        };
        assert_eq!(of(1), of(1));
        assert!(of(1).iter().zip(of(2)).all(|(one, other)| *one != other));
    }

    #[test]
    fn images_of_a_class_are_more_alike_than_others() {
        let images = images([2, 12, 12], 4, 120, 5);
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
    fn a_word_is_followed_by_four_at_most() {
        let text = text(50, 5000, 10, 3);
        let batch = text.batch(&(0..text.len()).collect::<Vec<_>>(), &burn::tensor::Device::flex());
        let words = batch.words.into_data().try_to_vec::<i32>().unwrap();
        let next = batch.next.into_data().try_to_vec::<i32>().unwrap();
        let pairs: std::collections::BTreeSet<(i32, i32)> = words.into_iter().zip(next).collect();
        assert!(pairs.len() <= 4 * 50 && pairs.len() > 50, "{}", pairs.len());
        assert!((2.0..3.0).contains(&least_perplexity()));
    }
}
