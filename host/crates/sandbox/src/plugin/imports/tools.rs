//! Calls of other tools by a plugin: decided like every other call, with the rights of the caller
//! that started the chain.
//!
//! A plugin calls a tool by one of its own slots, or by the tool's full name. Only this module knows
//! slots: the decision, the record and the log of a call have the full name.

use std::{pin::pin, sync::Arc, time::Duration};

use airlock_core::{
    door::{Admitted, Arguments, Chain, Origin},
    threads,
    tool::{CallError, ErrorKind, HostCode, Tool, ToolName},
};
use airlock_strings::{MAX_NAME_BYTES, cut};
use futures_util::{StreamExt as _, stream};
use tokio::task::yield_now;
use tracing::error;

use crate::{
    Effect, Lost, Use,
    imports::tools::{TOOL_FUEL, ToolReply, receive},
    plugin::side::PluginSide,
    run::{
        charge::{BASE_FUEL, charge, charge_call},
        state::{State, Store},
    },
    run_apart, run_beside,
};

/// Tools that one page lists. The contract promises this number (`tools.list`).
const MAX_PAGE: u32 = 1_000;

/// A tool as a guest sees it.
pub(crate) struct ListedTool {
    /// Name that the guest calls: a slot, or the full name.
    pub(crate) name: String,
    pub(crate) tool: Arc<Tool>,
}

/// One page of the tools that a guest may call.
#[derive(Default)]
pub(crate) struct ListedTools {
    /// Slots, then tools by full name; each part sorted by name.
    pub(crate) items: Vec<ListedTool>,
    /// Cursor of the next page; `None` on the last page.
    pub(crate) next: Option<String>,
}

/// One tool call that a guest requests.
pub(crate) struct ToolRequest {
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) timeout: Option<Duration>,
}

/// Lists tools after `cursor`, at most `limit` of them and at most [`MAX_PAGE`].
pub(crate) fn list(
    store: &mut Store<'_, PluginSide>,
    cursor: Option<&str>,
    limit: u32,
) -> wasmtime::Result<Result<ListedTools, CallError>> {
    charge_call(store, BASE_FUEL, cursor.map_or(0, str::len))?;
    if let Err(refused) = store.data_mut().may_call(None) {
        return Ok(Err(refused));
    }
    let page = store.data().page(cursor, limit.clamp(1, MAX_PAGE) as usize);
    store.data().record_list();
    charge(store, page.items.iter().map(summary_bytes).sum::<usize>() as u64)?;
    Ok(Ok(page))
}

/// Returns one tool. Fails with `NotFound` if the guest may not see it.
pub(crate) fn describe(
    store: &mut Store<'_, PluginSide>,
    name: String,
) -> wasmtime::Result<Result<ListedTool, CallError>> {
    charge_call(store, BASE_FUEL, name.len())?;
    let full = match store.data_mut().full_name(&name) {
        Ok(full) => full,
        Err(refused) => return Ok(Err(refused)),
    };
    let state = store.data();
    let found = state
        .call
        .chain
        .as_ref()
        .and_then(|chain| chain.view().find(&state.call.guest.rights.origin, &full));
    let Some(tool) = found.map(|entry| entry.tool.clone()) else {
        return Ok(Err(not_found(name)));
    };
    let listed = ListedTool { name, tool };
    charge(store, (summary_bytes(&listed) + schema_bytes(&listed.tool)) as u64)?;
    Ok(Ok(listed))
}

/// Returns the bytes of a tool in a list.
fn summary_bytes(ListedTool { name, tool }: &ListedTool) -> usize {
    name.len() + tool.title.as_ref().map_or(0, String::len) + tool.description.len()
}

/// Returns the bytes of a tool's JSON.
fn schema_bytes(tool: &Tool) -> usize {
    let optional = [&tool.output_schema, &tool.meta, &tool.extra, &tool.annotations.extra];
    let texts = optional.into_iter().flatten().map(|json| json.as_str().len()).sum::<usize>();
    tool.input_schema.as_str().len() + texts
}

