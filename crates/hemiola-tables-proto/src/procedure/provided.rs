//! The procedures of this crate as plain data, for peers that do not run the program that chose one.
//!
//! A [`Provided`] travels in a message, and makes a fresh procedure like the one it was taken from. A procedure of a program's own has
//! none: its code is in that program alone.

use super::{AdaGrad, AdaRevision, Adam, Add, Procedure, Sgd};
use crate::number::{Number, Real};
use serde::{Deserialize, Serialize};

/// One of this crate's procedures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Provided {
    /// [`Add`].
    Add,
    /// [`Sgd`].
    Sgd {
        /// The step.
        step: f64,
    },
    /// [`AdaGrad`].
    AdaGrad {
        /// The first step.
        step: f64,
    },
    /// [`Adam`].
    Adam {
        /// The step.
        step: f64,
        /// How much of the averages stays at each update.
        betas: (f64, f64),
    },
    /// [`AdaRevision`].
    AdaRevision {
        /// The first step.
        step: f64,
        /// How many versions a shard keeps; nothing if clients carry the old sums.
        snapshots: Option<u64>,
    },
}

/// Numbers that provided procedures compute with.
pub trait Make: Number {
    /// The procedure; nothing if there is none for these numbers.
    fn make(provided: &Provided) -> Option<Box<dyn Procedure<Self>>>;
}

fn real<W: Real>(provided: &Provided) -> Box<dyn Procedure<W>> {
    match *provided {
        Provided::Add => Box::new(Add),
        Provided::Sgd { step } => Box::new(Sgd::new(step)),
        Provided::AdaGrad { step } => Box::new(AdaGrad::new(step)),
        Provided::Adam { step, betas: (beta1, beta2) } => Box::new(Adam::new(step).betas(beta1, beta2)),
        Provided::AdaRevision { step, snapshots: None } => Box::new(AdaRevision::new(step)),
        Provided::AdaRevision { step, snapshots: Some(bound) } => {
            Box::new(AdaRevision::with_snapshots(step, usize::try_from(bound).unwrap_or(usize::MAX)))
        }
    }
}

impl Make for f32 {
    fn make(provided: &Provided) -> Option<Box<dyn Procedure<Self>>> {
        Some(real(provided))
    }
}

impl Make for f64 {
    fn make(provided: &Provided) -> Option<Box<dyn Procedure<Self>>> {
        Some(real(provided))
    }
}

impl Make for i32 {
    fn make(provided: &Provided) -> Option<Box<dyn Procedure<Self>>> {
        (*provided == Provided::Add).then(|| Box::new(Add) as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_anew_is_the_same() {
        let all: [Box<dyn Procedure<f64>>; 6] = [
            Box::new(Add),
            Box::new(Sgd::new(0.25)),
            Box::new(AdaGrad::new(0.5)),
            Box::new(Adam::new(0.1).betas(0.8, 0.9)),
            Box::new(AdaRevision::new(0.3)),
            Box::new(AdaRevision::with_snapshots(0.3, 17)),
        ];
        for procedure in all {
            let provided = procedure.provided().expect("it is provided");
            let again = f64::make(&provided).expect("real numbers have all");
            assert_eq!((format!("{again:?}"), again.provided()), (format!("{procedure:?}"), Some(provided)));
        }
    }

    #[test]
    fn whole_numbers_are_only_added() {
        assert!(i32::make(&Provided::Add).is_some());
        assert!(i32::make(&Provided::Sgd { step: 0.1 }).is_none());
    }
}
