//! Loops that do not compile, and the messages of the compiler. `TRYBUILD=overwrite` rewrites the
//! expected messages.

#[test]
fn refused_loops_are_explained_at_the_users_code() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
