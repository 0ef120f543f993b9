//! Collecting mistakes, so that all of them are reported in one compilation.

use proc_macro2::TokenStream;

/// The mistakes found so far, in the order of the source.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics(Option<syn::Error>);

impl Diagnostics {
    /// Notes a mistake and goes on.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// One `compile_error!` for each mistake, or `None` if there was none.
    pub(crate) fn into_compile_errors(self) -> Option<TokenStream> {
        self.0.map(syn::Error::into_compile_error)
    }

    /// The messages alone.
    #[cfg(test)]
    pub(crate) fn messages(self) -> Vec<String> {
        self.0
            .into_iter()
            .flatten()
            .map(|error| error.to_string())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::Diagnostics;

    #[test]
    fn nothing_pushed_is_nothing_reported() {
        assert!(Diagnostics::default().into_compile_errors().is_none());
    }

    #[test]
    fn every_mistake_is_reported_in_order() {
        let mut diagnostics = Diagnostics::default();
        diagnostics.push(syn::Error::new(Span::call_site(), "first"));
        diagnostics.push(syn::Error::new(Span::call_site(), "second"));
        let tokens = diagnostics
            .into_compile_errors()
            .expect("two were pushed")
            .to_string();
        assert_eq!(tokens.matches("compile_error").count(), 2);
        assert!(tokens.find("first") < tokens.find("second"));
    }
}
