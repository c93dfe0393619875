//! The engine, made once per process. Each setting is a decision about speed or about what a guest
//! may be.

use std::{num::NonZeroUsize, sync::Arc};

use tracing::warn;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
    WasmBacktraceDetails, component::Component,
};

use crate::{error::CompileError, functions::FunctionCache};

/// Most core instances of one component. wit-component makes three or four of a guest;
/// componentize-py makes fourteen, one for each of Python's libraries, and without WASI 33, with one
/// for each interface that it replaces. The number bounds a counter and reserves nothing.
pub const CORE_INSTANCES_PER_COMPONENT: u32 = 48;
/// Most bytes that the host keeps for one instance besides its memory and tables. Most of them are
/// for functions that tables name, 32 bytes each: Python has 6,000 in 400 KB, and the executor of Starlark, compiled without
/// link-time optimisation, 17,000. Allocated as needed.
const INSTANCE_BYTES: usize = 1 << 20;
/// Most memories of one component. The pool reserves address space for as many in every slot.
pub const MEMORIES_PER_COMPONENT: u32 = 2;
/// Most tables of one component. The pool reserves room for as many in every slot.
pub const TABLES_PER_COMPONENT: u32 = 4;
/// Most mappings that one slot of the pool uses: two for its stack, four for each memory. Measured.
const MAPPINGS_PER_SLOT: u32 = 2 + 4 * MEMORIES_PER_COMPONENT;
/// Largest memory that any limit may grant, in bytes: the maximum of the key `memory`. The instance
/// pool enforces it in addition to the store's own limiter.
pub const MAX_MEMORY_BYTES: usize = 1 << 30;
/// Table elements that any limit may grant: the maximum of the key `table_elements`. The pool
/// reserves eight bytes for each.
const MAX_TABLE_ELEMENTS: usize = 20_000;

/// Fails if instances of a component need more memories or tables than the pool has for one. The
/// pool checks it too; without a pool, the same components are refused.
pub fn check_resources(component: &Component) -> Result<(), CompileError> {
    // A component without imported modules, and others are refused, states what it needs.
    let Some(needed) = component.resources_required() else { return Ok(()) };
    for (what, found, limit) in [
        ("memories", needed.num_memories, MEMORIES_PER_COMPONENT),
        ("tables", needed.num_tables, TABLES_PER_COMPONENT),
    ] {
        if found > limit {
            return Err(CompileError::TooMuch { what, found: found.into(), limit: limit.into() });
        }
    }
    Ok(())
}

/// Builds the engine with a pool of `slots` instances. If the address space or the kernel's limit
/// on mappings does not allow that many, instances are allocated on demand, which is slower. The
/// compiler takes functions from `functions`, and adds the others to it.
pub fn pooled_engine(
    slots: u32,
    functions: Option<&Arc<FunctionCache>>,
) -> wasmtime::Result<Engine> {
    if let Err(reason) = check_mappings(slots) {
        warn!(slots, reason, "no instance pool; each call maps its own memory, which is slower");
        return engine_with(functions, InstanceAllocationStrategy::OnDemand);
    }
    engine_with(functions, InstanceAllocationStrategy::Pooling(pool(slots))).or_else(|error| {
        warn!(slots, %error, "no instance pool; each call maps its own memory, which is slower");
        engine_with(functions, InstanceAllocationStrategy::OnDemand)
    })
}

fn engine_with(
    functions: Option<&Arc<FunctionCache>>,
    strategy: InstanceAllocationStrategy,
) -> wasmtime::Result<Engine> {
    let mut config = config(strategy);
    if let Some(functions) = functions {
        config.enable_incremental_compilation(functions.clone())?;
    }
    Engine::new(&config)
}

/// Builds an engine that only compiles and reserves no room for instances. The code that it
/// compiles is the same.
pub fn compiler_engine() -> wasmtime::Result<Engine> {
    Engine::new(&config(InstanceAllocationStrategy::OnDemand))
}

/// Fails if the kernel permits too few mappings of memory (`vm.max_map_count`) for a pool of `slots` instances.
pub fn check_mappings(slots: u32) -> Result<(), &'static str> {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok());
    match limit {
        Some(limit) if slots.saturating_mul(MAPPINGS_PER_SLOT) > limit / 4 * 3 => {
            Err("vm.max_map_count is too small")
        }
        _ => Ok(()),
    }
}

