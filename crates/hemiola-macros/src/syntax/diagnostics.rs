//! Error messages about one loop, reported together.
//!
//! Every step adds its errors and continues, so that the user can repair a loop in one round. Each
//! error points at the user's expression and suggests a replacement.

use proc_macro2::TokenStream;
use quote::ToTokens;

/// Errors so far, in source order as far as the steps allow.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    first: Option<syn::Error>,
}

impl Diagnostics {
    /// Adds an error about `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Adds an error reported by syn.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.first {
            Some(first) => first.combine(error),
            None => self.first = Some(error),
        }
    }

    /// Returns whether there is no error.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Messages in the order they were added.
    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.first.iter().flat_map(syn::Error::clone).map(|error| error.to_string()).collect()
    }

    /// Returns one `compile_error!` per error.
    pub(crate) fn to_tokens(&self) -> TokenStream {
        self.first.iter().map(syn::Error::to_compile_error).collect()
    }
}
