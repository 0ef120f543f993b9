//! What the attribute accepts, and what it says of everything else: one small file for each.
//!
//! `TRYBUILD=overwrite cargo test -p idem-tests --test ui` writes the messages anew; read the
//! difference line by line. With `RUSTC_WORKSPACE_WRAPPER=clippy-driver` in the environment the
//! accepted forms are checked by clippy too, which has nothing to say of them either.

#[test]
fn every_accepted_form_compiles_on_axum() {
    trybuild::TestCases::new().pass("tests/ui/axum/pass/*.rs");
}

#[test]
fn every_mistake_is_reported_where_it_is_on_axum() {
    trybuild::TestCases::new().compile_fail("tests/ui/axum/fail/*.rs");
}
