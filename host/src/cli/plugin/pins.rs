//! The plugins of a configuration, and the lock that records which of them were accepted.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::obstacle::Obstacle;
use crate::cli::spinner;
use airlock_authoring::Component;
use airlock_config::{Client, Source};
use airlock_core::tool::ClientName;
use airlock_lock::{FILE_NAME as LOCK_FILE, Lock};
use airlock_plugin::{Change, Configured, Drift, Metadata};
use airlock_strings::{visible, visible_line};

/// A configuration's plugins and its lock.
pub(super) struct Pins {
    pub(super) path: PathBuf,
    /// The accepted state; empty if there is no lock file yet.
    pub(super) lock: Lock,
    /// True if no lock file lists plugins, so that every configured plugin is loaded.
    pub(super) is_new: bool,
    plugins: Vec<Configured>,
    /// The lock as it was read.
    read: Option<Lock>,
}

impl Pins {
    /// Reads the lock beside `config`, which has these clients.
    pub(super) fn of(clients: &[Client], config: &Path) -> anyhow::Result<Self> {
        let path = config.with_file_name(LOCK_FILE);
        let lock = Lock::load(&path)?;
        let plugins = clients.iter().filter_map(|client| match &client.source {
            Source::Plugin(settings) => Some(Configured {
                client: client.name.clone(),
                policy: client.policy.clone(),
                settings: (**settings).clone(),
            }),
            Source::Upstream(_) => None,
        });
        let plugins = plugins.collect();
        let is_new = !lock.as_ref().is_some_and(Lock::is_of_plugins);
        Ok(Self { path, is_new, lock: lock.clone().unwrap_or_default(), plugins, read: lock })
    }

    /// Returns the plugins with these names, or all of them if `names` is empty.
    pub(super) fn select(&self, names: &[String]) -> anyhow::Result<Vec<Configured>> {
        if names.is_empty() {
            return Ok(self.plugins.clone());
        }
        let selected = names.iter().map(|name| {
            let found = self.plugins.iter().find(|plugin| plugin.client.as_str() == name);
            found.cloned().with_context(|| {
                format!("no plugin is named {name:?}; configured: {}", self.known())
            })
        });
        selected.collect()
    }

    /// Returns the current holder of a name, as a lock: the accepted state, or the metadata of the
    /// configured component if none were accepted. It has no rights if that component cannot be
    /// read. `None` if the name is free.
    pub(super) async fn holder(&self, client: &ClientName) -> Option<Lock> {
        if self.lock.pin(client).is_some() {
            return Some(self.lock.clone());
        }
        let plugin = self.plugins.iter().find(|plugin| plugin.client == *client)?;
        let mut lock = Lock::default();
        // Of a component that cannot be read nothing was accepted, so everything is a wider request.
        let component = &plugin.settings.component;
        let metadata =
            Component::read_with_tools(component, &spinner::compiling).await.map_or_else(
                |_| Metadata::new(b"", Vec::new(), None, Vec::new()),
                |component| component.metadata,
            );
        lock.accept(metadata.pin(client));
        Some(lock)
    }

    /// Returns another client than `name` under which a plugin with this id is configured and
    /// accepted.
    pub(super) fn with_id(&self, id: &str, name: &ClientName) -> Option<&ClientName> {
        let mut others =
            self.plugins.iter().map(|plugin| &plugin.client).filter(|client| *client != name);
        others.find(|client| self.lock.pin(client).is_some_and(|pin| pin.id.as_deref() == Some(id)))
    }

    /// Returns the names of all plugins, for a message.
    pub(super) fn known(&self) -> String {
        let names: Vec<_> = self.plugins.iter().map(|plugin| plugin.client.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Returns the plugins that the gateway will refuse because they were not accepted.
    pub(super) fn unpinned(&self) -> Vec<&ClientName> {
        self.plugins
            .iter()
            .map(|plugin| &plugin.client)
            .filter(|client| self.lock.pin(client).is_none())
            .collect()
    }

    /// Compares one plugin with its accepted state. Returns the component too.
    pub(super) async fn drift(
        &self,
        plugin: &Configured,
    ) -> anyhow::Result<(Component, Option<Drift>)> {
        let Configured { client, policy, settings } = plugin;
        let component = Component::read_with_tools(&settings.component, &spinner::compiling).await;
        let component = component.with_context(|| format!("the plugin {client} cannot be read"))?;
        let metadata = &component.metadata;
        let drift = Drift::between(&self.lock, client, metadata, &settings.grant, policy);
        Ok((component, drift))
    }

    /// Writes the lock file. Fails if it has changed since it was read: a question may have been open
    /// for long.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        ensure!(
            Lock::load(&self.path)? == self.read,
            "{} has changed meanwhile, and stays as it is now; type the command again",
            self.path.display()
        );
        Ok(self.lock.save(&self.path)?)
    }
}

