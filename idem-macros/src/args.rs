//! The arguments of the attribute.
//!
//! Every argument is one row of [`ARGUMENTS`]: its name, an example for the messages, and the
//! function that reads its value into [`Args`]. Names and values are checked by the macro, types
//! by the user's compiler.

mod given;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Path, Result, Token};

use self::given::Given;
use crate::diagnostics::Diagnostics;

/// What the attribute says; `None` leaves the choice to the engine.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) scope: Option<Scope>,
    pub(crate) ttl: Option<Time>,
    pub(crate) lease: Option<Time>,
    pub(crate) wait: Option<Time>,
    pub(crate) required: Option<Required>,
    /// Lower case.
    pub(crate) header: Option<String>,
    pub(crate) key_format: Option<KeyFormat>,
    pub(crate) operation: Option<String>,
    pub(crate) on_lapse: Option<OnLapse>,
    /// That the handler stands in an `impl`, and where that is said.
    pub(crate) associated: Option<Span>,
    /// Where the adapter is, with the spans of the literal.
    pub(crate) adapter: Option<Path>,
}

/// Within what a key is unique.
pub(crate) enum Scope {
    User,
    Endpoint,
    /// A resolver registered on the engine.
    Named(String),
}

/// A duration that is longer than zero.
pub(crate) enum Time {
    Millis(u64),
    /// A constant `Duration`, which the user's compiler evaluates and checks.
    Constant(Expr),
}

/// On which methods a key must be sent.
pub(crate) enum Required {
    /// POST and PATCH.
    Creating,
    Any,
}

/// What a key looks like.
pub(crate) enum KeyFormat {
    Uuid,
}

/// What follows a claim whose lease lapsed.
pub(crate) enum OnLapse {
    Takeover,
    Unknown,
}

/// An argument that exists.
struct Argument {
    name: &'static str,
    example: &'static str,
    /// Reads the value; fails if it is not one of this argument's.
    set: fn(&mut Args, &Given) -> Result<()>,
}

/// All arguments, in the order in which messages list them.
const ARGUMENTS: [Argument; 11] = [
    Argument {
        name: "scope",
        example: r#"scope = "user""#,
        set: |args, given| given.scope().map(|value| args.scope = Some(value)),
    },
    Argument {
        name: "ttl",
        example: r#"ttl = "24h""#,
        set: |args, given| given.time().map(|value| args.ttl = Some(value)),
    },
    Argument {
        name: "lease",
        example: r#"lease = "30s""#,
        set: |args, given| given.time().map(|value| args.lease = Some(value)),
    },
    Argument {
        name: "wait",
        example: r#"wait = "10s""#,
        set: |args, given| given.time().map(|value| args.wait = Some(value)),
    },
    Argument {
        name: "required",
        example: r#"required = "any""#,
        set: |args, given| given.required().map(|value| args.required = Some(value)),
    },
    Argument {
        name: "header",
        example: r#"header = "X-Event-Id""#,
        set: |args, given| given.header().map(|value| args.header = Some(value)),
    },
    Argument {
        name: "key_format",
        example: r#"key_format = "uuid""#,
        set: |args, given| {
            given
                .key_format()
                .map(|value| args.key_format = Some(value))
        },
    },
    Argument {
        name: "operation",
        example: r#"operation = "payments.create""#,
        set: |args, given| given.operation().map(|value| args.operation = Some(value)),
    },
    Argument {
        name: "on_lapse",
        example: r#"on_lapse = "unknown""#,
        set: |args, given| given.on_lapse().map(|value| args.on_lapse = Some(value)),
    },
    Argument {
        name: "associated",
        example: "associated",
        set: |args, given| given.alone().map(|span| args.associated = Some(span)),
    },
    Argument {
        name: "crate",
        example: r#"crate = "my_idem""#,
        set: |args, given| given.adapter().map(|value| args.adapter = Some(value)),
    },
];

/// The key is looked for before the policy of an associated handler is known.
const HEADER_OF_ASSOCIATED: &str = "an associated handler reads its key from the engine's header; \
                                    set it with `Builder::header`, or move the handler out of the \
                                    `impl` block";

