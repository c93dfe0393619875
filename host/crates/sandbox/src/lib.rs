//! The sandbox, wasmtime: runs every guest in a fresh instance for each call, with hard limits.
//!
//! One [`Sandbox`] per process holds the engine with its pool of instances. A plugin or the
//! [`Executor`] is [compiled](airlock_compile), or loaded from the cache of native code, and linked
//! once. Each call gets a store of its own, which is dropped afterwards. This crate does not know
//! where calls come from; calls that guests make go back through the
//! [`door`](airlock_core::door).
//!
//! The code for plugins is in the module `plugin` and in the module `plugin` of the contract; the code for guards is in
//! modules named `guard`. Both need the feature `plugins` of this crate. Without it, the sandbox runs only scripts.

mod contract;
mod error;
mod executor;
#[cfg(feature = "plugins")]
mod guard;
mod imports;
mod limits;
#[cfg(feature = "plugins")]
mod plugin;
mod run;
mod sandbox;
mod script;
mod settings;
mod source_calls;
mod source_flow;

#[cfg(feature = "plugins")]
pub use self::guard::{Guard, GuardVerdict, ToolOutcome};
#[cfg(feature = "plugins")]
pub use self::plugin::{
    Access, DeclaredEffect, Denied, Directory, Effect, Effects, Grants, HostResources, KvStore,
    OffLimits, Plugin, Quota, ToolNames, ToolUses, Tools, Use, UseRecorder, contract_version,
    embed_tools, embedded_tools, exports_contract, is_guard, supported_contracts,
};
pub use self::{
    error::LoadError,
    executor::Executor,
    limits::Limits,
    run::{
        beside::{Lost, run_apart, run_beside},
        totals::GuestUsage,
    },
    sandbox::{Sandbox, Usage},
    script::{
        Binding, Bindings, FailureKind, GlobalFunction, Script, ScriptAnswer, ScriptCall,
        ScriptCalls, ScriptError, ScriptFailure, ScriptResult,
    },
    settings::Settings,
    source_calls::{ResultPart, SourceCall, SourceValue, WrongCall},
    source_flow::{ToolFlow, ValueFlow},
};
