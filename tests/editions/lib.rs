//! Every form of a handler that the attribute accepts, in the edition of this package.
//!
//! One library of them all, because a program of each would fill the disk. What a lint or clippy
//! has to say of an expansion, it says here, also of what only other crates can reach.
//!
//! A form is a file of `tests/ui/axum/pass/` or `tests/ui/actix/pass/`, and in its `router` or
//! `configure` handler *n* answers `POST /n`, with one more segment for each parameter in its path. All
//! of them take `[1, 2]` as JSON.
#![forbid(unsafe_code)]
// A module cannot set these for itself.
#![deny(future_incompatible, rust_2021_compatibility, rust_2024_compatibility)]
#![allow(missing_docs)]

macro_rules! forms {
    (
        $(#[$doc:meta])* pub fn $all:ident() -> Vec<(_, $type:ty)>, each of its $item:ident;
        $($name:ident)*
    ) => {
        $(pub mod $name;)*

        $(#[$doc])*
        pub fn $all() -> Vec<(&'static str, $type)> {
            vec![$((stringify!($name), $name::$item as $type)),*]
        }
    };
}

#[path = "../tests/ui/axum/pass"]
pub mod axum {
    forms! {
        /// What makes the router of each form, by the name of its file.
        pub fn routers() -> Vec<(_, fn() -> ::axum::Router)>, each of its router;
        arguments_named_like_ours
        arguments_under_cfg
        associated_functions
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

#[path = "../tests/ui/actix/pass"]
pub mod actix {
    forms! {
        /// What mounts the handlers of each form, by the name of its file.
        pub fn configures() -> Vec<(_, fn(&mut ::actix_web::web::ServiceConfig))>, each of its configure;
        arguments_named_like_ours
        arguments_under_cfg
        associated_functions
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
        handlers_that_are_not_send
        in_functions_and_blocks
        items_named_like_ours
        lints_see_the_handler_alone
        made_by_macro_rules
        names_of_the_prelude_are_taken
        no_arguments
        no_implicit_prelude
        parts_only_or_a_whole_request
        raw_and_foreign_names
        route_attributes
        sixteen_arguments
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::fs;

    #[test]
    fn every_file_is_a_form_that_is_compiled() {
        let axum = crate::axum::routers();
        assert_eq!(
            files("axum"),
            axum.into_iter().map(|(name, _)| name.into()).collect()
        );
        let actix = crate::actix::configures();
        assert_eq!(
            files("actix"),
            actix.into_iter().map(|(name, _)| name.into()).collect()
        );
    }

    fn files(framework: &str) -> BTreeSet<OsString> {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ui");
        fs::read_dir(format!("{tests}/{framework}/pass"))
            .expect("the forms are there")
            .map(|file| file.expect("the directory can be read").path())
            .map(|path| path.file_stem().expect("a file has a name").to_owned())
            .collect()
    }
}
