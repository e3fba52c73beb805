//! Learning-rate schedules with warm-up and decay.

/// Factor of the learning rate as a function of the step.
///
/// ```
/// use hemiola_nn::LrSchedule;
///
/// let schedule = LrSchedule::cosine(100).warm_up(10);
/// assert_eq!([0, 5, 10].map(|step| schedule.factor(step)), [0.1, 0.6, 1.0]);
/// assert!(schedule.factor(99) < 0.001);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LrSchedule {
    shape: LrCurve,
    warm_up: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum LrCurve {
    #[default]
    Constant,
    Cosine {
        steps: u64,
        least: f64,
    },
    Linear {
        steps: u64,
        least: f64,
    },
    StepDecay {
        every: u64,
        factor: f64,
    },
    InverseSqrt,
}

impl LrSchedule {
    /// The factor is always 1.
    #[must_use]
    pub fn constant() -> Self {
        Self::default()
    }

    const fn of(shape: LrCurve) -> Self {
        Self { shape, warm_up: 0 }
    }

    /// Cosine decay to zero after `steps` steps, including the warm-up.
    #[must_use]
    pub const fn cosine(steps: u64) -> Self {
        Self::of(LrCurve::Cosine { steps, least: 0.0 })
    }

    /// Linear decay to zero after `steps` steps, including the warm-up.
    #[must_use]
    pub const fn linear(steps: u64) -> Self {
        Self::of(LrCurve::Linear { steps, least: 0.0 })
    }

    /// Step decay: multiplies the rate by `factor` every `every` steps.
    #[must_use]
    pub const fn step_decay(every: u64, factor: f64) -> Self {
        Self::of(LrCurve::StepDecay { every, factor })
    }

    /// Inverse square-root decay after a warm-up (Vaswani et al. 2017).
    #[must_use]
    pub const fn inverse_sqrt(warm_up: u64) -> Self {
        Self { shape: LrCurve::InverseSqrt, warm_up }
    }

    /// Sets the factor at the end of a [`cosine`](Self::cosine) or [`linear`](Self::linear) decay.
    /// Default: 0.
    #[must_use]
    pub fn final_factor(mut self, share: f64) -> Self {
        if let LrCurve::Cosine { least, .. } | LrCurve::Linear { least, .. } = &mut self.shape {
            *least = share;
        }
        self
    }

    /// Linear warm-up over the first `steps` steps.
    #[must_use]
    pub const fn warm_up(mut self, steps: u64) -> Self {
        self.warm_up = steps;
        self
    }

    /// Returns the factor at a step, counted from 0.
    #[must_use]
    pub fn factor(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return (step + 1) as f64 / self.warm_up as f64;
        }
        let since = step - self.warm_up;
        let way = |steps: u64| (since as f64 / steps.saturating_sub(self.warm_up).max(1) as f64).min(1.0);
        match self.shape {
            LrCurve::Constant => 1.0,
            LrCurve::Cosine { steps, least } => {
                least + (1.0 - least) * 0.5 * (1.0 + (std::f64::consts::PI * way(steps)).cos())
            }
            LrCurve::Linear { steps, least } => least + (1.0 - least) * (1.0 - way(steps)),
            LrCurve::StepDecay { every, factor } => factor.powf((since / every.max(1)) as f64),
            LrCurve::InverseSqrt => (self.warm_up.max(1) as f64 / (step + 1) as f64).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_the_documented_factors() {
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found} is not {wanted}");
        near(LrSchedule::constant().factor(1_000_000), 1.0);
        near(LrSchedule::linear(10).factor(5), 0.5);
        near(LrSchedule::linear(10).final_factor(0.2).factor(50), 0.2);
        near(LrSchedule::step_decay(3, 0.1).factor(2), 1.0);
        near(LrSchedule::step_decay(3, 0.1).factor(7), 0.01);
        let root = LrSchedule::inverse_sqrt(4);
        near(root.factor(3), 1.0);
        near(root.factor(15), 0.5);
        assert!(root.factor(0) < root.factor(1));
        let cosine = LrSchedule::cosine(100);
        assert!((0..120).all(|step| cosine.factor(step) >= cosine.factor(step + 1)));
        near(cosine.factor(50), 0.5);
    }
}
