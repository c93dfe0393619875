//! Bindings that `wit-bindgen` generates from the contract. [`crate::wire`] is the only module that
//! sees both these types and those of the SDK.

#![allow(missing_docs, unsafe_code, unreachable_pub, clippy::pedantic)]

wit_bindgen::generate!({
    path: ["wit/types/0.1.0", "wit/host/0.1.0", "wit/plugin/0.1.0"],
    world: "airlock:plugin/tool-plugin@0.1.0",
    generate_all,
    pub_export_macro: true,
    default_bindings_module: "::airlock_guest::__private::bindings",
});

/// Maximum keys of one page and of one reading (`host.wit`): the host copies them into the guest at once.
pub(crate) const MAX_PAGE_KEYS: u32 = 1_000;