impl Args {
    /// Reads the arguments; what cannot be read is reported and left out.
    pub(crate) fn parse(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Self {
        let mut args = Self::default();
        let list = |input: ParseStream<'_>| {
            args.read_list(input, diagnostics);
            Ok(())
        };
        if let Err(error) = list.parse2(tokens) {
            diagnostics.push(error);
        }
        args
    }

    fn read_list(&mut self, input: ParseStream<'_>, diagnostics: &mut Diagnostics) {
        let mut seen = Vec::<Ident>::new();
        while !input.is_empty() {
            match input.parse::<Given>() {
                Ok(given) => {
                    if let Err(error) = self.read(&given, &mut seen) {
                        diagnostics.push(error);
                    }
                }
                Err(error) => {
                    diagnostics.push(error);
                    skip_to_comma(input);
                }
            }
            if let Err(error) = separator(input) {
                diagnostics.push(error);
            }
        }
        if let (Some(_), Some(header)) = (self.associated, seen.iter().find(|it| *it == "header")) {
            diagnostics.push(Error::new(header.span(), HEADER_OF_ASSOCIATED));
        }
    }

    fn read(&mut self, given: &Given, seen: &mut Vec<Ident>) -> Result<()> {
        let name = &given.name;
        if seen.contains(name) {
            let message = format!("duplicate argument `{name}`");
            return Err(Error::new(name.span(), message));
        }
        seen.push(name.clone());
        (given.argument.set)(self, given)
    }
}

/// Reads the comma after an argument, which may be left out after the last one.
fn separator(input: ParseStream<'_>) -> Result<()> {
    if input.is_empty() || input.parse::<Option<Token![,]>>()?.is_some() {
        return Ok(());
    }
    // A name is the next argument; anything else would be reported twice.
    if let Ok(next) = input.fork().call(Ident::parse_any) {
        return Err(input.error(format!("expected `,` before `{next}`")));
    }
    let error = input.error("expected `,`");
    skip_to_comma(input);
    input.parse::<Option<Token![,]>>()?;
    Err(error)
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.peek(Token![,]) && input.parse::<TokenTree>().is_ok() {}
}

