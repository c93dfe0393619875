//! Rust bindings of the executor's world, generated from `wit/`. That of plugins shares its types.

/// World `script-executor`.
pub(super) mod executor {
    wasmtime::component::bindgen!({
        path: ["../../../wit/types/0.1.0", "../../../wit/host/0.1.0", "../../../wit/executor"],
        world: "airlock:executor/script-executor",
        exports: { default: async },
    });
}

pub(super) use executor::airlock::{
    host::{log, tools},
    types::types,
};
