//! Turns the configuration file into the settings of each crate.
//!
//! Only this crate knows the file's format and reads the environment. It starts nothing.
//!
//! A key has two shapes: a field of a type in `file`, with its description, range and default, and a
//! field of the settings that a crate takes. A new key touches three files: the type in `file/`, the
//! settings of the crate, and the line in `resolve/` that converts one to the other. The schema is
//! generated (`UPDATE_SCHEMA=1 cargo test -p airlock-config schema`).

mod callable;
mod error;
mod file;
mod files;
mod fingerprint;
pub mod import;
mod json;
mod read;
mod resolve;
mod schema;
mod skipped;
mod unsupported;
mod values;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use self::{error::Segment, read::Reading};
pub use self::{
    error::{ConfigError, KeyPath, Problem},
    schema::schema,
};
pub use self::{
    fingerprint::Fingerprint,
    import::{Imported, Outcome, import},
};
use airlock_agent::{self as agent, results};
use airlock_core::{
    door::{Budget, Keys, ScriptLanguage},
    secret,
    tool::{ClientName, Policy},
};
use airlock_lock::FILE_NAME as LOCK_FILE;
use airlock_model as model;
use airlock_plugin as plugin;
use airlock_sandbox::{self as sandbox, OffLimits};
use airlock_scripts::{BindingLevel, Layout, runs};
use airlock_server as server;

/// The checked configuration, with the settings of every module.
#[derive(Debug, Clone)]
pub struct Config {
    /// `server`.
    pub server: server::Settings,
    /// `providers`, in the order in which they are written.
    pub providers: Vec<model::Settings>,
    /// `mcp.client_configs`, without those that are disabled.
    pub clients: Vec<Client>,
    /// MCP servers of `mcp.client_configs` that are disabled, in the order in which they are written.
    pub disabled: Vec<Disabled>,
    /// `mcp.tool_manager_config`: settings of the agent loop.
    pub agent: agent::Settings,
    /// `mcp.tool_manager_config`: bounds on large results.
    pub results: results::Settings,
    /// `mcp.tool_manager_config`: budget of one call.
    pub budget: Budget,
    /// `mcp.tool_manager_config.code_mode_binding_level`.
    pub binding_level: BindingLevel,
    /// `mcp.tool_manager_config`: runs of scripts.
    pub runs: runs::RunSettings,
    /// `mcp.tool_manager_config.code_mode_search_threshold`: number of tools for scripts above which
    /// models are offered `searchTools`.
    pub search_above: usize,
    /// `mcp.tool_manager_config.code_mode_language`.
    pub script_language: ScriptLanguage,
    /// `governance.virtual_keys`.
    pub keys: Keys,
    /// `mcp_server.oauth`: access tokens of an identity provider.
    pub oauth: Option<airlock_identity::VerifierSettings>,
    /// `store`: database of state that survives a restart.
    pub store: PathBuf,
    /// Lock file with the accepted state of plugins: `airlock.lock` beside the configuration file.
    /// `None` for a configuration that was not loaded from a file.
    pub lock: Option<PathBuf>,
    /// The configuration file, which a running gateway reads again; `None` for a configuration that
    /// was not loaded from a file.
    pub file: Option<PathBuf>,
    /// Hashes of the values in the file.
    pub fingerprint: Fingerprint,
    /// Settings of the sandbox. The file sets only the depth of calls; the environment sets the
    /// directory for compiled code.
    pub sandbox: sandbox::Settings,
}

/// One configured source of tools.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its name.
    pub name: ClientName,
    /// Policy of its tools.
    pub policy: Policy,
    /// `code_mode_binding_level`; `None` for that of `mcp.tool_manager_config`.
    pub binding_level: Option<BindingLevel>,
    /// Source of its tools.
    pub source: Source,
}

/// An MCP server that is disabled. It is shown to operators and not connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disabled {
    /// Its name.
    pub name: ClientName,
    /// Its transport, as `connection_type` in the file.
    pub connection_type: &'static str,
}

