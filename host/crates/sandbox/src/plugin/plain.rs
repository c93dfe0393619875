//! Plain components as tools: components without Airlock's world, whose exported functions are
//! called with JSON.
//!
//! The input and output of a tool follow from the types of its function ([`schema`]), its
//! description from the comments in the component's WIT ([`docs`]). A function whose types have no
//! JSON form is left out with the reason; the other functions are still tools. A function without a
//! comment is a tool without a description, and the operator may configure one. Everything that is
//! read here was written by the component's author and is treated as hostile.
//!
//! This module does not know how calls are admitted or limited: a call runs in the store that the
//! sandbox prepared.

mod amplification;
mod arguments;
mod docs;
mod error;
mod exports;
mod messages;
mod results;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod unfold;

use std::{collections::BTreeMap, sync::Arc};

use airlock_core::{
    threads,
    tool::{CallError, ErrorKind, ToolDefinition, ToolError, ToolName, ToolOutput},
};
use airlock_json::{Caps, check};
use futures_util::future::BoxFuture;
use tracing::warn;
use wasmtime::{
    Store,
    component::{InstancePre, Val},
};

use self::{
    arguments::UnpackedArguments,
    docs::Docs,
    error::BadComponent,
    exports::{Exports, Function, LeftOutExport},
    results::BadResult,
};
use super::{
    side::PluginSide,
    tool_guest::{Returned, ToolGuest},
};
use crate::run::state::State;

/// A linked component whose functions are tools.
pub(crate) struct Plain {
    pre: InstancePre<State<PluginSide>>,
    tools: BTreeMap<String, Arc<PlainTool>>,
    left_out: Vec<LeftOutExport>,
}

struct PlainTool {
    description: String,
    function: Function,
}

impl Plain {
    /// Reads the functions of a component that does not export the plugin contract. `wasm` is the
    /// binary from which it was compiled; the comments are read from it.
    pub(crate) fn new(
        pre: InstancePre<State<PluginSide>>,
        wasm: &[u8],
    ) -> Result<Self, BadComponent> {
        let Exports { functions, mut left_out } = exports::examine(pre.component())?;
        let docs = Docs::read(wasm).unwrap_or_else(|error| {
            left_out.push(LeftOutExport {
                item: format!("the section {}", docs::SECTION),
                reason: error.to_string(),
            });
            Docs::default()
        });
        let mut tools: BTreeMap<String, Arc<PlainTool>> = BTreeMap::new();
        for function in functions {
            let name = function.export.tool_name();
            let export = function.export.to_string();
            check_name(&name, &export)?;
            let description = docs
                .function(function.export.interface.as_deref(), &function.export.name)
                .unwrap_or_default();
            let tool = Arc::new(PlainTool { description: description.to_owned(), function });
            if let Some(other) = tools.insert(name.clone(), tool) {
                return Err(BadComponent::Collision {
                    one: other.function.export.to_string(),
                    other: export,
                    name,
                });
            }
        }
        if tools.is_empty() {
            Err(BadComponent::NoTools(listed(&left_out)))
        } else {
            Ok(Self { pre, tools, left_out })
        }
    }

    /// Returns the tools, sorted by name. An undocumented tool has an empty description.
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools
            .iter()
            .map(|(name, tool)| {
                let input = schema::input(&tool.function.parameters);
                let output = schema::output(tool.function.result.as_ref());
                ToolDefinition {
                    output_schema: output.map(Into::into),
                    ..ToolDefinition::new(name, &*tool.description, input)
                }
            })
            .collect()
    }

    async fn call(
        &self,
        store: &mut Store<State<PluginSide>>,
        name: &str,
        arguments: &str,
    ) -> wasmtime::Result<Result<ToolOutput, ToolError>> {
        let Some(tool) = self.tools.get(name) else {
            return Ok(Err(ToolError::new(
                ErrorKind::NotFound,
                format!("there is no tool {name:?}"),
            )));
        };
        let arguments = read_arguments(store.data_mut(), tool, arguments).await?;
        let function = &tool.function;
        let limits = store.data().call.limits;
        let copied_bytes = function.copied_bytes(limits.copied_bytes);
        store.set_hostcall_fuel(copied_bytes);
        store.data_mut().call.limits.copied_bytes = copied_bytes;
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let export = instance
            .get_func(&mut *store, function.index)
            .ok_or_else(|| wasmtime::Error::msg("the export is gone"))?;
        let mut returned = vec![Val::Bool(false); usize::from(function.result.is_some())];
        export.call_async(&mut *store, &arguments, &mut returned).await?;
        let returned = returned.pop();
        let bytes = returned.as_ref().map_or(0, memory_bytes);
        let state = store.data_mut();
        // A long value waits for a thread, and is converted there.
        state.hold_part(bytes)?;
        let scrubber = state.call.guest.rights.grants.scrubber.clone();
        let tenant = state.call.tenant().clone();
        let tool = tool.clone();
        let converting = threads::read(&tenant, bytes, move || {
            let shape = tool.function.result.as_ref();
            results::tool_result(shape, returned, limits.result_bytes, &scrubber)
        });
        match converting.await {
            Ok(answer) => Ok(answer),
            Err(BadResult::TooLarge) => {
                let tool = store.data().call.tool.clone();
                let error = CallError::result_too_large(tool, limits.result_bytes);
                Err(store.data_mut().stop(error))
            }
            Err(bad) => Err(bad.into()),
        }
    }
}

