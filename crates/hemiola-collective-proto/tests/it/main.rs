//! Tests of machines together, with a network between them that a test owns: `collectives` compares every operation with a serial sum in the
//! documented order, bit for bit, whatever the order of messages; `conditions` is what goes wrong and how it is told; `encoded` sends
//! encoded updates through collectives; `mixing` checks what NOTIFY-ACK
//! promises, in random schedules on every kind of graph.

mod collectives;
mod conditions;
mod encoded;
mod mixing;
mod network;
mod serial;
