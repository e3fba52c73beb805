//! Optimizers: update rules and their state.
//!
//! Values are updated piece by piece, on the peer that owns the piece or on every peer for its
//! copy. So rules work on slices, with a state for each piece. Their arithmetic is that of
//! `hemiola-optim`.
//!
//! **Invariant:** the update of an element depends only on that element, its gradients and the
//! step. Strategies that partition or place a model differently therefore train the same model.
//! Burn's optimizers that use whole tensors see the whole piece; [`Optimizer::is_elementwise`]
//! tells them apart.

mod burn_optimizer;
mod lr_schedule;

pub use lr_schedule::LrSchedule;

use burn_optimizer::BurnOptimizer;
use hemiola_optim::{AdaGrad, Adam, AdamForm, AdamW, Momentum, RmsProp, Sgd, SquareOrder, StepOrder, l2};
use hemiola_sync::NamedArray;
use std::fmt;

/// An update rule with its hyperparameters.
///
/// ```
/// use hemiola_nn::Optimizer;
///
/// let own = Optimizer::sgd(0.1).momentum(0.9).weight_decay(1e-4);
/// let of_burn = Optimizer::from(burn::optim::AdamConfig::new().build()).with_learning_rate(0.001);
/// assert_eq!((own.learning_rate(), of_burn.learning_rate()), (0.1, 0.001));
/// ```
#[derive(Clone)]
pub struct Optimizer {
    rule: OptimizerRule,
    rate: f64,
    weight_decay: f32,
}

#[derive(Clone)]
enum OptimizerRule {
    Sgd { momentum: f32, nesterov: bool },
    AdaGrad { epsilon: f32 },
    RmsProp { decay: f32, epsilon: f32 },
    Adam { betas: [f32; 2], epsilon: f32, decoupled: bool },
    Burn(BurnOptimizer),
}

/// Optimizer state of one piece.
#[derive(Clone, Default)]
pub(crate) struct OptimizerState {
    /// One vector per moment of the rule, each as long as the piece; empty before the first update.
    pub(crate) moments: Vec<Vec<f32>>,
    /// Number of updates of the piece.
    pub(crate) updates: u64,
    burn: burn_optimizer::BurnOptimizerState,
}

impl Optimizer {
    const fn with(rule: OptimizerRule, rate: f64) -> Self {
        Self { rule, rate, weight_decay: 0.0 }
    }

    /// Stochastic gradient descent, without momentum by default.
    #[must_use]
    pub const fn sgd(rate: f64) -> Self {
        Self::with(OptimizerRule::Sgd { momentum: 0.0, nesterov: false }, rate)
    }

    /// AdaGrad (Duchi et al. 2011).
    #[must_use]
    pub const fn adagrad(rate: f64) -> Self {
        Self::with(OptimizerRule::AdaGrad { epsilon: 1e-10 }, rate)
    }

    /// `RMSProp` (Tieleman and Hinton 2012), with a decay of 0.99.
    #[must_use]
    pub const fn rmsprop(rate: f64) -> Self {
        Self::with(OptimizerRule::RmsProp { decay: 0.99, epsilon: 1e-8 }, rate)
    }

    /// Adam (Kingma and Ba 2015), with betas of 0.9 and 0.999.
    #[must_use]
    pub const fn adam(rate: f64) -> Self {
        Self::with(OptimizerRule::Adam { betas: [0.9, 0.999], epsilon: 1e-8, decoupled: false }, rate)
    }

    /// `AdamW`: [`adam`](Self::adam) with decoupled weight decay (Loshchilov and Hutter 2019), 0.01
    /// by default.
    #[must_use]
    pub const fn adamw(rate: f64) -> Self {
        let rule = OptimizerRule::Adam { betas: [0.9, 0.999], epsilon: 1e-8, decoupled: true };
        Self { rule, rate, weight_decay: 0.01 }
    }

    /// Sets the learning rate, before any [`LrSchedule`].
    #[must_use]
    pub const fn with_learning_rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// Sets the momentum of [`sgd`](Self::sgd). Has no effect on other rules.
    #[must_use]
    pub fn momentum(mut self, keep: f32) -> Self {
        if let OptimizerRule::Sgd { momentum, .. } = &mut self.rule {
            *momentum = keep;
        }
        self
    }

