//! Serial sums in the documented order, written from the documentation and sharing no code with the
//! steps.

use hemiola_collective_proto::{Algorithm, CollectiveElement, ReduceOp};

fn combine<T: CollectiveElement>(operator: ReduceOp, a: T, b: T) -> T {
    match operator {
        ReduceOp::Sum => a.sum(b),
        ReduceOp::Min => a.min(b),
        ReduceOp::Max => a.max(b),
        _ => unreachable!("an operator without a reference"),
    }
}

/// Ring: chunk `c` is added from peer `c + 1` round to `c`.
pub(crate) fn ring<T: CollectiveElement>(operator: ReduceOp, data: &[Vec<T>]) -> Vec<T> {
    let (peers, length) = (data.len(), data[0].len());
    let mut result = Vec::new();
    for chunk in 0..peers {
        let sum = |element: usize| {
            let order = (1..=peers).map(|ranges| data[(chunk + ranges) % peers][element]);
            order.reduce(|a, b| combine(operator, a, b)).unwrap()
        };
        result.extend((chunk * length / peers..(chunk + 1) * length / peers).map(sum));
    }
    result
}

/// Tree: lower half of an aligned block of relative ranks, then upper half.
pub(crate) fn tree<T: CollectiveElement>(operator: ReduceOp, data: &[Vec<T>], root: usize) -> Vec<T> {
    fn block<T: CollectiveElement>(operator: ReduceOp, values: &[T], start: usize, size: usize) -> Option<T> {
        if size == 1 {
            return values.get(start).copied();
        }
        let low = block(operator, values, start, size / 2)?;
        match block(operator, values, start + size / 2, size / 2) {
            Some(high) => Some(combine(operator, low, high)),
            None => Some(low),
        }
    }
    let peers = data.len();
    let sum = |element: usize| {
        let values: Vec<T> = (0..peers).map(|index| data[(index + root) % peers][element]).collect();
        block(operator, &values, 0, peers.next_power_of_two()).unwrap()
    };
    (0..data[0].len()).map(sum).collect()
}

/// Halving: the rest is folded onto a power of two, which is then folded in half until one is left.
pub(crate) fn halving<T: CollectiveElement>(operator: ReduceOp, data: &[Vec<T>]) -> Vec<T> {
    let sum = |element: usize| {
        let mut values: Vec<T> = data.iter().map(|vector| vector[element]).collect();
        let mut size = (1..=values.len()).rev().find(|size| size.is_power_of_two()).unwrap();
        while values.len() > 1 {
            let upper = values.split_off(size);
            for (low, high) in values.iter_mut().zip(upper) {
                *low = combine(operator, *low, high);
            }
            size /= 2;
        }
        values[0]
    };
    (0..data[0].len()).map(sum).collect()
}

pub(crate) fn all_reduce<T: CollectiveElement>(algorithm: Algorithm, operator: ReduceOp, data: &[Vec<T>]) -> Vec<T> {
    match algorithm {
        Algorithm::Ring => ring(operator, data),
        Algorithm::Tree => tree(operator, data, 0),
        Algorithm::HalvingDoubling | Algorithm::Doubling => halving(operator, data),
        Algorithm::TwoLevel { group } => {
            let groups: Vec<Vec<T>> = data.chunks(group).map(|group| tree(operator, group, 0)).collect();
            ring(operator, &groups)
        }
        _ => unreachable!("an algorithm without a reference"),
    }
}
