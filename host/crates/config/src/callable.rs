//! Checks the tools that plugins may call: those that other plugins of the configuration embed are
//! known without starting anything.

use std::{collections::BTreeMap, fs, path::Path};

use super::{
    config::{Client, Config, Source},
    error::Problem,
    key_path::KeyPath,
};
use airlock_compile::MAX_COMPONENT_BYTES;
use airlock_core::tool::{ToolDefinition, ToolName};
use airlock_plugin::{Grant, Metadata};
use airlock_strings::visible_line;

/// The configured clients, with the tools of those that were looked up so far.
pub(super) struct Callable<'c> {
    clients: &'c [Client],
    /// Tools by component; `None` if they are not known.
    embedded: BTreeMap<&'c Path, Option<Vec<ToolDefinition>>>,
}

impl<'c> Callable<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        Self { clients: &config.clients, embedded: BTreeMap::new() }
    }

    /// Adds the tools of a component that may not be at its path yet.
    pub(super) fn add(&mut self, component: &'c Path, tools: &[ToolDefinition]) {
        self.embedded.insert(component, Some(tools.to_vec()));
    }

    /// Returns the problems with the tools that a grant names. `key` is that of the grants.
    pub(super) fn problems(&mut self, key: &KeyPath, grant: &Grant) -> Vec<Problem> {
        let slots = grant.slots.iter().map(|(slot, tool)| (key.member("slot").member(slot), tool));
        let tools = grant.tools.iter().enumerate();
        let tools = tools.map(|(index, tool)| (key.member("tools").element(index), tool));
        let problems = slots
            .chain(tools)
            .filter_map(|(key, tool)| self.problem(tool).map(|message| Problem { key, message }));
        problems.collect()
    }

    /// Returns the full names of all tools that the plugins embed.
    pub(super) fn known(&mut self) -> Vec<String> {
        let mut known = Vec::new();
        for client in self.clients {
            let tools = self.tools(client).into_iter().flatten();
            known.extend(tools.map(|tool| full_name(client, tool).to_string()));
        }
        known
    }

    /// Returns the tools that a client embeds; `None` if they are not known.
    pub(super) fn tools(&mut self, client: &'c Client) -> Option<&[ToolDefinition]> {
        let Source::Plugin(plugin) = &client.source else { return None };
        // The tools of a component in the store are known to gateways alone.
        let path = plugin.component.file()?;
        self.embedded.entry(path).or_insert_with(|| embedded(path)).as_deref()
    }

    /// Returns the reason that a tool cannot be called; `None` if it can, or if this is not known.
    fn problem(&mut self, tool: &str) -> Option<String> {
        let (name, _) = tool.split_once('-')?;
        let client = self.clients.iter().find(|client| client.name.as_str() == name)?;
        let tools = self.tools(client)?;
        match tools.iter().find(|known| full_name(client, known).as_str() == tool) {
            None => {
                let known: Vec<_> =
                    tools.iter().map(|known| full_name(client, known).to_string()).collect();
                let known = visible_line(&known.join(", "));
                Some(format!("the plugin {name} has no tool {tool:?}; it has {known}"))
            }
            Some(known) if !client.policy.execute.allows(&known.name) => Some(format!(
                "{tool:?} is not in the `tools_to_execute` of {name}, so nothing can call it"
            )),
            Some(known) if client.policy.exclude.covers_name(&known.name) => Some(format!(
                "{tool:?} is in the `tools_to_exclude` of {name}, so nothing can call it"
            )),
            Some(_) => None,
        }
    }
}

fn full_name(client: &Client, tool: &ToolDefinition) -> ToolName {
    ToolName::new(&client.name, &tool.name)
}

/// Returns the tools that a component embeds; `None` if it embeds none or cannot be read.
fn embedded(component: &Path) -> Option<Vec<ToolDefinition>> {
    let file = fs::metadata(component).ok()?;
    if !file.is_file() || file.len() > MAX_COMPONENT_BYTES as u64 {
        return None;
    }
    let tools = Metadata::read(&fs::read(component).ok()?).ok()?.tools;
    (!tools.is_empty()).then_some(tools)
}
