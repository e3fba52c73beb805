//! Compile-time description of a loop.

use hemiola_analysis::Access;

/// Description of a loop in the source. The expansion of `parallel_for!` contains one static value
/// per loop.
#[derive(Debug)]
pub struct LoopSite {
    /// Source file of the loop.
    pub file: &'static str,
    /// Line of the loop.
    pub line: u32,
    /// Column of the loop.
    pub column: u32,
    /// Keeps the source order of iterations that depend on each other.
    pub ordered: bool,
    /// Declares that the loop runs many times with the same subscripts, so that prefetched rows may
    /// be remembered.
    pub repeated: bool,
    /// Prints the plan before the loop runs.
    pub explain: bool,
    /// Names of the loop indices, `_` for unnamed ones.
    pub indices: &'static [&'static str],
    /// Source text of the iteration space.
    pub space: &'static str,
    /// Names of the captured variables.
    pub names: &'static [&'static str],
    /// All accesses of captured variables in the body.
    pub accesses: &'static [Access],
}

impl LoopSite {
    /// Name of the loop in messages: its file and line.
    #[must_use]
    pub fn title(&self) -> String {
        format!("the loop at {}:{}", self.file, self.line)
    }
}
