//! What the attribute turns a handler into.
//!
//! Quoted code has no logic and infers nothing: it calls the adapter's `__private` module by
//! absolute paths. Locals are `mixed_site`, items begin with `__idem_`, so that no name of the
//! user's can meet one of ours. A token is given a place in the user's source only where the user
//! can get something wrong that the compiler reports there.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{GenericParam, Generics, ReturnType, Signature};

use crate::args::{Args, KeyFormat, OnLapse, Required, Scope, Time};
use crate::diagnostics::Diagnostics;
use crate::handler::Handler;

/// The web framework whose adapter the expansion calls.
#[derive(Clone, Copy)]
pub(crate) enum Framework {
    Axum,
}

impl Framework {
    /// Where the adapter is, unless `crate = "…"` says otherwise.
    fn adapter(self) -> TokenStream {
        match self {
            Self::Axum => quote!(::idem_axum),
        }
    }
}

/// The whole macro: arguments and item in, items out.
///
/// With any mistake in either, the item comes out as it went in, beside all errors, so that
/// callers and editors keep working.
pub(crate) fn idempotent(
    framework: Framework,
    args: TokenStream,
    item: &TokenStream,
) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let args = Args::parse(args, &mut diagnostics);
    let handler = Handler::parse(item.clone(), &mut diagnostics);
    match (handler, diagnostics.into_compile_errors()) {
        (Some(handler), None) => expand(framework, &args, &handler),
        (_, errors) => quote!(#errors #item),
    }
}

fn expand(framework: Framework, args: &Args, handler: &Handler) -> TokenStream {
    let adapter = match &args.adapter {
        Some(path) => path.to_token_stream(),
        None => framework.adapter(),
    };
    let private = quote!(#adapter::__private);
    let marker = format_ident!("__idem_{}", handler.sig.ident, span = Span::mixed_site());
    let route = route(&private, &marker, args, handler);
    let function = function(&private, &marker, handler);
    quote!(#route #function)
}

/// The type that carries the handler's policy to its extraction.
fn route(private: &TokenStream, marker: &Ident, args: &Args, handler: &Handler) -> TokenStream {
    let vis = &handler.vis;
    let name = format!("::{}", handler.sig.ident.unraw());
    let settings = settings(private, args);
    quote! {
        #[doc(hidden)]
        #[allow(
            non_camel_case_types,
            missing_debug_implementations,
            missing_copy_implementations,
            clippy::exhaustive_structs,
        )]
        #vis struct #marker;
        impl #private::Route for #marker {
            const POLICY: &'static #private::Policy = &#private::Policy::new(
                ::core::concat!(::core::module_path!(), #name)
            ) #settings;
        }
    }
}

