//! The function under the attribute, taken apart and checked.
//!
//! Invariant: the body is never parsed and its group never rebuilt, so that errors, lints and
//! editors see in it what the user wrote, also while it is incomplete.

use std::mem;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Error, FnArg, GenericParam, Meta, PatType, Result, ReturnType, Safety, Signature,
    Token, Type, Visibility,
};

use crate::diagnostics::Diagnostics;
use crate::variant::{self, MAX_CONDITIONS, Variant};

/// How many arguments the frameworks accept.
const MAX_ARGUMENTS: usize = 16;

/// Attributes below ours that belong to the function other code sees.
///
/// `cfg` and `cfg_attr` are not among them: the compiler resolves those of an item first, wherever
/// they stand.
const OUTSIDE: [&str; 8] = [
    "doc",
    "deprecated",
    "must_use",
    "allow",
    "expect",
    "warn",
    "deny",
    "forbid",
];

/// Attributes of actix-web that register the function other code sees.
const ROUTES: [&str; 12] = [
    "get", "post", "put", "delete", "head", "connect", "options", "trace", "patch", "query",
    "route", "routes",
];

const NOT_ASYNC: &str = "`#[idempotent]` needs an `async fn`";

const SELF_TYPE: &str = "`#[idempotent]` cannot see `Self`; add `associated` to its arguments";

/// A function that can be wrapped, unless something was reported.
pub(crate) struct Handler {
    /// Attributes of the function that other code sees.
    pub(crate) outside: Vec<Attribute>,
    /// Attributes of the function with the user's own arguments.
    pub(crate) inside: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Group,
}

impl Handler {
    /// Takes `item` apart and reports everything in it that keeps it from being wrapped.
    pub(crate) fn parse(item: TokenStream, diagnostics: &mut Diagnostics) -> Option<Self> {
        match syn::parse2::<Self>(item) {
            Ok(mut handler) => {
                check_signature(&handler.sig, diagnostics);
                handler.sort_attributes(diagnostics);
                Some(handler)
            }
            Err(error) => {
                diagnostics.push(error);
                None
            }
        }
    }

    /// The handler's own arguments, as written.
    pub(crate) fn arguments(&self) -> Vec<&PatType> {
        arguments(&self.sig)
    }

    /// The lists that they can become.
    pub(crate) fn variants(&self) -> Vec<Variant<'_>> {
        variant::variants(&self.arguments())
    }

    /// Reports `Self` in the signature: it is not the type of the `impl` to a function inside of
    /// another.
    pub(crate) fn refuse_self_type(&self, diagnostics: &mut Diagnostics) {
        let arguments = self.arguments();
        let arguments = arguments.iter().map(|it| it.ty.to_token_stream());
        let output = match &self.sig.output {
            ReturnType::Type(_, output) => Some(output.to_token_stream()),
            ReturnType::Default => None,
        };
        for this in arguments
            .chain(output)
            .filter_map(|it| find_ident(it, "Self"))
        {
            diagnostics.push(Error::new_spanned(this, SELF_TYPE));
        }
    }

    /// Moves outside what belongs there.
    fn sort_attributes(&mut self, diagnostics: &mut Diagnostics) {
        for attribute in mem::take(&mut self.inside) {
            let path = attribute.path();
            let names: Vec<_> = path
                .segments
                .iter()
                .map(|it| it.ident.to_string())
                .collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            match names.as_slice() {
                [name] if OUTSIDE.contains(name) => self.outside.push(attribute),
                [name] | ["actix_web", name] if ROUTES.contains(name) => {
                    self.outside.push(attribute);
                }
                [.., "idempotent"] => diagnostics.push(Error::new_spanned(
                    path,
                    "`#[idempotent]` is given twice; remove one",
                )),
                [.., "path"] => diagnostics.push(Error::new_spanned(
                    path,
                    "this attribute must see the handler's own arguments; move it above `#[idempotent]`",
                )),
                _ => self.inside.push(attribute),
            }
        }
    }
}

impl Parse for Handler {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let is_function = input.peek(Token![fn])
            || input.peek(Token![async])
            || input.peek(Token![const])
            || input.peek(Token![unsafe])
            || input.peek(Token![extern]);
        if !is_function {
            return Err(input.error(NOT_ASYNC));
        }
        Ok(Self {
            outside: Vec::new(),
            inside: attributes,
            vis,
            sig: input.parse()?,
            body: parse_body(input)?,
        })
    }
}

/// Reads the braces, looking through the invisible group of a `$body:block`.
fn parse_body(input: ParseStream<'_>) -> Result<Group> {
    let span = input.span();
    let mut token: Option<TokenTree> = input.parse().ok();
    loop {
        match token {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                return Ok(group);
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::None => {
                token = group.stream().into_iter().next();
            }
            _ => {
                return Err(Error::new(
                    span,
                    "`#[idempotent]` needs a function with a body",
                ));
            }
        }
    }
}

/// The handler's own arguments, as written.
fn arguments(sig: &Signature) -> Vec<&PatType> {
    let typed = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(argument) => Some(argument),
        FnArg::Receiver(_) => None,
    });
    typed.collect()
}

