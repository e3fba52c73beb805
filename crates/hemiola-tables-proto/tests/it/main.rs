//! Tests of the machines together: clients and shards with a network between them that a test owns.
//!
//! `model` checks all promises under random schedules; `bits` that BSP repeats bit for bit, also over a restart; `conditions` what goes wrong
//! and how it is told; `managed` what a budget is good for; `intents` rows that come early and rows that move.

mod bits;
mod conditions;
mod intents;
mod managed;
mod model;
mod net;