/// The calls that set what was written, and only that.
fn settings(private: &TokenStream, args: &Args) -> TokenStream {
    let Args {
        scope,
        ttl,
        lease,
        wait,
        required,
        header,
        key_format,
        operation,
        on_lapse,
        adapter: _,
    } = args;
    let mut calls = TokenStream::new();
    let mut set = |name, value: Option<TokenStream>| {
        let name = local(name);
        calls.extend(value.map(|value| quote!(.#name(#value))));
    };
    set(
        "scope",
        scope.as_ref().map(|scope| match scope {
            Scope::User => quote!(#private::Scope::User),
            Scope::Endpoint => quote!(#private::Scope::Endpoint),
            Scope::Named(name) => quote!(#private::Scope::Named(#name)),
        }),
    );
    set("ttl", ttl.as_ref().map(|time| duration(private, time)));
    set("lease", lease.as_ref().map(|time| duration(private, time)));
    set("wait", wait.as_ref().map(|time| duration(private, time)));
    set(
        "required",
        required.as_ref().map(|required| match required {
            Required::Creating => quote!(#private::Required::Creating),
            Required::Any => quote!(#private::Required::Any),
        }),
    );
    set("header", header.as_ref().map(|name| quote!(#name)));
    set(
        "key_format",
        key_format.as_ref().map(|format| match format {
            KeyFormat::Uuid => quote!(#private::KeyFormat::Uuid),
        }),
    );
    set("operation", operation.as_ref().map(|name| quote!(#name)));
    set(
        "on_lapse",
        on_lapse.as_ref().map(|reaction| match reaction {
            OnLapse::Takeover => quote!(#private::OnLapse::Takeover),
            OnLapse::Unknown => quote!(#private::OnLapse::Unknown),
        }),
    );
    calls
}

fn duration(private: &TokenStream, time: &Time) -> TokenStream {
    match time {
        Time::Millis(millis) => quote!(#private::Duration::from_millis(#millis)),
        // A constant of zero fails while it is evaluated: at the expression, not at the attribute.
        Time::Constant(value) => call_at(value, &quote!(#private::nonzero), value),
    }
}

/// The function that the framework calls, with the user's own inside.
fn function(private: &TokenStream, marker: &Ident, handler: &Handler) -> TokenStream {
    let Handler {
        outside,
        inside,
        vis,
        sig,
        body,
    } = handler;
    let Signature {
        asyncness,
        fn_token,
        ident: name,
        generics,
        output,
        ..
    } = sig;
    let where_clause = &generics.where_clause;
    let turbofish = turbofish(generics);
    let types = handler.arguments().map(|argument| &argument.ty);
    let arguments: Vec<_> = (0..handler.arguments().count())
        .map(|index| local(&format!("arg{index}")))
        .collect();
    // The user's function is an item beside this local, and would hide it under the same name.
    let captured = format_ident!("captured_{}", name, span = Span::mixed_site());
    let callee = local("handler");
    let answer = local("answer");

    // A handler that is not `Send` is reported at these tokens.
    let run = located_at(quote!(#captured.run), name.span());
    // A return type that is no response is reported at the argument of `into_response`.
    let returned = match output {
        ReturnType::Default => quote!(#answer),
        ReturnType::Type(_, output) => located_at(quote!(#answer), output.span()),
    };

    // With the span of the user's braces, the compiler takes the function for the user's own:
    // `dead_code` and its `#[expect]` depend on it.
    let mut outer_body = Group::new(
        Delimiter::Brace,
        quote! {
            #(#inside)*
            #sig #body
            #run(
                |_| #private::Selection::new(),
                |(#(#arguments,)*)| async move {
                    // Called through a local, or clippy would take it for needlessly async.
                    let #callee = #name #turbofish;
                    let #answer = #callee(#(#arguments),*).await;
                    #private::into_response(#returned)
                },
            )
            .await
        },
    );
    outer_body.set_span(body.span());

    quote! {
        #(#outside)*
        #vis #asyncness #fn_token #name #generics(
            #captured: #private::Captured<(#(#types,)*), #marker>,
        ) -> #private::Response #where_clause
        #outer_body
    }
}

/// `::<T, N>`, or nothing.
fn turbofish(generics: &Generics) -> Option<TokenStream> {
    let names: Vec<_> = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(&parameter.ident),
            GenericParam::Const(parameter) => Some(&parameter.ident),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    (!names.is_empty()).then(|| quote!(::<#(#names),*>))
}

/// A name that the user's code can neither see nor shadow.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The call `function(argument)`, which the compiler reports as if it were `place`.
fn call_at(place: &impl ToTokens, function: &TokenStream, argument: &impl ToTokens) -> TokenStream {
    let mut tokens = place.to_token_stream().into_iter();
    let start = tokens
        .next()
        .map_or_else(Span::call_site, |token| token.span());
    let end = tokens.last().map_or(start, |token| token.span());
    let function = located_at(function.clone(), start);
    let mut parentheses = Group::new(Delimiter::Parenthesis, argument.to_token_stream());
    parentheses.set_span(parentheses.span().located_at(end));
    quote!(#function #parentheses)
}

/// Moves `tokens` to `place`; they still resolve as where they were written.
fn located_at(tokens: TokenStream, place: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(token.span().located_at(place));
            token
        })
        .collect()
}
