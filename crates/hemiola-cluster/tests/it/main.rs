//! Whole clusters, good and bad. One binary; a module per topic:
//!
//! - `support`: watchdog, TCP jobs inside one process, peers as processes of this very binary, a proxy that tampers
//! - `collectives`: the same program on threads, TCP and TLS gives the same results
//! - `joining`: who is refused, and what both sides hear
//! - `tampering`: frames that are cut, changed, replayed, too long
//! - `loss`: peers that die, fall silent, stop reading, fail, leave early
//! - `killing`: real processes under SIGKILL and SIGSTOP
//! - `pressure`: limits, deadlines and fairness under load, and peers that mean harm
//! - `services`: threads that serve other peers
//! - `namespaces`: three hosts in three network namespaces, one cut off

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "tests talk to the real world")]

mod collectives;
mod joining;
mod killing;
mod loss;
mod namespaces;
mod pressure;
mod services;
mod support;
mod tampering;
