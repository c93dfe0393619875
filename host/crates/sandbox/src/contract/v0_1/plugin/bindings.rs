//! Rust bindings of the plugins' world, generated from `wit/`.

wasmtime::component::bindgen!({
    path: ["../../../wit/types/0.1.0", "../../../wit/host/0.1.0", "../../../wit/plugin/0.1.0"],
    world: "airlock:plugin/tool-plugin@0.1.0",
    imports: { default: trappable },
    exports: { default: async },
    with: {
        "airlock:types": crate::contract::v0_1::bindings::executor::airlock::types,
        "airlock:host/log": crate::contract::v0_1::bindings::executor::airlock::host::log,
        "airlock:host/tools": crate::contract::v0_1::bindings::executor::airlock::host::tools,
        "airlock:host/context.call-context": crate::plugin::side::CallHandle,
        "airlock:host/kv.store": crate::plugin::imports::kv::OpenStore,
    },
});