    /// Uses Nesterov [`momentum`](Self::momentum) with [`sgd`](Self::sgd).
    #[must_use]
    pub fn nesterov(mut self) -> Self {
        if let OptimizerRule::Sgd { nesterov, .. } = &mut self.rule {
            *nesterov = true;
        }
        self
    }

    /// Sets the decay of the first and second moment of [`adam`](Self::adam) and
    /// [`adamw`](Self::adamw).
    #[must_use]
    pub fn betas(mut self, first: f32, second: f32) -> Self {
        if let OptimizerRule::Adam { betas, .. } = &mut self.rule {
            *betas = [first, second];
        }
        self
    }

    /// Sets the weight decay (L2 regularization). Burn's optimizers have a setting of their own.
    #[must_use]
    pub const fn weight_decay(mut self, decay: f32) -> Self {
        self.weight_decay = decay;
        self
    }

    /// Returns the learning rate, before any [`LrSchedule`].
    #[must_use]
    pub const fn learning_rate(&self) -> f64 {
        self.rate
    }

    /// Tells whether the update of an element depends on its own gradients only. Burn's LAMB,
    /// Adafactor and Muon average over a tensor, so a strategy that partitions a variable gives
    /// them a part only.
    #[must_use]
    pub fn is_elementwise(&self) -> bool {
        match &self.rule {
            OptimizerRule::Burn(rule) => rule.is_elementwise(),
            _ => true,
        }
    }

    /// Number of moment vectors of the rule; `None` for Burn's optimizers, whose state is opaque.
    pub(crate) fn moments(&self) -> Option<usize> {
        match &self.rule {
            OptimizerRule::Sgd { momentum, .. } => Some(usize::from(*momentum != 0.0)),
            OptimizerRule::AdaGrad { .. } | OptimizerRule::RmsProp { .. } => Some(1),
            OptimizerRule::Adam { .. } => Some(2),
            OptimizerRule::Burn(_) => None,
        }
    }

    /// Updates a piece with `scale` times the gradient.
    pub(crate) fn update(
        &self,
        rate: f64,
        values: &mut [f32],
        gradient: &mut [f32],
        scale: f32,
        state: &mut OptimizerState,
    ) {
        if let OptimizerRule::Burn(rule) = &self.rule {
            for number in &mut *gradient {
                *number *= scale;
            }
            state.updates += 1;
            rule.update(rate, values, gradient, &mut state.burn);
            return;
        }
        let needed = self.moments().unwrap_or(0);
        state.moments.resize_with(needed, || vec![0.0; values.len()]);
        let moments: Vec<&mut [f32]> = state.moments.iter_mut().map(|moment| &mut moment[..]).collect();
        self.apply(rate, values, gradient, scale, moments, state.updates);
        state.updates += 1;
    }

    /// Updates some rows of a piece, each of `width` elements, and leaves the other rows and their
    /// state unchanged. `gradients` holds the gradients of the rows, concatenated.
    pub(crate) fn update_rows(
        &self,
        rate: f64,
        values: &mut [f32],
        (rows, gradients, width): (&[usize], &mut [f32], usize),
        scale: f32,
        state: &mut OptimizerState,
    ) {
        let needed = self.moments().unwrap_or(0);
        state.moments.resize_with(needed, || vec![0.0; values.len()]);
        for (row, gradient) in rows.iter().zip(gradients.chunks_mut(width)) {
            let place = row * width..(row + 1) * width;
            let moments: Vec<&mut [f32]> = state.moments.iter_mut().map(|moment| &mut moment[place.clone()]).collect();
            self.apply(rate, &mut values[place.clone()], gradient, scale, moments, state.updates);
        }
        state.updates += 1;
    }

    /// Tells whether the rule can update some rows and leave the others.
    pub(crate) fn can_update_rows(&self) -> bool {
        !matches!(self.rule, OptimizerRule::Burn(_))
    }

