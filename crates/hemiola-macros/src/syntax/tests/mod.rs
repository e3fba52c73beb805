//! Tests of the whole front end, and the helpers that tests of its modules share.

mod programs;
pub(super) mod support;
