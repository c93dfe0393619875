//! Turns the file's types into the settings of each module: applies defaults that depend on other
//! keys and the environment, and checks values against each other.
//!
//! One function for each section takes the section and returns the settings of the crate that uses
//! them, as a [`Resolved`]. Every problem is collected, so that one run reports all errors.

mod client;
mod digest;
mod endpoint;
mod file_env;
mod http_client;
mod key;
mod management;
mod mcp_server;
mod named_set;
mod plugin;
mod process;
mod provider;
mod refused;
mod resolved;
mod row;
mod same_variants;
mod server;
mod store;
mod time;
mod tls;
mod tool_cache;
mod tool_fallbacks;
mod tool_manager;
mod upstream;
mod virtual_mcp;

use std::{collections::BTreeSet, path::PathBuf};

pub(super) use self::refused::{InvalidValue, NamedPart, Referent, RefusedValue};
use self::{
    file_env::FileEnv,
    key::{KeyContext, KeyNames, KnownKeys},
    resolved::Resolved,
    virtual_mcp::GroupContext,
};
use super::{
    config::{Client, Config, Source},
    environment::Env,
    file::{self, File},
    fingerprint::Fingerprint,
    key_path::KeyPath,
    load::Place,
};
use airlock_core::tool::ClientName;
use airlock_sandbox as sandbox;
use airlock_server::ClientAuth;

/// Names that elements of a file may refer to although no element has them any more, because entries of
/// the store stand in the place of those that had.
#[derive(Debug, Default)]
pub(super) struct AbsentNames {
    /// Clients. They are treated as those that are disabled.
    pub(super) clients: BTreeSet<ClientName>,
    /// Active virtual keys. A gateway whose file has one requires keys, even if operators have removed
    /// it since.
    pub(super) keys: BTreeSet<String>,
    /// All virtual keys of the file, active or not.
    pub(super) file_keys: BTreeSet<String>,
    /// True if operators have ever changed a virtual key. The gateway requires keys from then on: the
    /// removal of the last one opens nothing, after a restart neither.
    pub(super) had_keys: bool,
}

/// Resolves a whole file. The result is complete only if there is no problem.
pub(super) fn resolve(
    file: File,
    place: Place<'_>,
    variables: Env<'_>,
    absent: &AbsentNames,
) -> (Config, Vec<RefusedValue>) {
    let env = FileEnv { directory: place.directory, variables, is_file: place.file.is_some() };
    config(file, env, absent).into_parts()
}

fn config(file: File, env: FileEnv<'_>, absent: &AbsentNames) -> Resolved<Config> {
    let client_configs = NamedPart::Clients.key();
    let tool_manager = &file.mcp.tool_manager_config;
    let file::Governance { virtual_keys, roles, environments } = file.governance;
    let has_active_key = virtual_keys.iter().any(|key| key.is_active.0)
        || !absent.keys.is_empty()
        || absent.had_keys;
    Resolved::new(|problems| {
        let names = client::names(&file.mcp.client_configs);
        let mut names = problems.take(client_configs.clone(), names);
        names.extend(absent.clients.iter().cloned());
        let key_names = key::names(&virtual_keys);
        let key_names = KeyNames { present: &key_names, absent: &absent.file_keys };
        let sets = named_set::resolve(roles, environments, &names);
        let sets = problems.take(KeyPath::parse("governance"), sets);
        let context = GroupContext { clients: &names, keys: key_names };
        let groups = virtual_mcp::resolve(file.mcp.virtual_mcps, &context);
        let groups = problems.take(KeyPath::parse("mcp.virtual_mcps"), groups);
        let slugs = client::check_slugs(&file.mcp.client_configs, &groups);
        problems.take(client_configs.clone(), slugs);
        let owned = client::owned(&file.mcp.client_configs, key_names, &absent.clients);
        let owned = problems.take(client_configs.clone(), owned);
        let disabled = client::disabled(&file.mcp.client_configs);
        let credentials = server::CallerCredentials {
            has_active_key,
            has_tokens: file.mcp_server.oauth.is_some(),
            keys_can_be_added: !file.management.disabled,
        };
        let has_external_url = file.server.external_url.is_some();
        let mut server = problems.take("server", server::resolve(file.server, credentials, env));
        let providers = problems.take("providers", provider::resolve(file.providers, env));
        let clients = client::resolve(file.mcp.client_configs, &names, env);
        let clients = problems.take(client_configs, clients);
        // Behind a proxy, the address of `listen` leads the browsers of users to their own machines.
        let is_local = server.listen.ip().is_loopback()
            && server.allowed_hosts.is_empty()
            && server.allowed_origins.is_empty();
        if !has_external_url && !is_local {
            problems.merge(require_external_url(&clients));
        }
        let asks_for_certificates =
            server.tls.as_ref().is_some_and(|tls| tls.client_auth != ClientAuth::None);
        let context =
            KeyContext { clients: &names, sets: &sets, owned: &owned, asks_for_certificates, env };
        let keys = key::resolve(virtual_keys, &context);
        let keys = problems.take(NamedPart::VirtualKeys.key(), keys);
        let known_keys = KnownKeys { active: &keys, absent: &absent.keys };
        let mcp = mcp_server::resolve(&file.mcp_server, server.max_connections, known_keys);
        server.mcp = problems.take("mcp_server", mcp);
        let oauth = file.mcp_server.oauth.and_then(|oauth| {
            let resolved = mcp_server::oauth(oauth, known_keys, &sets.roles);
            problems.take(KeyPath::parse("mcp_server.oauth"), resolved)
        });
        let views = oauth.iter().flat_map(|oauth| &oauth.views);
        let keys = keys.with_roles(sets.roles).with_views(views.map(|rule| rule.view.as_str()));
        server.management = problems.take("management", management::resolve(file.management, env));
        let budget = tool_manager::budget(tool_manager);
        Config {
            server,
            providers,
            clients,
            tools_off: file.mcp.disabled,
            groups,
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
            store_seal: problems.merge(store::seal(file.store_key, file.store_old_keys, env)),
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

/// Refuses servers that act for single users, whose browsers have to reach the gateway to log in.
fn require_external_url(clients: &[Client]) -> Resolved<()> {
    Resolved::new(|problems| {
        let per_user = clients.iter().find(|client| match &client.source {
            Source::Upstream(settings) => {
                settings.transport.http().is_some_and(|http| http.is_per_user)
            }
            Source::Plugin(_) => false,
        });
        if let Some(client) = per_user {
            problems.refuse(
                KeyPath::parse("server.external_url"),
                format_args!(
                    "is required, because the client {:?} has the `auth_type` \"per_user_oauth\": users log in there with a browser",
                    client.name.as_str()
                ),
            );
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
