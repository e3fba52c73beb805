//! The proof object: dependences of a loop and the verdict on each parallelization.
//!
//! An [`Analysis`] is plain data. It can be printed for a user who asks why a loop does not run in
//! parallel, stored beside a plan, and compared in tests. **Invariant:** it is a function of the
//! [`LoopSpec`]. One loop gives one analysis, independent of its data and of the machine.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::{Access, ArrayAccesses, LoopSpec, Subscript};
use crate::dependence::{Dependence, dependences};
use crate::error::Error;
use crate::index_names::IndexNames;
use crate::parallelization::{
    CandidateSchedule, LegalityViolation, Parallelization, ScheduleVerdict, schedule_verdicts,
};

/// Dependences of a loop, and the verdict on each parallelization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analysis {
    /// Number of loop indices.
    pub dimensions: usize,
    /// Requires that dependent iterations keep the order of the source.
    pub ordered: bool,
    /// Names of the indices, for messages. May be empty.
    pub indices: Vec<String>,
    /// Distances at which iterations depend on each other, with their causes.
    pub dependences: Vec<Dependence>,
    /// Verdicts on all parallelizations: legal, or illegal with the reason.
    pub verdicts: Vec<ScheduleVerdict>,
}

/// Analyzes a loop.
///
/// ```
/// use std::borrow::Cow;
/// use hemiola_analysis::{
///     Access, AccessMode, ArrayAccesses, LoopSpec, Parallelization, Subscript, analyze,
/// };
///
/// // for [i, j]: a[i] += b[j]
/// let access = |text: &'static str, dimension, mode| Access {
///     name: 0,
///     subscripts: Cow::Owned(vec![Subscript::index(dimension)]),
///     mode,
///     text: Cow::Borrowed(text),
///     line: 7,
///     column: 5,
/// };
/// let array = |name: &str, access| ArrayAccesses {
///     name: name.into(),
///     dimensions: 1,
///     accesses: vec![access],
///     buffered: vec![],
/// };
/// let spec = LoopSpec {
///     dimensions: 2,
///     ordered: true,
///     arrays: vec![
///         array("a", access("a[i] += b[j]", 0, AccessMode::Update)),
///         array("b", access("b[j]", 1, AccessMode::Read)),
///     ],
/// };
///
/// let analysis = analyze(&spec)?.with_indices(["i", "j"]);
/// assert_eq!(analysis.legal().next(), Some(&Parallelization::OneD { space: 0 }));
/// let text = analysis.to_string();
/// assert!(text.contains("1D: parts along `i`"));
/// assert!(text.contains(
///     "(0, +) from `a[i] += b[j]` (line 7, update) with itself is not 0 along `j`"
/// ));
/// # Ok::<(), hemiola_analysis::Error>(())
/// ```
pub fn analyze(spec: &LoopSpec) -> Result<Analysis, Error> {
    check(spec)?;
    let dependences = dependences(spec);
    let verdicts = schedule_verdicts(spec.dimensions, spec.ordered, &dependences);
    let (dimensions, ordered, indices) = (spec.dimensions, spec.ordered, Vec::new());
    Ok(Analysis { dimensions, ordered, indices, dependences, verdicts })
}

impl Analysis {
    /// Sets the names of the loop's indices.
    #[must_use]
    pub fn with_indices<Name: Into<String>>(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.indices = names.into_iter().map(Into::into).collect();
        self
    }

    /// Iterates over the parallelizations that keep all dependences. Serial is always one of them.
    pub fn legal(&self) -> impl Iterator<Item = &Parallelization> {
        self.verdicts.iter().filter_map(|verdict| match verdict {
            ScheduleVerdict::Legal(parallelization) => Some(parallelization),
            ScheduleVerdict::Illegal(_) => None,
        })
    }

    /// Describes a parallelization with the names of this loop: "1D: parts along `u`".
    #[must_use]
    pub fn describe(&self, parallelization: &Parallelization) -> String {
        IndexNames(&self.indices).describe(parallelization)
    }

    /// Describes a candidate, as [`describe`](Self::describe) does.
    #[must_use]
    pub fn describe_candidate(&self, candidate: &CandidateSchedule) -> String {
        IndexNames(&self.indices).describe_candidate(candidate)
    }

    /// Explains a violation with the names of this loop: the distance, its two accesses, and the
    /// rule it breaks.
    #[must_use]
    pub fn explain(&self, violation: &LegalityViolation) -> String {
        let rule = IndexNames(&self.indices).explain_violation(violation);
        match violation.dependence.and_then(|position| self.dependences.get(position)) {
            Some(dependence) => format!("{dependence} {rule}"),
            None => rule,
        }
    }
}

/// Rejects an invalid loop description.
fn check(spec: &LoopSpec) -> Result<(), Error> {
    if spec.dimensions == 0 {
        return Err(Error::NoDimensions);
    }
    for array in &spec.arrays {
        for access in array.all_accesses() {
            check_access(spec, array, access)?;
        }
    }
    Ok(())
}

