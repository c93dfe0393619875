//! Tokens that the code of several attributes contains.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// Renders an `Option` with its path.
pub(crate) fn option(value: Option<&impl ToTokens>) -> TokenStream {
    value.map_or_else(
        || quote!(::core::option::Option::None),
        |value| quote!(::core::option::Option::Some(#value)),
    )
}
