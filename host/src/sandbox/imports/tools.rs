//! `airlock:host/tools`: a guest's way to other tools, through the door, with the rights of whoever started the chain.

use std::{pin::pin, time::Duration};

use futures_util::{StreamExt as _, stream};
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, warn};
use wasmtime::{StoreContextMut, component::Linker};

use super::{BASE_FUEL, TOOL_FUEL, burn, charge};
use crate::{
    catalog::{CallError, ToolOutput},
    door::{Admitted, Chain, Origin},
    sandbox::{
        bindings::{
            tools::{CallRequest, ToolPage, ToolRef},
            types::{Content, ToolDescriptor, ToolError, ToolOutput as GuestOutput},
        },
        convert,
        instance::State,
    },
};

/// The most tools that one page lists.
const MAX_PAGE: u32 = 1_000;

type GuestResult = Result<GuestOutput, ToolError>;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut tools = linker.instance("airlock:host/tools@0.1.0")?;
    tools.func_wrap("list-tools", |store, (cursor, limit): (Option<String>, u32)| {
        Ok((list_tools(store, cursor.as_deref(), limit)?,))
    })?;
    tools.func_wrap("describe", |store, (name,): (String,)| Ok((describe(store, name)?,)))?;
    tools.func_wrap_async("call", |store, (request,): (CallRequest,)| {
        Box::new(async move { Ok((call(store, request).await?,)) })
    })?;
    tools.func_wrap_async("call-batch", |store, (requests,): (Vec<CallRequest>,)| {
        Box::new(async move { Ok((call_batch(store, requests).await?,)) })
    })
}

fn list_tools(
    mut store: StoreContextMut<'_, State>,
    cursor: Option<&str>,
    limit: u32,
) -> wasmtime::Result<Result<ToolPage, ToolError>> {
    charge(&mut store, BASE_FUEL, cursor.map_or(0, str::len))?;
    let state = store.data();
    let page = match &state.chain {
        Some(chain) => page(chain, &state.origin, cursor, limit.clamp(1, MAX_PAGE) as usize),
        None => ToolPage { items: Vec::new(), next: None },
    };
    let bytes: usize = page.items.iter().map(|item| item.name.len() + item.description.len()).sum();
    burn(&mut store, bytes as u64)?;
    Ok(Ok(page))
}

fn describe(mut store: StoreContextMut<'_, State>, name: String) -> wasmtime::Result<Result<ToolDescriptor, ToolError>> {
    charge(&mut store, BASE_FUEL, name.len())?;
    let state = store.data();
    let entry = state.chain.as_ref().and_then(|chain| chain.view().find(&state.origin, &name));
    let Some(entry) = entry else {
        return Ok(Err(convert::error_for_guest(&CallError::NotFound { name })));
    };
    let descriptor = convert::descriptor_for_guest(&entry.tool);
    burn(&mut store, (descriptor.description.len() + descriptor.input_schema.len()) as u64)?;
    Ok(Ok(descriptor))
}

async fn call(mut store: StoreContextMut<'_, State>, request: CallRequest) -> wasmtime::Result<GuestResult> {
    charge(&mut store, BASE_FUEL + TOOL_FUEL, request.name.len() + request.arguments.len())?;
    let result = match store.data_mut().admit(&request)? {
        Ok(admitted) => detach(admitted).await,
        Err(refused) => Err(refused),
    };
    let result = store.data_mut().settle(result)?;
    burn(&mut store, size(&result))?;
    Ok(result)
}

async fn call_batch(mut store: StoreContextMut<'_, State>, requests: Vec<CallRequest>) -> wasmtime::Result<Vec<GuestResult>> {
    // All are decided before any runs: a batch of which one needs an approval has done nothing yet.
    let mut decided = Vec::new();
    for request in &requests {
        charge(&mut store, BASE_FUEL + TOOL_FUEL, request.name.len() + request.arguments.len())?;
        decided.push(store.data_mut().admit(request)?);
    }
    let in_flight = store.data().chain.as_ref().map_or(1, Chain::in_flight).max(1);
    let running = decided.into_iter().map(|decided| async {
        match decided {
            Ok(admitted) => detach(admitted).await,
            Err(refused) => Err(refused),
        }
    });
    let mut answers = pin!(stream::iter(running).buffered(in_flight));
    let mut results = Vec::new();
    while let Some(answer) = answers.next().await {
        let result = store.data_mut().settle(answer)?;
        burn(&mut store, size(&result))?;
        results.push(result);
    }
    Ok(results)
}

impl State {
    /// Decides a guest's call. A refusal that must end the guest is the outer error; any other is data.
    fn admit(&mut self, request: &CallRequest) -> wasmtime::Result<Result<Admitted, CallError>> {
        let Some(chain) = &self.chain else {
            return Ok(Err(CallError::NotFound { name: request.name.clone() }));
        };
        match chain.admit(&self.origin, &request.name, &request.arguments) {
            Ok(admitted) => Ok(Ok(match request.timeout_ms {
                Some(limit) => admitted.within(Duration::from_millis(limit)),
                None => admitted,
            })),
            Err(stop @ (CallError::NeedsApproval { .. } | CallError::Budget { .. })) => Err(self.stop(stop)),
            Err(refused) => Ok(Err(refused)),
        }
    }

    /// Turns a finished call into what the guest sees. An approval that is missing further down ends this guest too.
    fn settle(&mut self, result: Result<ToolOutput, CallError>) -> wasmtime::Result<GuestResult> {
        match result {
            Ok(output) => {
                let Some(left) = self.answer_bytes_left.checked_sub(output.size()) else {
                    let limit = self.limits.copied_bytes as u64 * 8;
                    return Err(self.stop(CallError::Budget { what: "bytes of tool answers", limit }));
                };
                self.answer_bytes_left = left;
                Ok(Ok(convert::output_for_guest(output)))
            }
            Err(stop @ CallError::NeedsApproval { .. }) => Err(self.stop(stop)),
            Err(error) => {
                // The guest is told less than the operator, who would not hear of it anywhere else.
                if let Some(cause) = std::error::Error::source(&error) {
                    warn!(code = error.code(), cause = %cause, "nested tool call failed");
                }
                Ok(Err(convert::error_for_guest(&error)))
            }
        }
    }
}

/// Runs a call on a task of its own: this future is polled on the guest's small stack. Dropping it aborts the task.
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

fn page(chain: &Chain, origin: &Origin, cursor: Option<&str>, limit: usize) -> ToolPage {
    let mut rest = chain.view().list(origin).filter(|entry| cursor.is_none_or(|after| entry.tool.name.as_str() > after));
    let items: Vec<ToolRef> = rest
        .by_ref()
        .take(limit)
        .map(|entry| ToolRef { name: entry.tool.name.to_string(), description: entry.tool.description.clone() })
        .collect();
    let next = rest.next().and_then(|_| items.last()).map(|item| item.name.clone());
    ToolPage { items, next }
}

fn size(result: &GuestResult) -> u64 {
    let bytes = match result {
        Ok(output) => {
            let parts = output.content.iter().map(|part| match part {
                Content::Text(part) => part.text.len(),
                Content::Image(part) | Content::Audio(part) => part.data.len(),
                Content::ResourceLink(part) => part.uri.len(),
                Content::Embedded(part) => part.data.len(),
            });
            parts.sum::<usize>() + output.structured.as_ref().map_or(0, String::len)
        }
        Err(error) => error.message.len(),
    };
    bytes as u64
}
