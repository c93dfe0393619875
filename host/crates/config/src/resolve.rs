//! Turns the file's types into the settings of each module: applies defaults that depend on other
//! keys and the environment, and checks values against each other.
//!
//! One function for each section takes the section and returns the settings of the crate that uses
//! them, as a [`Resolved`]. Every problem is collected, so that one run reports all errors.

mod client;
mod endpoint;
mod file_env;
mod http_client;
mod key;
mod mcp_server;
mod plugin;
mod process;
mod provider;
mod refused;
mod resolved;
mod same_variants;
mod server;
mod store;
mod tool_manager;
mod upstream;

use std::path::{Path, PathBuf};

pub(super) use self::refused::{InvalidValue, NamedPart, Referent, RefusedValue};
use self::{file_env::FileEnv, resolved::Resolved};
use super::{
    config::Config, environment::Env, file::File, fingerprint::Fingerprint, key_path::KeyPath,
};
use airlock_sandbox as sandbox;

/// Resolves a whole file. Its paths are relative to `directory`. The result is complete only if there
/// is no problem.
pub(super) fn resolve(
    file: File,
    directory: &Path,
    variables: Env<'_>,
) -> (Config, Vec<RefusedValue>) {
    config(file, FileEnv { directory, variables }).into_parts()
}

fn config(file: File, env: FileEnv<'_>) -> Resolved<Config> {
    let client_configs = NamedPart::Clients.key();
    let tool_manager = &file.mcp.tool_manager_config;
    let virtual_keys = file.governance.virtual_keys;
    let has_active_key = virtual_keys.iter().any(|key| key.is_active.0);
    Resolved::new(|problems| {
        let names = problems.take(client_configs.clone(), client::names(&file.mcp.client_configs));
        let disabled = client::disabled(&file.mcp.client_configs);
        let mut server = problems.take("server", server::resolve(file.server, has_active_key));
        let providers = problems.take("providers", provider::resolve(file.providers, env));
        let clients = client::resolve(file.mcp.client_configs, &names, env);
        let clients = problems.take(client_configs, clients);
        let keys = key::resolve(virtual_keys, &names, env);
        let keys = problems.take(NamedPart::VirtualKeys.key(), keys);
        let mcp = mcp_server::resolve(&file.mcp_server, server.max_connections, &keys);
        server.mcp = problems.take("mcp_server", mcp);
        let oauth = file.mcp_server.oauth.and_then(|oauth| {
            problems.take(KeyPath::parse("mcp_server.oauth"), mcp_server::oauth(oauth, &keys))
        });
        let budget = tool_manager::budget(tool_manager);
        Config {
            server,
            providers,
            clients,
            disabled,
            agent: tool_manager::agent(tool_manager),
            results: tool_manager::results(tool_manager),
            budget,
            binding_level: tool_manager.code_mode_binding_level.into(),
            runs: tool_manager::runs(tool_manager),
            search_above: tool_manager.code_mode_search_threshold.count() as usize,
            script_language: tool_manager.code_mode_language.into(),
            keys,
            oauth,
            store: problems
                .accept("store", store::resolve(file.store, env))
                .unwrap_or_else(|| store::beside(env)),
            lock: None,
            file: None,
            fingerprint: Fingerprint::default(),
            sandbox: sandbox::Settings {
                depths: budget.depth,
                ..sandbox::Settings::new(code_cache(env))
            },
        }
    })
}

/// Returns the directory for compiled code: below `AIRLOCK_CACHE_DIR`, else below the user's cache
/// directory; `None` if neither is known.
fn code_cache(env: FileEnv<'_>) -> Option<PathBuf> {
    let directory = |variable| env.optional(variable).map(PathBuf::from);
    let cache =
        directory("XDG_CACHE_HOME").or_else(|| directory("HOME").map(|home| home.join(".cache")));
    directory("AIRLOCK_CACHE_DIR")
        .or_else(|| cache.map(|cache| cache.join("airlock")))
        .map(|directory| directory.join("code"))
}
