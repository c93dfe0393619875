//! The file as written → each module's settings.
//!
//! Only this module sees the file's own shape, or the environment. It starts nothing.

mod error;
mod file;
mod files;
mod json;
mod read;
mod resolve;
mod schema;
mod unsupported;
mod values;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

pub use self::{
    error::{ConfigError, KeyPath, Problem},
    schema::schema,
};
use crate::{
    agent,
    code_mode::BindingLevel,
    door::{Budget, Keys},
    model,
    plugin::{Answer, LOCK_FILE},
    sandbox::{self, OffLimits},
    secret, server,
    tool::{ClientName, Policy},
    upstream,
};

/// The configuration, checked, with every module's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// `server`.
    pub server: server::Settings,
    /// `providers`, in the order in which they are written.
    pub providers: Vec<model::Settings>,
    /// `mcp.client_configs`.
    pub clients: Vec<Client>,
    /// `mcp.tool_manager_config`, the loop's part.
    pub agent: agent::Settings,
    /// `mcp.tool_manager_config`, what one call may spend.
    pub budget: Budget,
    /// `mcp.tool_manager_config.code_mode_binding_level`.
    pub binding_level: BindingLevel,
    /// `governance.virtual_keys`.
    pub keys: Keys,
    /// The database of what outlives a restart.
    pub store: PathBuf,
    /// What was accepted of plugins: `airlock.lock` beside the file. Nothing for a configuration
    /// that is in no file.
    pub lock: Option<PathBuf>,
    /// The sandbox. Nothing of it is in the file but the depth of calls; the environment says where
    /// compiled code is kept.
    pub sandbox: sandbox::Settings,
}

/// One configured source of tools.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its name.
    pub name: ClientName,
    /// What its tools may do.
    pub policy: Policy,
    /// Where they come from.
    pub source: Source,
}

/// Where a client's tools come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// An MCP server.
    Upstream(upstream::Settings),
    /// A plugin.
    Wasm(Box<Wasm>),
}

/// A plugin as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Wasm {
    /// The component.
    pub component: PathBuf,
    /// What its operator lets it have.
    pub answer: Answer,
}

impl Config {
    /// Reads a file; `env.NAME` is looked up in the process's environment.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let unreadable = |source| ConfigError::Unreadable { file: file.clone(), source };
        let mut bytes = Vec::new();
        // One byte more than is allowed, so that an endless file is told from a large one.
        let limit = json::MAX_FILE_BYTES as u64 + 1;
        std::fs::File::open(path)
            .and_then(|opened| opened.take(limit).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        match String::from_utf8(bytes) {
            Ok(text) => {
                let mut config = Self::parse(&text, &file, &environment)?;
                config.lock = Some(path.with_file_name(LOCK_FILE));
                config.sandbox.off_limits = config.own_files(path);
                Ok(config)
            }
            Err(_) => Err(ConfigError::Invalid {
                file,
                problems: vec![Problem::of_file("is not UTF-8 text")],
            }),
        }
    }

    /// The files, of `path` and what it names, that no plugin is lent.
    fn own_files(&self, path: &Path) -> OffLimits {
        let plugins = || {
            self.clients.iter().filter_map(|client| match &client.source {
                Source::Wasm(wasm) => Some(wasm),
                Source::Upstream(_) => None,
            })
        };
        let components = plugins().map(|wasm| wasm.component.clone());
        let secrets =
            plugins().flat_map(|wasm| wasm.answer.secrets.values()).filter_map(|secret| {
                match &secret.source {
                    secret::Source::File(path) => Some(path.clone()),
                    secret::Source::Env(_) => None,
                }
            });
        OffLimits {
            unwritable: [path.to_owned()]
                .into_iter()
                .chain(self.lock.clone())
                .chain(components)
                .collect(),
            unreadable: [self.store.clone()].into_iter().chain(secrets).collect(),
        }
    }

    /// Reads a file's text. `origin` names the file in errors, and paths are relative to its
    /// directory.
    pub fn parse(
        text: &str,
        origin: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let invalid = |problems| ConfigError::Invalid { file: origin.to_owned(), problems };
        let json = json::parse(text).map_err(|problem| invalid(vec![problem]))?;
        let (file, mut problems) = read::read(&json);
        let Some(file) = file else { return Err(invalid(problems)) };
        let base = Path::new(origin).parent().unwrap_or(Path::new(""));
        match resolve::resolve(file, base, env) {
            Ok(config) if problems.is_empty() => Ok(config),
            Ok(_) => Err(invalid(problems)),
            Err(more) => {
                problems.extend(more);
                Err(invalid(problems))
            }
        }
    }
}

/// A variable of the process's environment, if it is set to text. The one place that asks for one.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests;
