//! The argument lists that a handler has when some of its arguments are under `#[cfg]`.
//!
//! The compiler resolves such a `#[cfg]` after the macro, and accepts none in a tuple type or a
//! call. So each list is written under the conditions that make it the handler's, and the compiler
//! keeps one of them.
//!
//! Invariant: the handler itself is written once, or the compiler would parse its body, and report
//! what is wrong in it, for every list.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{Meta, MetaList, PatType};

/// On how many conditions the arguments can depend; each doubles the number of lists.
pub(crate) const MAX_CONDITIONS: usize = 6;

/// One of the argument lists.
pub(crate) struct Variant<'a> {
    /// A `#[cfg]` for each condition; under all of them, the list is the handler's.
    pub(crate) cfg: TokenStream,
    pub(crate) arguments: Vec<&'a PatType>,
}

/// Every list that `arguments` can become; the first has all of them.
pub(crate) fn variants<'a>(arguments: &[&'a PatType]) -> Vec<Variant<'a>> {
    let mut variants = vec![Variant {
        cfg: TokenStream::new(),
        arguments: arguments.to_vec(),
    }];
    for condition in conditions(arguments) {
        variants = variants
            .into_iter()
            .flat_map(|variant| variant.split(condition))
            .collect();
    }
    variants
}

impl Variant<'_> {
    /// The list where the condition holds, and the list where it does not.
    fn split(self, condition: &MetaList) -> [Self; 2] {
        let Self { cfg, arguments } = self;
        let mut without = arguments.clone();
        without.retain(|argument| !own(argument).any(|it| is_same(it, condition)));
        let predicate = &condition.tokens;
        [
            Self {
                cfg: quote!(#cfg #[cfg(#predicate)]),
                arguments,
            },
            Self {
                cfg: quote!(#cfg #[cfg(not(#predicate))]),
                arguments: without,
            },
        ]
    }
}

/// The different conditions on which `arguments` depend, in the order of the source.
pub(crate) fn conditions<'a>(arguments: &[&'a PatType]) -> Vec<&'a MetaList> {
    let mut conditions: Vec<&MetaList> = Vec::new();
    for new in arguments.iter().flat_map(|argument| own(argument)) {
        if !conditions.iter().any(|it| is_same(it, new)) {
            conditions.push(new);
        }
    }
    conditions
}

/// The argument's own conditions.
///
/// Of a `#[cfg]` that has not one predicate there is one error, the compiler's, which then takes
/// the argument as there.
pub(crate) fn own(argument: &PatType) -> impl Iterator<Item = &MetaList> {
    argument.attrs.iter().filter_map(|it| match &it.meta {
        Meta::List(list) if list.path.is_ident("cfg") && is_single(&list.tokens) => Some(list),
        _ => None,
    })
}

/// Whether something is there, and a comma at most at its end.
fn is_single(predicates: &TokenStream) -> bool {
    let is_comma = |it: &TokenTree| matches!(it, TokenTree::Punct(it) if it.as_char() == ',');
    let tokens: Vec<_> = predicates.clone().into_iter().collect();
    tokens
        .split_last()
        .is_some_and(|(_, before)| !before.iter().any(is_comma))
}

fn is_same(one: &MetaList, other: &MetaList) -> bool {
    one.tokens.to_string() == other.tokens.to_string()
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;
    use syn::{FnArg, ItemFn};

    use super::{PatType, TokenStream, Variant, quote, variants};

    /// What `expected` says of the arguments: a condition and the names that are left under it.
    #[track_caller]
    fn assert_variants(arguments: &TokenStream, expected: &[(TokenStream, &str)]) {
        let item: ItemFn = syn::parse2(quote!(fn create(#arguments) {})).expect("a function");
        let arguments: Vec<&PatType> = item
            .sig
            .inputs
            .iter()
            .map(|input| match input {
                FnArg::Typed(argument) => argument,
                FnArg::Receiver(_) => panic!("no test has a receiver"),
            })
            .collect();
        let written: Vec<_> = variants(&arguments)
            .iter()
            .map(|Variant { cfg, arguments }| {
                let names: Vec<_> = arguments
                    .iter()
                    .map(|it| it.pat.to_token_stream().to_string())
                    .collect();
                (cfg.to_token_stream().to_string(), names.join(" "))
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(cfg, names)| (cfg.to_string(), (*names).to_owned()))
            .collect();
        assert_eq!(written, expected);
    }

    #[test]
    fn arguments_under_no_condition_are_one_list() {
        assert_variants(&quote!(), &[(quote!(), "")]);
        assert_variants(
            &quote!(#[allow(unused)] a: A, #[cfg_attr(unix, expect(unused))] b: B),
            &[(quote!(), "a b")],
        );
    }

    #[test]
    fn a_condition_makes_a_list_with_its_argument_and_one_without() {
        assert_variants(
            &quote!(a: A, #[cfg(unix)] b: B, c: C),
            &[
                (quote!(#[cfg(unix)]), "a b c"),
                (quote!(#[cfg(not(unix))]), "a c"),
            ],
        );
    }

    #[test]
    fn each_further_condition_doubles_the_lists() {
        assert_variants(
            &quote!(#[cfg(unix)] a: A, #[doc = ""] #[cfg(feature = "b")] b: B),
            &[
                (quote!(#[cfg(unix)] #[cfg(feature = "b")]), "a b"),
                (quote!(#[cfg(unix)] #[cfg(not(feature = "b"))]), "a"),
                (quote!(#[cfg(not(unix))] #[cfg(feature = "b")]), "b"),
                (quote!(#[cfg(not(unix))] #[cfg(not(feature = "b"))]), ""),
            ],
        );
    }

    #[test]
    fn arguments_under_the_same_condition_come_and_go_together() {
        assert_variants(
            &quote!(#[cfg(feature = "a")] a: A, b: B, #[cfg(feature="a")] c: C),
            &[
                (quote!(#[cfg(feature = "a")]), "a b c"),
                (quote!(#[cfg(not(feature = "a"))]), "b"),
            ],
        );
    }

    #[test]
    fn an_argument_under_two_conditions_needs_both() {
        assert_variants(
            &quote!(#[cfg(unix)] #[cfg(test)] a: A, #[cfg(test)] b: B),
            &[
                (quote!(#[cfg(unix)] #[cfg(test)]), "a b"),
                (quote!(#[cfg(unix)] #[cfg(not(test))]), ""),
                (quote!(#[cfg(not(unix))] #[cfg(test)]), "b"),
                (quote!(#[cfg(not(unix))] #[cfg(not(test))]), ""),
            ],
        );
    }

    #[test]
    fn what_cfg_refuses_is_left_to_the_compiler() {
        assert_variants(
            &quote!(#[cfg] a: A, #[cfg = "unix"] b: B, #[cfg()] c: C, #[cfg(unix, test,)] d: D),
            &[(quote!(), "a b c d")],
        );
        assert_variants(
            &quote!(#[cfg(all(unix, test),)] a: A),
            &[
                (quote!(#[cfg(all(unix, test),)]), "a"),
                (quote!(#[cfg(not(all(unix, test),))]), ""),
            ],
        );
    }
}
