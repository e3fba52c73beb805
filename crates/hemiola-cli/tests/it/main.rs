//! The real binary. `data` is about `hemiola data`, `model` about training and using models, `linear` about those of classes, `nets` about nets, `sparse` about those with few coefficients, `topics` about those of documents, `newcomer` about the commands of the README, `plot` about pictures of trainings, `simulate` about clusters in virtual time, `topology` about communication graphs and what collectives over TCP take, `training` about what
//! all trainings share (checkpoints, signals, help), `results` about what they write, `conditions` about bad and odd data and places; everything else is about `hemiola run` with real processes: `support`
//! starts launchers and waits for events; the other modules go by topic: `start` (what peers are given, and programs that
//! cannot be started), `output` (lines, logs, closed pipes), `ending` (exit codes, culprits, signals), `orphans` (nothing is
//! left), `remote` (over something that plays ssh).
//!
//! Peers are `sh -c` scripts. Nothing here sleeps: a test waits for a line, for a process or for an exit, and every such
//! wait has a limit after which the test fails. Processes are looked up in `/proc` and held by descriptors, which only
//! Linux has.
#![cfg(target_os = "linux")]

mod conditions;
mod data;
mod ending;
mod linear;
mod model;
mod nets;
mod newcomer;
mod orphans;
mod output;
mod plot;
mod probe;
mod remote;
mod results;
mod serving;
mod simulate;
mod slips;
mod sparse;
mod start;
mod support;
mod topics;
mod topology;
mod training;
