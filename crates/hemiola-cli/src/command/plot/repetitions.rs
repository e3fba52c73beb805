//! Repetitions of a run with other seeds, drawn as one line with a band.
//!
//! Runs are repetitions of each other if their reports have equal models, settings, numbers of
//! examples, clusters and strategies, and different seeds. Runs with the same `--label` are taken as
//! repetitions, too, whatever their reports say. Points are matched by epoch: on the other axes, a
//! point is at the mean of the runs' positions. **Invariant:** every point of a group is computed
//! from all of its runs. A line therefore ends with the shortest run, and has a gap where a value of
//! any run is missing.

use super::labels;
use super::metric::CurveMetric;
use super::report_file::{CurveData, EpochRecords, PlottedRun};
use hemiola_plot::ChartLine;

/// Band around the line of repeated runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SeedBand {
    /// Mean of the runs, with a band from the lowest to the highest.
    MinMax,
    /// Median of the runs, with a band from the first to the third quartile.
    Quartiles,
    /// A line for each run.
    None,
}

/// Runs that are drawn as one line.
#[derive(Debug)]
pub(super) struct RunGroup<'a> {
    /// Label of the line.
    pub(super) label: String,
    runs: Vec<&'a PlottedRun>,
    band: SeedBand,
}

impl<'a> RunGroup<'a> {
    /// Groups runs, in the order of their first ones. `labels` are those of the command line: none,
    /// or one per run or per group. Returns `None` if there are too few or too many.
    pub(super) fn of(runs: &'a [PlottedRun], band: SeedBand, labels: &[String]) -> Option<Vec<Self>> {
        let by_label = labels.len() == runs.len();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            let repeats = |member: &usize| match (&runs[*member].repetition, &run.repetition) {
                // Labels of reports decide alone.
                _ if by_label => labels[*member] == labels[number],
                (Some((known_seed, known)), Some((seed, same))) => known == same && known_seed != seed,
                _ => false,
            };
            let found = groups.iter().position(|group| group.iter().all(repeats));
            match found.filter(|_| band != SeedBand::None) {
                Some(group) => groups[group].push(number),
                None => groups.push(vec![number]),
            }
        }
        let given = labels.len();
        if given != 0 && !by_label && given != groups.len() {
            return None;
        }
        let names = groups.iter().enumerate().map(|(number, group)| match group.as_slice() {
            _ if given == groups.len() && !by_label => labels[number].clone(),
            members if by_label => labels[members[0]].clone(),
            [alone] => runs[*alone].label.clone(),
            members => labels::common(members.iter().map(|member| runs[*member].label.as_str()))
                .unwrap_or_else(|| runs[members[0]].model.clone()),
        });
        let names = labels::numbered(names.collect());
        let group = |(members, name): (Vec<usize>, String)| {
            let runs: Vec<&PlottedRun> = members.into_iter().map(|member| &runs[member]).collect();
            let of = if runs.iter().all(|run| run.repetition.is_some()) { "seeds" } else { "runs" };
            let name = if name.is_empty() { name } else { format!("{name}: ") };
            let label = match (runs.len(), band) {
                (1, _) | (_, SeedBand::None) => name.trim_end_matches(": ").to_owned(),
                (count, SeedBand::MinMax) => format!("{name}mean of {count} {of}, min to max"),
                (count, SeedBand::Quartiles) => format!("{name}median of {count} {of}, quartiles"),
            };
            Self { label, runs, band }
        };
        Some(groups.into_iter().zip(names).map(group).collect())
    }

    /// Returns true if all runs have a metric.
    pub(super) fn has(&self, metric: EpochRecords<'_>) -> bool {
        self.runs.iter().all(|run| run.has(metric))
    }

    /// Returns the line of a metric with its band; for a single run with a mark at the saved model.
    pub(super) fn line(&self, x: CurveData, metric: EpochRecords<'_>) -> ChartLine {
        if let [run] = self.runs.as_slice() {
            let line = ChartLine::new(&self.label, run.points(x, metric));
            // Without a validation set the last model is saved, which needs no mark.
            let saved = run.best_index().filter(|_| matches!(metric, EpochRecords::Validation(_)));
            return saved.into_iter().fold(line, ChartLine::mark);
        }
        let runs: Vec<Vec<[f64; 2]>> = self.runs.iter().map(|run| run.points(x, metric)).collect();
        let mut points = Vec::new();
        let mut band = Vec::new();
        for indices in self.common_epochs() {
            let at: Vec<[f64; 2]> = indices.iter().zip(&runs).map(|(index, points)| points[*index]).collect();
            let across = at.iter().map(|[x, _]| x).sum::<f64>() / at.len() as f64;
            let mut values: Vec<f64> = at.iter().map(|[_, y]| *y).collect();
            let [middle, low, high] =
                if values.iter().all(|value| value.is_finite()) { self.summary(&mut values) } else { [f64::NAN; 3] };
            points.push([across, middle]);
            band.push([low, high]);
        }
        ChartLine::new(&self.label, points).band(band)
    }

    /// Returns a note if the line ends before its longest run.
    pub(super) fn note(&self, metric: &CurveMetric) -> Option<String> {
        let (count, shared) = (self.runs.len(), self.common_epochs().len());
        let longest = self.runs.iter().map(|run| run.epoch_numbers().len()).max()?;
        (count > 1 && shared < longest).then(|| {
            let Self { label, .. } = self;
            format!("`{label}`: {} is drawn for the {shared} epochs that all {count} runs have", metric.name)
        })
    }

    /// Returns the index of each epoch that all runs have, in every run.
    fn common_epochs(&self) -> Vec<Vec<usize>> {
        let numbers: Vec<Vec<f64>> = self.runs.iter().map(|run| run.epoch_numbers()).collect();
        let index_in = |epoch: f64, of: &Vec<f64>| of.iter().position(|other| (other - epoch).abs() < 0.5);
        let first = numbers.first().into_iter().flatten();
        first.filter_map(|epoch| numbers.iter().map(|of| index_in(*epoch, of)).collect()).collect()
    }

    /// Returns the middle, the low and the high end of values.
    fn summary(&self, values: &mut [f64]) -> [f64; 3] {
        values.sort_by(f64::total_cmp);
        if self.band == SeedBand::Quartiles {
            return [0.5, 0.25, 0.75].map(|share| quantile(values, share));
        }
        [values.iter().sum::<f64>() / values.len() as f64, values[0], values[values.len() - 1]]
    }
}

/// Returns a quantile of ascending values, interpolated linearly as `numpy.quantile` does.
fn quantile(values: &[f64], share: f64) -> f64 {
    let at = share * (values.len() - 1) as f64;
    let (low, high) = (values[at.floor() as usize], values[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let values = [1.0, 2.0, 4.0, 8.0];
        let found = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&values, share));
        assert_eq!(found.map(f64::to_bits), [1.0, 1.75, 3.0, 5.0, 8.0].map(f64::to_bits));
        assert_eq!(quantile(&[7.0], 0.25).to_bits(), 7_f64.to_bits());
    }
}
