//! Sums in the documented order, written from the documentation and sharing nothing with the steps.

use hemiola_collective_proto::{Algorithm, Element, Operator};

fn combine<T: Element>(operator: Operator, a: T, b: T) -> T {
    match operator {
        Operator::Sum => a.sum(b),
        Operator::Min => a.min(b),
        Operator::Max => a.max(b),
        _ => unreachable!("an operator without a reference"),
    }
}

/// Chunk `c`: from peer `c + 1` round to `c`.
pub(crate) fn ring<T: Element>(operator: Operator, data: &[Vec<T>]) -> Vec<T> {
    let (peers, length) = (data.len(), data[0].len());
    let mut result = Vec::new();
    for chunk in 0..peers {
        let sum = |element: usize| {
            let order = (1..=peers).map(|places| data[(chunk + places) % peers][element]);
            order.reduce(|a, b| combine(operator, a, b)).unwrap()
        };
        result.extend((chunk * length / peers..(chunk + 1) * length / peers).map(sum));
    }
    result
}

/// Lower half of an aligned block of relative ranks, then upper half.
pub(crate) fn tree<T: Element>(operator: Operator, data: &[Vec<T>], root: usize) -> Vec<T> {
    fn block<T: Element>(operator: Operator, values: &[T], start: usize, size: usize) -> Option<T> {
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
        let values: Vec<T> = (0..peers).map(|place| data[(place + root) % peers][element]).collect();
        block(operator, &values, 0, peers.next_power_of_two()).unwrap()
    };
    (0..data[0].len()).map(sum).collect()
}

/// The rest folded onto a power of two, which is then folded in half until one is left.
pub(crate) fn halving<T: Element>(operator: Operator, data: &[Vec<T>]) -> Vec<T> {
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

pub(crate) fn all_reduce<T: Element>(algorithm: Algorithm, operator: Operator, data: &[Vec<T>]) -> Vec<T> {
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
