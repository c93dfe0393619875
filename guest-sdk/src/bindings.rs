//! Bindings that `wit-bindgen` generates from the contract. [`crate::wire`] is the only module that
//! sees both these types and those of the SDK.

#![allow(missing_docs, unsafe_code, unreachable_pub, clippy::pedantic)]

wit_bindgen::generate!({
    path: "../wit",
    world: "tool-plugin-revealing",
    generate_all,
    pub_export_macro: true,
    default_bindings_module: "::airlock_guest::__private::bindings",
});
