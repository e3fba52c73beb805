//! What a gradient does to values.
//!
//! Values are updated piece by piece, each piece by whoever keeps it: every peer its copy, or one peer for all. So rules work on slices of numbers with a state beside them, and **invariant:** what becomes of a number
//! depends on that number, its gradients and the step alone, so that strategies which cut and place a model in other ways train the same model. (Rules of Burn that look at a whole tensor get the
//! whole piece; [`Optimizer::is_by_number`] says which those are.)

mod foreign;
mod rules;
mod schedule;

pub use schedule::Schedule;

use foreign::Foreign;
use std::fmt;

/// A rule of updates and its settings.
///
/// ```
/// use hemiola_nn::Optimizer;
///
/// let own = Optimizer::sgd(0.1).momentum(0.9).weight_decay(1e-4);
/// let of_burn = Optimizer::from(burn::optim::AdamConfig::new().build()).rate(0.001);
/// assert_eq!((own.learning_rate(), of_burn.learning_rate()), (0.1, 0.001));
/// ```
#[derive(Clone)]
pub struct Optimizer {
    rule: Rule,
    rate: f64,
    weight_decay: f32,
}

#[derive(Clone)]
enum Rule {
    Sgd { momentum: f32, nesterov: bool },
    AdaGrad { epsilon: f32 },
    RmsProp { keep: f32, epsilon: f32 },
    Adam { betas: [f32; 2], epsilon: f32, decoupled: bool },
    Foreign(Foreign),
}

/// Something a rule of Burn remembers: its name, its shape (none for a count), its numbers.
pub(crate) type Saved = (String, Vec<usize>, Vec<f32>);

/// What a rule remembers of a piece.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// As many vectors as the rule needs, each as long as the piece; none before the first update.
    pub(crate) moments: Vec<Vec<f32>>,
    /// How often the piece was updated.
    pub(crate) updates: u64,
    foreign: foreign::Memory,
}

impl Optimizer {
    const fn with(rule: Rule, rate: f64) -> Self {
        Self { rule, rate, weight_decay: 0.0 }
    }

    /// Steps against the gradient.
    #[must_use]
    pub const fn sgd(rate: f64) -> Self {
        Self::with(Rule::Sgd { momentum: 0.0, nesterov: false }, rate)
    }

    /// Steps that shrink with the sum of squared gradients (Duchi et al. 2011).
    #[must_use]
    pub const fn adagrad(rate: f64) -> Self {
        Self::with(Rule::AdaGrad { epsilon: 1e-10 }, rate)
    }

    /// Steps that shrink with the average of squared gradients (Tieleman and Hinton 2012).
    #[must_use]
    pub const fn rmsprop(rate: f64) -> Self {
        Self::with(Rule::RmsProp { keep: 0.99, epsilon: 1e-8 }, rate)
    }

    /// Steps from averages of gradients and their squares (Kingma and Ba 2015).
    #[must_use]
    pub const fn adam(rate: f64) -> Self {
        Self::with(Rule::Adam { betas: [0.9, 0.999], epsilon: 1e-8, decoupled: false }, rate)
    }

    /// [`adam`](Self::adam) with weights that decay by themselves (Loshchilov and Hutter 2019), by 0.01 unless told otherwise.
    #[must_use]
    pub const fn adamw(rate: f64) -> Self {
        let rule = Rule::Adam { betas: [0.9, 0.999], epsilon: 1e-8, decoupled: true };
        Self { rule, rate, weight_decay: 0.01 }
    }

    /// The size of steps, before any [`Schedule`].
    #[must_use]
    pub const fn rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// How much of the last step [`sgd`](Self::sgd) makes again. Means nothing for other rules.
    #[must_use]
    pub fn momentum(mut self, keep: f32) -> Self {
        if let Rule::Sgd { momentum, .. } = &mut self.rule {
            *momentum = keep;
        }
        self
    }

    /// [`momentum`](Self::momentum) that looks ahead.
    #[must_use]
    pub fn nesterov(mut self) -> Self {
        if let Rule::Sgd { nesterov, .. } = &mut self.rule {
            *nesterov = true;
        }
        self
    }

    /// How much of the averages [`adam`](Self::adam) and [`adamw`](Self::adamw) keep at each step.
    #[must_use]
    pub fn betas(mut self, first: f32, second: f32) -> Self {
        if let Rule::Adam { betas, .. } = &mut self.rule {
            *betas = [first, second];
        }
        self
    }

    /// Pulls values towards zero. Rules of Burn have a setting of their own.
    #[must_use]
    pub const fn weight_decay(mut self, decay: f32) -> Self {
        self.weight_decay = decay;
        self
    }

    /// The size of steps, before any [`Schedule`].
    #[must_use]
    pub const fn learning_rate(&self) -> f64 {
        self.rate
    }

    /// Whether what becomes of a number depends on nothing but its own gradients. Rules of Burn that average over a tensor (LAMB, Adafactor, Muon) do not; a strategy that cuts a variable gives them a part only.
    #[must_use]
    pub fn is_by_number(&self) -> bool {
        match &self.rule {
            Rule::Foreign(rule) => rule.is_by_number(),
            _ => true,
        }
    }

