//! Tests of the real binary.
//!
//! | module | topic |
//! |---|---|
//! | `data` | `hemiola data` |
//! | `model`, `linear`, `sparse`, `example_models`, `topics`, `nets` | training and use of each family of models |
//! | `saved_nets` | use of saved nets: evaluation, prediction, recommendation, generation |
//! | `net_data` | image files, tokenizers and tables of nets, interruption within an epoch |
//! | `export` | `hemiola export`: ONNX, weights for PyTorch |
//! | `agreement` | peers, flags and data that contradict each other |
//! | `layout` | columns, labels and separators, stored with a model |
//! | `training`, `results`, `conditions` | shared by all models: checkpoints and signals, output, unusual data |
//! | `book`, `newcomer`, `slips` | the commands of the book and of the README, and regressions found by new users |
//! | `describing` | `hemiola show`, `doctor` and `examples` |
//! | `preparation` | categories, missing values, scales, text, weights of examples |
//! | `inputs` | several files, standard input, archives, tables, duplicates |
//! | `flags` | flags of other programs, values out of range, colour, completions, manual pages |
//! | `event_log` | `--log`, the record of a run in reports, interruptions within passes |
//! | `search` | `hemiola search`, cross-validation, and metrics |
//! | `batch` | results for many users, items and examples at once |
//! | `plot`, `simulate`, `topology`, `probe` | the commands of these names |
//! | `start`, `output`, `ending`, `orphans`, `remote`, `serving` | `hemiola run` with real processes |
//! | `support` | harness: starts launchers and waits for events |
//!
//! Peers are `sh -c` scripts. No test sleeps: it waits for a line, a process or an exit, and every
//! wait has a limit after which the test fails. Processes are found in `/proc` and held by pidfds,
//! which only Linux has.
#![cfg(target_os = "linux")]

mod agreement;
mod batch;
mod book;
mod conditions;
mod data;
mod describing;
mod ending;
mod event_log;
mod example_models;
mod export;
mod flags;
mod inputs;
mod layout;
mod linear;
mod model;
#[cfg(feature = "nets")]
mod net_data;
mod nets;
mod newcomer;
mod orphans;
mod output;
mod plot;
mod preparation;
mod probe;
mod remote;
mod results;
#[cfg(feature = "nets")]
mod saved_nets;
mod search;
mod serving;
#[cfg(feature = "sim")]
mod simulate;
mod slips;
mod sparse;
mod start;
mod support;
mod topics;
mod topology;
mod training;
