//! The sandbox, wasmtime: runs every guest in a fresh instance for each call, with hard limits.
//!
//! One [`Sandbox`] per process holds the engine with its pool of instances. A [`Plugin`] or the
//! [`Executor`] is [compiled](airlock_compile), or loaded from the cache of native code, and linked
//! once. Each call gets a store of its own, which is dropped afterwards. This crate does not know
//! where calls come from; calls that guests make go back through the
//! [`door`](airlock_core::door).

mod contract;
mod descriptors;
mod effects;
mod error;
mod executor;
mod grants;
mod imports;
mod inspect;
mod limits;
mod off_limits;
mod plain;
mod plugin;
mod run;
mod sandbox;
mod schemas;
mod script;
mod settings;
mod tool_guest;
mod uses;
mod wasi;

pub use self::{
    effects::{DeclaredEffect, Effect, Effects},
    error::LoadError,
    executor::Executor,
    grants::{
        Access, Denied, Directory, Grants, HostResources, Quota, Store as KvStore, ToolNames,
    },
    inspect::{
        contract_version, embed_tools, embedded_tools, exports_contract, supported_contracts,
    },
    limits::Limits,
    off_limits::OffLimits,
    plain::BadComponent,
    plugin::Plugin,
    run::beside::{Lost, run_apart, run_beside},
    sandbox::{Sandbox, Usage},
    schemas::Tools,
    script::{
        Binding, Bindings, FailureKind, Script, ScriptAnswer, ScriptCall, ScriptCalls, ScriptError,
        ScriptFailure, ScriptResult,
    },
    settings::Settings,
    uses::{ToolUses, Use, UseRecorder},
};
