//! Calls of another tool in the place of one whose source is away.
//!
//! The other tool is called through the same door, by the same origin, within the budget and the deadline of
//! the call, and only if it needs no approval. So a caller reaches it in this way only if it could call it by
//! name. It takes a call of which the source has certainly seen nothing, or one of a tool that declares that
//! running it twice does no more than running it once. A call that took another one's place has no fallback.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use serde_json::json;
use tracing::{debug, info, warn};

use super::cache::CACHED;
use airlock_core::{
    door::{Admitted, Arguments, Chain, Origin},
    threads,
    tool::{CallError, ErrorKind, HostCode, Policy, Tool, ToolOutput, Trust},
};
use airlock_json::schema::check_accepts_all;

/// Key of a result's metadata that names the tool that took the call.
const FALLBACK: &str = "airlock/fallback";

/// The fallbacks of one client.
#[derive(Default)]
pub(super) struct Fallbacks {
    /// Full names of tools, by the names of its own tools at the source.
    names: BTreeMap<String, String>,
    /// The last comparison of each own tool, by its name at the source.
    compared: Mutex<HashMap<String, Comparison>>,
}

/// Outcome of comparing the arguments of two tools. It holds as long as both are the same.
struct Comparison {
    tool: Weak<Tool>,
    fallback: Weak<Tool>,
    outcome: Result<(), String>,
}

/// A call with a fallback.
pub(super) struct Standby {
    fallbacks: Arc<Fallbacks>,
    tool: Arc<Tool>,
    /// True if models see its results marked as external.
    is_external: bool,
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
        Arc::new(Self { names: fallbacks.collect(), compared: Mutex::default() })
    }

    /// Keeps what is needed to call the fallback of the call's tool; `None` if there is none.
    pub(super) fn stand_by(self: &Arc<Self>, call: &Admitted) -> Option<Standby> {
        let fallback = self.names.get(&call.tool().original).filter(|_| !call.is_substitute())?;
        Some(Standby {
            fallbacks: self.clone(),
            tool: call.tool().clone(),
            is_external: is_external(call),
            fallback: fallback.clone(),
            origin: call.origin().clone(),
            arguments: call.arguments().clone(),
            chain: call.chain().clone(),
        })
    }

    /// Checks that a fallback accepts all arguments of a tool. Keeps the outcome, because a source may
    /// announce large schemas and let many calls fail.
    pub(super) fn check(&self, fallback: &Arc<Tool>, tool: &Arc<Tool>) -> Result<(), String> {
        let compared = Comparison {
            tool: Arc::downgrade(tool),
            fallback: Arc::downgrade(fallback),
            outcome: Ok(()),
        };
        if let Some(known) = self.compared.lock().get(&tool.original)
            && known.is_of_same(&compared)
        {
            return known.outcome.clone();
        }
        let outcome = accepts(fallback, tool);
        if let Err(problem) = &outcome {
            let fallback = &fallback.full_name;
            warn!(tool = %tool.name, %fallback, problem, "a tool's fallback takes other arguments");
        }
        let compared = Comparison { outcome: outcome.clone(), ..compared };
        self.compared.lock().insert(tool.original.clone(), compared);
        outcome
    }
}

impl Comparison {
    fn is_of_same(&self, other: &Self) -> bool {
        self.tool.ptr_eq(&other.tool) && self.fallback.ptr_eq(&other.fallback)
    }
}

impl Standby {
    /// Returns whether the fallback takes a call that has failed in this way.
    pub(super) fn is_needed(&self, error: &CallError) -> bool {
        let hints = &self.tool.annotations;
        let is_harmless = hints.read_only == Some(true) || hints.idempotent == Some(true);
        error.has_not_begun() || is_harmless && error.code() == HostCode::Unavailable
    }

    /// Calls the fallback. Returns `error` if the caller may not call it, if it is not the tool that the
    /// operator names, if it does not accept the same arguments, or if its source has certainly not begun
    /// the call either. If that may have, the error is the fallback's: `error` may tell that nothing was
    /// sent, and the caller would repeat the call.
    pub(super) async fn call(self, error: CallError) -> Result<ToolOutput, CallError> {
        let is_own_external = self.is_external;
        let Self { fallbacks, tool, fallback, origin, arguments, chain, .. } = self;
        let call = match admitted(&chain, &origin, &fallback, &arguments).await {
            Ok(call) => call,
            Err(refused) => {
                debug!(tool = %tool.name, fallback, %refused, "a tool's fallback cannot be called");
                return Err(error);
            }
        };
        if !is_named(call.tool(), &fallback) {
            warn!(tool = %tool.name, fallback, "another tool has the name of a tool's fallback");
            return Err(error);
        }
        if is_external(&call) && !is_own_external {
            warn!(tool = %tool.name, fallback, "a tool's fallback is of a client that is not trusted");
            return Err(error);
        }
        if fallbacks.check(call.tool(), &tool).is_err() {
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
            // A call whose user has to log in first was not sent.
            Err(failed) if failed.has_not_begun() || failed.needed_login().is_some() => {
                debug!(tool = %tool.name, fallback, %failed, "a tool's fallback failed too");
                Err(error)
            }
            Err(failed) => Err(in_doubt(failed)),
        }
    }
}

/// Decides the call of a fallback. Guards are asked before, because they yield then.
async fn admitted(
    chain: &Chain,
    origin: &Origin,
    fallback: &str,
    arguments: &Arguments,
) -> Result<Admitted, CallError> {
    match threads::guarded_nested(chain, origin, fallback, arguments.as_str()).await {
        Ok(None) => chain.admit_in_place(origin, fallback, arguments),
        Ok(Some(guarded)) => chain.admit_in_place(origin, fallback, &guarded),
        Err(refused) => Err(chain.refuse(origin, fallback, refused)),
    }
}

/// Returns whether models see the results of a call marked as external.
fn is_external(call: &Admitted) -> bool {
    call.server() == Some(Trust::Untrusted)
}

/// Returns whether a tool is the one with this full name. Another one may have it as its name on the wire.
pub(super) fn is_named(tool: &Tool, full_name: &str) -> bool {
    let client = full_name.split_once('-').map(|(client, _)| client);
    tool.full_name.as_str() == full_name
        && tool.client.as_ref().is_some_and(|own| Some(own.as_str()) == client)
}

/// Returns the error of a fallback that may have run, which tells so.
fn in_doubt(failed: CallError) -> CallError {
    let Some(tool) = failed.tool().filter(|_| failed.code() == HostCode::Unavailable) else {
        return failed;
    };
    let after = " is unavailable; it took the call as a fallback, and may have run it";
    let message = ("the source of tool ", after);
    CallError::about(tool.clone(), ErrorKind::Unavailable, HostCode::Unavailable, message)
        .with_cause(failed)
}

/// Checks that a fallback accepts all arguments of a tool.
pub(super) fn accepts(fallback: &Tool, tool: &Tool) -> Result<(), String> {
    let schemas = (fallback.input_schema.to_value(), tool.input_schema.to_value());
    let (Ok(wider), Ok(narrower)) = schemas else {
        return Err("its input schema cannot be read".to_owned());
    };
    check_accepts_all(&wider, &narrower)
        .map_err(|problem| format!("its input schema accepts less: {problem}"))
}

/// Returns whether a result is one of a fallback.
pub(super) fn is_marked(output: &ToolOutput) -> bool {
    output.meta.as_ref().is_some_and(|meta| meta.contains_key(FALLBACK))
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
