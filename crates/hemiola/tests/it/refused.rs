//! Loops that must not compile with the real run time, and the compiler's messages.
//! `TRYBUILD=overwrite` rewrites the expected messages.

#[test]
fn refused_loops_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
