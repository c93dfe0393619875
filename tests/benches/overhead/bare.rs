//! The same component in plain wasmtime: the cost of an instance without the gateway.

use std::time::{Duration, Instant};

use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    component::{Component, InstancePre, Linker},
};

/// A linked component whose imports trap.
pub(crate) struct Bare {
    engine: Engine,
    ready: InstancePre<()>,
}

impl Bare {
    /// Compiles a component with the settings of the gateway's engine that cost time.
    pub(crate) fn new(file: &str) -> Self {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(8)
            .linear_memory_keep_resident(4 << 20)
            .table_keep_resident(128 << 10);
        pool.pagemap_scan(Enabled::Auto).max_memory_size(64 << 20);
        let mut config = Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)).consume_fuel(true);
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::from_file(&engine, file).expect("a component");
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&component).expect("every import can be a trap");
        let ready = linker.instantiate_pre(&component).expect("nothing is missing");
        Self { engine, ready }
    }

    /// Creates an instance and drops it. Only the instance's own start code runs.
    pub(crate) async fn instantiate(&self) -> Duration {
        let began = Instant::now();
        let mut store = Store::new(&self.engine, ());
        store.set_fuel(1_000_000_000).expect("fuel is on");
        self.ready.instantiate_async(&mut store).await.expect("it can be instantiated");
        drop(store);
        began.elapsed()
    }
}
