//! What `parallel_for!` knows of a loop when it is compiled.

use hemiola_analysis::Access;

/// A loop as it was written: `parallel_for!` makes one static value of this for each.
#[derive(Debug)]
pub struct Site {
    /// The source file.
    pub file: &'static str,
    /// The line of the loop.
    pub line: u32,
    /// And the column.
    pub column: u32,
    /// Iterations that depend on each other keep the order of the source.
    pub ordered: bool,
    /// The loop will run many times: what it reads may be remembered.
    pub repeated: bool,
    /// The plan is printed before the first pass.
    pub explain: bool,
    /// The names of the loop's indices, `_` where one has none.
    pub indices: &'static [&'static str],
    /// What it iterates over, as written.
    pub space: &'static str,
    /// The names the body uses from outside.
    pub names: &'static [&'static str],
    /// Every place where one of them is used.
    pub accesses: &'static [Access],
}

impl Site {
    /// How messages call the loop.
    #[must_use]
    pub fn title(&self) -> String {
        format!("the loop at {}:{}", self.file, self.line)
    }
}
