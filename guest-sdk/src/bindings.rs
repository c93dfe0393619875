//! What `wit-bindgen` makes of the contract. [`crate::wire`] is the only module that sees both
//! these types and ours.

#![allow(missing_docs, unsafe_code, unreachable_pub, clippy::pedantic)]

wit_bindgen::generate!({
    path: "../wit",
    world: "tool-plugin-revealing",
    generate_all,
    pub_export_macro: true,
    default_bindings_module: "::airlock_guest::__private::bindings",
});
