//! Tests of several state machines over a network that the test owns. `collectives` compares every
//! operation with a serial sum in the documented order, bit for bit, whatever the order of
//! messages; `conditions` covers failures and their messages; `compressed` sends compressed updates
//! through collectives; `routed` sums over subsets and two levels; `gossip` checks the guarantees
//! of NOTIFY-ACK, in random schedules on every kind of graph.

mod collectives;
mod compressed;
mod conditions;
mod gossip;
mod network;
mod routed;
mod serial;
