//! The script executor: a guest like any other, in a world of its own without WASI.

use wasmtime::component::{Component, Linker};
use wasmtime_wasi::WasiCtxBuilder;

use super::{
    Binding, FailureKind, Limits, LoadError, Sandbox, Script, ScriptError, ScriptFailure, ScriptResult,
    bindings::executor::{ScriptExecutorPre, exports::airlock::plugin::executor as wit},
    imports,
    instance::{Speaker, Start, State},
};
use crate::{
    catalog::{CallError, ToolName},
    door::{Chain, Origin},
};

/// The script executor, compiled and linked.
pub struct Executor {
    sandbox: Sandbox,
    pre: ScriptExecutorPre<State>,
    limits: Limits,
    /// What calls of it are named in errors.
    name: ToolName,
}

/// The linker of the executor's world. There is nothing in it to read a clock or to draw a random number with.
pub(super) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    imports::link_shared(&mut linker)?;
    Ok(linker)
}

impl Executor {
    pub(super) fn new(sandbox: Sandbox, component: &Component, limits: Limits) -> Result<Self, LoadError> {
        let pre = sandbox.executor_linker().instantiate_pre(component).and_then(ScriptExecutorPre::new);
        let pre = pre.map_err(|error| LoadError::Contract { world: "script-executor", cause: error.into() })?;
        Ok(Self { sandbox, pre, limits, name: ToolName::own("executeToolCode") })
    }

    /// Runs a script in a fresh instance. Its tool calls go through `chain`; what it prints is emitted there line by line.
    /// Dropping the future stops it.
    pub async fn run(&self, script: Script, chain: &Chain) -> ScriptResult {
        let start = Start {
            chain: Some(chain.clone()),
            origin: Origin::Script,
            speaker: Speaker::Script,
            limits: self.limits,
            wasi: WasiCtxBuilder::new().build(),
        };
        let script = for_guest(script);
        let ran = self
            .sandbox
            .run(chain.depth(), &self.name, start, async |store| {
                let executor = self.pre.instantiate_async(&mut *store).await?;
                executor.airlock_plugin_executor().call_run(store, &script).await
            })
            .await;
        match ran {
            Ok(Ok(value)) => self.checked(value),
            Ok(Err(failure)) => Err(ScriptError::Failed(from_guest(failure))),
            Err(stopped) => Err(ScriptError::Stopped(stopped)),
        }
    }

    fn checked(&self, value: Option<String>) -> ScriptResult {
        let Some(text) = value else { return Ok(None) };
        if text.len() > self.limits.result_bytes {
            let limit_bytes = self.limits.result_bytes as u64;
            return Err(ScriptError::Stopped(CallError::ResultTooLarge { tool: self.name.clone(), limit_bytes }));
        }
        let parsed = serde_json::from_str(&text);
        parsed
            .map(Some)
            .map_err(|error| ScriptError::Stopped(CallError::BadResult { tool: self.name.clone(), cause: Box::new(error) }))
    }
}

fn for_guest(script: Script) -> wit::Script {
    let binding = |binding: Binding| wit::Binding {
        namespace: binding.namespace,
        name: binding.name,
        alias: binding.alias,
        tool: binding.tool.to_string(),
    };
    wit::Script { name: script.name, source: script.source, bindings: script.bindings.into_iter().map(binding).collect() }
}

fn from_guest(failure: wit::Failure) -> ScriptFailure {
    ScriptFailure {
        kind: match failure.kind {
            wit::FailureKind::Syntax => FailureKind::Syntax,
            wit::FailureKind::Runtime => FailureKind::Runtime,
            wit::FailureKind::Tool => FailureKind::Tool,
        },
        message: failure.message,
        line: failure.line,
        column: failure.column,
        rendered: failure.rendered,
    }
}