    /// How many numbers the rule remembers for each of a piece; nothing if only the rule knows.
    pub(crate) fn moments(&self) -> Option<usize> {
        match &self.rule {
            Rule::Sgd { momentum, .. } => Some(usize::from(*momentum != 0.0)),
            Rule::AdaGrad { .. } | Rule::RmsProp { .. } => Some(1),
            Rule::Adam { .. } => Some(2),
            Rule::Foreign(_) => None,
        }
    }

    /// Updates a piece with a gradient that is to be multiplied by `scale` first.
    pub(crate) fn update(&self, rate: f64, values: &mut [f32], gradient: &mut [f32], scale: f32, state: &mut State) {
        if let Rule::Foreign(rule) = &self.rule {
            for number in &mut *gradient {
                *number *= scale;
            }
            state.updates += 1;
            rule.update(rate, values, gradient, &mut state.foreign);
            return;
        }
        let needed = self.moments().unwrap_or(0);
        state.moments.resize_with(needed, || vec![0.0; values.len()]);
        let moments: Vec<&mut [f32]> = state.moments.iter_mut().map(|moment| &mut moment[..]).collect();
        self.apply(rate, values, gradient, scale, moments, state.updates);
        state.updates += 1;
    }

    /// Updates some rows of a piece, each of `width` numbers; the others stay as they are, and what is remembered of them too. `gradients` are those of the rows, one after the other.
    pub(crate) fn update_rows(
        &self,
        rate: f64,
        values: &mut [f32],
        (rows, gradients, width): (&[usize], &mut [f32], usize),
        scale: f32,
        state: &mut State,
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

    /// Whether it can update some rows and leave the others.
    pub(crate) fn takes_rows(&self) -> bool {
        !matches!(self.rule, Rule::Foreign(_))
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
        let (rate, mut decay) = (rate as f32, self.weight_decay);
        if let Rule::Adam { decoupled: true, .. } = self.rule {
            for value in &mut *values {
                *value -= rate * decay * *value;
            }
            decay = 0.0;
        }
        rules::scale(gradient, values, scale, decay);
        match (&self.rule, &mut moments[..]) {
            (Rule::Sgd { .. }, []) => rules::plain(values, gradient, rate),
            (Rule::Sgd { momentum, nesterov }, [velocity]) => {
                rules::momentum(values, gradient, velocity, (*momentum, *nesterov, rate));
            }
            (Rule::AdaGrad { epsilon }, [squares]) => rules::adagrad(values, gradient, squares, (*epsilon, rate)),
            (Rule::RmsProp { keep, epsilon }, [squares]) => {
                rules::rmsprop(values, gradient, squares, (*keep, *epsilon, rate));
            }
            (Rule::Adam { betas, epsilon, .. }, [first, second]) => {
                let power = i32::try_from(updates + 1).unwrap_or(i32::MAX);
                let corrections = betas.map(|beta| 1.0 - f64::from(beta).powi(power));
                rules::adam(values, gradient, (first, second), (*betas, *epsilon, rate, corrections));
            }
            _ => unreachable!("each rule has as many moments as `moments` says"),
        }
    }

    /// What a rule of Burn remembers, by name.
    pub(crate) fn save_foreign(&self, state: &State) -> Result<Vec<Saved>, String> {
        match &self.rule {
            Rule::Foreign(rule) => rule.save(&state.foreign),
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) fn load_foreign(&self, saved: Vec<Saved>, state: &mut State) -> Result<(), String> {
        match &self.rule {
            Rule::Foreign(rule) => rule.load(saved, &mut state.foreign),
            _ if saved.is_empty() => Ok(()),
            _ => Err("it was saved with an optimizer of Burn".to_owned()),
        }
    }
}

impl<O: burn::optim::Optimizer> From<O> for Optimizer {
    /// A rule of Burn, with a rate of 0.001; set another with [`Optimizer::rate`].
    fn from(rule: O) -> Self {
        Self::with(Rule::Foreign(Foreign::new(rule)), 1e-3)
    }
}

impl fmt::Debug for Optimizer {
    /// All of its settings: peers compare theirs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, weight_decay, .. } = self;
        match &self.rule {
            Rule::Sgd { momentum, nesterov } => {
                write!(formatter, "sgd(momentum {momentum}, nesterov {nesterov}")?;
            }
            Rule::AdaGrad { epsilon } => write!(formatter, "adagrad(epsilon {epsilon}")?,
            Rule::RmsProp { keep, epsilon } => write!(formatter, "rmsprop(keep {keep}, epsilon {epsilon}")?,
            Rule::Adam { betas, epsilon, decoupled } => {
                let name = if *decoupled { "adamw" } else { "adam" };
                write!(formatter, "{name}(betas {betas:?}, epsilon {epsilon}")?;
            }
            Rule::Foreign(rule) => write!(formatter, "{}(", rule.name())?,
        }
        write!(formatter, ", rate {rate}, weight decay {weight_decay})")
    }
}

#[cfg(test)]
mod tests;
