//! Examples of a mini-batch with their scores and slopes: all that a step needs of them.
//!
//! Peers send each other these numbers, and not gradients: the gradient of feature `i` in an example
//! is `slope · x_i (Σ x v - x_i v_i)`, so the columns and values of the example, its slope and its
//! `Σ x v` determine the gradients of all its features (sufficient factors, Xie et al. 2016). They
//! are a fraction of the size.

use super::loss::FmLoss;
use super::parameters::FmParameters;
use crate::examples::ExampleBlock;
use hemiola_cluster::Result;
use hemiola_collective::Communicator;
use pulp::{Simd, WithSimd};

/// Scored examples: those of one worker, or of one peer.
#[derive(Debug, Default)]
pub(super) struct ScoredExamples {
    /// Position of each example in the batch.
    positions: Vec<u32>,
    /// End of the entries of each example.
    ends: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
    /// Negative gradient of the loss of each example with respect to its score.
    slopes: Vec<f32>,
    /// Loss of each example.
    costs: Vec<f32>,
    /// `Σ x v` of each example.
    sums: Vec<f32>,
}

/// One scored example of a batch.
#[derive(Clone, Copy)]
pub(super) struct ScoredExample<'a> {
    pub(super) columns: &'a [u32],
    pub(super) values: &'a [f32],
    pub(super) slope: f32,
    pub(super) cost: f32,
    pub(super) sums: &'a [f32],
}

/// Scoring of rows, with the widest registers of the machine. A closure would be compiled without
/// them.
pub(super) struct ScoreKernel<'a> {
    pub(super) part: &'a mut ScoredExamples,
    pub(super) parameters: &'a FmParameters,
    pub(super) block: &'a ExampleBlock,
    pub(super) targets: &'a [f32],
    /// Position in the batch, and index in the block, of each row.
    pub(super) rows: &'a [(u32, u32)],
    pub(super) loss: FmLoss,
}

impl WithSimd for ScoreKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { part, parameters, block, targets, rows, loss } = self;
        part.score(parameters, (block, targets), rows, loss);
    }
}

impl ScoredExamples {
    /// Replaces the examples by rows of `block` with their positions in the batch, and scores them.
    #[inline(always)]
    pub(super) fn score(
        &mut self,
        parameters: &FmParameters,
        (block, targets): (&ExampleBlock, &[f32]),
        rows: &[(u32, u32)],
        loss: FmLoss,
    ) {
        let width = parameters.width;
        self.clear();
        self.sums.resize(rows.len() * width, 0.0);
        for (index, (position, row)) in rows.iter().enumerate() {
            let (columns, values) = block.slices(*row as usize);
            let score = parameters.score(columns, values, &mut self.sums[index * width..][..width]);
            let (slope, cost) = loss.slope_and_cost(targets[*row as usize], score);
            self.positions.push(*position);
            self.columns.extend_from_slice(columns);
            self.values.extend_from_slice(values);
            self.ends.push(self.columns.len());
            self.slopes.push(slope);
            self.costs.push(cost);
        }
    }

    fn clear(&mut self) {
        let Self { positions, ends, columns, values, slopes, costs, sums } = self;
        positions.clear();
        ends.clear();
        columns.clear();
        values.clear();
        slopes.clear();
        costs.clear();
        sums.clear();
    }

    #[inline]
    pub(super) fn example(&self, index: usize, width: usize) -> ScoredExample<'_> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        ScoredExample {
            columns: &self.columns[start..self.ends[index]],
            values: &self.values[start..self.ends[index]],
            slope: self.slopes[index],
            cost: self.costs[index],
            sums: &self.sums[index * width..][..width],
        }
    }

    /// *Collective.* Returns the scored examples of all peers.
    pub(super) fn exchange(parts: &[Self], width: usize, collectives: &Communicator) -> Result<Vec<Self>> {
        let (mut integers, mut numbers) = (Vec::new(), Vec::new());
        let examples: usize = parts.iter().map(|part| part.positions.len()).sum();
        integers.push((examples as u32).cast_signed());
        integers.extend(parts.iter().flat_map(|part| &part.positions).map(|position| position.cast_signed()));
        for part in parts {
            let starts = std::iter::once(&0).chain(&part.ends);
            integers.extend(part.ends.iter().zip(starts).map(|(end, start)| ((end - start) as u32).cast_signed()));
        }
        integers.extend(parts.iter().flat_map(|part| &part.columns).map(|column| column.cast_signed()));
        numbers.extend(parts.iter().flat_map(|part| &part.values));
        numbers.extend(parts.iter().flat_map(|part| &part.slopes));
        numbers.extend(parts.iter().flat_map(|part| &part.costs));
        numbers.extend(parts.iter().flat_map(|part| &part.sums));
        let (integers, integer_ranges) = collectives.all_gather_ragged(&integers, usize::MAX)?;
        let (numbers, number_ranges) = collectives.all_gather_ragged(&numbers, usize::MAX)?;
        let of_peer = |(integers, numbers): (&[i32], &[f32])| {
            let examples = integers[0].cast_unsigned() as usize;
            let (positions, rest) = integers[1..].split_at(examples);
            let (lengths, columns) = rest.split_at(examples);
            let (values, rest) = numbers.split_at(columns.len());
            let (slopes, rest) = rest.split_at(examples);
            let (costs, sums) = rest.split_at(examples);
            let ends = lengths.iter().scan(0, |end, length| {
                *end += length.cast_unsigned() as usize;
                Some(*end)
            });
            debug_assert_eq!(sums.len(), examples * width, "every example has its sums");
            Self {
                positions: positions.iter().map(|position| position.cast_unsigned()).collect(),
                ends: ends.collect(),
                columns: columns.iter().map(|column| column.cast_unsigned()).collect(),
                values: values.to_vec(),
                slopes: slopes.to_vec(),
                costs: costs.to_vec(),
                sums: sums.to_vec(),
            }
        };
        let ranges = integer_ranges.into_iter().zip(number_ranges);
        Ok(ranges.map(|(integer, number)| of_peer((&integers[integer], &numbers[number]))).collect())
    }

    /// Fills `order` with the part and the index of each example of a batch, by position.
    pub(super) fn order(parts: &[Self], length: usize, order: &mut Vec<(u32, u32)>) {
        order.clear();
        order.resize(length, (u32::MAX, 0));
        for (part, examples) in parts.iter().enumerate() {
            for (index, position) in examples.positions.iter().enumerate() {
                order[*position as usize] = (part as u32, index as u32);
            }
        }
        // Rows of the validation set have no example.
        order.retain(|(part, _)| *part != u32::MAX);
    }
}
