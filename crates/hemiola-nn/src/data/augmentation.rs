//! Random changes of training images: mirroring, and shifting within a margin.
//!
//! **Invariant:** the change of an image depends on seed, epoch and the index of the example only,
//! so any number of peers and threads, and a resumed run, train on the same pixels.

use hemiola_core::rng::PhiloxRng;
use serde::{Deserialize, Serialize};

/// Random changes of training images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageAugmentation {
    /// Mirrors half of the images left to right.
    pub flip: bool,
    /// Pixels by which an image is shifted at most, up or down and left or right. Pixels that come
    /// in from outside are black: random cropping of an image with a black margin.
    pub crop_padding: usize,
    /// Random seed.
    pub seed: u64,
}

impl ImageAugmentation {
    /// Returns true if images stay as they are.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        !self.flip && self.crop_padding == 0
    }

    /// Returns the change of an example in an epoch.
    #[must_use]
    pub(super) fn change(&self, epoch: u32, example: usize) -> ImageChange {
        let random = PhiloxRng::new(PhiloxRng::new(self.seed).random_u64(u64::from(epoch), 0));
        let shifts = 2 * self.crop_padding as u64 + 1;
        let shift = |draw: u64| {
            (random.random_below(example as u64, draw, shifts) as usize).cast_signed() - self.crop_padding.cast_signed()
        };
        let flip = self.flip && random.random_below(example as u64, 0, 2) == 1;
        ImageChange { flip, rows: shift(1), columns: shift(2) }
    }
}

/// Change of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageChange {
    flip: bool,
    /// Rows by which pixels of the result are below those of the image.
    rows: isize,
    columns: isize,
}

impl ImageChange {
    /// Returns the pixel of a channel, in row-major order, that comes to a place; `None` outside.
    pub(super) fn source(self, [rows, columns]: [usize; 2], row: usize, column: usize) -> Option<usize> {
        let row = row.checked_add_signed(self.rows).filter(|row| *row < rows)?;
        let column = column.checked_add_signed(self.columns).filter(|column| *column < columns)?;
        let column = if self.flip { columns - 1 - column } else { column };
        Some(row * columns + column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_depend_on_seed_epoch_and_example() {
        let augmentation = ImageAugmentation { flip: true, crop_padding: 3, seed: 5 };
        let changes = |augmentation: ImageAugmentation, epoch| {
            (0..400).map(|example| augmentation.change(epoch, example)).collect::<Vec<_>>()
        };
        let first = changes(augmentation, 0);
        assert_eq!(first, changes(augmentation, 0));
        assert_ne!(first, changes(augmentation, 1));
        assert_ne!(first, changes(ImageAugmentation { seed: 6, ..augmentation }, 0));
        let flipped = first.iter().filter(|change| change.flip).count();
        assert!((140..260).contains(&flipped), "{flipped}");
        for shift in -3..=3 {
            assert!(
                first.iter().any(|change| change.rows == shift) && first.iter().any(|change| change.columns == shift)
            );
        }
        assert!(first.iter().all(|change| change.rows.abs() <= 3 && change.columns.abs() <= 3));
        let none = ImageAugmentation { seed: 5, ..ImageAugmentation::default() };
        assert!(none.is_identity() && changes(none, 0).iter().all(|change| !change.flip && change.rows == 0));
    }

    #[test]
    fn pixels_come_from_the_shifted_and_mirrored_place() {
        let change = ImageChange { flip: false, rows: 1, columns: -1 };
        assert_eq!(change.source([3, 4], 0, 1), Some(4));
        assert_eq!((change.source([3, 4], 2, 1), change.source([3, 4], 0, 0)), (None, None));
        let change = ImageChange { flip: true, rows: 0, columns: 0 };
        assert_eq!((change.source([3, 4], 1, 0), change.source([3, 4], 1, 3)), (Some(7), Some(4)));
    }
}
