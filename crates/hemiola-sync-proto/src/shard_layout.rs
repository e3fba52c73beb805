//! Position of a shard inside its variable, which is stored in row-major order.

use hemiola_strategy::VariableShard;
use std::ops::Range;

/// Elements of a shard inside its variable, as runs of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLayout {
    starts: Vec<usize>,
    run: usize,
}

impl ShardLayout {
    /// Computes the runs of a shard of a variable of this shape.
    #[must_use]
    pub fn new(shape: &[usize], shard: &VariableShard) -> Self {
        // The innermost cut dimension and the whole dimensions below it are contiguous.
        let cut = |dimension: usize| shard.ranges[dimension] != (0..shape[dimension]);
        let inner = (0..shape.len()).rev().find(|dimension| cut(*dimension)).unwrap_or(0);
        let strides: Vec<usize> = (0..shape.len()).map(|dimension| shape[dimension + 1..].iter().product()).collect();
        let mut starts = vec![0];
        for (range, stride) in shard.ranges[..inner.min(shape.len())].iter().zip(&strides) {
            starts = starts.iter().flat_map(|start| range.clone().map(move |at| start + at * stride)).collect();
        }
        match shard.ranges.get(inner) {
            None => Self { starts, run: 1 },
            Some(range) => {
                for start in &mut starts {
                    *start += range.start * strides[inner];
                }
                Self { starts, run: range.len() * strides[inner] }
            }
        }
    }

    /// Number of elements of the shard.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len() * self.run
    }

    /// Tells whether the shard has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        self.starts.iter().map(|start| *start..start + self.run)
    }

    /// Appends the elements of the shard to `to`.
    pub fn gather(&self, whole: &[f32], to: &mut Vec<f32>) {
        self.runs().for_each(|run| to.extend_from_slice(&whole[run]));
    }

    /// Writes the elements of the shard into the whole variable.
    pub fn scatter(&self, numbers: &[f32], whole: &mut [f32]) {
        for (run, numbers) in self.runs().zip(numbers.chunks(self.run)) {
            whole[run].copy_from_slice(numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_strategy::Partitioning;

    #[test]
    fn shards_cover_the_variable() {
        for (shape, cuts) in [
            (vec![], vec![]),
            (vec![7], vec![3]),
            (vec![4, 5], vec![1, 1]),
            (vec![4, 5], vec![2, 1]),
            (vec![4, 5], vec![1, 3]),
            (vec![3, 4, 5], vec![2, 2, 1]),
            (vec![3, 4, 5], vec![3, 1, 2]),
        ] {
            let count: usize = shape.iter().product();
            let whole: Vec<f32> = (0..count).map(|number| number as f32).collect();
            let mut rebuilt = vec![-1.0; count];
            for shard in Partitioning::equal(cuts.clone()).cut(&shape) {
                let block = ShardLayout::new(&shape, &shard);
                assert_eq!(block.len() as u64, shard.elements());
                let mut numbers = Vec::new();
                block.gather(&whole, &mut numbers);
                // Row-major order within the shard, too.
                assert!(numbers.is_sorted());
                block.scatter(&numbers, &mut rebuilt);
            }
            assert_eq!(rebuilt, whole, "{shape:?} {cuts:?}");
        }
    }
}
