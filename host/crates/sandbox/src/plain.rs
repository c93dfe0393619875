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
mod exports;
mod messages;
mod results;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod unfold;

use std::collections::BTreeMap;

use airlock_core::tool::{
    Annotations, CallError, ErrorKind, ToolDefinition, ToolError, ToolName, ToolOutput,
};
use futures_util::future::BoxFuture;
use tracing::warn;
use wasmtime::{
    Store,
    component::{Component, InstancePre, Linker, Val},
};

use self::{
    docs::Docs,
    exports::{Exports, Function, LeftOut},
    results::BadResult,
};
use crate::{
    LoadError,
    contract::{Returned, ToolGuest},
    run::instance::{Guest, State},
};

/// Exports that an error or a log line lists.
const MAX_LISTED: usize = 20;

/// Reasons for which a component is not usable as a set of tools.
#[derive(Debug, thiserror::Error)]
pub enum BadComponent {
    /// It is a program, or serves requests.
    #[error(
        "it exports only {0}, which is to be run by a host rather than called as a tool; this release cannot run it"
    )]
    Program(String),
    /// It exports an interface of Airlock's other than the plugin contract.
    #[error("it exports {0}, which is no contract of plugins; plugins export airlock:plugin/tools")]
    OtherContract(String),
    /// It exports no function that can be a tool. The text lists the exports with the reasons.
    #[error("it exports neither airlock:plugin/tools nor a function that can be a tool: {0}")]
    NoTools(String),
    /// Two functions would have the same tool name.
    #[error("its exports {one} and {other} would both be the tool {name:?}; rename one of them")]
    Collision {
        /// The export of one function.
        one: String,
        /// The export of the other function.
        other: String,
        /// The tool name of both.
        name: String,
    },
    /// The name of a function cannot be the name of a tool.
    #[error(
        "its export {export} would be the tool {name:?}; a tool's name has 1 to 64 of the characters a-z, A-Z, 0-9, _ and -"
    )]
    Name {
        /// The export of the function.
        export: String,
        /// The tool name that it would have.
        name: String,
    },
    /// It exports more functions and other items than the limit.
    #[error("it exports more than {} functions", exports::MAX_EXPORTS)]
    TooManyExports,
    /// Its types unfold to more parts, or more bytes of names, than the limit.
    #[error(
        "the types of its functions have more than {} parts, or more than 1 MiB of names",
        unfold::MAX_PARTS
    )]
    TooManyParts,
}

/// Opens a component that does not export the plugin contract. `wasm` is the binary from which it
/// was compiled; the comments are read from it.
pub(super) fn open(
    linker: &Linker<State>,
    component: &Component,
    wasm: &[u8],
) -> Result<Box<dyn ToolGuest>, LoadError> {
    let pre = linker.instantiate_pre(component);
    let pre =
        pre.map_err(|error| LoadError::Contract { world: "tool-plugin", cause: error.into() })?;
    Ok(Box::new(Plain::new(pre, wasm).map_err(LoadError::Plain)?))
}

/// A linked component whose functions are tools.
struct Plain {
    pre: InstancePre<State>,
    tools: BTreeMap<String, Tool>,
    left_out: Vec<LeftOut>,
}

struct Tool {
    description: String,
    function: Function,
}

impl Plain {
    fn new(pre: InstancePre<State>, wasm: &[u8]) -> Result<Self, BadComponent> {
        let Exports { functions, mut left_out } = exports::of(pre.component())?;
        let docs = Docs::of(wasm).unwrap_or_else(|error| {
            left_out.push(LeftOut {
                item: format!("the section {}", docs::SECTION),
                reason: error.to_string(),
            });
            Docs::default()
        });
        let mut tools: BTreeMap<String, Tool> = BTreeMap::new();
        for function in functions {
            let name = function.export.tool_name();
            let export = function.export.to_string();
            check_name(&name, &export)?;
            let description = docs
                .function(function.export.interface.as_deref(), &function.export.name)
                .unwrap_or_default();
            let tool = Tool { description: description.to_owned(), function };
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
            .map(|(name, tool)| ToolDefinition {
                name: name.clone(),
                title: None,
                description: tool.description.clone(),
                input_schema: schema::input(&tool.function.parameters).into(),
                output_schema: schema::output(tool.function.result.as_ref()).map(Into::into),
                annotations: Annotations::default(),
                meta: None,
                extra: serde_json::Map::new(),
            })
            .collect()
    }

    async fn call(
        &self,
        store: &mut Store<State>,
        name: &str,
        arguments: &str,
    ) -> wasmtime::Result<Result<ToolOutput, ToolError>> {
        let Some(Tool { function, .. }) = self.tools.get(name) else {
            return Ok(Err(ToolError::new(
                ErrorKind::NotFound,
                format!("there is no tool {name:?}"),
            )));
        };
        let arguments = match arguments::read(&function.parameters, arguments) {
            Ok(arguments) => arguments,
            Err(bad) => {
                let state = store.data_mut();
                let error = CallError::bad_arguments(state.call.tool.as_str(), bad);
                return Err(state.stop(error));
            }
        };
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
        let scrubber = store.data().call.grants.scrubber.clone();
        let shape = function.result.as_ref();
        match results::tool_result(shape, returned.pop(), limits.result_bytes, &scrubber) {
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
        store: &'a mut Store<State>,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Vec<ToolDefinition>, String>>> {
        if let (Guest::Plugin(plugin, _), false) =
            (&store.data().call.guest, self.left_out.is_empty())
        {
            warn!(%plugin, left_out = listed(&self.left_out), "not all that the component exports is a tool");
        }
        Box::pin(async { Ok(Ok(self.definitions())) })
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<State>,
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

fn check_name(name: &str, export: &str) -> Result<(), BadComponent> {
    if ToolName::is_valid(name) {
        return Ok(());
    }
    Err(BadComponent::Name { export: export.to_owned(), name: name.to_owned() })
}

/// Lists the first [`MAX_LISTED`] exports with their reasons, and the number of the others.
fn listed(left_out: &[LeftOut]) -> String {
    let shown: Vec<_> = left_out.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    match left_out.len().saturating_sub(MAX_LISTED) {
        _ if shown.is_empty() => "it exports nothing".to_owned(),
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}
