//! The fallbacks of tools and their problems, for operators.

use super::{
    Snapshot, ToolSource,
    fallback::{accepts, is_named},
};
use airlock_core::tool::{Tool, Trust};

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
            return Some("the client has not listed its tools yet".to_owned());
        }
        let Some(own) = client.tools.iter().find(|own| is_meant(own, tool)) else {
            return Some(format!("no tool of the client has the name {tool:?}"));
        };
        let (other, _) = fallback.split_once('-')?;
        let Some(source) = self.clients.get(other) else {
            return Some(format!("there is no client {other:?}, or it is disabled"));
        };
        if !source.is_listed {
            return Some(format!("client {other:?} has not listed its tools yet"));
        }
        let Some(found) = source.tools.iter().find(|tool| is_named(tool, fallback)) else {
            return Some(format!("there is no tool {fallback:?}"));
        };
        if source.unaccepted.contains(&found.original) {
            return Some(format!("the definition of {fallback:?} is not accepted"));
        }
        if is_marked(source) && !is_marked(client) {
            return Some(format!("client {other:?} is not trusted, as this client is"));
        }
        match &client.published {
            Some(published) => published.fallbacks.check(found, own).err(),
            None => accepts(found, own).err(),
        }
    }
}

/// Returns whether an entry of `tool_fallbacks` for `name` means a tool.
fn is_meant(tool: &Tool, name: &str) -> bool {
    tool.original == name || !tool.has_twin && tool.original.to_lowercase() == name.to_lowercase()
}

/// Returns whether models see the results of a client's tools marked as external.
fn is_marked(client: &ToolSource) -> bool {
    client.is_server() && client.policy.trust == Trust::Untrusted
}