/// Calls one tool and waits for its result.
pub(crate) async fn call(
    mut store: Store<'_, PluginSide>,
    request: ToolRequest,
) -> wasmtime::Result<ToolReply> {
    charge_call(&mut store, BASE_FUEL + TOOL_FUEL, request.name.len() + request.arguments.len())?;
    let result = match decide(&mut store, &request).await? {
        Ok(admitted) => {
            let tool = admitted.tool().name.clone();
            ended(tool, run_beside(admitted.run()).await)
        }
        Err(refused) => Err(refused),
    };
    receive(&mut store, &request.name, result)
}

/// Calls several tools at the same time. The results are in the order of the requests.
pub(crate) async fn call_batch(
    mut store: Store<'_, PluginSide>,
    requests: Vec<ToolRequest>,
) -> wasmtime::Result<Vec<ToolReply>> {
    for request in &requests {
        let bytes = request.name.len() + request.arguments.len();
        charge_call(&mut store, BASE_FUEL + TOOL_FUEL, bytes)?;
    }
    // All requests are decided before any runs. So if one of them needs an approval, none has had
    // an effect.
    let mut decided = Vec::new();
    for request in &requests {
        decided.push(decide(&mut store, request).await?);
    }
    let in_flight = store.data().call.chain.as_ref().map_or(1, Chain::in_flight).max(1);
    let running = decided.into_iter().map(|decided| async {
        match decided {
            Ok(admitted) => {
                let tool = admitted.tool().name.clone();
                ended(tool, run_apart(admitted.run()).await)
            }
            Err(refused) => Err(refused),
        }
    });
    let mut answers = pin!(stream::iter(running).buffered(in_flight));
    let mut results = Vec::new();
    for request in &requests {
        let Some(answer) = answers.next().await else { break };
        results.push(receive(&mut store, &request.name, answer)?);
    }
    Ok(results)
}

/// Decides a guest's call. The outer error is a refusal that ends the guest; any other refusal is the inner error.
async fn decide(
    store: &mut Store<'_, PluginSide>,
    request: &ToolRequest,
) -> wasmtime::Result<Result<Admitted, CallError>> {
    let full = match store.data_mut().full_name(&request.name) {
        Ok(full) => full,
        Err(refused) => return Ok(Err(refused)),
    };
    let Some(chain) = &store.data().call.chain else {
        return Ok(Err(not_found(request.name.clone())));
    };
    let is_long = request.arguments.len() > threads::INLINE_BYTES;
    let decided = if is_long || chain.view().has_guards() {
        let chain = chain.clone();
        let origin = store.data().call.guest.rights.origin.clone();
        decide_checked(&chain, &origin, &full, &request.arguments).await
    } else {
        chain.admit(&store.data().call.guest.rights.origin, &full, &request.arguments)
    };
    match decided {
        Ok(admitted) => Ok(Ok(match request.timeout {
            Some(limit) => admitted.within(limit),
            None => admitted,
        })),
        Err(error) if error.is_unapproved() || error.code() == HostCode::Budget => {
            Err(store.data_mut().stop(error))
        }
        Err(refused) => Ok(Err(refused)),
    }
}

/// Decides a call whose arguments are long, or that guards look at. Both take time: the guest yields until they are checked
/// and after each decision, so that it is stopped at its deadline.
async fn decide_checked(
    chain: &Chain,
    origin: &Origin,
    tool: &str,
    arguments: &str,
) -> Result<Admitted, CallError> {
    let checked = checked(chain, origin, tool, arguments).await;
    yield_now().await;
    match checked {
        Ok(arguments) => chain.admit_approved(origin, tool, &arguments, None),
        Err(refused) => Err(chain.refuse(origin, tool, refused)),
    }
}

/// Returns the arguments of a call as the guards leave them if there are any. Long ones are read on a blocking thread.
async fn checked(
    chain: &Chain,
    origin: &Origin,
    tool: &str,
    arguments: &str,
) -> Result<Arguments, CallError> {
    let view = chain.view();
    if view.find(origin, tool).is_none() {
        return Err(view.absent(origin, tool));
    }
    match threads::guarded_nested(chain, origin, tool, arguments).await? {
        Some(arguments) => Ok(arguments),
        None => threads::parse(chain.tenant(), tool, arguments).await,
    }
}

