//! Bindings that `wit-bindgen` generates from the contract of guards.

#![allow(missing_docs, unsafe_code, unreachable_pub, clippy::pedantic)]

wit_bindgen::generate!({
    path: "wit/guard/0.1.0",
    world: "airlock:guard/guard@0.1.0",
    pub_export_macro: true,
    default_bindings_module: "::airlock_guest::__private::guard",
});
