//! All that is wrong with one loop, told at once.
//!
//! Every step adds what it finds and goes on, so that the user repairs a loop in one round. Each problem sits at the span
//! of the user's own expression and says what to write instead.

use proc_macro2::TokenStream;
use quote::ToTokens;

/// Problems found so far, in the order of the source as far as the steps allow.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    first: Option<syn::Error>,
}

impl Problems {
    /// Adds a problem that is about `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Adds a problem that syn has found.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.first {
            Some(first) => first.combine(error),
            None => self.first = Some(error),
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The messages, in the order they were added.
    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.first.iter().flat_map(syn::Error::clone).map(|error| error.to_string()).collect()
    }

    /// One `compile_error!` for each.
    pub(crate) fn to_tokens(&self) -> TokenStream {
        self.first.iter().map(syn::Error::to_compile_error).collect()
    }
}