/// Source of a client's tools.
#[derive(Debug, Clone)]
pub enum Source {
    /// An MCP server.
    Upstream(airlock_mcp_client::Settings),
    /// A plugin.
    Plugin(Box<plugin::Settings>),
}

impl Config {
    /// Loads a configuration file; `env.NAME` refers to the process's environment.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (config, problems) = Self::load_valid_parts(path)?;
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(ConfigError::Invalid { file: path.display().to_string(), problems }),
        }
    }

    /// Loads a configuration file and leaves out what is not valid. Returns all problems, and the
    /// rest; `None` if nothing of it can be used. With a problem, the result is good for further
    /// checks and not for a gateway. Fails if the file cannot be read.
    pub fn load_valid_parts(path: &Path) -> Result<(Option<Self>, Vec<Problem>), ConfigError> {
        let file = path.display().to_string();
        let mut bytes = Vec::new();
        // Reads one byte more than the limit, so that a file above the limit is detected without
        // reading all of it.
        let limit = json::MAX_FILE_BYTES as u64 + 1;
        std::fs::File::open(path)
            .and_then(|opened| opened.take(limit).read_to_end(&mut bytes))
            .map_err(|source| ConfigError::Unreadable { file: file.clone(), source })?;
        let Ok(text) = String::from_utf8(bytes) else {
            return Ok((None, vec![Problem::of_file("is not UTF-8 text")]));
        };
        let (mut config, problems) = Self::parse_valid_parts(&text, &file, &environment);
        if let Some(config) = &mut config {
            config.lock = Some(path.with_file_name(LOCK_FILE));
            config.file = Some(path.to_owned());
            config.sandbox.off_limits = config.own_files(path);
        }
        Ok((config, problems))
    }

    /// Returns the layout of the virtual files of code mode.
    pub fn layout(&self) -> Layout {
        let scripted = self.clients.iter().filter(|client| client.policy.code_mode);
        scripted.fold(Layout::from(self.binding_level), |layout, client| {
            layout.with(client.name.clone(), client.binding_level.unwrap_or(self.binding_level))
        })
    }

    /// Returns the settings of the plugin with this name.
    pub fn plugin(&self, name: &ClientName) -> Option<&plugin::Settings> {
        self.clients.iter().find_map(|client| match &client.source {
            Source::Plugin(plugin) if client.name == *name => Some(&**plugin),
            _ => None,
        })
    }

    /// Returns the files that no plugin may write or read: the configuration file at `path`, and
    /// files that it names.
    pub fn own_files(&self, path: &Path) -> OffLimits {
        let plugins = self.clients.iter().filter_map(|client| match &client.source {
            Source::Plugin(plugin) => Some(plugin),
            Source::Upstream(_) => None,
        });
        let components = plugins.clone().map(|plugin| plugin.component.clone());
        let secrets =
            plugins.flat_map(|plugin| plugin.grant.secret.values()).filter_map(|secret| {
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

    /// Parses the text of a configuration file. `origin` names the file in errors; paths are
    /// relative to its directory.
    pub fn parse(
        text: &str,
        origin: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let (config, problems) = Self::parse_valid_parts(text, origin, env);
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(ConfigError::Invalid { file: origin.to_owned(), problems }),
        }
    }

    /// Parses the text of a configuration file, and leaves out what is not valid. Returns all
    /// problems, and the rest; `None` if nothing of it can be used. With a problem, the result is
    /// good for further checks and not for a gateway.
    pub fn parse_valid_parts(
        text: &str,
        origin: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> (Option<Self>, Vec<Problem>) {
        let json = match json::parse(text) {
            Ok(json) => json,
            Err(problem) => return (None, vec![problem]),
        };
        let Reading { value, mut problems, skipped } = read::read(&json);
        let Some(file) = value else { return (None, problems) };
        let base = Path::new(origin).parent().unwrap_or(Path::new(""));
        let (config, more) = resolve::resolve(file, base, env);
        problems.extend(skipped.correct(more));
        (Some(Self { fingerprint: Fingerprint::new(&json), ..config }), problems)
    }
}

/// Returns a variable of the process's environment; `None` if it is not set or not UTF-8. No other
/// function reads the environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests;
