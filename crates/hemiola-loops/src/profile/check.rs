//! Validation of profiles that were read from a file.

use super::{LoopProfile, PROFILE_FORMAT};
use hemiola_analysis::analyze;
use std::fmt;

/// Error of a profile that cannot be used for planning and prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid profile: {problem}; write one with `--profile FILE` of `hemiola train`, or `LoopProfile::to_json`")]
pub struct InvalidProfile {
    problem: String,
}

impl InvalidProfile {
    pub(super) fn unreadable(error: &serde_json::Error) -> Self {
        Self { problem: error.to_string() }
    }
}

fn require(holds: bool, problem: impl fmt::Display) -> Result<(), InvalidProfile> {
    if holds { Ok(()) } else { Err(InvalidProfile { problem: problem.to_string() }) }
}

impl LoopProfile {
    /// Validates the profile: counts add up, shapes fit the loop, times are positive.
    pub fn check(&self) -> Result<(), InvalidProfile> {
        require(
            self.format == PROFILE_FORMAT,
            format_args!("its format is `{}`, but this version reads `{PROFILE_FORMAT}`", self.format),
        )?;
        let (description, spec) = (&self.description, &self.description.spec);
        let dimensions = spec.dimensions;
        require(dimensions > 0, "its loop has no indices")?;
        for (what, found) in [
            ("extents", description.extents.len()),
            ("index names", description.indices.len()),
            ("histograms", self.histograms.len()),
        ] {
            require(found == dimensions, format_args!("a loop over {dimensions} dimensions has {found} {what}"))?;
        }
        require(description.entries > 0, "its loop has no entries")?;
        require(description.extents.iter().all(|extent| extent.start < extent.end), "an extent is empty")?;
        let (arrays, used) = (description.arrays.len(), spec.arrays.len());
        require(arrays == used, format_args!("its loop uses {used} arrays, but {arrays} shapes are given"))?;
        for (array, used) in description.arrays.iter().zip(&spec.arrays) {
            let (name, found) = (&used.name, array.shape.len());
            require(
                found == used.dimensions,
                format_args!("the array `{name}` has {} dimensions, but {found} extents", used.dimensions),
            )?;
            let bytes = array.shape.iter().try_fold(array.cell_bytes, |bytes, extent| bytes.checked_mul(*extent));
            require(bytes.is_some(), format_args!("the size of the array `{name}` overflows"))?;
        }
        // The analysis takes time for each dimension, so their numbers were compared with the lists of
        // the file before.
        analyze(spec).map_err(|error| InvalidProfile { problem: error.to_string() })?;
        require(
            description.buffer_groups.iter().flatten().all(|array| *array < arrays),
            "a buffer updates an unknown array",
        )?;
        require(description.buffer_groups.iter().all(|group| !group.is_empty()), "a buffer updates no array")?;
        self.check_counts()?;
        self.check_passes()
    }

    fn check_counts(&self) -> Result<(), InvalidProfile> {
        let entries = self.description.entries;
        for (dimension, histogram) in self.histograms.iter().enumerate() {
            let Some(histogram) = histogram else { continue };
            let extent = &self.description.extents[dimension];
            require(
                histogram.is_valid() && extent.start == 0 && histogram.extent() == extent.end,
                format_args!("the histogram of dimension {dimension} does not cover {} indices", extent.end),
            )?;
            let total = histogram.total();
            require(
                total == entries,
                format_args!("the histogram of dimension {dimension} has {total} of {entries} entries"),
            )?;
        }
        for joint in &self.joints {
            let [first, second] = joint.dimensions();
            let known = first < second && second < self.histograms.len();
            let extents = || [first, second].map(|dimension| self.description.extents[dimension].end);
            require(
                known && joint.is_valid() && joint.extents() == extents(),
                format_args!("the joint histogram of dimensions {first} and {second} does not fit the loop"),
            )?;
            let total = joint.total();
            require(
                total == entries,
                format_args!("the joint histogram of dimensions {first} and {second} has {total} of {entries} entries"),
            )?;
        }
        Ok(())
    }

    fn check_passes(&self) -> Result<(), InvalidProfile> {
        require(!self.passes.is_empty(), "it has no passes")?;
        for (number, pass) in self.passes.iter().enumerate() {
            require(pass.workers > 0, format_args!("pass {number} has no workers"))?;
            let times = pass.blocks.iter().map(|block| block.compute_seconds).chain([pass.seconds]);
            require(
                times.clone().all(|seconds| seconds.is_finite() && seconds >= 0.0),
                format_args!("a time of pass {number} is negative or not a number"),
            )?;
            require(
                pass.blocks.iter().any(|block| block.entries > 0 && block.compute_seconds > 0.0),
                format_args!("pass {number} has no compute time"),
            )?;
        }
        Ok(())
    }
}