impl ToolGuest for Plain {
    /// Returns the tools without running the component, because they follow from its types. Logs
    /// the exports that are not tools.
    fn describe<'a>(
        &'a self,
        store: &'a mut Store<State<PluginSide>>,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Vec<ToolDefinition>, String>>> {
        if !self.left_out.is_empty() {
            let plugin = &store.data().call.guest.rights.plugin.client;
            warn!(%plugin, left_out = listed(&self.left_out), "not all that the component exports is a tool");
        }
        Box::pin(async { Ok(Ok(self.definitions())) })
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<State<PluginSide>>,
        tool: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Returned, ToolError>>> {
        Box::pin(async move {
            let answer = self.call(store, tool, arguments).await?;
            Ok(answer.map(|output| Returned { output, emitted: 0 }))
        })
    }

    fn embeds_descriptors(&self) -> bool {
        false
    }
}

/// Reads the arguments of a call: within the memory of its tenant, which they take until the call ends,
/// and on a blocking thread if they are long. Stops the guest if they do not fit the function.
async fn read_arguments(
    state: &mut State<PluginSide>,
    tool: &Arc<PlainTool>,
    json: &str,
) -> wasmtime::Result<Vec<Val>> {
    let tenant = state.call.tenant().clone();
    let bytes = json.len();
    let text = json.to_owned();
    let counting = threads::read(&tenant, bytes, move || (tree_bytes(&text), text));
    let (tree_bytes, text) = counting.await;
    state.hold_part(tree_bytes)?;
    let tool = tool.clone();
    let reading =
        threads::read(&tenant, bytes, move || arguments::read(&tool.function.parameters, &text));
    match reading.await {
        Ok(UnpackedArguments { vals, bytes }) => {
            state.hold_part(bytes)?;
            Ok(vals)
        }
        Err(bad) => {
            let error = CallError::bad_arguments(state.call.tool.as_str(), bad);
            Err(state.stop(error))
        }
    }
}

/// Returns the most memory that a JSON text takes as a tree, in bytes. Text that is not JSON takes none.
fn tree_bytes(json: &str) -> usize {
    check(json.as_bytes(), &Caps::memory(usize::MAX)).map_or(0, |cost| cost.tree_bytes)
}

/// Returns the host memory that a value takes, in bytes, without what allocations take in addition.
fn memory_bytes(val: &Val) -> usize {
    let content = match val {
        Val::String(text) | Val::Enum(text) => text.len(),
        Val::List(vals) | Val::Tuple(vals) => vals.iter().map(memory_bytes).sum(),
        Val::Record(fields) => {
            fields.iter().map(|(name, val)| name.len() + memory_bytes(val)).sum()
        }
        Val::Variant(name, payload) => name.len() + payload.as_deref().map_or(0, memory_bytes),
        Val::Option(payload) | Val::Result(Ok(payload) | Err(payload)) => {
            payload.as_deref().map_or(0, memory_bytes)
        }
        Val::Flags(names) => names.iter().map(|name| size_of::<String>() + name.len()).sum(),
        _ => 0,
    };
    size_of::<Val>() + content
}

fn check_name(name: &str, export: &str) -> Result<(), BadComponent> {
    if ToolName::is_valid(name) {
        return Ok(());
    }
    Err(BadComponent::Name { export: export.to_owned(), name: name.to_owned() })
}

/// Lists the first [`airlock_strings::MAX_LISTED`] exports with their reasons, and the number of the others.
fn listed(left_out: &[LeftOutExport]) -> String {
    let shown: Vec<_> =
        left_out.iter().take(airlock_strings::MAX_LISTED).map(ToString::to_string).collect();
    match left_out.len().saturating_sub(airlock_strings::MAX_LISTED) {
        _ if shown.is_empty() => "it exports nothing".to_owned(),
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}
