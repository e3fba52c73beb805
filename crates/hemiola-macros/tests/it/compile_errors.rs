//! Loops that do not compile with the real run time, and the messages of the compiler. All cases of the
//! workspace are here, because each project of `trybuild` builds the run time again.
//! `TRYBUILD=overwrite` rewrites the expected messages.

#[test]
fn refused_loops_are_explained_at_the_users_code() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
