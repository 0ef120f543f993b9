//! One argument as it was written, and the values it can have.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, ExprLit, Lit, LitStr, Path, Result, Token};

use super::{ARGUMENTS, Argument, KeyFormat, OnLapse, Required, Scope, Time, names};
use crate::duration;

/// `name` or `name = value`.
pub(super) struct Given {
    pub(super) argument: &'static Argument,
    pub(super) name: Ident,
    value: Option<Expr>,
}

impl Parse for Given {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let Ok(name) = input.call(Ident::parse_any) else {
            let message = format!("expected the name of an argument: {}", names());
            return Err(input.error(message));
        };
        // Read before the name is looked up, so that an unknown argument is passed as a whole.
        let value = parse_value(&name, input);
        let Some(argument) = ARGUMENTS.iter().find(|argument| name == argument.name) else {
            let message = format!("unknown argument `{name}`; expected one of {}", names());
            return Err(Error::new(name.span(), message));
        };
        Ok(Self {
            argument,
            name,
            value: value?,
        })
    }
}

impl Given {
    // Typed expressions over the handler's arguments will be one more variant of `Scope`, read
    // here from what is not text.
    pub(super) fn scope(&self) -> Result<Scope> {
        let value = self.value()?;
        let Some(text) = as_text(value) else {
            return Err(Error::new_spanned(value, unquoted_scope(value)));
        };
        let name = text.value();
        match name.as_str() {
            "user" => Ok(Scope::User),
            "endpoint" => Ok(Scope::Endpoint),
            _ if is_made_of(&name, "_-") => Ok(Scope::Named(name)),
            _ if name.contains('+') => refuse(
                text,
                format!("joined scopes such as `{name}` are not supported yet; write one name"),
            ),
            _ => refuse(
                text,
                format!(
                    "invalid scope `{name}`: expected `user`, `endpoint` or the name of a resolver"
                ),
            ),
        }
    }

    pub(super) fn time(&self) -> Result<Time> {
        let value = self.value()?;
        if let Some(text) = as_text(value) {
            let duration = text.value();
            return match duration::parse(&duration) {
                Ok(millis) => Ok(Time::Millis(millis)),
                Err(error) => refuse(text, format!("invalid duration `{duration}`: {error}")),
            };
        }
        if let Expr::Lit(_) = value {
            let Argument { name, example, .. } = self.argument;
            let message = format!(
                "`{name}` takes text in quotes, such as `{example}`, or a constant `Duration`"
            );
            return Err(Error::new_spanned(value, message));
        }
        Ok(Time::Constant(value.clone()))
    }

    pub(super) fn required(&self) -> Result<Required> {
        let Some(value) = &self.value else {
            return Ok(Required::Creating);
        };
        match as_text(value).map(LitStr::value).as_deref() {
            Some("any") => Ok(Required::Any),
            _ => Err(Error::new_spanned(
                value,
                r#"`required` is written alone or as `required = "any"`"#,
            )),
        }
    }

    pub(super) fn header(&self) -> Result<String> {
        let text = self.text()?;
        let name = text.value();
        // A token of RFC 9110, section 5.6.2.
        if is_made_of(&name, "!#$%&'*+-.^_`|~") {
            return Ok(name.to_ascii_lowercase());
        }
        refuse(
            text,
            format!(
                "invalid header name `{name}`: expected letters, digits and `-`, such as `X-Event-Id`"
            ),
        )
    }

    pub(super) fn key_format(&self) -> Result<KeyFormat> {
        let text = self.text()?;
        match text.value().as_str() {
            "uuid" => Ok(KeyFormat::Uuid),
            other => refuse(
                text,
                format!(r#"unknown key format `{other}`; expected `"uuid"`"#),
            ),
        }
    }

    pub(super) fn operation(&self) -> Result<String> {
        let text = self.text()?;
        let name = text.value();
        // No space: "POST /payments" is what an operation without a name is called.
        if is_made_of(&name, "._-/:") {
            return Ok(name);
        }
        refuse(
            text,
            format!(
                "invalid operation `{name}`: expected letters, digits and `.`, such as `payments.create`"
            ),
        )
    }

    pub(super) fn on_lapse(&self) -> Result<OnLapse> {
        let text = self.text()?;
        match text.value().as_str() {
            "takeover" => Ok(OnLapse::Takeover),
            "unknown" => Ok(OnLapse::Unknown),
            other => refuse(
                text,
                format!(r#"unknown reaction `{other}`; expected `"takeover"` or `"unknown"`"#),
            ),
        }
    }

    /// Where the name is, if there is no value.
    pub(super) fn alone(&self) -> Result<Span> {
        match &self.value {
            None => Ok(self.name.span()),
            Some(value) => {
                let message = format!("`{}` is written alone", self.argument.name);
                Err(Error::new_spanned(value, message))
            }
        }
    }

    pub(super) fn adapter(&self) -> Result<Path> {
        let text = self.text()?;
        text.parse_with(Path::parse_mod_style).or_else(|_| {
            refuse(
                text,
                format!(
                    "invalid path `{}`: expected where the adapter is, such as `my_idem` or `crate::idem`",
                    text.value()
                ),
            )
        })
    }

    /// The value, where one must be.
    fn value(&self) -> Result<&Expr> {
        self.value.as_ref().ok_or_else(|| {
            let Argument { name, example, .. } = self.argument;
            let message = format!("`{name}` needs a value, such as `{example}`");
            Error::new(self.name.span(), message)
        })
    }

    /// The value, where it must be text.
    fn text(&self) -> Result<&LitStr> {
        let value = self.value()?;
        as_text(value).ok_or_else(|| {
            let Argument { name, example, .. } = self.argument;
            let message = format!("`{name}` takes text in quotes, such as `{example}`");
            Error::new_spanned(value, message)
        })
    }
}

/// Reads what follows `name`: nothing, or `=` and a value.
fn parse_value(name: &Ident, input: ParseStream<'_>) -> Result<Option<Expr>> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(None);
    }
    if !input.peek(Token![=]) {
        return Err(input.error(format!("expected `=` or `,` after `{name}`")));
    }
    let equals: Token![=] = input.parse()?;
    if input.is_empty() || input.peek(Token![,]) {
        let message = format!("expected a value after `{name} =`");
        return Err(Error::new(equals.span, message));
    }
    let start = input.cursor();
    match input.parse() {
        Ok(value) => Ok(Some(without_group(value))),
        // `syn` would report the end of the input, and at the whole attribute.
        Err(_) if input.is_empty() || input.peek(Token![,]) => {
            let message = format!("the value of `{name}` is not complete");
            Err(Error::new_range(start..input.cursor(), message))
        }
        Err(error) => Err(error),
    }
}

/// Looks through the invisible group around what a `macro_rules!` fragment matched.
fn without_group(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}

fn as_text(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) if text.suffix().is_empty() => Some(text),
        _ => None,
    }
}

/// What to say of a scope that is not in quotes.
fn unquoted_scope(value: &Expr) -> String {
    if let Expr::Path(path) = value
        && let Some(name) = path.path.get_ident()
    {
        return format!(r#"the name of a scope is text; write `scope = "{name}"`"#);
    }
    r#"a scope that is computed is not supported yet; name one, such as `scope = "user"`"#
        .to_owned()
}

fn is_made_of(name: &str, punctuation: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || punctuation.contains(c))
}

fn refuse<T>(text: &LitStr, message: String) -> Result<T> {
    Err(Error::new(text.span(), message))
}