fn check_access(spec: &LoopSpec, array: &ArrayAccesses, access: &Access) -> Result<(), Error> {
    let subscripts = access.subscripts.len();
    if subscripts > array.dimensions {
        return Err(Error::TooManySubscripts {
            access: access.text.to_string(),
            line: access.line,
            array: array.name.clone(),
            subscripts,
            dimensions: array.dimensions,
        });
    }
    for subscript in access.subscripts.iter() {
        if let Subscript::Index { dimension, .. } = *subscript
            && dimension >= spec.dimensions
        {
            return Err(Error::NoSuchIndex {
                access: access.text.to_string(),
                line: access.line,
                dimension,
                dimensions: spec.dimensions,
            });
        }
    }
    Ok(())
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = IndexNames(&self.indices);
        let order = if self.ordered { "ordered" } else { "unordered" };
        let plural = if self.dimensions == 1 { "" } else { "s" };
        writeln!(f, "{order} loop over {} dimension{plural}", self.dimensions)?;
        if self.dependences.is_empty() {
            writeln!(f, "no iteration depends on another")?;
        } else {
            writeln!(f, "iterations depend on each other at these distances (+ positive, - negative, * any):")?;
        }
        for dependence in &self.dependences {
            let array = dependence.pairs.first().map_or("", |pair| &pair.array);
            writeln!(f, "  array {array}: {dependence}")?;
        }
        writeln!(f, "it may run")?;
        for parallelization in self.legal() {
            writeln!(f, "  {}", names.describe(parallelization))?;
        }
        let mut heading = "it may not run\n";
        for verdict in &self.verdicts {
            let ScheduleVerdict::Illegal(violation) = verdict else { continue };
            let candidate = names.describe_candidate(&violation.candidate);
            writeln!(
                f,
                "{heading}  {candidate}:
    {}",
                self.explain(violation)
            )?;
            heading = "";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{array, read, spec, update, write};

    #[test]
    fn the_report_names_vectors_accesses_and_rules() {
        // for [t, x]: a[x] = (a[x - 1] + a[x + 1]) / 2, in order
        let [here, left, right] = [0, -1, 1].map(|offset| Subscript::shifted(1, offset));
        let stencil = array("a", 1, [read(&[left]), read(&[right]), write(&[here])]);
        let spec = LoopSpec { ordered: true, ..spec(2, [stencil]) };
        let analysis = analyze(&spec).unwrap().with_indices(["t", "x"]);
        let expected = "\
ordered loop over 2 dimensions
iterations depend on each other at these distances (+ positive, - negative, * any):
  array a: (+, -1) from `a[#1 - 1]` (line 1, read) with `a[#1]` (line 1, write) and 1 more
  array a: (+, 1) from `a[#1 - 1]` (line 1, read) with `a[#1]` (line 1, write) and 1 more
  array a: (0, 1) from `a[#1 - 1]` (line 1, read) with `a[#1]` (line 1, write) and 1 more
  array a: (+, 0) from `a[#1]` (line 1, write) with itself
it may run
  transformed: parts along `t`, wavefront along `t` + `x`
  transformed: parts along `t` + `x`, wavefront along `t`
  serial
it may not run
  1D: parts along `t`:
    (+, -1) from `a[#1 - 1]` (line 1, read) with `a[#1]` (line 1, write) and 1 more is not 0 along `t`
  1D: parts along `x`:
    (+, -1) from `a[#1 - 1]` (line 1, read) with `a[#1]` (line 1, write) and 1 more is not 0 along `x`
  2D: parts along `t`, rotation along `x`:
    rotation changes the order of iterations, and the loop is ordered
  2D: parts along `x`, rotation along `t`:
    rotation changes the order of iterations, and the loop is ordered
  2D: parts along `t`, wavefront along `x`:
    (+, -1) from `a[#1 - 1]` (line 1, read) with `a[#1]` (line 1, write) and 1 more may go backward along `t` or `x`
  2D: parts along `x`, wavefront along `t`:
    (+, -1) from `a[#1 - 1]` (line 1, read) with `a[#1]` (line 1, write) and 1 more may go backward along `x` or `t`
";
        assert_eq!(analysis.to_string(), expected);
    }

    #[test]
    fn an_analysis_survives_serialization() {
        let spec = spec(2, [array("w", 1, [update(&[Subscript::shifted(0, 1)]), read(&[Subscript::index(1)])])]);
        let analysis = analyze(&spec).unwrap();
        let json = serde_json::to_string(&analysis).unwrap();
        assert_eq!(serde_json::from_str::<Analysis>(&json).unwrap(), analysis);
    }

    #[test]
    fn buffered_accesses_make_no_dependence() {
        let mut weights = array("w", 1, []);
        weights.buffered.push(update(&[Subscript::Unknown]));
        let analysis = analyze(&spec(1, [weights])).unwrap();
        assert_eq!(analysis.dependences, []);
    }

    #[test]
    fn invalid_loop_descriptions_are_rejected() {
        assert_eq!(analyze(&spec(0, [])), Err(Error::NoDimensions));
        let outside = analyze(&spec(1, [array("a", 1, [read(&[Subscript::index(1)])])]));
        assert!(matches!(outside, Err(Error::NoSuchIndex { dimension: 1, dimensions: 1, .. })));
        let long = analyze(&spec(1, [array("a", 1, [read(&[Subscript::ALL, Subscript::ALL])])]));
        assert!(matches!(long, Err(Error::TooManySubscripts { subscripts: 2, dimensions: 1, .. })));
    }
}
