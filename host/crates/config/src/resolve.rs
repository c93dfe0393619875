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

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    path::PathBuf,
};

pub(super) use self::{absent::AbsentNames, key::check_stored as check_key_value};
use self::{
    client::OwnedClients,
    file_env::FileEnv,
    key::{KeyContext, KeyNames, KnownKeys, ResolvedKeys},
    limits::{LimitedParts, ResolvedLimits},
    named_set::{NamedSets, Roles},
    resolved::Resolved,
    same_variants::SameVariants as _,
    team::Groups,
    virtual_mcp::GroupContext,
};
use super::{
    address::GatewayAddress,
    config::{Client, Config, Source},
    fingerprint::Fingerprint,
    place::Place,
    vault::Vaults,
};
use airlock_compile::CodeCache;
use airlock_config_file::{
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

/// Resolves the keys of the addresses of the gateway alone.
pub(super) fn address(file: &File, place: Place<'_>) -> (GatewayAddress, Vec<RefusedValue>) {
    let Place { directory, file: path, vaults } = place;
    let env = FileEnv { directory, variables: &no_variable, vaults, is_file: path.is_some() };
    let address = Resolved::new(|problems| GatewayAddress {
        socket: problems.take("management", management::socket(&file.management, env)),
        listen: problems.take("server", server::listen(&file.server)),
        certificate: file.server.tls.as_ref().map(|tls| {
            let key = KeyPath::parse("server.tls.certificate");
            problems.take(key, tls::path(&tls.certificate, env))
        }),
    });
    address.into_parts()
}

/// Looks up a variable where no value may come from one.
fn no_variable(_: &str) -> Option<String> {
    None
}

fn config(mut file: File, env: FileEnv<'_>, absent: &AbsentNames) -> Resolved<Config> {
    let credentials = caller_credentials(&file, absent);
    let disabled = client::disabled(&file.mcp.client_configs);
    let of_store = client::indices_of_store(&file.mcp.client_configs, &absent.clients);
    let has_external_url = file.server.external_url.is_some();
    Resolved::new(|problems| {
        let governance = problems.merge(governance(&mut file, absent));
        let tool_manager = &file.mcp.tool_manager_config;
        let mut server = problems.take("server", server::resolve(file.server, credentials, env));
        let providers = problems.take("providers", provider::resolve(file.providers, env));
        let clients = client::resolve(file.mcp.client_configs, &governance.clients, env);
        let clients = problems.take(NamedPart::Clients.key(), clients);
        let keys = virtual_keys(file.governance.virtual_keys, &governance, &server, env);
        let keys = problems.merge(keys);
        let known_keys = KnownKeys { resolved: &keys, absent: &absent.keys };
        let mcp = mcp_server::resolve(&file.mcp_server, server.max_connections, known_keys);
        server.mcp = problems.take("mcp_server", mcp);
        if file.mcp_server.oauth.is_none() {
            problems.merge(require("mcp_server.oauth", &clients, &of_store));
        }
        let Governance { sets, limits, tool_groups, owned, .. } = governance;
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
            groups: tool_groups,
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
            limits: limits.limits,
            prices: limits.prices,
            absent_owners: owned.absent,
            oauth,
            publishers: problems.take("plugins", publishers::resolve(file.plugins)),
            records: problems.take("records", records),
            telemetry: problems.take("telemetry", telemetry::resolve(file.telemetry, env)),
            store: problems.merge(store::resolve(file.store, file.store_listen_url, env)),
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

/// The parts of the file that name each other: virtual keys name clients, sets, teams and customers; clients and groups
/// of tools name keys; limits are on all of them.
struct Governance<'a> {
    /// Names of all clients.
    clients: BTreeSet<ClientName>,
    sets: NamedSets<'a>,
    groups: Groups<'a>,
    limits: ResolvedLimits,
    tool_groups: Vec<ToolGroup>,
    owned: OwnedClients,
}

fn governance<'a>(file: &mut File, absent: &'a AbsentNames) -> Resolved<Governance<'a>> {
    let tool_groups = mem::take(&mut file.mcp.virtual_mcps);
    Resolved::new(|problems| {
        let clients = client::names(&file.mcp.client_configs, &absent.clients);
        let clients = problems.take(NamedPart::Clients.key(), clients);
        let sets = named_set::resolve(&mut file.governance, &clients, &absent.sets);
        let sets = problems.take("governance", sets);
        let File { mcp, governance, providers, .. } = &*file;
        let client_configs = &mcp.client_configs;
        let groups = team::resolve(&governance.teams, &governance.customers, &absent.groups);
        let groups = problems.take("governance", groups);
        let limited = LimitedParts {
            clients: client_configs,
            governance,
            providers,
            groups: &groups,
            absent,
        };
        let limits = problems.merge(limits::resolve(&limited));
        let keys = key::names(&governance.virtual_keys);
        let keys = KeyNames { present: &keys, absent: &absent.file_keys };
        let context = GroupContext { clients: &clients, keys, of_store: &absent.store_mcps };
        let tool_groups = virtual_mcp::resolve(tool_groups, &context);
        let tool_groups = problems.take(NamedPart::VirtualMcps.key(), tool_groups);
        let slugs = client::check_slugs(client_configs, &tool_groups, &absent.store_mcps);
        problems.take(NamedPart::Clients.key(), slugs);
        let owned = client::owned(client_configs, keys, &groups.teams, &absent.clients);
        let owned = problems.take(NamedPart::Clients.key(), owned);
        Governance { clients, sets, groups, limits, tool_groups, owned }
    })
}

/// Resolves the virtual keys. They may need certificates if the listener asks for them.
fn virtual_keys(
    keys: Vec<file::VirtualKey>,
    governance: &Governance<'_>,
    server: &ServerSettings,
    env: FileEnv<'_>,
) -> Resolved<ResolvedKeys> {
    let tls = server.tls.as_ref();
    let context = KeyContext {
        clients: &governance.clients,
        sets: &governance.sets,
        groups: &governance.groups,
        identities: &governance.limits.identities,
        owned: &governance.owned,
        asks_for_certificates: tls.is_some_and(|tls| tls.client_auth != ClientAuth::None),
        env,
    };
    let keys = key::resolve(keys, &context);
    Resolved::new(|problems| problems.take(NamedPart::VirtualKeys.key(), keys))
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
        problems.merge(require("server.external_url", clients, of_store));
    })
}

