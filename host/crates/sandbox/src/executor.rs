//! The script executor: a guest like any other, in a world of its own without WASI.

use std::sync::Arc;

use airlock_core::{
    door::Chain,
    tool::{CallError, ToolName},
};
use wasmtime::component::{Component, Linker};

use crate::{
    Limits, LoadError, Script, ScriptCalls, ScriptError, ScriptResult,
    contract::v0_1::{self, ScriptGuest},
    run::{
        instance::GuestRunner,
        state::{Call, ScriptSide, State},
    },
};

/// The script executor, compiled and linked.
pub struct Executor {
    runner: GuestRunner,
    guest: ScriptGuest,
    /// Name of its calls in errors.
    name: ToolName,
}

/// Builds the linker of the executor's world. Nothing in it reads a clock or draws a random number.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State<ScriptSide>>> {
    let mut linker = Linker::new(engine);
    v0_1::link_executor(&mut linker)?;
    Ok(linker)
}

impl Executor {
    pub(crate) fn new(
        runner: GuestRunner,
        linker: &Linker<State<ScriptSide>>,
        component: &Component,
    ) -> Result<Self, LoadError> {
        let guest = linker.instantiate_pre(component).and_then(v0_1::open_executor);
        let guest = guest.map_err(|error| LoadError::Contract {
            world: "script-executor",
            cause: error.into(),
        })?;
        Ok(Self { runner, guest, name: ToolName::own("executeToolCode") })
    }

    /// Runs a script in a fresh instance with these limits. `calls` makes its tool calls, and takes each line that it
    /// prints. Dropping the future stops the script.
    pub async fn run(
        &self,
        script: Script,
        limits: Limits,
        chain: &Chain,
        calls: Arc<dyn ScriptCalls>,
    ) -> ScriptResult {
        let guest = ScriptSide { bindings: script.bindings.clone(), calls };
        let call = Call { tool: self.name.clone(), chain: Some(chain.clone()), limits, guest };
        let ran = self
            .runner
            .run(Some(chain), || Ok(call), async |store| self.guest.run(store, script).await)
            .await;
        match ran {
            Ok(Ok(value)) => self.checked(value, limits.result_bytes),
            Ok(Err(failure)) => Err(ScriptError::Failed(failure)),
            Err(stopped) => Err(ScriptError::Stopped(stopped)),
        }
    }

    fn checked(&self, value: Option<String>, limit: usize) -> ScriptResult {
        let Some(text) = value else { return Ok(None) };
        if text.len() > limit {
            let error = CallError::result_too_large(self.name.clone(), limit);
            return Err(ScriptError::Stopped(error));
        }
        let parsed = serde_json::from_str(&text);
        parsed
            .map(Some)
            .map_err(|error| ScriptError::Stopped(CallError::bad_result(self.name.clone(), error)))
    }
}
