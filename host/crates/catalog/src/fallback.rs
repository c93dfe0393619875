//! Calls of another tool in the place of one whose source is away.
//!
//! The other tool is called through the same door, by the same origin, within the budget and the deadline of
//! the call, and only if it needs no approval. So a caller reaches it in this way only if it could call it by
//! name. It takes a call of which the source has certainly seen nothing, or one of a tool that declares that
//! running it twice does no more than running it once. A call that took another one's place has no fallback.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::json;
use tracing::{debug, info, warn};

use super::{Snapshot, ToolSource, cache::CACHED};
use airlock_core::{
    door::{Admitted, Arguments, Chain, Origin},
    tool::{CallError, Details, HostCode, Policy, Tool, ToolOutput},
};
use airlock_json::schema::check_accepts_all;

/// Key of a result's metadata that names the tool that took the call.
const FALLBACK: &str = "airlock/fallback";

/// The fallbacks of one client: full names of tools, by the names of its own tools at the source.
#[derive(Default)]
pub(super) struct Fallbacks(BTreeMap<String, String>);

/// A tool with a fallback, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackState {
    /// Name of the tool at its source.
    pub tool: String,
    /// Full name of the other tool.
    pub fallback: String,
    /// Reason that the other tool takes no calls; `None` if it would.
    pub problem: Option<String>,
}

/// A call with a fallback.
pub(super) struct Standby {
    tool: Arc<Tool>,
    fallback: String,
    origin: Origin,
    arguments: Arguments,
    chain: Chain,
}

impl Fallbacks {
    pub(super) fn new(policy: &Policy, tools: &[Arc<Tool>]) -> Arc<Self> {
        let fallbacks = tools
            .iter()
            .filter_map(|tool| Some((tool.original.clone(), policy.fallback(tool)?.to_owned())));
        Arc::new(Self(fallbacks.collect()))
    }

    /// Keeps what is needed to call the fallback of the call's tool; `None` if there is none.
    pub(super) fn stand_by(&self, call: &Admitted) -> Option<Standby> {
        let fallback = self.0.get(&call.tool().original).filter(|_| !call.is_substitute())?;
        Some(Standby {
            tool: call.tool().clone(),
            fallback: fallback.clone(),
            origin: call.origin().clone(),
            arguments: call.arguments().clone(),
            chain: call.chain().clone(),
        })
    }
}

impl Standby {
    /// Returns whether the fallback takes a call that has failed in this way.
    pub(super) fn is_needed(&self, error: &CallError) -> bool {
        let hints = &self.tool.annotations;
        let is_harmless = hints.read_only == Some(true) || hints.idempotent == Some(true);
        error.has_not_begun() || is_harmless && error.code() == HostCode::Unavailable
    }

    /// Calls the fallback. Returns `error` if the caller may not call it, if it does not accept the same
    /// arguments, or if it is not available either.
    pub(super) async fn call(self, error: CallError) -> Result<ToolOutput, CallError> {
        let Self { tool, fallback, origin, arguments, chain } = self;
        let call = match chain.admit_in_place(&origin, &fallback, &arguments) {
            Ok(call) => call,
            Err(refused) => {
                debug!(tool = %tool.name, fallback, %refused, "a tool's fallback cannot be called");
                return Err(error);
            }
        };
        if let Err(problem) = accepts(call.tool(), &tool) {
            warn!(tool = %tool.name, fallback, problem, "a tool's fallback takes other arguments");
            return Err(error);
        }
        let because = error.code().prefixed();
        info!(tool = %tool.name, fallback, because, "a tool's fallback takes a call");
        match call.run().await {
            Ok(mut output) => {
                let mark = json!({"tool": fallback, "because": because});
                output.meta.get_or_insert_default().insert(FALLBACK.to_owned(), mark);
                Ok(output)
            }
            // It has run, and says itself why it failed.
            Err(failed) if matches!(failed.details(), Details::Tool(_)) => Err(failed),
            Err(failed) => {
                debug!(tool = %tool.name, fallback, %failed, "a tool's fallback failed too");
                Err(error)
            }
        }
    }
}

impl Snapshot {
    /// Returns the fallbacks of a client's tools, with their problems.
    pub fn fallbacks(&self, client: &ToolSource) -> Vec<FallbackState> {
        let states = client.policy.fallbacks.iter().map(|(tool, fallback)| FallbackState {
            tool: tool.clone(),
            fallback: fallback.clone(),
            problem: self.fallback_problem(client, tool, fallback),
        });
        states.collect()
    }

    fn fallback_problem(&self, client: &ToolSource, tool: &str, fallback: &str) -> Option<String> {
        if !client.is_listed {
            return None;
        }
        let mut own = client.tools.iter();
        let Some(own) = own.find(|own| client.policy.fallback(own) == Some(fallback)) else {
            return Some(format!("no tool of the client has the name {tool:?}"));
        };
        let (other, _) = fallback.split_once('-')?;
        let other = self.clients.get(other)?;
        if !other.is_listed {
            return None;
        }
        match other.tools.iter().find(|tool| tool.full_name.as_str() == fallback) {
            None => Some(format!("there is no tool {fallback:?}")),
            Some(other) => accepts(other, own).err(),
        }
    }
}

/// Checks that a fallback accepts all arguments of a tool.
fn accepts(fallback: &Tool, tool: &Tool) -> Result<(), String> {
    let schemas = (fallback.input_schema.to_value(), tool.input_schema.to_value());
    let (Ok(wider), Ok(narrower)) = schemas else {
        return Err("its input schema cannot be read".to_owned());
    };
    check_accepts_all(&wider, &narrower)
        .map_err(|problem| format!("its input schema accepts less: {problem}"))
}

/// Removes the marks of the gateway from the result of a source, which could forge them.
pub(super) fn without_marks(output: &mut ToolOutput) {
    if let Some(meta) = &mut output.meta {
        let count = meta.len();
        meta.retain(|name, _| name != CACHED && name != FALLBACK);
        if meta.is_empty() && count > 0 {
            output.meta = None;
        }
    }
}

#[cfg(test)]
mod tests;
