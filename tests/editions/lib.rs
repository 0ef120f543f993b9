//! Every form of a handler that the attribute accepts, in the edition of this package.
//!
//! One library of them all, because a program of each would fill the disk. What a lint or clippy
//! has to say of an expansion, it says here, also of what only other crates can reach.
//!
//! A form is a file of `tests/ui/axum/pass/`, and in its `router` handler *n* answers `POST /n`,
//! with one more segment for each parameter in its path. All of them take `[1, 2]` as JSON.
#![forbid(unsafe_code)]
// A module cannot set these for itself.
#![deny(future_incompatible, rust_2021_compatibility, rust_2024_compatibility)]
#![allow(missing_docs)]

macro_rules! forms {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// Each form by the name of its file, ready to be layered and served.
        pub fn routers() -> Vec<(&'static str, ::axum::Router)> {
            vec![$((stringify!($name), $name::router())),*]
        }
    };
}

#[path = "../tests/ui/axum/pass"]
pub mod axum {
    forms! {
        arguments_named_like_ours
        attributes_above
        attributes_below
        attributes_in_every_legal_order
        crate_under_another_name
        denied_lints
        durations_from_constants
        every_argument
        every_pattern
        every_return_type
        every_visibility
        generic_handler
        in_functions_and_blocks
        items_named_like_ours
        lints_see_the_handler_alone
        made_by_macro_rules
        names_of_the_prelude_are_taken
        no_arguments
        no_implicit_prelude
        parts_only_or_a_whole_request
        raw_and_foreign_names
        sixteen_arguments
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn every_file_is_a_form_that_is_compiled() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ui/axum/pass");
        let files: BTreeSet<_> = fs::read_dir(directory)
            .expect("the forms are there")
            .map(|file| file.expect("the directory can be read").path())
            .map(|path| path.file_stem().expect("a file has a name").to_owned())
            .collect();
        let forms = crate::axum::routers();
        assert_eq!(
            files,
            forms.into_iter().map(|(name, _)| name.into()).collect()
        );
    }
}
