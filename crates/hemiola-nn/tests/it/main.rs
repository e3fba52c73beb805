//! Training on clusters of threads: every strategy trains the model that one process would train.

mod equivalence;
mod errors;
mod examples;
mod fit;
mod gpt;
mod interruption;
mod matrix;
mod options;
mod precision;
mod test_net;
mod threads;
