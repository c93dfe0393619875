//! The world `script-executor` of this version.

use wasmtime::{Store, component::InstancePre};

use super::bindings::executor::{ScriptExecutorPre, exports::airlock::executor::executor as wit};
use crate::{
    FailureKind, GlobalFunction, Script, ScriptFailure,
    run::state::{ScriptSide, State},
};

/// A linked script executor.
pub(crate) struct ScriptGuest(ScriptExecutorPre<State<ScriptSide>>);

/// Checks the exports. The imports are linked already.
pub(crate) fn open_executor(pre: InstancePre<State<ScriptSide>>) -> wasmtime::Result<ScriptGuest> {
    Ok(ScriptGuest(ScriptExecutorPre::new(pre)?))
}

impl ScriptGuest {
    /// Runs a script and returns the JSON text of its value.
    pub(crate) async fn run(
        &self,
        store: &mut Store<State<ScriptSide>>,
        script: Script,
    ) -> wasmtime::Result<Result<Option<String>, ScriptFailure>> {
        let executor = self.0.instantiate_async(&mut *store).await?;
        let ran = executor.airlock_executor_executor().call_run(store, &for_guest(script)).await?;
        Ok(ran.map_err(from_guest))
    }
}

fn for_guest(script: Script) -> wit::Script {
    let functions = script.bindings.functions_in(&script.source).into_iter();
    wit::Script {
        namespaces: script.bindings.named_in(&script.source),
        functions: functions.map(function_for_guest).collect(),
        name: script.name,
        source: script.source,
        inputs: script.inputs.as_deref().map(str::to_owned),
        clock_ms: script.clock_ms,
        last_expression: script.last_expression,
        follows_values: script.follows_values,
    }
}

fn function_for_guest(function: &GlobalFunction) -> wit::Function {
    wit::Function {
        name: function.name.clone(),
        tool: function.tool.to_string(),
        parameters: function.parameters.clone(),
    }
}

same_variants!(wit::FailureKind => FailureKind { Syntax Runtime Tool });

fn from_guest(failure: wit::Failure) -> ScriptFailure {
    ScriptFailure {
        kind: failure.kind.into(),
        message: failure.message,
        line: failure.line,
        column: failure.column,
        rendered: failure.rendered,
    }
}