/// Describes for people how a plugin differs: the lines of the lock file that were added and removed,
/// those that would be granted first, and the other changes with the changed text below them. Changed
/// imports of WASI are one line, because they follow from the language and grant nothing.
pub(super) fn lines(
    client: &ClientName,
    component: &Component,
    drift: Option<&Drift>,
    obstacles: &[Obstacle],
) -> Vec<String> {
    let Some(drift) = drift else { return vec![format!("{client}: as it was accepted")] };
    let mut lines = vec![format!("{client}:")];
    lines.extend(obstacles.iter().map(|obstacle| format!("  cannot be loaded: {obstacle}")));
    lines.extend(drift.widened().map(|widening| format!("  +{widening}")));
    lines.extend(wasi(drift));
    for change in drift.changes.iter().filter(|change| !is_of_wasi(change)) {
        match change {
            // It has a line above.
            Change::Widened(_) => {}
            Change::RequestAdded { request } => lines.push(format!("  +{request}")),
            Change::RequestRemoved { request } => lines.push(format!("  -{request}")),
            _ => lines.push(format!("  {change}")),
        }
        match change {
            Change::NotAccepted => lines.extend(whole(component)),
            Change::ToolAdded { description, .. } => {
                lines.extend(description.lines().map(|line| format!("    +{line}")));
            }
            Change::ToolChanged { diff, .. } => {
                lines.extend(diff.iter().map(|line| format!("    {line}")));
            }
            _ => {}
        }
    }
    lines
}

/// Beginning of the lines of the lock file about imports of WASI.
const WASI: &str = "import wasi:";

fn is_of_wasi(change: &Change) -> bool {
    match change {
        Change::RequestAdded { request } | Change::RequestRemoved { request } => {
            request.starts_with(WASI)
        }
        _ => false,
    }
}

/// Returns the line about the imports of WASI that were added and removed, if any were.
fn wasi(drift: &Drift) -> Option<String> {
    let changed: Vec<_> = drift.changes.iter().filter(|change| is_of_wasi(change)).collect();
    let added =
        changed.iter().filter(|change| matches!(change, Change::RequestAdded { .. })).count();
    let removed = changed.len() - added;
    let told = [(added, "more"), (removed, "fewer")].into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<_> = told.map(|(count, which)| format!("{count} {which}")).collect();
    (!told.is_empty()).then(|| format!("  wasi: {} interfaces imported", told.join(" and ")))
}

/// Lists everything that would be accepted of a plugin that was never accepted before.
fn whole(component: &Component) -> Vec<String> {
    let metadata = &component.metadata;
    let mut lines = vec![format!("    +{}", metadata.digest)];
    let (wasi, requests): (Vec<_>, Vec<_>) =
        metadata.lock_lines().into_iter().partition(|line| line.starts_with(WASI));
    lines.extend(
        requests.iter().map(|request| format!("    +it requests {}", visible_line(request))),
    );
    lines.extend((!wasi.is_empty()).then(|| format!("    +wasi: {} interfaces", wasi.len())));
    for tool in &metadata.tools {
        lines.push(format!("    +tool {}", visible_line(&tool.name)));
        lines.extend(visible(&tool.description).lines().map(|line| format!("    +  {line}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_plugin::Widening;

    #[test]
    fn what_is_missing_or_would_be_granted_comes_first() {
        let widening = Widening {
            request: "kv.notes".to_owned(),
            line: "kv.notes 1MiB".to_owned(),
            is_new: false,
            secrets: Vec::new(),
        };
        let changes = vec![
            added("import wasi:io/poll@0.2.6"),
            removed("kv.notes 1KiB"),
            added("kv.cache 1MiB"),
            removed("import wasi:cli/exit@0.2.3"),
            added("import wasi:cli/exit@0.2.6"),
            Change::Widened(widening),
        ];
        let client = ClientName::parse("notes").expect("a name");
        let drift = Drift { client: client.to_string(), changes };
        let metadata = Metadata::new(b"", Vec::new(), None, Vec::new());
        let component = Component { path: PathBuf::new(), bytes: Vec::new().into(), metadata };
        let text = "kv.cache is required and not granted".to_owned();
        let missing = Obstacle::NotGranted { request: "kv.cache".to_owned(), text };
        insta::assert_snapshot!(lines(&client, &component, Some(&drift), &[missing]).join("\n"), @r"
        notes:
          cannot be loaded: kv.cache is required and not granted
          +kv.notes 1MiB (granted)
          wasi: 2 more and 1 fewer interfaces imported
          -kv.notes 1KiB
          +kv.cache 1MiB
        ");
    }

    fn added(request: &str) -> Change {
        Change::RequestAdded { request: request.to_owned() }
    }

    fn removed(request: &str) -> Change {
        Change::RequestRemoved { request: request.to_owned() }
    }
}