/// Refuses clients that need the value at `key` of the file, which is absent. It is noted at the key of the value for
/// clients of the file, and at the client for each one of the store, so that it alone is left out.
fn require(key: &str, clients: &[Client], of_store: &BTreeMap<ClientName, usize>) -> Resolved<()> {
    Resolved::new(|problems| {
        let mut is_noted = false;
        for client in clients {
            let need = need(client).filter(|need| need.key == key);
            let Some(ClientNeed { auth_type, reason, .. }) = need else { continue };
            if let Some(index) = of_store.get(&client.name) {
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
                        client.name.as_str()
                    ),
                );
            }
        }
    })
}

/// The value of the file that a client with this `auth_type` needs.
struct ClientNeed {
    key: &'static str,
    auth_type: &'static str,
    reason: &'static str,
}

/// Returns the need of a client that acts for single users; `None` for another.
fn need(client: &Client) -> Option<ClientNeed> {
    let Source::Upstream(settings) = &client.source else { return None };
    let (key, auth_type, reason) = match settings.transport.http()?.users.as_ref()? {
        UserCredentials::Login => {
            ("server.external_url", "per_user_oauth", "users log in there with a browser")
        }
        UserCredentials::Headers(_) => {
            ("server.external_url", "per_user_headers", "users enter them there with a browser")
        }
        UserCredentials::Exchange(_) => {
            ("mcp_server.oauth", "token_exchange", "it exchanges the access tokens of callers")
        }
    };
    Some(ClientNeed { key, auth_type, reason })
}

/// Returns the directory for compiled code; `None` if none is known.
fn code_cache(env: FileEnv<'_>) -> Option<PathBuf> {
    CodeCache::default_directory(|variable| env.optional(variable).map(PathBuf::from))
}
