//! Checks that the files and the tools named by a configuration exist, and that its plugins are
//! pinned.

use std::path::Path;

use super::{Config, ConfigError, KeyPath, Problem, Source, callable::Callable};
use crate::{
    model::{self, Models},
    text::with_causes,
    tool::ClientName,
};

impl Config {
    /// Checks every component, script and directory, and every tool that a plugin may call, as far as
    /// it is known. `origin` names the configuration file in the
    /// error. A gateway also starts without these files; only the affected source fails.
    pub fn check_files(&self, origin: &str) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        for provider in &self.providers {
            if let model::Kind::Scripted { script } = &provider.kind {
                let key =
                    KeyPath::default().member("providers").member(&provider.name).member("script");
                problems.extend(missing(key.clone(), script, Path::is_file, "file"));
                if script.is_file()
                    && let Err(error) = Models::new(std::slice::from_ref(provider))
                {
                    problems.push(Problem { key, message: with_causes(&error) });
                }
            }
        }
        let mut callable = Callable::new(self);
        for client in &self.clients {
            let Source::Plugin(plugin) = &client.source else { continue };
            let key = KeyPath::default()
                .member("mcp")
                .member("client_configs")
                .named(client.name.as_str())
                .member("wasm_config");
            problems.extend(missing(
                key.member("component"),
                &plugin.component,
                Path::is_file,
                "file",
            ));
            problems.extend(callable.problems(&key.member("grants"), &plugin.grant));
            for directory in &plugin.grant.directories {
                let key = key
                    .member("grants")
                    .member("directories")
                    .named(&directory.name)
                    .member("path");
                problems.extend(missing(key, &directory.path, Path::is_dir, "directory"));
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::Invalid { file: origin.to_owned(), problems })
        }
    }

    /// Returns the plugins that no lock file pins: any component at their paths is loaded. Empty if
    /// the lock file exists, because plugins that are not in it are refused, and for a
    /// configuration that was not loaded from a file, because it has no place for a lock file.
    pub fn unpinned(&self) -> Vec<ClientName> {
        // A lock file that cannot be examined is no missing one: the gateway refuses all plugins.
        let is_missing = |lock: &Path| matches!(lock.try_exists(), Ok(false));
        if !self.lock.as_deref().is_some_and(is_missing) {
            return Vec::new();
        }
        let plugins =
            self.clients.iter().filter(|client| matches!(client.source, Source::Plugin(_)));
        plugins.map(|client| client.name.clone()).collect()
    }
}

fn missing(key: KeyPath, path: &Path, is_there: fn(&Path) -> bool, what: &str) -> Option<Problem> {
    (!is_there(path))
        .then(|| Problem { key, message: format!("there is no {what} {}", path.display()) })
}
