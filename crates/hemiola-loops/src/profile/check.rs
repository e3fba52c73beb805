//! Whether a profile that was read can be one.

use super::{FORMAT, Profile};
use hemiola_analysis::analyze;
use std::fmt;

/// Why something is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no profile: {problem}; write one with `--profile FILE` of `hemiola train`, or `Profile::to_json`")]
pub struct Unsound {
    problem: String,
}

impl Unsound {
    pub(super) fn unreadable(error: &serde_json::Error) -> Self {
        Self { problem: error.to_string() }
    }
}

fn must(holds: bool, problem: impl fmt::Display) -> Result<(), Unsound> {
    if holds { Ok(()) } else { Err(Unsound { problem: problem.to_string() }) }
}

impl Profile {
    /// Refuses what cannot be planned or predicted from.
    pub fn check(&self) -> Result<(), Unsound> {
        must(
            self.format == FORMAT,
            format_args!("its format is `{}`, and this version reads `{FORMAT}`", self.format),
        )?;
        let (subject, spec) = (&self.subject, &self.subject.spec);
        let dimensions = spec.dimensions;
        must(dimensions > 0, "its loop has no index")?;
        analyze(spec).map_err(|error| Unsound { problem: error.to_string() })?;
        for (what, found) in [
            ("extents", subject.extents.len()),
            ("index names", subject.indices.len()),
            ("histograms", self.histograms.len()),
        ] {
            must(found == dimensions, format_args!("a loop over {dimensions} dimensions has {found} {what}"))?;
        }
        must(subject.entries > 0, "its loop has no entries")?;
        must(subject.extents.iter().all(|extent| extent.start < extent.end), "an extent is empty")?;
        let (arrays, used) = (subject.arrays.len(), spec.arrays.len());
        must(arrays == used, format_args!("its loop uses {used} arrays, and shapes of {arrays} are given"))?;
        for (array, used) in subject.arrays.iter().zip(&spec.arrays) {
            let (name, found) = (&used.name, array.shape.len());
            must(
                found == used.dimensions,
                format_args!("the array `{name}` has {} dimensions, and {found} extents", used.dimensions),
            )?;
            let bytes =
                array.shape.iter().try_fold(array.cell_bytes as u64, |bytes, extent| bytes.checked_mul(*extent));
            must(bytes.is_some(), format_args!("the array `{name}` has more bytes than can be counted"))?;
        }
        must(
            subject.together.iter().flatten().all(|array| *array < arrays),
            "a buffer updates an array that is not there",
        )?;
        must(subject.together.iter().all(|together| !together.is_empty()), "a buffer updates nothing")?;
        self.check_counts()?;
        self.check_passes()
    }

    fn check_counts(&self) -> Result<(), Unsound> {
        let entries = self.subject.entries;
        for (dimension, histogram) in self.histograms.iter().enumerate() {
            let Some(histogram) = histogram else { continue };
            let extent = &self.subject.extents[dimension];
            must(
                histogram.is_sound() && extent.start == 0 && histogram.extent() == extent.end,
                format_args!("the histogram of dimension {dimension} is not one of {} indices", extent.end),
            )?;
            let total = histogram.total();
            must(
                total == entries,
                format_args!("the histogram of dimension {dimension} has {total} of {entries} entries"),
            )?;
        }
        for joint in &self.joints {
            let [first, second] = joint.dimensions();
            let known = first < second && second < self.histograms.len();
            let extents = || [first, second].map(|dimension| self.subject.extents[dimension].end);
            must(
                known && joint.is_sound() && joint.extents() == extents(),
                format_args!(
                    "entries are counted by ranges of dimensions {first} and {second} that are not those of its loop"
                ),
            )?;
            let total = joint.total();
            must(
                total == entries,
                format_args!("{total} of {entries} entries are counted by dimensions {first} and {second}"),
            )?;
        }
        Ok(())
    }

    fn check_passes(&self) -> Result<(), Unsound> {
        must(!self.passes.is_empty(), "no pass was measured")?;
        for (number, pass) in self.passes.iter().enumerate() {
            must(pass.workers > 0, format_args!("pass {number} was run by no worker"))?;
            let times = pass.blocks.iter().map(|block| block.computing).chain([pass.seconds]);
            must(
                times.clone().all(|seconds| seconds.is_finite() && seconds >= 0.0),
                format_args!("a time of pass {number} is negative, or no number"),
            )?;
            must(
                pass.blocks.iter().any(|block| block.entries > 0 && block.computing > 0.0),
                format_args!("no time of computing was measured in pass {number}"),
            )?;
        }
        Ok(())
    }
}
