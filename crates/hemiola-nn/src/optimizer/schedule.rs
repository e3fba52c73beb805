//! How the size of steps changes while training goes on.

/// By what the learning rate is multiplied at a step.
///
/// ```
/// use hemiola_nn::Schedule;
///
/// let schedule = Schedule::cosine(100).warm_up(10);
/// assert_eq!([0, 5, 10].map(|step| schedule.factor(step)), [0.1, 0.6, 1.0]);
/// assert!(schedule.factor(99) < 0.001);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    shape: Shape,
    warm_up: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Shape {
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
    Drops {
        every: u64,
        factor: f64,
    },
    InverseRoot,
}

impl Schedule {
    /// Always the same.
    #[must_use]
    pub fn constant() -> Self {
        Self::default()
    }

    const fn of(shape: Shape) -> Self {
        Self { shape, warm_up: 0 }
    }

    /// Falls along half a cosine, to zero after `steps` (which include the warm-up).
    #[must_use]
    pub const fn cosine(steps: u64) -> Self {
        Self::of(Shape::Cosine { steps, least: 0.0 })
    }

    /// Falls along a line, to zero after `steps` (which include the warm-up).
    #[must_use]
    pub const fn linear(steps: u64) -> Self {
        Self::of(Shape::Linear { steps, least: 0.0 })
    }

    /// Is multiplied by `factor` every so many steps.
    #[must_use]
    pub const fn drops(every: u64, factor: f64) -> Self {
        Self::of(Shape::Drops { every, factor })
    }

    /// Falls with the square root of steps, once it is warm (Vaswani et al. 2017).
    #[must_use]
    pub const fn inverse_root(warm_up: u64) -> Self {
        Self { shape: Shape::InverseRoot, warm_up }
    }

    /// Falls to this share of the rate instead of zero. For [`cosine`](Self::cosine) and [`linear`](Self::linear).
    #[must_use]
    pub fn to(mut self, share: f64) -> Self {
        if let Shape::Cosine { least, .. } | Shape::Linear { least, .. } = &mut self.shape {
            *least = share;
        }
        self
    }

    /// Grows along a line in the first so many steps.
    #[must_use]
    pub const fn warm_up(mut self, steps: u64) -> Self {
        self.warm_up = steps;
        self
    }

    /// By what the rate is multiplied at a step, counted from 0.
    #[must_use]
    pub fn factor(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return (step + 1) as f64 / self.warm_up as f64;
        }
        let since = step - self.warm_up;
        let way = |steps: u64| (since as f64 / steps.saturating_sub(self.warm_up).max(1) as f64).min(1.0);
        match self.shape {
            Shape::Constant => 1.0,
            Shape::Cosine { steps, least } => {
                least + (1.0 - least) * 0.5 * (1.0 + (std::f64::consts::PI * way(steps)).cos())
            }
            Shape::Linear { steps, least } => least + (1.0 - least) * (1.0 - way(steps)),
            Shape::Drops { every, factor } => factor.powf((since / every.max(1)) as f64),
            Shape::InverseRoot => (self.warm_up.max(1) as f64 / (step + 1) as f64).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fall_as_they_should() {
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found} is not {wanted}");
        near(Schedule::constant().factor(1_000_000), 1.0);
        near(Schedule::linear(10).factor(5), 0.5);
        near(Schedule::linear(10).to(0.2).factor(50), 0.2);
        near(Schedule::drops(3, 0.1).factor(2), 1.0);
        near(Schedule::drops(3, 0.1).factor(7), 0.01);
        let root = Schedule::inverse_root(4);
        near(root.factor(3), 1.0);
        near(root.factor(15), 0.5);
        assert!(root.factor(0) < root.factor(1));
        let cosine = Schedule::cosine(100);
        assert!((0..120).all(|step| cosine.factor(step) >= cosine.factor(step + 1)));
        near(cosine.factor(50), 0.5);
    }
}
