//! Turns the file's types into the settings of each module: applies defaults that depend on other
//! keys and the environment, and checks values against each other.
//!
//! One function for each section takes the section and returns the settings of the crate that uses
//! them, as a [`Resolved`]. Every problem is collected, so that one run reports all errors.

mod absent;
mod client;
mod digest;
mod endpoint;
mod file_env;
mod guard;
mod http_client;
mod information_flow;
mod key;
mod limits;
mod management;
mod mcp_server;
mod name;
mod named_set;
mod plugin;
mod process;
mod provider;
mod publishers;
mod records;
mod resolved;
mod row;
mod same_variants;
mod server;
mod store;
mod team;
mod telemetry;
mod time;
mod tls;
mod tool_cache;
mod tool_fallbacks;
mod tool_manager;
mod upstream;
mod virtual_mcp;

use std::{collections::BTreeMap, path::PathBuf};

pub(super) use self::{absent::AbsentNames, key::check_stored as check_key_value};
use self::{
    file_env::FileEnv,
    key::{KeyContext, KeyNames, KnownKeys, ResolvedKeys},
    limits::{LimitedParts, ResolvedLimits},
    named_set::Roles,
    resolved::Resolved,
    same_variants::SameVariants as _,
    virtual_mcp::GroupContext,
};
use super::{
    config::{Client, Config, Source},
    fingerprint::Fingerprint,
    place::Place,
    vault::Vaults,
};
use airlock_compile::CodeCache;
use airlock_config_file::{
    env_text::EnvText,
    environment::Env,
    file::{self, File},
    key_path::KeyPath,
    refused::{NamedPart, RefusedValue},
};
use airlock_core::{
    door::{Budget, Keys, ToolGroup},
    tool::ClientName,
};
use airlock_identity::VerifierSettings;
use airlock_ingress::ClientAuth;
use airlock_mcp_oauth::UserCredentials;
use airlock_operator_api::ManagementSettings;
use airlock_sandbox as sandbox;
use airlock_server::Settings as ServerSettings;
use airlock_store::Location;

/// Resolves a whole file. The result is complete only if there is no problem.
pub(super) fn resolve(
    file: File,
    place: Place<'_>,
    variables: Env<'_>,
    absent: &AbsentNames,
) -> (Config, Vec<RefusedValue>) {
    let Place { directory, file: path, vaults } = place;
    let env = FileEnv { directory, variables, vaults, is_file: path.is_some() };
    config(file, env, absent).into_parts()
}