impl State<PluginSide> {
    /// Fails if the running tool does not declare that it calls the tool of this name, or any tool.
    fn may_call(&mut self, name: Option<&str>) -> Result<(), CallError> {
        let Some(effect) = self.lacks(Effect::CallTools, name) else { return Ok(()) };
        let message =
            format!("the tool does not declare the effect {:?} in plugin.toml", effect.to_string());
        Err(CallError::new(ErrorKind::Denied, HostCode::UndeclaredEffect, message))
    }

    /// Returns the full name of the tool that the guest calls `name`. Fails if the tool may not be
    /// called at all, so that it is neither a slot nor granted by full name.
    fn full_name(&mut self, name: &str) -> Result<String, CallError> {
        self.may_call(Some(name))?;
        let granted = &self.call.guest.rights.grants.tools;
        let full = match granted.slots.get(name) {
            Some(Some(tool)) => Ok(tool.clone()),
            Some(None) => Err(unbound_slot(name)),
            None if granted.full.contains(name) => Ok(name.to_owned()),
            None => Err(not_found(name.to_owned())),
        }?;
        self.record_tool(name);
        Ok(full)
    }

    /// Records the use of a tool that the guest may call by this name.
    fn record_tool(&self, name: &str) {
        self.record(|| {
            let is_slot = self.call.guest.rights.grants.tools.slots.contains_key(name);
            let used = if is_slot { Use::Slot } else { Use::Tool };
            used(name.to_owned())
        });
    }

    /// Records the use of every granted tool, because a list depends on all of them.
    fn record_list(&self) {
        if let Some(recorder) = &self.call.guest.recorder {
            let granted = &self.call.guest.rights.grants.tools;
            granted.slots.keys().for_each(|slot| recorder.record(Use::Slot(slot.clone())));
            granted.full.iter().for_each(|tool| recorder.record(Use::Tool(tool.clone())));
        }
    }

    fn page(&self, cursor: Option<&str>, limit: usize) -> ListedTools {
        let Some(chain) = &self.call.chain else { return ListedTools::default() };
        let view = chain.view();
        let origin = &self.call.guest.rights.origin;
        let granted = &self.call.guest.rights.grants.tools;
        let slots = granted.slots.iter().filter_map(|(slot, tool)| {
            let entry = view.find(origin, tool.as_deref()?)?;
            Some((slot.as_str(), &entry.tool))
        });
        let full = granted.full.iter().filter_map(|name| {
            let entry = view.find(origin, name)?;
            Some((name.as_str(), &entry.tool))
        });
        let after = cursor.map(position);
        let mut rest = slots
            .chain(full)
            .filter(|(name, _)| after.is_none_or(|after| position(name) > after))
            .map(|(name, tool)| ListedTool { name: name.to_owned(), tool: tool.clone() });
        let items: Vec<_> = rest.by_ref().take(limit).collect();
        let next = rest.next().and_then(|_| items.last()).map(|item| item.name.clone());
        ListedTools { items, next }
    }
}

/// Returns the position of a name in the list: slots come first, and have no `-`.
fn position(name: &str) -> (bool, &str) {
    (name.contains('-'), name)
}

fn not_found(name: String) -> CallError {
    CallError::not_found(&cut(name, MAX_NAME_BYTES))
}

fn unbound_slot(slot: &str) -> CallError {
    let message = format!("the operator has bound no tool to the slot '{slot}'");
    CallError::new(ErrorKind::NotFound, HostCode::UnboundSlot, message)
}

/// Returns the result of a call that ran beside its guest, or apart from it.
fn ended(tool: ToolName, ended: Result<ToolReply, Lost>) -> ToolReply {
    ended.unwrap_or_else(|lost| {
        if matches!(lost, Lost::Panicked) {
            error!(%tool, "a tool call panicked");
        }
        Err(CallError::unavailable(tool, lost))
    })
}
