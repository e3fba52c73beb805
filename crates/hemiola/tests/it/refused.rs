//! Loops that must not compile on the real run time, and how the compiler says so. `TRYBUILD=overwrite` writes the expected
//! messages anew.

#[test]
fn refused_loops_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