/// Reports what a handler cannot be.
fn check_signature(sig: &Signature, diagnostics: &mut Diagnostics) {
    let mut refuse = |tokens: &dyn ToTokens, message: &str| {
        diagnostics.push(Error::new_spanned(tokens, message));
    };
    if sig.asyncness.is_none() {
        refuse(&sig.fn_token, NOT_ASYNC);
    }
    if let Safety::Unsafe(keyword) = &sig.safety {
        refuse(
            keyword,
            "`#[idempotent]` needs a plain `async fn`; remove `unsafe`",
        );
    }
    if let Some(abi) = &sig.abi {
        refuse(
            abi,
            "`#[idempotent]` needs a plain `async fn`; remove `extern`",
        );
    }
    if let Some(variadic) = &sig.variadic {
        refuse(
            variadic,
            "`#[idempotent]` needs a plain `async fn`; remove `...`",
        );
    }
    for parameter in &sig.generics.params {
        if let GenericParam::Lifetime(parameter) = parameter {
            refuse(
                parameter,
                "a handler is not generic over a lifetime; its arguments own their data",
            );
        }
    }
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(receiver) => refuse(
                receiver,
                "`#[idempotent]` cannot see `self`; move the handler out of the `impl` block",
            ),
            FnArg::Typed(argument) => check_argument(argument, &mut refuse),
        }
    }
    if let Some(argument) = sig.inputs.iter().nth(MAX_ARGUMENTS) {
        refuse(
            argument,
            "a handler has at most 16 arguments; put some into an extractor of your own",
        );
    }
    if let Some(condition) = variant::conditions(&arguments(sig)).get(MAX_CONDITIONS) {
        refuse(
            condition,
            "the arguments depend on at most 6 conditions; put some into an extractor of your own",
        );
    }
}

fn check_argument(argument: &PatType, refuse: &mut impl FnMut(&dyn ToTokens, &str)) {
    for attribute in argument.attrs.iter().filter(|it| is_conditional(it)) {
        refuse(
            attribute,
            "an argument cannot depend on a `cfg` in `cfg_attr`; write it as `#[cfg(…)]` alone",
        );
    }
    let tokens = argument.ty.to_token_stream();
    if let Some(keyword) = find_ident(tokens, "impl") {
        refuse(
            &keyword,
            "`#[idempotent]` cannot name an `impl Trait` argument; use a type parameter",
        );
    }
    if let Type::Reference(reference) = argument.ty.as_ref()
        && reference
            .lifetime
            .as_ref()
            .is_none_or(|it| it.ident != "static")
    {
        refuse(
            reference,
            "a handler's arguments own their data; take it by value",
        );
    }
}

/// Whether the attribute is a `cfg_attr` with a `cfg`, which can take its argument away.
fn is_conditional(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            find_ident(list.tokens.clone(), "cfg").is_some()
        }
        _ => false,
    }
}

