//! Gradients of accumulated passes, until the step that sends them.
//!
//! **Invariant:** dense gradients are added, structured ones are concatenated, so accumulated
//! passes are equal to one pass with all their examples.

use crate::gradient::GradientPayload;
use crate::ids::VariableId;

/// Accumulated gradients, by variable.
#[derive(Debug, Default)]
pub struct AccumulatedGradients {
    gradients: Vec<Option<GradientPayload>>,
    structured: Vec<bool>,
    /// Variables whose gradient was sent in this step.
    sent: Vec<bool>,
    examples: u64,
    /// Sum of the losses of all examples.
    loss: f64,
}

impl AccumulatedGradients {
    /// Creates the gradients of a model. `structured` tells by variable which of them are parts
    /// that are concatenated, not added.
    #[must_use]
    pub fn new(structured: Vec<bool>) -> Self {
        let variables = structured.len();
        let gradients = (0..variables).map(|_| None).collect();
        Self { gradients, structured, sent: vec![false; variables], ..Self::default() }
    }

    /// Adds the examples of a pass with this mean loss.
    pub fn add_examples(&mut self, examples: u64, loss: f64) {
        self.examples += examples;
        if examples > 0 {
            self.loss += loss * examples as f64;
        }
    }

    /// Adds the last pass of a step, and takes the examples and the mean loss of all its passes.
    pub fn take_totals(&mut self, examples: u64, loss: f64) -> (u64, f64) {
        self.add_examples(examples, loss);
        let (examples, loss) = (std::mem::take(&mut self.examples), std::mem::take(&mut self.loss));
        (examples, loss / examples.max(1) as f64)
    }

    /// Adds a gradient to the accumulated one.
    pub fn add(&mut self, variable: VariableId, numbers: Vec<f32>) {
        let sum = self.merge(variable, numbers);
        self.gradients[variable] = Some(sum);
    }

    /// Takes the accumulated gradient plus that of the last pass.
    pub fn take_with(&mut self, variable: VariableId, numbers: Vec<f32>) -> GradientPayload {
        self.sent[variable] = true;
        self.merge(variable, numbers)
    }

    fn merge(&mut self, variable: VariableId, numbers: Vec<f32>) -> GradientPayload {
        match self.gradients[variable].take() {
            Some(GradientPayload::Dense(mut sum)) => {
                sum.iter_mut().zip(&numbers).for_each(|(sum, number)| *sum += number);
                GradientPayload::Dense(sum)
            }
            Some(GradientPayload::Structured(mut parts)) => {
                parts.extend(numbers);
                GradientPayload::Structured(parts)
            }
            _ if self.structured[variable] => GradientPayload::Structured(numbers),
            _ => GradientPayload::Dense(numbers),
        }
    }

    /// Takes every gradient that was not sent in this step. [`Absent`](GradientPayload::Absent)
    /// stands for variables without one.
    pub fn take_unsent(&mut self) -> Vec<(VariableId, GradientPayload)> {
        let sent = std::mem::replace(&mut self.sent, vec![false; self.structured.len()]);
        let rest = sent.iter().enumerate().filter(|(_, sent)| !**sent);
        rest.map(|(index, _)| (VariableId::new(index), self.gradients[index].take().unwrap_or(GradientPayload::Absent)))
            .collect()
    }
}
