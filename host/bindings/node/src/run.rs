//! Runs as objects of JavaScript, and scripts that run.

#![allow(clippy::needless_pass_by_value, reason = "JavaScript passes arguments by value")]

use std::sync::Arc;

use airlock_binding::{BindingFailure, BindingRun, HostProcess, PrintedBatches, RunDump};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::{
    caller::{CallerMessage, NodeCaller, NodeReceiver, OpenCalls, ThrownError},
    convert::to_text,
    failure::{described, thrown},
    log,
};

/// A run that is finished, or that waits for decisions.
#[napi]
pub struct NodeRun {
    run: BindingRun,
    /// Value of a finished run, as text.
    value: Option<String>,
}

#[napi]
impl NodeRun {
    /// Returns whether the run is finished.
    #[napi]
    pub fn is_done(&self) -> bool {
        self.run.finished().is_some()
    }

    /// Returns the value of the script as text; `None` if it has none.
    #[napi]
    pub fn value(&self) -> Option<String> {
        self.value.clone()
    }

    /// Returns the text that the script has printed.
    #[napi]
    pub fn output(&self) -> String {
        self.run.output()
    }

    /// Returns the calls that wait for a decision, as text: objects with `id`, `tool` and `arguments`.
    #[napi]
    pub fn pending(&self) -> String {
        let calls = self.run.pending().into_iter();
        let calls = calls
            .map(|(id, tool, arguments)| json!({ "id": id, "tool": tool, "arguments": arguments }));
        to_text(&calls.collect::<Value>())
    }

    /// Returns what a finished run has used, as text.
    #[napi]
    pub fn usage(&self) -> Option<String> {
        let finished = self.run.finished()?;
        let usage = json!({
            "fuel": finished.fuel,
            "peakMemory": finished.peak_memory,
            "calls": finished.calls,
        });
        Some(usage.to_string())
    }

    /// Approves calls; without ids, the only one that waits.
    #[napi]
    pub fn approve(&self, ids: Option<Vec<u32>>) -> napi::Result<()> {
        self.run.approve(ids).map_err(|failure| thrown(&failure))
    }

    /// Denies calls; without ids, all that wait.
    #[napi]
    pub fn deny(&self, ids: Option<Vec<u32>>, reason: String) -> napi::Result<()> {
        self.run.deny(ids, &reason).map_err(|failure| thrown(&failure))
    }

    /// Returns the run as bytes.
    #[napi]
    pub fn dump(&self) -> napi::Result<Buffer> {
        let dump = self.run.dump().map_err(|failure| thrown(&failure))?;
        Ok(Buffer::from(dump.into_bytes()))
    }

    /// Resumes the run, with so many scripts in each other around it. Its messages go to `receiver`.
    #[napi]
    pub fn resume(
        &self,
        receiver: NodeReceiver,
        has_printer: bool,
        nesting: u32,
    ) -> napi::Result<NodeScript> {
        let process = process()?;
        let waiting = self.run.take_waiting().map_err(|failure| thrown(&failure))?;
        let caller = NodeCaller::new(receiver);
        let waiting = waiting.with_nesting(nesting);
        let waiting = if has_printer { waiting.with_on_print(caller.printer()) } else { waiting };
        let running = BindingRun::resume(process.clone(), waiting, caller.clone());
        Ok(NodeScript::spawn(&process, caller, running))
    }
}

impl NodeRun {
    pub(crate) fn new(run: BindingRun) -> Self {
        let finished = run.finished();
        let value = finished.as_ref().and_then(|finished| finished.value.as_ref()).map(to_text);
        Self { run, value }
    }
}

/// Runs the script of a finished run again, from its journal alone.
#[napi]
pub fn replay(dump: Buffer, receiver: NodeReceiver) -> napi::Result<NodeScript> {
    let process = process()?;
    // A copy, because the thread of JavaScript may end before the task has read it.
    let dump = dump.to_vec();
    let replaying = replay_bytes(process.clone(), dump);
    Ok(NodeScript::spawn(&process, NodeCaller::new(receiver), replaying))
}

/// Reads a dump and replays it. Not on the thread of JavaScript: a large dump takes a second.
async fn replay_bytes(
    process: Arc<HostProcess>,
    dump: Vec<u8>,
) -> Result<BindingRun, BindingFailure> {
    let dump = RunDump::from_bytes(dump)?;
    Box::pin(BindingRun::replay(process, dump)).await
}

/// A script that runs. It is stopped if this object is dropped, as when its thread ends.
#[napi]
pub struct NodeScript {
    task: AbortHandle,
    calls: Arc<OpenCalls>,
    printed: Arc<PrintedBatches>,
    result: ScriptResult,
}

type ScriptResult = Arc<Mutex<Option<NodeRun>>>;

#[napi]
impl NodeScript {
    /// Takes the result of a tool, as text.
    #[napi]
    pub fn succeed(&self, call: String, result: String) {
        self.calls.end(&call, Ok(result));
    }

    /// Takes the failure of a tool: the name of the type of its error, and its text.
    #[napi]
    pub fn fail(&self, call: String, kind: String, text: String) {
        self.calls.end(&call, Err(ThrownError::new(&kind, &text)));
    }

    /// Takes a batch of printed lines, after the message that one waits.
    #[napi]
    pub fn printed(&self) -> Vec<String> {
        self.printed.take()
    }

    /// Returns the run, once, after the message that it has ended without a failure.
    #[napi]
    pub fn take(&self) -> Option<NodeRun> {
        self.result.lock().take()
    }

    /// Stops the script, unless it has ended.
    #[napi]
    pub fn cancel(&self) {
        self.task.abort();
    }
}

impl NodeScript {
    /// Spawns a run. Its end is a message to its caller.
    pub(crate) fn spawn(
        process: &HostProcess,
        caller: Arc<NodeCaller>,
        run: impl Future<Output = Result<BindingRun, BindingFailure>> + Send + 'static,
    ) -> Self {
        let calls = caller.calls().clone();
        let printed = caller.printed().clone();
        let result = ScriptResult::default();
        let delivery = EndDelivery { caller, result: result.clone(), is_due: true };
        let task = process.runtime().spawn(delivery.run(run)).abort_handle();
        Self { task, calls, printed, result }
    }
}

impl Drop for NodeScript {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Delivers the end of a run, also if its task panics: a promise that nothing settles would wait for ever.
struct EndDelivery {
    caller: Arc<NodeCaller>,
    result: ScriptResult,
    is_due: bool,
}

impl EndDelivery {
    async fn run(mut self, run: impl Future<Output = Result<BindingRun, BindingFailure>>) {
        let ended = run.await;
        self.is_due = false;
        self.deliver(ended);
    }

    fn deliver(&self, ended: Result<BindingRun, BindingFailure>) {
        let failure = match ended {
            Ok(run) => {
                *self.result.lock() = Some(NodeRun::new(run));
                String::new()
            }
            Err(failure) => described(&failure),
        };
        self.caller.send(CallerMessage::End { failure });
    }
}

impl Drop for EndDelivery {
    fn drop(&mut self) {
        if self.is_due {
            self.deliver(Err(BindingFailure::Cancelled("the run was stopped".into())));
        }
    }
}

/// Returns the runtime and the sandbox of this process.
pub(crate) fn process() -> napi::Result<Arc<HostProcess>> {
    HostProcess::current(log::runner_settings).map_err(|failure| thrown(&failure))
}