/// The first `name` in `tokens`, at any depth.
fn find_ident(tokens: TokenStream, name: &str) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == name => Some(ident),
        TokenTree::Group(group) => find_ident(group.stream(), name),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::{
        Attribute, Delimiter, Diagnostics, Group, Handler, ToTokens, TokenStream, arguments,
    };

    fn read(item: TokenStream) -> Handler {
        let mut diagnostics = Diagnostics::default();
        let handler = Handler::parse(item, &mut diagnostics);
        assert_eq!(diagnostics.messages(), [""; 0]);
        handler.expect("nothing was reported")
    }

    #[track_caller]
    fn refused(item: TokenStream, messages: &[&str]) {
        let mut diagnostics = Diagnostics::default();
        Handler::parse(item, &mut diagnostics);
        assert_eq!(diagnostics.messages(), messages);
    }

    fn names(attributes: &[Attribute]) -> Vec<String> {
        attributes
            .iter()
            .map(|attribute| {
                attribute
                    .path()
                    .to_token_stream()
                    .to_string()
                    .replace(' ', "")
            })
            .collect()
    }

    #[test]
    fn attributes_go_where_they_belong_and_keep_their_order() {
        let handler = read(quote! {
            #[instrument(skip_all)]
            #[doc = "Creates."]
            #[post("/payments")]
            #[axum::debug_handler]
            #[expect(dead_code)]
            #[inline]
            #[must_use]
            #[actix_web::get("/payments")]
            #[fastrace::trace]
            #[clippy::cognitive_complexity = "9"]
            #[deprecated]
            #[unsafe(no_mangle)]
            async fn create() {}
        });
        assert_eq!(
            names(&handler.outside),
            [
                "doc",
                "post",
                "expect",
                "must_use",
                "actix_web::get",
                "deprecated"
            ]
        );
        assert_eq!(
            names(&handler.inside),
            [
                "instrument",
                "axum::debug_handler",
                "inline",
                "fastrace::trace",
                "clippy::cognitive_complexity",
                "unsafe"
            ]
        );
    }

    #[test]
    fn attributes_that_cannot_be_below_are_refused() {
        let above =
            "this attribute must see the handler's own arguments; move it above `#[idempotent]`";
        let twice = "`#[idempotent]` is given twice; remove one";
        refused(
            quote! {
                #[utoipa::path(post)]
                #[idempotent]
                #[idem_axum::idempotent(scope = "user")]
                async fn create() {}
            },
            &[above, twice, twice],
        );
    }

    #[test]
    fn the_body_is_the_users_group() {
        let handler = read(quote!(pub(crate) async fn create<T>(a: u8) -> T where T: X { a. ; }));
        assert_eq!(handler.body.stream().to_string(), quote!(a.;).to_string());
        assert_eq!(arguments(&handler.sig).len(), 1);
    }

    #[test]
    fn the_body_is_found_in_fragments_of_macro_rules() {
        let block = Group::new(Delimiter::None, quote!({ 1 }));
        let block = Group::new(Delimiter::None, quote!(#block));
        let handler = read(quote!(async fn create() #block));
        assert_eq!(handler.body.to_string(), quote!({ 1 }).to_string());
    }

    #[test]
    fn what_is_no_async_fn_with_a_body_is_refused() {
        let not_async = "`#[idempotent]` needs an `async fn`";
        for item in [
            quote!(
                struct Create;
            ),
            quote!(
                pub mod create {}
            ),
            quote!(impl Create {}),
            quote!(
                fn create() {}
            ),
            quote!(
                pub fn create() -> impl Future<Output = ()> {}
            ),
            quote!(),
        ] {
            let mut diagnostics = Diagnostics::default();
            Handler::parse(item.clone(), &mut diagnostics);
            let messages = diagnostics.messages();
            assert!(
                messages.len() == 1 && messages[0].contains(not_async),
                "{item}: {messages:?}"
            );
        }
        let no_body = "`#[idempotent]` needs a function with a body";
        refused(
            quote!(
                async fn create();
            ),
            &[no_body],
        );
        refused(quote!(async fn create()), &[no_body]);
    }

    #[test]
    fn each_mistake_in_the_signature_is_reported() {
        refused(
            quote! {
                unsafe extern "C" fn create<'a, 'b, T>(
                    &self,
                    state: State<(impl Clone, Self)>,
                    #[cfg(unix)] name: &str,
                    #[cfg_attr(unix, cfg(test))] body: &'a str,
                    ...
                ) -> Json<Self> {}
            },
            &[
                "`#[idempotent]` needs an `async fn`",
                "`#[idempotent]` needs a plain `async fn`; remove `unsafe`",
                "`#[idempotent]` needs a plain `async fn`; remove `extern`",
                "`#[idempotent]` needs a plain `async fn`; remove `...`",
                "a handler is not generic over a lifetime; its arguments own their data",
                "a handler is not generic over a lifetime; its arguments own their data",
                "`#[idempotent]` cannot see `self`; move the handler out of the `impl` block",
                "`#[idempotent]` cannot name an `impl Trait` argument; use a type parameter",
                "a handler's arguments own their data; take it by value",
                "an argument cannot depend on a `cfg` in `cfg_attr`; write it as `#[cfg(…)]` alone",
                "a handler's arguments own their data; take it by value",
            ],
        );
    }

    #[test]
    fn the_type_of_an_impl_is_reported_wherever_the_signature_names_it() {
        let handler = read(quote!(
            async fn create(a: A, b: Json<Self>, c: (Self, Self)) -> Result<Self, Error> {}
        ));
        let mut diagnostics = Diagnostics::default();
        handler.refuse_self_type(&mut diagnostics);
        let message = "`#[idempotent]` cannot see `Self`; add `associated` to its arguments";
        assert_eq!(diagnostics.messages(), [message; 3]);
    }

    #[test]
    fn what_only_looks_wrong_is_accepted() {
        read(quote! {
            async fn create(
                #[allow(unused)] a: &'static str,
                #[cfg_attr(unix, allow(unused))] State(b): State<fn(&str) -> &str>,
                #[cfg(unix)] c: Extension<Box<dyn for<'a> Fn(&'a str)>>,
            ) -> impl IntoResponse {}
        });
    }

    #[test]
    fn the_seventeenth_argument_is_refused() {
        let sixteen = vec![quote!(_: Method); 16];
        let handler = read(quote!(async fn create(#(#sixteen),*) {}));
        assert_eq!(arguments(&handler.sig).len(), 16);
        refused(
            quote!(async fn create(#(#sixteen,)* last: String) {}),
            &["a handler has at most 16 arguments; put some into an extractor of your own"],
        );
    }

    #[test]
    fn the_seventh_condition_on_arguments_is_refused() {
        let six = ["a", "b", "c", "d", "e", "f"].map(|it| quote!(#[cfg(feature = #it)] _: Method));
        let handler = read(quote!(async fn create(#(#six,)* #[cfg(feature = "a")] b: String) {}));
        assert_eq!(handler.variants().len(), 64);
        refused(
            quote!(async fn create(#(#six,)* #[cfg(unix)] _: Uri, #[cfg(test)] b: String) {}),
            &[
                "the arguments depend on at most 6 conditions; put some into an extractor of your own",
            ],
        );
    }
}
