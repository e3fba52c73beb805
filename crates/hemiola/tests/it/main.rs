//! Integration tests of the facade: programs as threads and as processes. One module per topic:
//!
//! - `buffered_loops`: models whose loops write through buffers, beside serial loops
//! - `conditions`: loops under normal and failure conditions: aliases, failures, buffers, served
//!   arrays, plans
//! - `examples`: the programs of the folder `examples`, their output and their results
//! - `guide`: the plans shown in the book
//! - `hello`: the example `hello`, standalone, under the launcher, under Open MPI and MPICH, with
//!   torchrun's variables
//! - `killed`: a peer under the launcher that is killed
//! - `loops`: typical loops on in-process peers
//! - `non_finite`: NaN and infinity that loops write to arrays
//! - `profile`: profiles of loops, and plans for other clusters made from them
//! - `table_clocks`: clocks of tables that end inside a pass of a loop
//! - `tables`: parameter-server tables in loop bodies

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "tests start processes and print")]

mod buffered_loops;
mod conditions;
mod examples;
mod guide;
mod hello;
mod killed;
mod loops;
mod non_finite;
mod profile;
mod table_clocks;
mod tables;

use hemiola_testkit::with_watchdog;
