//! Real programs as real processes, under every way of starting them that this machine has. A module per topic:
//!
//! - `conditions`: loops under good and bad conditions: aliases, failures, buffers, served arrays, plans
//! - `guide`: the plans that the guide to loops shows
//! - `hello`: the example, started by itself, by the launcher, by `mpirun`, with torchrun's variables
//! - `killed`: a peer under the launcher is killed
//! - `loops`: loops as users write them, on peers that are threads
//! - `profile`: what is measured of loops on one peer, and what plans are made from it
//! - `refused`: loops that must not compile (`tests/ui`)
//! - `tables`: tables of parameters in the bodies of loops

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "tests talk to the real world")]

mod conditions;
mod guide;
mod hello;
mod killed;
mod loops;
mod profile;
mod refused;
mod tables;

use hemiola_testkit::with_watchdog;
