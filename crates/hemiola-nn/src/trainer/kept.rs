//! Gradients of passes that wait for their step.

use crate::exchange::Taken;

/// What was kept, by variable.
#[derive(Default)]
pub(crate) struct Kept {
    gradients: Vec<Option<Taken>>,
    in_parts: Vec<bool>,
    /// Variables whose gradient has gone to the thread in this step.
    gone: Vec<bool>,
    /// In which order gradients came in the first step.
    pub(crate) order: Vec<usize>,
    examples: u64,
    /// The sum of their losses.
    loss: f64,
}

impl Kept {
    pub(crate) fn new(in_parts: Vec<bool>) -> Self {
        let variables = in_parts.len();
        let gradients = (0..variables).map(|_| None).collect();
        Self { gradients, in_parts, gone: vec![false; variables], ..Self::default() }
    }

    /// A pass was over so many examples with this mean loss.
    pub(crate) fn count(&mut self, examples: u64, loss: f64) {
        self.examples += examples;
        if examples > 0 {
            self.loss += loss * examples as f64;
        }
    }

    /// The last pass of a step: examples and mean loss of all its passes.
    pub(crate) fn begin(&mut self, examples: u64, loss: f64) -> (u64, f64) {
        self.count(examples, loss);
        let (examples, loss) = (std::mem::take(&mut self.examples), std::mem::take(&mut self.loss));
        (examples, loss / examples.max(1) as f64)
    }

    /// Adds a gradient to what is kept.
    pub(crate) fn add(&mut self, place: usize, numbers: Vec<f32>) {
        let sum = self.joined(place, numbers);
        self.gradients[place] = Some(sum);
    }

    /// A gradient of the last pass, with what was kept for it.
    pub(crate) fn deliver(&mut self, place: usize, numbers: Vec<f32>) -> Taken {
        if self.order.len() < self.gone.len() && !self.order.contains(&place) {
            self.order.push(place);
        }
        self.gone[place] = true;
        self.joined(place, numbers)
    }

    fn joined(&mut self, place: usize, numbers: Vec<f32>) -> Taken {
        match self.gradients[place].take() {
            Some(Taken::Whole(mut sum)) => {
                sum.iter_mut().zip(&numbers).for_each(|(sum, number)| *sum += number);
                Taken::Whole(sum)
            }
            Some(Taken::Parts(mut parts)) => {
                parts.extend(numbers);
                Taken::Parts(parts)
            }
            _ if self.in_parts[place] => Taken::Parts(numbers),
            _ => Taken::Whole(numbers),
        }
    }

    /// What has not gone yet: gradients that were kept and that the last pass added nothing to, and variables without any.
    pub(crate) fn take_rest(&mut self) -> Vec<(usize, Taken)> {
        let gone = std::mem::replace(&mut self.gone, vec![false; self.in_parts.len()]);
        let rest = gone.iter().enumerate().filter(|(_, gone)| !**gone);
        rest.map(|(place, _)| (place, self.gradients[place].take().unwrap_or(Taken::Nothing))).collect()
    }
}
