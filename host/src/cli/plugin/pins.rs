//! The plugins of a configuration beside what was accepted of them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::component::Component;
use crate::{
    config::{Client, Config, Source, Wasm},
    plugin::{Change, Drift, LOCK_FILE, Lock},
    text::{visible, visible_line},
    tool::ClientName,
};

/// A configuration's plugins and its lock.
pub(super) struct Pins {
    pub(super) path: PathBuf,
    /// What was accepted; empty where there is no file yet.
    pub(super) lock: Lock,
    /// Whether nobody has accepted anything so far, so that any plugin is loaded.
    pub(super) is_new: bool,
    plugins: Vec<(ClientName, Wasm)>,
}

impl Pins {
    /// Reads both files.
    pub(super) fn load(config: &Path) -> anyhow::Result<Self> {
        Self::of(&Config::load(config)?.clients, config)
    }

    /// Reads the lock beside `config`, which has these clients.
    pub(super) fn of(clients: &[Client], config: &Path) -> anyhow::Result<Self> {
        let path = config.with_file_name(LOCK_FILE);
        let lock = Lock::load(&path)?;
        let plugin = |client: &Client| match &client.source {
            Source::Wasm(wasm) => Some((client.name.clone(), (**wasm).clone())),
            Source::Upstream(_) => None,
        };
        let plugins = clients.iter().filter_map(plugin).collect();
        Ok(Self { path, is_new: lock.is_none(), lock: lock.unwrap_or_default(), plugins })
    }

    /// The plugins with these names, or all of them.
    pub(super) fn select(&self, names: &[String]) -> anyhow::Result<Vec<(ClientName, Wasm)>> {
        if names.is_empty() {
            return Ok(self.plugins.clone());
        }
        let find = |name: &String| {
            let found = self.plugins.iter().find(|(client, _)| client.as_str() == name);
            found
                .cloned()
                .with_context(|| format!("no plugin is named {name:?}; there is {}", self.known()))
        };
        names.iter().map(find).collect()
    }

    /// What has a name so far, as a lock: what was accepted under it or else, where nothing was,
    /// the component that is configured. One that cannot be read leaves the lock empty. Nothing
    /// where the name is free.
    pub(super) async fn holder(&self, client: &ClientName) -> Option<Lock> {
        if self.lock.pin(client).is_some() {
            return Some(self.lock.clone());
        }
        let (_, wasm) = self.plugins.iter().find(|(name, _)| name == client)?;
        let mut lock = Lock::default();
        if let Ok(component) = Component::read_with_tools(&wasm.component).await {
            lock.accept(client, &component.facts);
        }
        Some(lock)
    }

    fn known(&self) -> String {
        let names: Vec<_> = self.plugins.iter().map(|(name, _)| name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Plugins that the gateway will refuse because nothing was accepted of them.
    pub(super) fn unpinned(&self) -> Vec<&ClientName> {
        self.plugins
            .iter()
            .map(|(client, _)| client)
            .filter(|client| self.lock.pin(client).is_none())
            .collect()
    }

    /// Compares one plugin with what was accepted; answers the component too.
    pub(super) async fn drift(
        &self,
        client: &ClientName,
        wasm: &Wasm,
    ) -> anyhow::Result<(Component, Option<Drift>)> {
        let component = Component::read_with_tools(&wasm.component).await;
        let component =
            component.with_context(|| format!("the plugin {client} cannot be looked at"))?;
        let drift = Drift::between(&self.lock, client, &component.facts);
        Ok((component, drift))
    }

    /// Writes what was accepted.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        Ok(self.lock.save(&self.path)?)
    }
}

/// How a plugin differs, for people: a line a change and below it what changed.
pub(super) fn lines(
    client: &ClientName,
    component: &Component,
    drift: Option<&Drift>,
) -> Vec<String> {
    let Some(drift) = drift else { return vec![format!("{client}: as it was accepted")] };
    let mut lines = vec![format!("{client}:")];
    for change in &drift.changes {
        lines.push(format!("  {change}"));
        match change {
            Change::NotAccepted => lines.extend(whole(component)),
            Change::ToolAdded { description, .. } => {
                lines.extend(description.lines().map(|line| format!("    +{line}")))
            }
            Change::ToolChanged { diff, .. } => {
                lines.extend(diff.iter().map(|line| format!("    {line}")))
            }
            _ => {}
        }
    }
    lines
}

/// All that would be accepted of a plugin that nobody has accepted before.
fn whole(component: &Component) -> Vec<String> {
    let facts = &component.facts;
    let mut lines = vec![format!("    +{}", facts.component)];
    lines.extend(
        facts
            .requests()
            .iter()
            .map(|request| format!("    +it asks for {}", visible_line(request))),
    );
    for tool in &facts.tools {
        lines.push(format!("    +tool {}", visible_line(&tool.name)));
        lines.extend(visible(&tool.description).lines().map(|line| format!("    +  {line}")));
    }
    lines
}