/// The names of all arguments, as messages list them.
fn names() -> String {
    ARGUMENTS
        .map(|argument| format!("`{}`", argument.name))
        .join(", ")
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Delimiter, Group};
    use quote::{ToTokens, quote};

    use super::{
        ARGUMENTS, Args, Diagnostics, KeyFormat, OnLapse, Required, Scope, Time, TokenStream,
    };

    fn read(tokens: TokenStream) -> Args {
        let mut diagnostics = Diagnostics::default();
        let args = Args::parse(tokens, &mut diagnostics);
        assert_eq!(diagnostics.messages(), [""; 0]);
        args
    }

    #[track_caller]
    fn refused(tokens: TokenStream, messages: &[&str]) {
        let mut diagnostics = Diagnostics::default();
        Args::parse(tokens, &mut diagnostics);
        assert_eq!(diagnostics.messages(), messages);
    }

    /// What a fragment of `macro_rules!` becomes.
    fn fragment(tokens: TokenStream) -> TokenStream {
        Group::new(Delimiter::None, tokens).into_token_stream()
    }

    #[test]
    fn the_example_of_each_argument_is_accepted() {
        let free = ARGUMENTS.iter().filter(|it| it.name != "associated");
        let examples: Vec<_> = free.map(|argument| argument.example).collect();
        let args = read(examples.join(", ").parse().expect("examples are tokens"));
        assert!(args.scope.is_some() && args.ttl.is_some() && args.lease.is_some());
        assert!(args.wait.is_some() && args.required.is_some() && args.header.is_some());
        assert!(args.key_format.is_some() && args.operation.is_some());
        assert!(args.on_lapse.is_some() && args.adapter.is_some());
        assert!(args.associated.is_none());
        let associated = ARGUMENTS.iter().filter(|it| it.name != "header");
        let examples: Vec<_> = associated.map(|argument| argument.example).collect();
        let args = read(examples.join(", ").parse().expect("examples are tokens"));
        assert!(args.associated.is_some());
    }

    #[test]
    fn nothing_written_is_nothing_set() {
        let args = read(quote!());
        assert!(args.scope.is_none() && args.ttl.is_none() && args.lease.is_none());
        assert!(args.wait.is_none() && args.required.is_none() && args.header.is_none());
        assert!(args.key_format.is_none() && args.operation.is_none());
        assert!(args.on_lapse.is_none() && args.adapter.is_none());
        assert!(args.associated.is_none());
    }

    #[test]
    fn scopes_are_user_endpoint_or_a_name() {
        assert!(matches!(
            read(quote!(scope = "user")).scope,
            Some(Scope::User)
        ));
        assert!(matches!(
            read(quote!(scope = "endpoint",)).scope,
            Some(Scope::Endpoint)
        ));
        let named = read(quote!(scope = "tenant-2_b")).scope;
        assert!(matches!(named, Some(Scope::Named(name)) if name == "tenant-2_b"));
    }

    #[test]
    fn durations_are_text_or_constants() {
        let args = read(quote!(
            ttl = "24h",
            lease = LEASE,
            wait = limits::wait::<u8, 3>()
        ));
        assert!(matches!(args.ttl, Some(Time::Millis(86_400_000))));
        assert!(matches!(args.lease, Some(Time::Constant(_))));
        let Some(Time::Constant(wait)) = args.wait else {
            panic!("not a constant");
        };
        let expected = quote!(limits::wait::<u8, 3>()).to_string();
        assert_eq!(wait.to_token_stream().to_string(), expected);
    }

    #[test]
    fn choices_are_read() {
        assert!(matches!(
            read(quote!(required)).required,
            Some(Required::Creating)
        ));
        assert!(matches!(
            read(quote!(required = "any")).required,
            Some(Required::Any)
        ));
        let args = read(quote!(on_lapse = "takeover", key_format = "uuid"));
        assert!(matches!(args.on_lapse, Some(OnLapse::Takeover)));
        assert!(matches!(args.key_format, Some(KeyFormat::Uuid)));
        let args = read(quote!(on_lapse = "unknown"));
        assert!(matches!(args.on_lapse, Some(OnLapse::Unknown)));
    }

    #[test]
    fn header_names_are_lower_cased() {
        let args = read(quote!(header = "X-Event_Id.!#$%&'*+^`|~9"));
        assert_eq!(args.header.as_deref(), Some("x-event_id.!#$%&'*+^`|~9"));
    }

    #[test]
    fn operations_keep_their_case() {
        let args = read(quote!(operation = "v1/Payments:create_one-2.b"));
        assert_eq!(
            args.operation.as_deref(),
            Some("v1/Payments:create_one-2.b")
        );
    }

    #[test]
    fn paths_to_the_adapter_are_read() {
        for path in [
            "my_idem",
            "::my_idem",
            "crate::facade::idem",
            "self::idem",
            "super::idem",
        ] {
            let args = read(quote!(crate = #path));
            let adapter = args.adapter.to_token_stream().to_string().replace(' ', "");
            assert_eq!(adapter, path);
        }
    }

    #[test]
    fn fragments_of_macro_rules_are_looked_through() {
        let (scope, ttl) = (fragment(quote!("tenant")), fragment(fragment(quote!("2s"))));
        let lease = fragment(quote!(LEASE));
        let args = read(quote!(scope = #scope, ttl = #ttl, lease = #lease));
        assert!(matches!(args.scope, Some(Scope::Named(_))));
        assert!(matches!(args.ttl, Some(Time::Millis(2000))));
        assert!(matches!(
            args.lease,
            Some(Time::Constant(syn::Expr::Path(_)))
        ));
    }

    #[test]
    fn an_unknown_argument_is_passed_as_a_whole() {
        let message = "unknown argument `tll`; expected one of `scope`, `ttl`, `lease`, `wait`, \
                       `required`, `header`, `key_format`, `operation`, `on_lapse`, \
                       `associated`, `crate`";
        refused(quote!(tll = f::<u8, 3>(1, 2), ttl = "1s"), &[message]);
    }

    #[test]
    fn a_repeated_argument_is_refused_once() {
        refused(
            quote!(ttl = "1s", ttl = "0s", ttl),
            &["duplicate argument `ttl`"; 2],
        );
    }

    #[test]
    fn wrong_syntax_is_one_mistake_for_each_argument() {
        let names = "expected the name of an argument: `scope`, `ttl`, `lease`, `wait`, \
                     `required`, `header`, `key_format`, `operation`, `on_lapse`, \
                       `associated`, `crate`";
        refused(quote!("user"), &[names]);
        refused(quote!(, ttl = "1s"), &[names]);
        refused(
            quote!(scope),
            &[r#"`scope` needs a value, such as `scope = "user"`"#],
        );
        refused(
            quote!(scope = , required),
            &["expected a value after `scope =`"],
        );
        refused(quote!(required =), &["expected a value after `required =`"]);
        refused(
            quote!(scope("user")),
            &["expected `=` or `,` after `scope`"],
        );
        refused(
            quote!(scope: "user", ttl),
            &[
                "expected `=` or `,` after `scope`",
                r#"`ttl` needs a value, such as `ttl = "24h"`"#,
            ],
        );
        refused(
            quote!(scope = "user" ttl = "0s"),
            &[
                "expected `,` before `ttl`",
                "invalid duration `0s`: it must be longer than zero",
            ],
        );
        refused(quote!(scope = "user" "b", required), &["expected `,`"]);
        refused(
            quote!(required, scope = user.),
            &["the value of `scope` is not complete"],
        );
        refused(
            quote!(ttl = a., scope),
            &[
                "the value of `ttl` is not complete",
                r#"`scope` needs a value, such as `scope = "user"`"#,
            ],
        );
    }

    #[test]
    fn an_associated_handler_names_no_header() {
        let header = "an associated handler reads its key from the engine's header; set it with \
                      `Builder::header`, or move the handler out of the `impl` block";
        refused(quote!(associated, header = "X-Event-Id"), &[header]);
        refused(
            quote!(header = "X Event", ttl = "0s", associated),
            &[
                "invalid header name `X Event`: expected letters, digits and `-`, such as `X-Event-Id`",
                "invalid duration `0s`: it must be longer than zero",
                header,
            ],
        );
        refused(
            quote!(associated = "yes"),
            &["`associated` is written alone"],
        );
    }

    #[test]
    fn wrong_values_are_refused() {
        refused(
            quote!(scope = endpoint),
            &[r#"the name of a scope is text; write `scope = "endpoint"`"#],
        );
        refused(
            quote!(scope = user.id),
            &[
                r#"a scope that is computed is not supported yet; name one, such as `scope = "user"`"#,
            ],
        );
        refused(
            quote!(scope = "tenant+user"),
            &["joined scopes such as `tenant+user` are not supported yet; write one name"],
        );
        for scope in ["", "a b", "ä"] {
            let message = format!(
                "invalid scope `{scope}`: expected `user`, `endpoint` or the name of a resolver"
            );
            refused(quote!(scope = #scope), &[&message]);
        }
        for value in [
            quote!(5),
            quote!(24h),
            quote!("24h"suffix),
            quote!(b"24h"),
            quote!(true),
        ] {
            let message =
                r#"`ttl` takes text in quotes, such as `ttl = "24h"`, or a constant `Duration`"#;
            refused(quote!(ttl = #value), &[message]);
        }
        for value in [quote!(true), quote!("post"), quote!(any)] {
            let message = r#"`required` is written alone or as `required = "any"`"#;
            refused(quote!(required = #value), &[message]);
        }
        for header in ["", "X Event", "X-Event:", "X-Évent", "X\nEvent"] {
            let message = format!(
                "invalid header name `{header}`: expected letters, digits and `-`, such as `X-Event-Id`"
            );
            refused(quote!(header = #header), &[&message]);
        }
        refused(
            quote!(header = EVENT_ID),
            &[r#"`header` takes text in quotes, such as `header = "X-Event-Id"`"#],
        );
        refused(
            quote!(key_format = "UUID"),
            &[r#"unknown key format `UUID`; expected `"uuid"`"#],
        );
        for operation in ["", "POST /payments", "zahlung.öffnen"] {
            let message = format!(
                "invalid operation `{operation}`: expected letters, digits and `.`, such as `payments.create`"
            );
            refused(quote!(operation = #operation), &[&message]);
        }
        refused(
            quote!(on_lapse = "retry"),
            &[r#"unknown reaction `retry`; expected `"takeover"` or `"unknown"`"#],
        );
        for path in ["", "my-idem", "a::", "a b", "a::<b>", "\"", "("] {
            let message = format!(
                "invalid path `{path}`: expected where the adapter is, such as `my_idem` or `crate::idem`"
            );
            refused(quote!(crate = #path), &[&message]);
        }
    }
}
