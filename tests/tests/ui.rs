//! What the attribute says of everything that it does not accept: one small file for each.
//!
//! `TRYBUILD=overwrite cargo test -p idem-tests --test ui` writes the messages anew; read the
//! difference line by line. What is accepted is in `ui/axum/pass/`, and compiled in `editions/`.

#[test]
fn every_mistake_is_reported_where_it_is_on_axum() {
    trybuild::TestCases::new().compile_fail("tests/ui/axum/fail/*.rs");
}
