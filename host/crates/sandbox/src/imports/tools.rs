//! Calls of other tools by a guest: decided like every other call, with the rights of the caller
//! that started the chain.

use std::{pin::pin, sync::Arc, time::Duration};

use airlock_core::{
    door::{Admitted, Chain},
    tool::{CallError, Tool, ToolOutput},
};
use futures_util::{StreamExt as _, stream};
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, warn};

use super::{BASE_FUEL, Store, charge, charge_call};
use crate::run::instance::State;

/// Fuel that calling a tool costs in addition to [`BASE_FUEL`].
const TOOL_FUEL: u64 = 9_000;
/// Tools that one page lists at most.
const MAX_PAGE: u32 = 1_000;

/// One page of the tools that a guest may call.
#[derive(Default)]
pub(crate) struct Page {
    /// Sorted by name.
    pub(crate) items: Vec<Arc<Tool>>,
    /// Cursor of the next page; `None` on the last page.
    pub(crate) next: Option<String>,
}

/// One tool call that a guest requests.
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) timeout: Option<Duration>,
}

type Answer = Result<ToolOutput, CallError>;

/// Lists tools after `cursor`, at most `limit` of them and at most [`MAX_PAGE`].
pub(crate) fn list(
    store: &mut Store<'_>,
    cursor: Option<&str>,
    limit: u32,
) -> wasmtime::Result<Page> {
    charge_call(store, BASE_FUEL, cursor.map_or(0, str::len))?;
    let page = store.data().page(cursor, limit.clamp(1, MAX_PAGE) as usize);
    let bytes: usize =
        page.items.iter().map(|tool| tool.name.as_str().len() + tool.description.len()).sum();
    charge(store, bytes as u64)?;
    Ok(page)
}

/// Returns one tool. Fails with `NotFound` if the guest may not see it.
pub(crate) fn describe(
    store: &mut Store<'_>,
    name: String,
) -> wasmtime::Result<Result<Arc<Tool>, CallError>> {
    charge_call(store, BASE_FUEL, name.len())?;
    let state = store.data();
    let found =
        state.call.chain.as_ref().and_then(|chain| chain.view().find(&state.call.origin, &name));
    let Some(tool) = found.map(|entry| entry.tool.clone()) else {
        return Ok(Err(CallError::NotFound { name }));
    };
    charge(store, (tool.description.len() + tool.input_schema.as_str().len()) as u64)?;
    Ok(Ok(tool))
}

/// Calls one tool and waits for its result.
pub(crate) async fn call(mut store: Store<'_>, request: Request) -> wasmtime::Result<Answer> {
    charge_call(&mut store, BASE_FUEL + TOOL_FUEL, request.name.len() + request.arguments.len())?;
    let result = match store.data_mut().admit(&request)? {
        Ok(admitted) => detach(admitted).await,
        Err(refused) => Err(refused),
    };
    receive(&mut store, result)
}

/// Calls several tools at the same time. The results are in the order of the requests.
pub(crate) async fn call_batch(
    mut store: Store<'_>,
    requests: Vec<Request>,
) -> wasmtime::Result<Vec<Answer>> {
    // All requests are decided before any runs. So if one of them needs an approval, none has had
    // an effect.
    let mut decided = Vec::new();
    for request in &requests {
        charge_call(
            &mut store,
            BASE_FUEL + TOOL_FUEL,
            request.name.len() + request.arguments.len(),
        )?;
        decided.push(store.data_mut().admit(request)?);
    }
    let in_flight = store.data().call.chain.as_ref().map_or(1, Chain::in_flight).max(1);
    let running = decided.into_iter().map(|decided| async {
        match decided {
            Ok(admitted) => detach(admitted).await,
            Err(refused) => Err(refused),
        }
    });
    let mut answers = pin!(stream::iter(running).buffered(in_flight));
    let mut results = Vec::new();
    while let Some(answer) = answers.next().await {
        results.push(receive(&mut store, answer)?);
    }
    Ok(results)
}

/// Charges fuel for a result. Stops the guest if the guest may not receive it.
fn receive(store: &mut Store<'_>, answer: Answer) -> wasmtime::Result<Answer> {
    let size = match &answer {
        Ok(output) => output.size(),
        Err(CallError::Tool(error)) => error.size(),
        Err(_) => 0,
    };
    let answer = store.data_mut().take_result(answer, size)?;
    charge(store, size as u64)?;
    Ok(answer)
}

impl State {
    fn page(&self, cursor: Option<&str>, limit: usize) -> Page {
        let Some(chain) = &self.call.chain else { return Page::default() };
        let entries = chain.view().list(&self.call.origin);
        let mut rest =
            entries.filter(|entry| cursor.is_none_or(|after| entry.tool.name.as_str() > after));
        let items: Vec<_> = rest.by_ref().take(limit).map(|entry| entry.tool.clone()).collect();
        let next = rest.next().and_then(|_| items.last()).map(|tool| tool.name.to_string());
        Page { items, next }
    }

    /// Decides a guest's call. The outer error is a refusal that ends the guest; any other refusal
    /// is the inner error.
    fn admit(&mut self, request: &Request) -> wasmtime::Result<Result<Admitted, CallError>> {
        let Some(chain) = &self.call.chain else {
            return Ok(Err(CallError::NotFound { name: request.name.clone() }));
        };
        match chain.admit(&self.call.origin, &request.name, &request.arguments) {
            Ok(admitted) => Ok(Ok(match request.timeout {
                Some(limit) => admitted.within(limit),
                None => admitted,
            })),
            Err(stop @ (CallError::NeedsApproval { .. } | CallError::Budget { .. })) => {
                Err(self.stop(stop))
            }
            Err(refused) => Ok(Err(refused)),
        }
    }

    /// Takes the result of a finished call, `size` bytes. A missing approval further down the chain
    /// ends this guest too.
    fn take_result(&mut self, answer: Answer, size: usize) -> wasmtime::Result<Answer> {
        let Some(left) = self.result_bytes_left.checked_sub(size) else {
            let limit = self.call.limits.copied_bytes as u64 * 8;
            return Err(self.stop(CallError::Budget { what: "bytes of tool results", limit }));
        };
        self.result_bytes_left = left;
        match answer {
            Ok(output) => Ok(Ok(output)),
            Err(missing @ CallError::NeedsApproval { .. }) => Err(self.stop(missing)),
            Err(error) => {
                // The guest receives fewer details than the operator, for whom this is the only
                // report of the cause.
                if let Some(cause) = std::error::Error::source(&error) {
                    warn!(code = error.code(), cause = %cause, "nested tool call failed");
                }
                Ok(Err(error))
            }
        }
    }
}

/// Runs a call on a separate task, because this future is polled on the guest's small stack.
/// Dropping the future aborts the task.
async fn detach(admitted: Admitted) -> Result<ToolOutput, CallError> {
    let tool = admitted.tool().name.clone();
    let ended = AbortOnDropHandle::new(tokio::spawn(admitted.run())).await;
    ended.unwrap_or_else(|lost| {
        if lost.is_panic() {
            error!(%tool, "a tool call panicked");
        }
        Err(CallError::Unavailable { tool, cause: lost.into() })
    })
}
