//! Integration tests of whole clusters. One binary with a module per topic:
//!
//! - `support`: watchdog, TCP jobs inside one process, peers as processes of this binary, a tampering
//!   proxy
//! - `collectives`: a program gives equal results on threads, TCP and TLS
//! - `joining`: refused connections, and the errors on both sides
//! - `strangers`: connections of others, with and without malice
//! - `tampering`: frames that are cut, changed, replayed, too long
//! - `loss`: peers that die, fall silent, stop reading, fail or leave early
//! - `killing`: real processes under SIGKILL and SIGSTOP
//! - `pressure`: limits, deadlines and fairness under load, and malicious peers
//! - `services`: threads that serve other peers
//! - `namespaces`: three hosts in three network namespaces, one cut off

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "tests use real time and output")]

mod collectives;
mod joining;
mod killing;
mod loss;
mod namespaces;
mod pressure;
mod services;
mod strangers;
mod support;
mod tampering;
