//! The same component in wasmtime alone: what an instance costs before the gateway adds anything.

use std::time::{Duration, Instant};

use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    component::{Component, InstancePre, Linker},
};

/// A component, linked, with nothing behind its imports.
pub(crate) struct Bare {
    engine: Engine,
    ready: InstancePre<()>,
}

impl Bare {
    /// Compiles a component with what the gateway's own engine has switched on that costs time.
    pub(crate) fn new(file: &str) -> Self {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(8)
            .linear_memory_keep_resident(4 << 20)
            .table_keep_resident(128 << 10);
        pool.pagemap_scan(Enabled::Auto).decommit_batch_size(8).max_memory_size(64 << 20);
        let mut config = Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)).consume_fuel(true);
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::from_file(&engine, file).expect("a component");
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&component).expect("every import can be a trap");
        let ready = linker.instantiate_pre(&component).expect("nothing is missing");
        Self { engine, ready }
    }

    /// Makes an instance and throws it away; nothing of it runs but what it does by itself at the
    /// start.
    pub(crate) async fn instantiate(&self) -> Duration {
        let began = Instant::now();
        let mut store = Store::new(&self.engine, ());
        store.set_fuel(1_000_000_000).expect("fuel is on");
        self.ready.instantiate_async(&mut store).await.expect("it can be instantiated");
        drop(store);
        began.elapsed()
    }
}
