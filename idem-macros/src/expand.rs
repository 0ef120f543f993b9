//! What the attribute turns a handler into.
//!
//! Quoted code has no logic and infers nothing: it calls the adapter's `__private` module by
//! absolute paths. Locals are `mixed_site` and begin with `idem_`, items with `__idem_`, so that no
//! name of the user's can meet one of ours. A token is given a place in the user's source only
//! where the user can get something wrong that the compiler reports there.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{GenericParam, Generics, ReturnType, Signature};

use crate::args::{Args, KeyFormat, OnLapse, Required, Scope, Time};
use crate::associated;
use crate::diagnostics::Diagnostics;
use crate::handler::Handler;
use crate::variant::{self, Variant};

/// The web framework whose adapter the expansion calls.
#[derive(Clone, Copy)]
pub(crate) enum Framework {
    Axum,
    Actix,
}

impl Framework {
    /// Where the adapter is, unless `crate = "…"` says otherwise.
    fn adapter(self) -> TokenStream {
        match self {
            Self::Axum => quote!(::idem_axum),
            Self::Actix => quote!(::idem_actix),
        }
    }

    /// What stands above the function that the framework calls.
    fn lints(self) -> Option<TokenStream> {
        match self {
            Self::Axum => None,
            // Its handlers need not be `Send`, which the compiler does not know.
            Self::Actix => Some(quote!(#[allow(clippy::future_not_send)])),
        }
    }

    /// What reports an argument that is no extractor at its type, where the framework itself would
    /// report it only where the handler is routed.
    ///
    /// What a generic handler needs is known only there.
    fn extractors(self, private: &TokenStream, handler: &Handler) -> Option<TokenStream> {
        match self {
            Self::Axum => None,
            Self::Actix => {
                let arguments = handler.arguments();
                let told = arguments.iter().map(|argument| {
                    let (cfg, of) = (variant::own(argument), &argument.ty);
                    quote!(#(#[#cfg])* #private::extractor::<#of>();)
                });
                let told: Vec<_> = told.collect();
                let can_tell = handler.sig.generics.params.is_empty() && !told.is_empty();
                can_tell.then(|| quote!(const _: () = { #(#told)* };))
            }
        }
    }

    /// The request, where an answer is made for one.
    fn request(self) -> Option<Ident> {
        match self {
            Self::Axum => None,
            Self::Actix => Some(local("request")),
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
    if let (Some(handler), None) = (&handler, args.associated) {
        handler.refuse_self_type(&mut diagnostics);
    }
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
    let policy = policy(&private, args, handler);
    if let Some(argument) = args.associated {
        let form = associated::form(&private, argument, &policy, handler);
        return function(framework, &private, &form, handler);
    }
    let marker = format_ident!("__idem_{}", handler.sig.ident, span = Span::mixed_site());
    let route = route(&private, &marker, &policy, handler);
    let form = free(framework, &private, &marker, handler);
    let function = function(framework, &private, &form, handler);
    quote!(#route #function)
}

/// The pieces in which a free and an associated handler differ.
pub(crate) struct Form {
    /// The type that carries the policy, as far as one does.
    pub(crate) route: TokenStream,
    /// Attributes of the function that the framework calls.
    pub(crate) outside: TokenStream,
    /// Items inside of that function.
    pub(crate) first: TokenStream,
    /// The method of `Captured` that runs the handler.
    pub(crate) run: TokenStream,
    /// Its first argument, if it is one more.
    pub(crate) policy: TokenStream,
    /// The handler itself.
    pub(crate) callee: TokenStream,
    /// Items after that function.
    pub(crate) beside: TokenStream,
}

/// The form of a free handler: it stands inside of the function that the framework calls.
fn free(framework: Framework, private: &TokenStream, marker: &Ident, handler: &Handler) -> Form {
    // In an `impl` there is no such check: a constant cannot name `Self`.
    let extractors = framework.extractors(private, handler);
    let Handler {
        outside,
        inside,
        sig,
        body,
        ..
    } = handler;
    Form {
        route: quote!(#marker),
        outside: quote!(#(#outside)*),
        first: quote!(#(#inside)* #sig #body #extractors),
        run: quote!(run),
        policy: TokenStream::new(),
        callee: sig.ident.to_token_stream(),
        beside: TokenStream::new(),
    }
}

/// What the attribute says, as a constant expression.
fn policy(private: &TokenStream, args: &Args, handler: &Handler) -> TokenStream {
    let name = format!("::{}", handler.sig.ident.unraw());
    let settings = settings(private, args);
    quote! {
        #private::Policy::new(::core::concat!(::core::module_path!(), #name)) #settings
    }
}

/// The type that carries the handler's policy to its extraction.
fn route(
    private: &TokenStream,
    marker: &Ident,
    policy: &TokenStream,
    handler: &Handler,
) -> TokenStream {
    let vis = &handler.vis;
    quote! {
        #[doc(hidden)]
        // The compiler spares a macro's items these; clippy and editors do not.
        #[allow(
            non_camel_case_types,
            missing_debug_implementations,
            missing_copy_implementations,
            clippy::exhaustive_structs,
        )]
        #vis struct #marker;
        impl #private::Route for #marker {
            const POLICY: &'static #private::Policy = &#policy;
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
        associated: _,
        adapter: _,
    } = args;
    let mut calls = TokenStream::new();
    let mut set = |name, value: Option<TokenStream>| {
        let name = Ident::new(name, Span::mixed_site());
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

/// The function that the framework calls, and the user's own.
fn function(
    framework: Framework,
    private: &TokenStream,
    form: &Form,
    handler: &Handler,
) -> TokenStream {
    let Form {
        route,
        outside,
        first,
        run,
        policy,
        callee: own,
        beside,
    } = form;
    let Handler { vis, sig, body, .. } = handler;
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
    let captured = local("captured");
    let args = local("args");
    let callee = local("handler");
    let answer = local("answer");
    let lints = framework.lints();
    let request = framework.request();
    let parameter = request.iter();
    let request = request.iter().map(|request| quote!(&#request));

    let mut parameters = TokenStream::new();
    let mut calls = TokenStream::new();
    for Variant { cfg, arguments } in handler.variants() {
        let types = arguments.iter().map(|argument| &argument.ty);
        parameters.extend(quote! {
            #cfg
            #captured: #private::Captured<(#(#types,)*), #route>,
        });
        let locals: Vec<_> = (0..arguments.len())
            .map(|index| local(&format!("arg{index}")))
            .collect();
        calls.extend(quote! {
            #cfg
            let (#(#locals,)*) = #args;
            #cfg
            let #answer = #callee(#(#locals),*).await;
        });
    }

    // A handler that is not `Send` is reported at these tokens.
    let run = located_at(quote!(#captured.#run), name.span());
    // A return type that is no response is reported at the argument of `into_response`.
    let returned = match output {
        ReturnType::Default => name.span(),
        ReturnType::Type(_, output) => output.span(),
    };
    let returned = located_at(quote!(#answer), returned);

    // With the span of the user's braces, the compiler takes the function for the user's own:
    // `dead_code` and its `#[expect]` depend on it.
    let mut outer_body = Group::new(
        Delimiter::Brace,
        quote! {
            #first
            #run(
                #policy
                |_| #private::Selection::new(),
                |#args #(, #parameter)*| async move {
                    // Called through a local, or clippy would take it for needlessly async.
                    let #callee = #own #turbofish;
                    #calls
                    #private::into_response(#returned #(, #request)*)
                },
            )
            .await
        },
    );
    outer_body.set_span(body.span());

    quote! {
        #outside
        #lints
        #vis #asyncness #fn_token #name #generics(#parameters) -> #private::Response #where_clause
        #outer_body
        #beside
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

/// A local that no local of the user's is confused with, and by its prefix no item of theirs.
fn local(name: &str) -> Ident {
    format_ident!("idem_{name}", span = Span::mixed_site())
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

#[cfg(test)]
mod tests {
    use super::{Framework, TokenStream, idempotent, quote};

    /// The expansion as rustfmt would have it.
    fn expanded(args: TokenStream, item: &TokenStream) -> String {
        expanded_on(Framework::Axum, args, item)
    }

    fn expanded_on(framework: Framework, args: TokenStream, item: &TokenStream) -> String {
        let tokens = idempotent(framework, args, item);
        let file = syn::parse2(tokens).expect("the expansion is a list of items");
        prettyplease::unparse(&file)
    }

    #[test]
    fn a_handler_becomes_a_marker_and_a_function_around_it() {
        let written = expanded(
            quote!(scope = "user", ttl = "24h"),
            &quote! {
                /// Creates a payment.
                #[debug_handler]
                pub async fn create_payment(
                    State(app): State<App>,
                    user: AuthUser,
                    Json(mut body): Json<NewPayment>,
                ) -> Result<Json<Payment>, AppError> {
                    app.pay(user, body).await
                }
            },
        );
        let expected = r#"#[doc(hidden)]
#[allow(
    non_camel_case_types,
    missing_debug_implementations,
    missing_copy_implementations,
    clippy::exhaustive_structs,
)]
pub struct __idem_create_payment;
impl ::idem_axum::__private::Route for __idem_create_payment {
    const POLICY: &'static ::idem_axum::__private::Policy = &::idem_axum::__private::Policy::new(
            ::core::concat!(::core::module_path!(), "::create_payment"),
        )
        .scope(::idem_axum::__private::Scope::User)
        .ttl(::idem_axum::__private::Duration::from_millis(86400000u64));
}
/// Creates a payment.
pub async fn create_payment(
    idem_captured: ::idem_axum::__private::Captured<
        (State<App>, AuthUser, Json<NewPayment>),
        __idem_create_payment,
    >,
) -> ::idem_axum::__private::Response {
    #[debug_handler]
    async fn create_payment(
        State(app): State<App>,
        user: AuthUser,
        Json(mut body): Json<NewPayment>,
    ) -> Result<Json<Payment>, AppError> {
        app.pay(user, body).await
    }
    idem_captured
        .run(
            |_| ::idem_axum::__private::Selection::new(),
            |idem_args| async move {
                let idem_handler = create_payment;
                let (idem_arg0, idem_arg1, idem_arg2) = idem_args;
                let idem_answer = idem_handler(idem_arg0, idem_arg1, idem_arg2).await;
                ::idem_axum::__private::into_response(idem_answer)
            },
        )
        .await
}
"#;
        assert_eq!(written, expected);
    }

    #[test]
    fn a_handler_on_actix_keeps_its_route_outside_and_answers_its_request() {
        let written = expanded_on(
            Framework::Actix,
            quote!(scope = "endpoint"),
            &quote! {
                #[instrument(skip_all)]
                #[post("/payments", wrap = "Login")]
                /// Creates a payment.
                async fn create_payment(app: Data<App>, new: Json<NewPayment>) -> impl Responder {
                    app.pay(new).await
                }
            },
        );
        let expected = r#"#[doc(hidden)]
#[allow(
    non_camel_case_types,
    missing_debug_implementations,
    missing_copy_implementations,
    clippy::exhaustive_structs,
)]
struct __idem_create_payment;
impl ::idem_actix::__private::Route for __idem_create_payment {
    const POLICY: &'static ::idem_actix::__private::Policy = &::idem_actix::__private::Policy::new(
            ::core::concat!(::core::module_path!(), "::create_payment"),
        )
        .scope(::idem_actix::__private::Scope::Endpoint);
}
#[post("/payments", wrap = "Login")]
/// Creates a payment.
#[allow(clippy::future_not_send)]
async fn create_payment(
    idem_captured: ::idem_actix::__private::Captured<
        (Data<App>, Json<NewPayment>),
        __idem_create_payment,
    >,
) -> ::idem_actix::__private::Response {
    #[instrument(skip_all)]
    async fn create_payment(app: Data<App>, new: Json<NewPayment>) -> impl Responder {
        app.pay(new).await
    }
    const _: () = {
        ::idem_actix::__private::extractor::<Data<App>>();
        ::idem_actix::__private::extractor::<Json<NewPayment>>();
    };
    idem_captured
        .run(
            |_| ::idem_actix::__private::Selection::new(),
            |idem_args, idem_request| async move {
                let idem_handler = create_payment;
                let (idem_arg0, idem_arg1) = idem_args;
                let idem_answer = idem_handler(idem_arg0, idem_arg1).await;
                ::idem_actix::__private::into_response(idem_answer, &idem_request)
            },
        )
        .await
}
"#;
        assert_eq!(written, expected);
    }

    #[test]
    fn arguments_are_checked_where_it_can_be_told_what_they_are() {
        let checks = |framework, item: TokenStream| {
            expanded_on(framework, quote!(), &item)
                .matches("extractor::<")
                .count()
        };
        let two = quote!(
            async fn create(a: A, b: B) {}
        );
        assert_eq!(checks(Framework::Actix, two.clone()), 2);
        assert_eq!(checks(Framework::Axum, two), 0);
        for item in [
            quote!(
                async fn create() {}
            ),
            quote!(
                async fn create<T>(a: Json<T>) {}
            ),
        ] {
            assert_eq!(checks(Framework::Actix, item), 0);
        }
    }

    #[test]
    fn a_handler_without_arguments_captures_nothing() {
        let written = expanded(
            quote!(),
            &quote!(
                async fn create() {}
            ),
        );
        assert!(
            written.contains("idem_captured: ::idem_axum::__private::Captured<(), __idem_create>")
        );
        assert!(written.contains("let () = idem_args;"));
        assert!(written.contains("idem_handler().await"));
    }

    #[test]
    fn generics_are_on_both_functions_and_passed_on() {
        let item = quote! {
            async fn create<T: Kind, const N: usize>(kind: Json<T>) -> [T; N] where T: Send {}
        };
        let written = expanded(quote!(), &item);
        assert_eq!(
            written
                .matches("async fn create<T: Kind, const N: usize>(")
                .count(),
            2
        );
        assert_eq!(written.matches("T: Send,").count(), 2);
        assert!(written.contains("Captured<(Json<T>,), __idem_create>"));
        assert!(written.contains("let (idem_arg0,) = idem_args;"));
        assert!(written.contains("let idem_handler = create::<T, N>;"));
    }

    #[test]
    fn arguments_under_cfg_are_taken_and_passed_on_under_it() {
        let tokens = idempotent(
            Framework::Actix,
            quote!(),
            &quote! {
                #[post("/")]
                #[instrument]
                async fn create(a: A, #[cfg(feature = "b")] B(mut b): B) -> u8 { a.b() }
            },
        );
        let file = syn::parse2(tokens).expect("the expansion is a list of items");
        let written = prettyplease::unparse(&file);
        let expected = r#"#[post("/")]
#[allow(clippy::future_not_send)]
async fn create(
    #[cfg(feature = "b")]
    idem_captured: ::idem_actix::__private::Captured<(A, B), __idem_create>,
    #[cfg(not(feature = "b"))]
    idem_captured: ::idem_actix::__private::Captured<(A,), __idem_create>,
) -> ::idem_actix::__private::Response {
    #[instrument]
    async fn create(a: A, #[cfg(feature = "b")] B(mut b): B) -> u8 {
        a.b()
    }
    const _: () = {
        ::idem_actix::__private::extractor::<A>();
        #[cfg(feature = "b")] ::idem_actix::__private::extractor::<B>();
    };
    idem_captured
        .run(
            |_| ::idem_actix::__private::Selection::new(),
            |idem_args, idem_request| async move {
                let idem_handler = create;
                #[cfg(feature = "b")]
                let (idem_arg0, idem_arg1) = idem_args;
                #[cfg(feature = "b")]
                let idem_answer = idem_handler(idem_arg0, idem_arg1).await;
                #[cfg(not(feature = "b"))]
                let (idem_arg0,) = idem_args;
                #[cfg(not(feature = "b"))]
                let idem_answer = idem_handler(idem_arg0).await;
                ::idem_actix::__private::into_response(idem_answer, &idem_request)
            },
        )
        .await
}
"#;
        assert!(
            written.ends_with(expected),
            "{expected}\nis not at the end of\n{written}"
        );
    }

    #[test]
    fn the_marker_is_as_visible_as_the_handler() {
        for visibility in [
            quote!(),
            quote!(pub),
            quote!(pub(crate)),
            quote!(pub(in crate::a)),
        ] {
            let tokens = idempotent(
                Framework::Axum,
                quote!(),
                &quote!(#visibility async fn create() {}),
            );
            let marker = quote!(#visibility struct __idem_create;).to_string();
            assert!(
                tokens.to_string().contains(&format!("] {marker}")),
                "{tokens}"
            );
        }
    }

    #[test]
    fn raw_names_lose_their_prefix_only_where_they_must() {
        let written = expanded(
            quote!(),
            &quote!(
                async fn r#type() {}
            ),
        );
        assert!(written.contains("struct __idem_type;"));
        assert!(written.contains(r#"::core::concat!(::core::module_path!(), "::type")"#));
        assert_eq!(written.matches("async fn r#type(").count(), 2);
        assert!(written.contains("let idem_handler = r#type;"));
    }

    #[test]
    fn what_is_written_is_set_and_nothing_else() {
        let private = quote!(::idem_axum::__private);
        for (args, call) in [
            (quote!(), quote!()),
            (
                quote!(scope = "user"),
                quote!(.scope(#private::Scope::User)),
            ),
            (
                quote!(scope = "endpoint"),
                quote!(.scope(#private::Scope::Endpoint)),
            ),
            (
                quote!(scope = "tenant"),
                quote!(.scope(#private::Scope::Named("tenant"))),
            ),
            (
                quote!(ttl = "90s"),
                quote!(.ttl(#private::Duration::from_millis(90000u64))),
            ),
            (
                quote!(ttl = a::TTL),
                quote!(.ttl(#private::nonzero(a::TTL))),
            ),
            (
                quote!(lease = "300ms"),
                quote!(.lease(#private::Duration::from_millis(300u64))),
            ),
            (
                quote!(lease = LEASE),
                quote!(.lease(#private::nonzero(LEASE))),
            ),
            (
                quote!(wait = "10s"),
                quote!(.wait(#private::Duration::from_millis(10000u64))),
            ),
            (
                quote!(wait = a + b),
                quote!(.wait(#private::nonzero(a + b))),
            ),
            (
                quote!(required),
                quote!(.required(#private::Required::Creating)),
            ),
            (
                quote!(required = "any"),
                quote!(.required(#private::Required::Any)),
            ),
            (quote!(header = "X-Event-Id"), quote!(.header("x-event-id"))),
            (
                quote!(key_format = "uuid"),
                quote!(.key_format(#private::KeyFormat::Uuid)),
            ),
            (quote!(operation = "a.B"), quote!(.operation("a.B"))),
            (
                quote!(on_lapse = "takeover"),
                quote!(.on_lapse(#private::OnLapse::Takeover)),
            ),
            (
                quote!(on_lapse = "unknown"),
                quote!(.on_lapse(#private::OnLapse::Unknown)),
            ),
        ] {
            let tokens = idempotent(
                Framework::Axum,
                args,
                &quote!(
                    async fn create() {}
                ),
            );
            let policy = quote! {
                const POLICY: &'static #private::Policy = &#private::Policy::new(
                    ::core::concat!(::core::module_path!(), "::create")
                ) #call;
            };
            let (tokens, policy) = (tokens.to_string(), policy.to_string());
            assert!(tokens.contains(&policy), "{policy}\nis not in\n{tokens}");
        }
    }

    #[test]
    fn every_path_to_the_adapter_is_the_one_that_was_given() {
        let args = quote!(
            crate = "crate::facade::idem",
            scope = "a",
            ttl = TTL,
            lease = "1s"
        );
        let written = expanded(
            args,
            &quote!(
                async fn create() -> Answer {}
            ),
        );
        assert!(!written.contains("idem_axum"));
        assert_eq!(
            written.matches("__private").count(),
            written.matches("crate::facade::idem::__private").count()
        );
    }

    #[test]
    fn a_mistake_leaves_the_item_as_it_was() {
        for (args, item) in [
            (
                quote!(tll = "24h"),
                quote!(
                    #[inline]
                    #[allow(unused)]
                    pub async fn create() {}
                ),
            ),
            (
                quote!(),
                quote!(
                    #[debug_handler]
                    fn create(&self) -> u8 {
                        self.0
                    }
                ),
            ),
            (
                quote!(ttl = ),
                quote!(
                    struct Create;
                ),
            ),
        ] {
            for framework in [Framework::Axum, Framework::Actix] {
                let tokens = idempotent(framework, args.clone(), &item).to_string();
                assert!(tokens.contains("compile_error"));
                assert!(
                    tokens.ends_with(&item.to_string()),
                    "{item}\nis not at the end of\n{tokens}"
                );
            }
        }
    }

    #[test]
    fn a_body_that_is_not_complete_is_passed_on() {
        for body in [
            "{ a. }",
            "{ let x = }",
            "{ if a }",
            "{ match a { Some() => } }",
            "{ # }",
        ] {
            let item = format!("async fn create(a: String) {body}");
            let item: TokenStream = item.parse().expect("braces are balanced");
            for (args, errors) in [(quote!(scope = "user"), 0), (quote!(scop = "user"), 1)] {
                for framework in [Framework::Axum, Framework::Actix] {
                    let tokens = idempotent(framework, args.clone(), &item).to_string();
                    assert_eq!(tokens.matches("compile_error").count(), errors);
                    assert!(
                        tokens.contains(&item.to_string()),
                        "{item}\nis not in\n{tokens}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_arguments_make_the_macro_panic_or_lose_the_item() {
        const PIECES: [&str; 13] = [
            "scope", "ttl", "required", "crate", "other", "=", ",", "\"user\"", "\"1s\"", ".", "-",
            "(a, =)", "<",
        ];
        let item = quote!(
            async fn create(a: u8) {}
        );
        for first in PIECES {
            for second in PIECES {
                for third in PIECES {
                    for fourth in PIECES {
                        let args = [first, second, third, fourth].join(" ");
                        let args = args.parse().expect("pieces are balanced");
                        let tokens = idempotent(Framework::Axum, args, &item).to_string();
                        assert!(tokens.contains(&item.to_string()));
                    }
                }
            }
        }
    }
}
