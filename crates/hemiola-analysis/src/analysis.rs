//! The proof object: what a loop depends on, and which ways of running it that leaves.
//!
//! An [`Analysis`] is plain data. It can be printed for a user who wonders why a loop does not run in parallel, stored beside
//! a plan, and compared in tests. **Invariant:** it is a function of the [`LoopSpec`]; the same loop gives the same
//! analysis, whatever its data and wherever it runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::{Access, ArrayUse, LoopSpec, Subscript};
use crate::depend::{Dependence, dependences};
use crate::error::Error;
use crate::names::IndexNames;
use crate::strategy::{Candidate, Refusal, Strategy, candidates};

/// What a loop depends on, and the verdict on each way to run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analysis {
    /// How many indices the loop has.
    pub dimensions: usize,
    /// Whether it must keep the order of the source.
    pub ordered: bool,
    /// What the indices are called in messages. May be empty.
    pub indices: Vec<String>,
    /// At which distances iterations depend on each other, and because of what.
    pub dependences: Vec<Dependence>,
    /// Each way to run the loop, legal or refused with its reason.
    pub candidates: Vec<Candidate>,
}

/// Analyses a loop.
///
/// ```
/// use std::borrow::Cow;
/// use hemiola_analysis::{Access, ArrayUse, LoopSpec, Mode, Strategy, Subscript, analyze};
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
/// let array = |name: &str, access| ArrayUse { name: name.into(), dimensions: 1, accesses: vec![access], buffered: vec![] };
/// let spec = LoopSpec {
///     dimensions: 2,
///     ordered: true,
///     arrays: vec![array("a", access("a[i] += b[j]", 0, Mode::Update)), array("b", access("b[j]", 1, Mode::Read))],
/// };
///
/// let analysis = analyze(&spec)?.with_indices(["i", "j"]);
/// assert_eq!(analysis.legal().next(), Some(&Strategy::OneD { space: 0 }));
/// let text = analysis.to_string();
/// assert!(text.contains("1D: parts along `i`"));
/// assert!(text.contains("(0, +) from `a[i] += b[j]` (line 7, update) with itself is not 0 along `j`"));
/// # Ok::<(), hemiola_analysis::Error>(())
/// ```
pub fn analyze(spec: &LoopSpec) -> Result<Analysis, Error> {
    check(spec)?;
    let dependences = dependences(spec);
    let candidates = candidates(spec.dimensions, spec.ordered, &dependences);
    let (dimensions, ordered, indices) = (spec.dimensions, spec.ordered, Vec::new());
    Ok(Analysis { dimensions, ordered, indices, dependences, candidates })
}

impl Analysis {
    /// The same, with names for the loop's indices.
    #[must_use]
    pub fn with_indices<Name: Into<String>>(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.indices = names.into_iter().map(Into::into).collect();
        self
    }

    /// The ways that keep all dependences. Serial is always one of them.
    pub fn legal(&self) -> impl Iterator<Item = &Strategy> {
        self.candidates.iter().filter_map(|candidate| match candidate {
            Candidate::Legal(strategy) => Some(strategy),
            Candidate::Refused(_) => None,
        })
    }

    /// A strategy in the words of this loop: "1D: parts along `u`".
    #[must_use]
    pub fn describe(&self, strategy: &Strategy) -> String {
        IndexNames(&self.indices).strategy(strategy)
    }

    /// A refusal in the words of this loop: which distance, from which two accesses, breaks which rule.
    #[must_use]
    pub fn explain(&self, refusal: &Refusal) -> String {
        let rule = IndexNames(&self.indices).refusal(refusal);
        match refusal.dependence.and_then(|position| self.dependences.get(position)) {
            Some(dependence) => format!("{dependence} {rule}"),
            None => rule,
        }
    }
}

/// Whether the description can be one of a loop.
fn check(spec: &LoopSpec) -> Result<(), Error> {
    if spec.dimensions == 0 {
        return Err(Error::NoDimensions);
    }
    for array in &spec.arrays {
        for access in array.all() {
            check_access(spec, array, access)?;
        }
    }
    Ok(())
}

fn check_access(spec: &LoopSpec, array: &ArrayUse, access: &Access) -> Result<(), Error> {
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
        for strategy in self.legal() {
            writeln!(f, "  {}", names.strategy(strategy))?;
        }
        let mut heading = "it may not run\n";
        for candidate in &self.candidates {
            let Candidate::Refused(refusal) = candidate else { continue };
            let attempt = names.attempt(&refusal.attempt);
            writeln!(
                f,
                "{heading}  {attempt}:
    {}",
                self.explain(refusal)
            )?;
            heading = "";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{array, read, spec, update, write};

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
    fn an_analysis_travels_as_data() {
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
    fn descriptions_of_no_loop_are_refused() {
        assert_eq!(analyze(&spec(0, [])), Err(Error::NoDimensions));
        let outside = analyze(&spec(1, [array("a", 1, [read(&[Subscript::index(1)])])]));
        assert!(matches!(outside, Err(Error::NoSuchIndex { dimension: 1, dimensions: 1, .. })));
        let long = analyze(&spec(1, [array("a", 1, [read(&[Subscript::ALL, Subscript::ALL])])]));
        assert!(matches!(long, Err(Error::TooManySubscripts { subscripts: 2, dimensions: 1, .. })));
    }
}