fn config(file: File, env: FileEnv<'_>, absent: &AbsentNames) -> Resolved<Config> {
    let client_configs = NamedPart::Clients.key();
    let tool_manager = &file.mcp.tool_manager_config;
    let credentials = caller_credentials(&file, absent);
    let mut governance = file.governance;
    Resolved::new(|problems| {
        let names = client::names(&file.mcp.client_configs, &absent.clients);
        let names = problems.take(client_configs.clone(), names);
        let key_names = key::names(&governance.virtual_keys);
        let key_names = KeyNames { present: &key_names, absent: &absent.file_keys };
        let sets = named_set::resolve(&mut governance, &names, &absent.sets);
        let sets = problems.take("governance", sets);
        let groups = team::resolve(&governance.teams, &governance.customers, &absent.groups);
        let key_groups = problems.take("governance", groups);
        let limits = limits::resolve(&LimitedParts {
            clients: &file.mcp.client_configs,
            governance: &governance,
            providers: &file.providers,
            groups: &key_groups,
            absent,
        });
        let ResolvedLimits { identities, limits, prices } = problems.merge(limits);
        let context =
            GroupContext { clients: &names, keys: key_names, of_store: &absent.store_mcps };
        let groups = tool_groups(file.mcp.virtual_mcps, &file.mcp.client_configs, &context);
        let groups = problems.merge(groups);
        let owned =
            client::owned(&file.mcp.client_configs, key_names, &key_groups.teams, &absent.clients);
        let owned = problems.take(client_configs.clone(), owned);
        let disabled = client::disabled(&file.mcp.client_configs);
        let has_external_url = file.server.external_url.is_some();
        let mut server = problems.take("server", server::resolve(file.server, credentials, env));
        let providers = problems.take("providers", provider::resolve(file.providers, env));
        let of_store = client::indices_of_store(&file.mcp.client_configs, &absent.clients);
        let clients = client::resolve(file.mcp.client_configs, &names, env);
        let clients = problems.take(client_configs, clients);
        let context = KeyContext {
            clients: &names,
            sets: &sets,
            groups: &key_groups,
            identities: &identities,
            owned: &owned,
            asks_for_certificates: asks_for_certificates(&server),
            env,
        };
        let keys = key::resolve(governance.virtual_keys, &context);
        let keys = problems.take(NamedPart::VirtualKeys.key(), keys);
        let known_keys = KnownKeys { resolved: &keys, absent: &absent.keys };
        let mcp = mcp_server::resolve(&file.mcp_server, server.max_connections, known_keys);
        server.mcp = problems.take("mcp_server", mcp);
        if file.mcp_server.oauth.is_none() {
            problems.merge(require_tokens(&clients, &of_store));
        }
        let oauth = problems.merge(oauth(file.mcp_server.oauth, known_keys, &sets.roles));
        let ResolvedKeys { active, without_value, withheld } = keys;
        let keys = with_views(active.with_roles(sets.roles.present), oauth.as_ref());
        server.management = problems.take("management", management::resolve(file.management, env));
        if !has_external_url && !is_local(&server) {
            problems.merge(require_external_url(&clients, &server.management, &of_store));
        }
        let records = records::resolve(file.records, file.store.is_some(), env);
        let guards = problems.take("guards", guard::resolve(file.guards, env));
        Config {
            server,
            providers,
            clients,
            tools_off: file.mcp.disabled,
            groups,
            disabled,
            agent: tool_manager::agent(tool_manager),
            results: tool_manager::results(tool_manager),
            budget: tool_manager::budget(tool_manager),
            binding_level: tool_manager.code_mode_binding_level.same(),
            runs: tool_manager::runs(tool_manager),
            search_above: tool_manager.code_mode_search_threshold.count() as usize,
            script_language: tool_manager.code_mode_language.same(),
            keys,
            keys_without_value: without_value,
            keys_withheld: withheld,
            limits,
            prices,
            absent_owners: owned.absent,
            oauth,
            publishers: problems.take("plugins", publishers::resolve(file.plugins)),
            records: problems.take("records", records),
            telemetry: problems.take("telemetry", telemetry::resolve(file.telemetry, env)),
            store: problems.merge(location(file.store, file.store_listen_url, env)),
            store_seal: problems.merge(store::seal(file.store_key, file.store_old_keys, env)),
            lock: None,
            file: None,
            fingerprint: Fingerprint::default(),
            vaults: Vaults::default(),
            sandbox: sandbox_of(&tool_manager::budget(tool_manager), !guards.is_empty(), env),
            guards,
            sinks: problems.merge(information_flow::resolve(file.mcp.information_flow)),
        }
    })
}

/// Returns the credentials that callers can have, the absent keys included.
fn caller_credentials(file: &File, absent: &AbsentNames) -> server::CallerCredentials {
    let is_active = file.governance.virtual_keys.iter().any(|key| key.is_active.0);
    server::CallerCredentials {
        has_active_key: is_active || absent.had_keys || !absent.keys.is_empty(),
        has_tokens: file.mcp_server.oauth.is_some(),
        keys_can_be_added: !file.management.disabled,
    }
}

/// Makes the keys that stand for the views of access tokens.
fn with_views(keys: Keys, oauth: Option<&VerifierSettings>) -> Keys {
    let views = oauth.into_iter().flat_map(|oauth| &oauth.views);
    keys.with_views(views.map(|rule| rule.view.as_str()))
}

/// Resolves the groups of tools. None has the name of a client as its path.
fn tool_groups(
    groups: Vec<file::VirtualMcp>,
    clients: &[file::Client],
    context: &GroupContext<'_>,
) -> Resolved<Vec<ToolGroup>> {
    Resolved::new(|problems| {
        let groups = virtual_mcp::resolve(groups, context);
        let groups = problems.take(NamedPart::VirtualMcps.key(), groups);
        let slugs = client::check_slugs(clients, &groups, context.of_store);
        problems.take(NamedPart::Clients.key(), slugs);
        groups
    })
}

/// Resolves the access tokens of callers; `None` if there are none.
fn oauth(
    oauth: Option<file::OAuth>,
    keys: KnownKeys<'_>,
    roles: &Roles<'_>,
) -> Resolved<Option<VerifierSettings>> {
    Resolved::new(|problems| {
        let resolved = mcp_server::oauth(oauth?, keys, roles);
        problems.take(KeyPath::parse("mcp_server.oauth"), resolved)
    })
}

