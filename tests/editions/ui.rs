//! What the attribute accepts, in the edition of this package.

#[test]
fn every_accepted_form_compiles_in_this_edition() {
    trybuild::TestCases::new().pass("../../tests/ui/axum/pass/*.rs");
}