    fn apply(
        &self,
        rate: f64,
        values: &mut [f32],
        gradient: &mut [f32],
        scale: f32,
        mut moments: Vec<&mut [f32]>,
        updates: u64,
    ) {
        let mut decay = self.weight_decay;
        if let OptimizerRule::Adam { decoupled: true, .. } = self.rule {
            AdamW::new(rate, decay.into()).decay(values);
            decay = 0.0;
        }
        l2::scale_and_decay(gradient, values, scale, decay);
        let order = StepOrder::DivideProduct;
        match (&self.rule, &mut moments[..]) {
            (OptimizerRule::Sgd { .. }, []) => Sgd::new(rate).update(values, gradient),
            (OptimizerRule::Sgd { momentum, nesterov }, [velocities]) => {
                let rule = Momentum { nesterov: *nesterov, ..Momentum::new(rate, f64::from(*momentum)) };
                rule.update(values, gradient, velocities);
            }
            (OptimizerRule::AdaGrad { epsilon }, [sums]) => {
                let rule = AdaGrad { epsilon: f64::from(*epsilon), initial_sum: 0.0, order, ..AdaGrad::new(rate) };
                rule.update(values, gradient, sums);
            }
            (OptimizerRule::RmsProp { decay, epsilon }, [squares]) => {
                let epsilon = f64::from(*epsilon);
                let rule = RmsProp { epsilon, order, ..RmsProp::new(rate, f64::from(*decay)) };
                rule.update(values, gradient, squares);
            }
            (OptimizerRule::Adam { betas, epsilon, .. }, [first, second]) => {
                let [beta1, beta2] = betas.map(f64::from);
                let rule = Adam {
                    epsilon: f64::from(*epsilon),
                    square_order: SquareOrder::WeightFirst,
                    form: AdamForm::Folded,
                    ..Adam::new(rate).betas(beta1, beta2)
                };
                rule.update(values, gradient, (first, second), rule.bias_correction(updates + 1));
            }
            _ => unreachable!("`moments` gives the number of moment vectors of each rule"),
        }
    }

    /// Returns the state of a Burn optimizer by name.
    pub(crate) fn save_burn_state(&self, state: &OptimizerState) -> Result<Vec<NamedArray>, String> {
        match &self.rule {
            OptimizerRule::Burn(rule) => rule.save(&state.burn),
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) fn load_burn_state(&self, saved: Vec<NamedArray>, state: &mut OptimizerState) -> Result<(), String> {
        match &self.rule {
            OptimizerRule::Burn(rule) => rule.load(saved, &mut state.burn),
            _ if saved.is_empty() => Ok(()),
            _ => Err("it was saved with a Burn optimizer; use that optimizer".to_owned()),
        }
    }
}

impl<O: burn::optim::Optimizer> From<O> for Optimizer {
    /// Wraps a Burn optimizer with a learning rate of 0.001; [`Optimizer::with_learning_rate`] sets
    /// another.
    fn from(rule: O) -> Self {
        Self::with(OptimizerRule::Burn(BurnOptimizer::new(rule)), 1e-3)
    }
}

impl fmt::Debug for Optimizer {
    /// Formats all settings; peers compare this text.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, weight_decay, .. } = self;
        match &self.rule {
            OptimizerRule::Sgd { momentum, nesterov } => {
                write!(formatter, "sgd(momentum {momentum}, nesterov {nesterov}")?;
            }
            OptimizerRule::AdaGrad { epsilon } => write!(formatter, "adagrad(epsilon {epsilon}")?,
            OptimizerRule::RmsProp { decay: keep, epsilon } => {
                write!(formatter, "rmsprop(keep {keep}, epsilon {epsilon}")?;
            }
            OptimizerRule::Adam { betas, epsilon, decoupled } => {
                let name = if *decoupled { "adamw" } else { "adam" };
                write!(formatter, "{name}(betas {betas:?}, epsilon {epsilon}")?;
            }
            OptimizerRule::Burn(rule) => write!(formatter, "{}(", rule.name())?,
        }
        write!(formatter, ", rate {rate}, weight decay {weight_decay})")
    }
}

#[cfg(test)]
mod tests;
