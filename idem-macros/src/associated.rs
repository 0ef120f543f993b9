//! What is different in an associated function.
//!
//! No type can be declared in an `impl`, so nothing tells extraction the policy, and the function
//! passes it to `run_under`. No function inside of another can see `Self` or the parameters of the
//! `impl`, so the handler itself stands beside the function that the framework calls.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Signature};

use crate::expand::Form;
use crate::handler::Handler;

/// Lint levels, which hold in a function and not in one beside it.
const LEVELS: [&str; 5] = ["allow", "expect", "warn", "deny", "forbid"];

/// The form of a handler in an `impl`. `argument` is where `associated` is written.
pub(crate) fn form(
    private: &TokenStream,
    argument: Span,
    policy: &TokenStream,
    handler: &Handler,
) -> Form {
    let Handler {
        outside,
        inside,
        sig,
        body,
        ..
    } = handler;
    // As an identifier of ours, it keeps the compiler from reporting one handler twice.
    let name = format_ident!("__idem_{}", sig.ident.unraw(), span = Span::mixed_site());
    let levels = outside.iter().filter(|it| is_level(it)).map(met_by_one);
    let sig = Signature {
        ident: name.clone(),
        ..sig.clone()
    };
    // Outside of an `impl` there is no `Self`, which is then reported at the argument.
    let this = quote_spanned!(argument.resolved_at(Span::mixed_site())=> Self);
    Form {
        route: quote!(#private::Associated),
        outside: outside.iter().map(met_by_one).collect(),
        first: quote!(static __IDEM_POLICY: #private::Policy = #policy;),
        run: quote!(run_under),
        policy: quote!(&__IDEM_POLICY,),
        callee: quote!(#this::#name),
        beside: quote! {
            #[doc(hidden)]
            #(#levels)*
            #(#inside)*
            #sig #body
        },
    }
}

fn is_level(attribute: &Attribute) -> bool {
    LEVELS.iter().any(|level| attribute.path().is_ident(level))
}

/// An expectation is met in one of two functions, and would be reported as unmet in the other.
fn met_by_one(attribute: &Attribute) -> TokenStream {
    match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("expect") => {
            let lints = &list.tokens;
            quote!(#[allow(#lints)])
        }
        _ => quote!(#attribute),
    }
}
