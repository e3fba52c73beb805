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
    #[cfg(feature = "models")] ClusterRows = "docs/guides/cluster-rows.md";
    Collectives = "docs/guides/collectives.md";
    Data = "docs/guides/data.md";
    #[cfg(feature = "models")] FactorizationMachines = "docs/guides/factorization-machines.md";
    LoopsGuide = "docs/guides/parallel-loops.md";
    ParameterServer = "docs/guides/parameter-server.md";
    #[cfg(feature = "models")] Programs = "docs/guides/programs.md";
    #[cfg(feature = "models")] Recommend = "docs/guides/recommend.md";
    #[cfg(feature = "models")] RidgeRegression = "docs/guides/ridge-regression.md";
    Schedules = "docs/guides/schedules.md";
    Simulate = "docs/guides/simulate.md";
    #[cfg(feature = "models")] SparseRegression = "docs/guides/sparse-regression.md";
    Strategies = "docs/guides/strategies.md";
    #[cfg(feature = "models")] Topics = "docs/guides/topics.md";
    #[cfg(feature = "models")] Tune = "docs/guides/tune.md";
    #[cfg(feature = "models")] Checkpoints = "docs/operations/checkpoints.md";
    SerialLoop = "docs/tutorial/1-serial-loop.md";
    Threads = "docs/tutorial/2-threads.md";
    Table = "docs/tutorial/5-table.md";
}
