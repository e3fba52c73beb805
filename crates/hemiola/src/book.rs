//! Snippets of the README and of the book, run as doctests.
//!
//! Every page in `docs` with a Rust snippet is listed here, or in the crate that its snippets use
//! (`hemiola-nn`, `hemiola-sim`). A test of `hemiola-testkit` finds pages that are missing.

macro_rules! pages {
    ($($(#[$condition:meta])? $name:ident = $path:literal;)*) => {
        $($(#[$condition])? #[doc = include_str!(concat!("../../../", $path))] struct $name;)*
    };
}

pages! {
    Readme = "README.md";
    ParallelLoops = "docs/concepts/parallel-loops.md";
    #[cfg(feature = "models")] Classify = "docs/guides/classify.md";
    Collectives = "docs/guides/collectives.md";
    Data = "docs/guides/data.md";
    LoopsGuide = "docs/guides/parallel-loops.md";
    ParameterServer = "docs/guides/parameter-server.md";
    #[cfg(feature = "models")] Programs = "docs/guides/programs.md";
    #[cfg(feature = "models")] Recommend = "docs/guides/recommend.md";
    Schedules = "docs/guides/schedules.md";
    Simulate = "docs/guides/simulate.md";
    #[cfg(feature = "models")] SparseRegression = "docs/guides/sparse-regression.md";
    Strategies = "docs/guides/strategies.md";
    #[cfg(feature = "models")] Topics = "docs/guides/topics.md";
    #[cfg(feature = "models")] Checkpoints = "docs/operations/checkpoints.md";
    SerialLoop = "docs/tutorial/1-serial-loop.md";
    Threads = "docs/tutorial/2-threads.md";
    Table = "docs/tutorial/5-table.md";
}
