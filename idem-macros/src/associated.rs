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

#[cfg(test)]
mod tests {
    use super::{TokenStream, quote};
    use crate::expand::{Framework, idempotent};

    /// The expansion in an `impl`, as rustfmt would have it.
    fn expanded(framework: Framework, args: TokenStream, item: &TokenStream) -> String {
        let items = idempotent(framework, args, item);
        let file = syn::parse2(quote!(impl<T> Payments<T> { #items }));
        prettyplease::unparse(&file.expect("the expansion is a list of items in an `impl`"))
    }

    #[test]
    fn a_handler_stands_beside_the_function_that_passes_its_policy() {
        let written = expanded(
            Framework::Actix,
            quote!(associated, scope = "endpoint"),
            &quote! {
                /// Creates a payment.
                #[post("/")]
                #[expect(clippy::too_many_lines)]
                #[deny(unused)]
                #[deprecated]
                #[instrument]
                pub async fn create<A: Kind>(this: Self, new: Json<A>) -> Result<Self, T> {
                    Ok(Self)
                }
            },
        );
        let expected = r#"impl<T> Payments<T> {
    /// Creates a payment.
    #[post("/")]
    #[allow(clippy::too_many_lines)]
    #[deny(unused)]
    #[deprecated]
    #[allow(clippy::future_not_send)]
    pub async fn create<A: Kind>(
        idem_captured: ::idem_actix::__private::Captured<
            (Self, Json<A>),
            ::idem_actix::__private::Associated,
        >,
    ) -> ::idem_actix::__private::Response {
        static __IDEM_POLICY: ::idem_actix::__private::Policy = ::idem_actix::__private::Policy::new(
                ::core::concat!(::core::module_path!(), "::create"),
            )
            .scope(::idem_actix::__private::Scope::Endpoint);
        idem_captured
            .run_under(
                &__IDEM_POLICY,
                |_| ::idem_actix::__private::Selection::new(),
                |idem_args, idem_request| async move {
                    let idem_handler = Self::__idem_create::<A>;
                    let (idem_arg0, idem_arg1) = idem_args;
                    let idem_answer = idem_handler(idem_arg0, idem_arg1).await;
                    ::idem_actix::__private::into_response(idem_answer, &idem_request)
                },
            )
            .await
    }
    #[doc(hidden)]
    #[allow(clippy::too_many_lines)]
    #[deny(unused)]
    #[instrument]
    async fn __idem_create<A: Kind>(this: Self, new: Json<A>) -> Result<Self, T> {
        Ok(Self)
    }
}
"#;
        assert_eq!(written, expected);
    }

    #[test]
    fn the_type_of_the_impl_is_named_only_where_the_handler_is_associated() {
        let item = quote!(
            async fn r#type(this: Self) {}
        );
        let refused = expanded(Framework::Axum, quote!(ttl = "1s"), &item);
        assert!(refused.contains("add `associated` to its arguments"));
        let written = expanded(Framework::Axum, quote!(associated, ttl = "1s"), &item);
        assert!(written.contains("let idem_handler = Self::__idem_type;"));
        assert!(written.contains("async fn __idem_type(this: Self) {}"));
    }
}
