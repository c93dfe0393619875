//! Rust bindings of the contract, generated from `wit/`. The executor's world shares the plugin's
//! types.

/// World `tool-plugin`, with everything that a plugin may import.
pub(super) mod plugin {
    wasmtime::component::bindgen!({
        path: ["../../../wit/types/0.1.0", "../../../wit/host/0.1.0", "../../../wit/plugin/0.1.0"],
        world: "airlock:plugin/tool-plugin@0.1.0",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "airlock:host/context.call-context": crate::run::state::CallHandle,
            "airlock:host/kv.store": crate::imports::kv::OpenStore,
        },
    });
}

/// World `script-executor`.
pub(super) mod executor {
    wasmtime::component::bindgen!({
        path: ["../../../wit/types/0.1.0", "../../../wit/host/0.1.0", "../../../wit/executor"],
        world: "airlock:executor/script-executor",
        exports: { default: async },
        with: {
            "airlock:types": crate::contract::v0_1::bindings::plugin::airlock::types,
            "airlock:host": crate::contract::v0_1::bindings::plugin::airlock::host,
        },
    });
}

pub(super) use plugin::airlock::{
    host::{http, kv, log, secrets_reveal, tools},
    types::types,
};
