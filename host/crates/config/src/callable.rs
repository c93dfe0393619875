//! Checks names of tools: those that plugins may call, and those in the lists of plugins and keys. The tools that plugins
//! of the configuration embed, and those that `airlock.lock` has of them, are known without starting anything.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::config::{Client, Config, Source};
use airlock_compile::MAX_COMPONENT_BYTES;
use airlock_config_file::{error::Problem, key_path::KeyPath};
use airlock_core::tool::{Allowlist, ToolDefinition, ToolName};
use airlock_lock::Lock;
use airlock_plugin::{Grant, Metadata};
use airlock_strings::{cut, visible_line};

/// Longest message about names that no tool has, in bytes: about 25 lines of a terminal. It lists all tools of the plugin,
/// which may have 2,000.
const MAX_UNKNOWN: usize = 2_000;

impl Config {
    /// Returns the reason that names in a list are those of no tool of a client; `None` if it has them all, if it is not
    /// configured, or if its tools are not known before it runs. Reads the component of a plugin and the lock file, and blocks.
    pub fn unknown_tools(&self, client: &str, listed: &Allowlist) -> Option<String> {
        let client = self.clients.iter().find(|known| known.name.as_str() == client)?;
        Callable::new(self).unknown(client, listed)
    }
}

/// The configured clients, with the tools of those that were looked up so far.
pub(super) struct Callable<'c> {
    clients: &'c [Client],
    /// Tools by component; `None` if they are not known.
    embedded: BTreeMap<&'c Path, Option<Vec<ToolDefinition>>>,
    lock_file: Option<&'c Path>,
    /// Plugins of the lock file, once they were needed.
    lock: OnceCell<Option<Lock>>,
}

impl<'c> Callable<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        Self {
            clients: &config.clients,
            embedded: BTreeMap::new(),
            lock_file: config.lock.as_deref(),
            lock: OnceCell::new(),
        }
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

    /// Returns the reason that names in a list are those of no tool of a client; `None` if it has them all, or if its tools
    /// are not known.
    pub(super) fn unknown(&mut self, client: &'c Client, listed: &Allowlist) -> Option<String> {
        let Allowlist::Only(names) = listed else { return None };
        if listed.is_empty() {
            return None;
        }
        let known = self.names(client)?;
        let folded: BTreeSet<_> = known.iter().map(|name| name.to_lowercase()).collect();
        let unknown = names.iter().filter(|name| !folded.contains(&name.to_lowercase()));
        let unknown: Vec<_> = unknown.map(|name| format!("{name:?}")).collect();
        if unknown.is_empty() {
            return None;
        }
        let message = format!(
            "the plugin {} has no tool {}; it has {}",
            client.name,
            unknown.join(", "),
            known.join(", ")
        );
        Some(cut(visible_line(&message), MAX_UNKNOWN))
    }

    /// Returns the plugin's own names of its tools: of those that its component embeds, or else of those that were accepted.
    /// `None` if they are not known.
    fn names(&mut self, client: &'c Client) -> Option<Vec<String>> {
        if let Some(tools) = self.tools(client) {
            return Some(tools.iter().map(|tool| tool.name.clone()).collect());
        }
        let Source::Plugin(plugin) = &client.source else { return None };
        plugin.component.file()?;
        let tools = &self.lock()?.pin(&client.name)?.tools;
        (!tools.is_empty()).then(|| tools.iter().map(|tool| tool.name.clone()).collect())
    }

    /// Returns what the lock file has about plugins. One that cannot be read is reported with the pins.
    fn lock(&self) -> Option<&Lock> {
        let file = self.lock_file?;
        self.lock.get_or_init(|| Lock::load_of_plugins(file).ok().flatten()).as_ref()
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
