//! What does not compile, and how the compiler says so. `TRYBUILD=overwrite` writes the expected messages anew.

#[test]
fn refused_loops_are_explained_at_the_users_code() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