/// Resolves the database. Without one, it is beside the file.
fn location(
    store: Option<EnvText>,
    listen_url: Option<EnvText>,
    env: FileEnv<'_>,
) -> Resolved<Location> {
    store::resolve(store, listen_url, env)
        .map(|location| location.unwrap_or_else(|| store::beside(env)))
}

fn asks_for_certificates(server: &ServerSettings) -> bool {
    server.tls.as_ref().is_some_and(|tls| tls.client_auth != ClientAuth::None)
}

fn sandbox_of(budget: &Budget, has_guards: bool, env: FileEnv<'_>) -> sandbox::Settings {
    let guard_instances = if has_guards { guard_instances() } else { 0 };
    let settings = sandbox::Settings::new(code_cache(env));
    sandbox::Settings { depths: budget.depth, guard_instances, ..settings }
}

/// Returns the number of guards that can run at the same time: one on each thread of the runtime, on each of those that
/// read large results, and one for each turn in which a task has guards decide.
fn guard_instances() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(u32::MAX / 8).saturating_mul(3) + 8
}

/// Returns whether the browsers of users reach the address of `listen`. Behind a proxy, it leads them to their
/// own machines.
fn is_local(server: &ServerSettings) -> bool {
    server.listen.ip().is_loopback()
        && server.allowed_hosts.is_empty()
        && server.allowed_origins.is_empty()
}

/// Refuses servers that act for single users, and operators who log in: their browsers have to reach the
/// gateway.
fn require_external_url(
    clients: &[Client],
    management: &ManagementSettings,
    of_store: &BTreeMap<ClientName, usize>,
) -> Resolved<()> {
    Resolved::new(|problems| {
        if management.oidc.is_some() {
            return problems.refuse(
                KeyPath::parse("server.external_url"),
                "is required beside `management.oidc`: the provider redirects the browsers of operators there",
            );
        }
        let per_user = clients.iter().filter_map(|client| {
            let name = &client.name;
            match user_credentials(client)? {
                UserCredentials::Login => Some(UserClient {
                    name,
                    auth_type: "per_user_oauth",
                    reason: "users log in there with a browser",
                }),
                UserCredentials::Headers(_) => Some(UserClient {
                    name,
                    auth_type: "per_user_headers",
                    reason: "users enter them there with a browser",
                }),
                UserCredentials::Exchange(_) => None,
            }
        });
        problems.merge(require("server.external_url", per_user, of_store));
    })
}

/// Refuses servers for which access tokens of callers are exchanged, if no caller has any.
fn require_tokens(clients: &[Client], of_store: &BTreeMap<ClientName, usize>) -> Resolved<()> {
    let exchanging = clients
        .iter()
        .filter(|client| matches!(user_credentials(client), Some(UserCredentials::Exchange(_))))
        .map(|client| UserClient {
            name: &client.name,
            auth_type: "token_exchange",
            reason: "it exchanges the access tokens of callers",
        });
    require("mcp_server.oauth", exchanging, of_store)
}

/// A client that acts for single users.
struct UserClient<'c> {
    name: &'c ClientName,
    auth_type: &'static str,
    /// Reason that it needs another value of the file.
    reason: &'static str,
}

/// Refuses clients that need a value of the file that is absent. It is noted at the key of the value for
/// clients of the file, and at the client for each one of the store, so that it alone is left out.
fn require<'c>(
    key: &str,
    clients: impl Iterator<Item = UserClient<'c>>,
    of_store: &BTreeMap<ClientName, usize>,
) -> Resolved<()> {
    Resolved::new(|problems| {
        let mut is_noted = false;
        for UserClient { name, auth_type, reason } in clients {
            if let Some(index) = of_store.get(name) {
                let client = NamedPart::Clients.key().element(*index);
                problems.refuse(
                    client.member("auth_type"),
                    format_args!(
                        "{auth_type:?} requires `{key}` in the configuration file: {reason}"
                    ),
                );
            } else if !is_noted {
                is_noted = true;
                problems.refuse(
                    KeyPath::parse(key),
                    format_args!(
                        "is required, because the client {:?} has the `auth_type` {auth_type:?}: {reason}",
                        name.as_str()
                    ),
                );
            }
        }
    })
}

fn user_credentials(client: &Client) -> Option<&UserCredentials> {
    match &client.source {
        Source::Upstream(settings) => settings.transport.http()?.users.as_ref(),
        Source::Plugin(_) => None,
    }
}

/// Returns the directory for compiled code; `None` if none is known.
fn code_cache(env: FileEnv<'_>) -> Option<PathBuf> {
    CodeCache::default_directory(|variable| env.optional(variable).map(PathBuf::from))
}
