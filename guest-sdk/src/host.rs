//! The functions of the host: the imports on WebAssembly, and elsewhere those of the
//! [`testing::Host`](crate::testing::Host) that is in use. Both have the types of the contract, so
//! a test goes through the same conversions as a call in a gateway.

#[cfg(target_family = "wasm")]
pub(crate) use crate::bindings::airlock::host::{
    config, context, http, kv, log, secrets, secrets_reveal, tools,
};
#[cfg(not(target_family = "wasm"))]
pub(crate) use crate::testing::imports::{
    config, context, http, kv, log, secrets, secrets_reveal, tools,
};