fn pool(slots: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        // Enough for every component at its maximum, so that no greedy component exhausts the pool
        // for the others.
        .total_core_instances(slots * CORE_INSTANCES_PER_COMPONENT)
        .total_memories(slots * MEMORIES_PER_COMPONENT)
        .total_tables(slots * TABLES_PER_COMPONENT)
        .total_stacks(slots)
        .max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT)
        .max_memories_per_component(MEMORIES_PER_COMPONENT)
        .max_tables_per_component(TABLES_PER_COMPONENT)
        .max_memories_per_module(1)
        .max_tables_per_module(2)
        .max_memory_size(MAX_MEMORY_BYTES)
        .table_elements(MAX_TABLE_ELEMENTS)
        .max_component_instance_size(INSTANCE_BYTES)
        .max_core_instance_size(INSTANCE_BYTES)
        // With `PAGEMAP_SCAN`, these two limit how much is copied back; they are not the size of a
        // memset. A page that one call has written is copied back after every later call in the slot
        // too. Without the one for tables, a call of the script executor takes 30 µs longer.
        .linear_memory_keep_resident(4 << 20)
        .table_keep_resident(128 << 10)
        .pagemap_scan(Enabled::Auto)
        .decommit_batch_size(decommit_batch())
        .max_unused_warm_slots(32);
    pool
}

/// Returns the number of regions of memory that are returned to the kernel at once. With `PAGEMAP_SCAN`, slots are cleared in
/// their place, and regions have no bytes unless a call has written more than is copied back. A batch of them would still be
/// a system call, and would keep slots whose memory is in the caches of a core from the next calls.
fn decommit_batch() -> usize {
    if PoolingAllocationConfig::is_pagemap_scan_available() { 1 } else { 8 }
}

fn config(strategy: InstanceAllocationStrategy) -> Config {
    let mut config = Config::new();
    config
        .allocation_strategy(strategy)
        .consume_fuel(true)
        // Fuel with yields bounds work and CPU time and keeps guests fair. Epochs in addition cost
        // up to 40 % on interpreters.
        .epoch_interruption(false)
        // Concurrency support costs 1.2 µs a call, doubles the cost of a host call, and is where
        // the worst runtime bugs of 2026 were (GHSA-32h6-97mm-8q3c).
        .concurrency_support(false)
        .max_wasm_stack(512 << 10)
        // Host functions are polled on this stack too. They have what the guest's stack leaves of
        // it.
        .async_stack_size(2 << 20)
        .memory_init_cow(true)
        .memory_may_move(false)
        .wasm_relaxed_simd(false)
        .relaxed_simd_deterministic(true)
        .cranelift_nan_canonicalization(true)
        // Threads, exceptions and GC types have no switch here. The crate features that enable them
        // are left out, and a test checks that components with them are refused. Typed function
        // references have no switch either; they need no heap.
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_tail_call(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false)
        .wasm_stack_switching(false)
        .gc_support(false)
        .cranelift_opt_level(OptLevel::Speed)
        .parallel_compilation(true)
        // Backtraces of guests do not need unwind information, and registering it is slow.
        .native_unwind_info(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        // The default reads an environment variable, which would become part of the cache's key.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_that_no_guest_needs_do_not_compile() {
        let engine = pooled_engine(1, None).expect("an engine");
        assert!(compiles(&engine, "(memory 1) (func (result i32) i32.const 1)"));
        for (proposal, module) in [
            ("threads", "(memory 1 1 shared)"),
            ("gc", "(type (struct (field i32)))"),
            ("exceptions", "(tag (param i32))"),
            ("memory64", "(memory i64 1)"),
            ("multiple memories", "(memory 1) (memory 1)"),
            ("tail calls", "(func $f return_call $f)"),
            (
                "relaxed SIMD",
                "(func (param v128) (result v128) local.get 0 local.get 0 i8x16.relaxed_swizzle)",
            ),
        ] {
            assert!(!compiles(&engine, module), "{proposal}");
        }
    }

    fn compiles(engine: &Engine, module: &str) -> bool {
        let wasm =
            wat::parse_str(format!("(component (core module {module}))")).expect("a component");
        engine.precompile_component(&wasm).is_ok()
    }

    #[test]
    fn a_component_that_the_pool_has_no_room_for_is_refused_without_a_pool_too() {
        let engine = compiler_engine().expect("an engine");
        assert_eq!(checked(&engine, "(memory 1)", 2), Ok(()));
        let memories = "the component has 3 memories; the limit is 2";
        assert_eq!(checked(&engine, "(memory 1)", 3), Err(memories.to_owned()));
        assert_eq!(checked(&engine, "(table 1 funcref)", 4), Ok(()));
        let tables = "the component has 5 tables; the limit is 4";
        assert_eq!(checked(&engine, "(table 1 funcref)", 5), Err(tables.to_owned()));
    }

    fn checked(engine: &Engine, module: &str, instances: usize) -> Result<(), String> {
        let instances = "(core instance (instantiate $m))".repeat(instances);
        let text = format!("(component (core module $m {module}) {instances})");
        let wasm = wat::parse_str(text).expect("a component");
        let component = Component::new(engine, wasm).expect("it compiles");
        check_resources(&component).map_err(|error| error.to_string())
    }
}
