//! Components before they run: their bytes are read, checked, and compiled to native code, or taken
//! from the cache.
//!
//! A [`Compiler`] belongs to one [engine](pooled_engine). It counts the items of a component,
//! compiles it in a child process, and keeps the native code in a [`CodeCache`]. This crate knows
//! components and native code. It does not know tools, grants, limits on calls, or hosts: what runs
//! the code is the sandbox.

mod cache;
mod child;
mod compiler;
mod embed;
mod engine;
mod error;
mod functions;
mod precompile;
mod prepare;
mod progress;
mod sections;
mod settings;
mod structure;

pub use self::{
    cache::CodeCache,
    child::{COMMAND as COMPILE_COMMAND, Job as CompileJob, compile_component},
    compiler::{CompileTotals, Compiler},
    embed::embed,
    engine::{
        CORE_INSTANCES_PER_COMPONENT, MAX_MEMORY_BYTES, MEMORIES_PER_COMPONENT,
        TABLES_PER_COMPONENT, check_mappings, check_resources, compiler_engine, pooled_engine,
    },
    error::{CompileError, MAX_COMPONENT_BYTES},
    functions::FunctionCache,
    progress::{CompileHook, compiling},
    sections::{data_contains, exports, imported_functions, imports, section, section_anywhere},
    settings::{CompilerChild, Compiling, Form as CompileForm},
};
