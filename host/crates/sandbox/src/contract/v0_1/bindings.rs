//! Rust bindings of the contract, generated from `wit/`. The executor's world shares the plugin's
//! types.

/// World `tool-plugin-revealing`: `tool-plugin` with one more import.
pub(super) mod plugin {
    wasmtime::component::bindgen!({
        path: "../../../wit",
        world: "tool-plugin-revealing",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "airlock:host/call.call-context": crate::run::instance::CallHandle,
            "airlock:host/kv.store": crate::imports::kv::OpenStore,
        },
    });
}

/// World `script-executor`.
pub(super) mod executor {
    wasmtime::component::bindgen!({
        path: "../../../wit",
        world: "script-executor",
        exports: { default: async },
        with: {
            "airlock:types": super::plugin::airlock::types,
            "airlock:host": super::plugin::airlock::host,
        },
    });
}

pub(super) use plugin::airlock::{
    host::{http, kv, log, secrets_reveal, tools},
    types::types,
};
