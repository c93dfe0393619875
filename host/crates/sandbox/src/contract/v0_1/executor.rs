//! The world `script-executor` of this version.

use wasmtime::{Store, component::InstancePre};

use super::bindings::executor::{ScriptExecutorPre, exports::airlock::executor::executor as wit};
use crate::{FailureKind, Script, ScriptFailure, run::state::State};

/// A linked script executor.
pub(crate) struct ScriptGuest(ScriptExecutorPre<State>);

/// Checks the exports. The imports are linked already.
pub(crate) fn open_executor(pre: InstancePre<State>) -> wasmtime::Result<ScriptGuest> {
    Ok(ScriptGuest(ScriptExecutorPre::new(pre)?))
}

impl ScriptGuest {
    /// Runs a script and returns the JSON text of its value.
    pub(crate) async fn run(
        &self,
        store: &mut Store<State>,
        script: Script,
    ) -> wasmtime::Result<Result<Option<String>, ScriptFailure>> {
        let executor = self.0.instantiate_async(&mut *store).await?;
        let ran = executor.airlock_executor_executor().call_run(store, &for_guest(script)).await?;
        Ok(ran.map_err(from_guest))
    }
}

fn for_guest(script: Script) -> wit::Script {
    wit::Script {
        namespaces: script.bindings.named_in(&script.source),
        name: script.name,
        source: script.source,
        clock_ms: script.clock_ms,
    }
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
