//! Tests of the machines together: clients and shards with a network between them that a test owns.

mod model;
