//! Rust bindings of the guards' world, generated from `wit/`.

wasmtime::component::bindgen!({
    path: ["../../../wit/guard/0.1.0"],
    world: "airlock:guard/guard@0.1.0",
    exports: { default: async },
});
