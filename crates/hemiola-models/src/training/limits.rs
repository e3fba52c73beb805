//! When training stops.

use super::{Figure, Progress};
use serde::{Deserialize, Serialize};

/// When to stop. Whatever comes first counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// After so many epochs.
    pub epochs: u32,
    /// After so many seconds of training.
    pub seconds: Option<f64>,
    /// When the figure that counts is as good as this.
    pub target: Option<f64>,
    /// When the held-out figure has not become better for so many epochs.
    pub patience: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { epochs: 40, seconds: None, target: None, patience: Some(3) }
    }
}

/// Whether an epoch was the last, and whether it was the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// No figure was better before.
    pub best: bool,
    /// Why training ends, if it does.
    pub end: Option<&'static str>,
}

impl Limits {
    /// Judges an epoch. `history` holds it and all before it; `figure` is what counts: of held-out entries where there are some.
    #[must_use]
    pub fn judge(&self, history: &[Progress], figure: Figure) -> Verdict {
        let Some((now, before)) = history.split_last() else { return Verdict { best: true, end: None } };
        let best = before.iter().all(|before| figure.compare(now, before).is_lt());
        let since_best = history.len()
            - 1
            - (0..history.len()).min_by(|a, b| figure.compare(&history[*a], &history[*b])).unwrap_or(0);
        let end = if self.target.is_some_and(|target| figure.reaches(now, target)) {
            Some("the target is reached")
        } else if now.epoch >= self.epochs {
            Some("all epochs are done")
        } else if self.seconds.is_some_and(|seconds| now.seconds >= seconds) {
            Some("the time is up")
        } else if now.valid.is_some() && self.patience.is_some_and(|patience| since_best >= patience as usize) {
            Some("the held-out figure does not become better")
        } else {
            None
        };
        Verdict { best, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(figures: &[f64]) -> Vec<Progress> {
        let progress = |(at, figure): (usize, &f64)| Progress {
            epoch: at as u32 + 1,
            seconds: at as f64,
            objective: 1.0,
            train: [("rmse".to_owned(), 0.5)].into(),
            valid: Some([("rmse".to_owned(), *figure)].into()),
            updates: 0,
            bytes_sent: 0,
            note: None,
        };
        figures.iter().enumerate().map(progress).collect()
    }

    #[test]
    fn it_ends_when_nothing_becomes_better_for_a_while() {
        let limits = Limits { patience: Some(2), ..Limits::default() };
        let judge = |figures: &[f64]| limits.judge(&history(figures), Figure::low("rmse"));
        assert_eq!(judge(&[0.9]), Verdict { best: true, end: None });
        assert_eq!(judge(&[0.9, 0.8]), Verdict { best: true, end: None });
        assert_eq!(judge(&[0.9, 0.8, 0.85]), Verdict { best: false, end: None });
        assert_eq!(judge(&[0.9, 0.8, 0.85, 0.81]).end, Some("the held-out figure does not become better"));
    }

    #[test]
    fn targets_epochs_and_seconds_end_it_too() {
        let base = Limits { epochs: 10, seconds: None, target: None, patience: None };
        let end = |limits: Limits, count: usize| limits.judge(&history(&vec![0.9; count]), Figure::low("rmse")).end;
        assert_eq!(end(Limits { target: Some(0.9), ..base.clone() }, 1), Some("the target is reached"));
        assert_eq!(end(base.clone(), 9), None);
        assert_eq!(end(base.clone(), 10), Some("all epochs are done"));
        assert_eq!(end(Limits { seconds: Some(2.0), ..base }, 3), Some("the time is up"));
    }

    #[test]
    fn what_is_to_grow_is_judged_the_other_way_round() {
        let limits = Limits { patience: Some(2), target: Some(0.95), ..Limits::default() };
        let judge = |figures: &[f64]| limits.judge(&history(figures), Figure::high("rmse"));
        assert_eq!(judge(&[0.8, 0.9]), Verdict { best: true, end: None });
        assert_eq!(judge(&[0.9, 0.8]), Verdict { best: false, end: None });
        assert_eq!(judge(&[0.9, 0.8, 0.85]).end, Some("the held-out figure does not become better"));
        assert_eq!(judge(&[0.9, 0.96]).end, Some("the target is reached"));
    }

    #[test]
    fn where_the_figure_is_not_known_the_objective_decides() {
        let mut epochs = history(&[0.9, 0.8]);
        epochs[1].objective = 0.5;
        assert!(Limits::default().judge(&epochs, Figure::high("recall@10")).best);
        epochs[1].objective = 1.5;
        assert!(!Limits::default().judge(&epochs, Figure::high("recall@10")).best);
    }
}
