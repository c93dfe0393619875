//! The settings of all modules, made from one configuration file.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

use super::{fingerprint::Fingerprint, vault::Vaults};
use airlock_agent::{self as agent, results};
use airlock_core::{
    door::{Budget, Keys, ScriptLanguage, SinkRules, ToolGroup},
    secret::{self, Secret},
    tool::{ClientName, Policy},
};
use airlock_ingress::{TlsSettings, socket};
use airlock_limits::{limit::Limit, price::PriceTable};
use airlock_model as model;
use airlock_plugin as plugin;
use airlock_records::{CheckpointPlace, RecordSettings, SigningKeySource};
use airlock_sandbox::{self as sandbox, OffLimits};
use airlock_scripts::{BindingLevel, Layout, runs};
use airlock_server as server;
use airlock_store::Location;
use airlock_telemetry::settings::TelemetrySettings;
use airlock_tls::{Authorities, IdentitySource};

/// The checked configuration, with the settings of every module.
#[derive(Debug, Clone)]
pub struct Config {
    /// `server`.
    pub server: server::Settings,
    /// `providers`, in the order in which they are written.
    pub providers: Vec<model::Settings>,
    /// `mcp.client_configs`, without those that are disabled.
    pub clients: Vec<Client>,
    /// `mcp.disabled`: true if all tools are switched off.
    pub tools_off: bool,
    /// `mcp.virtual_mcps`, without those that are not enabled.
    pub groups: Vec<ToolGroup>,
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
    /// `governance`: the virtual keys, with their roles and environments.
    pub keys: Keys,
    /// `governance.virtual_keys`: names of those that have no credential yet. The gateway makes one for each.
    pub keys_without_value: BTreeSet<String>,
    /// `governance.virtual_keys`: names of those that are refused because an entry of the store takes their
    /// role, environment, team or customer away.
    pub keys_withheld: BTreeSet<String>,
    /// Limits of virtual keys, teams, customers and models in `governance`, and of clients and tools in
    /// `mcp.client_configs`.
    pub limits: Vec<Limit>,
    /// The prices that the gateway knows, with those of `governance.pricing_overrides`, and `tool_pricing` of
    /// clients.
    pub prices: PriceTable,
    /// `mcp.client_configs`: owners of clients that do not exist.
    pub absent_owners: Vec<AbsentOwner>,
    /// `mcp_server.oauth`: access tokens of an identity provider.
    pub oauth: Option<airlock_identity::VerifierSettings>,
    /// `store`: database of state that survives a restart.
    pub store: Location,
    /// `store_key` and `store_old_keys`: keys that secrets in the store are sealed with; `None` if they
    /// are stored as they are.
    pub store_seal: Option<StoreSeal>,
    /// `plugins`: publishers whose signatures count, and whether one is required.
    pub publishers: plugin::Publishers,
    /// `guards`, in their order.
    pub guards: Vec<airlock_guards::Settings>,
    /// `mcp.information_flow`: calls that are refused or need an approval after untrusted content was read.
    pub sinks: SinkRules,
    /// `records`: the call log and the audit log.
    pub records: RecordSettings,
    /// `telemetry`: the export of traces, metrics and log records. The command line starts it: `airlock serve` and
    /// `airlock mcp`.
    pub telemetry: TelemetrySettings,
    /// Lock file with the accepted state of plugins: `airlock.lock` beside the configuration file.
    /// `None` for a configuration that was not loaded from a file.
    pub lock: Option<PathBuf>,
    /// The configuration file, which a running gateway reads again; `None` for a configuration that
    /// was not loaded from a file.
    pub file: Option<PathBuf>,
    /// Hashes of the values in the file.
    pub fingerprint: Fingerprint,
    /// Vaults that it was loaded with, which a reload asks again.
    pub vaults: Vaults,
    /// Settings of the sandbox. The file sets only the depth of calls; the environment sets the
    /// directory for compiled code.
    pub sandbox: sandbox::Settings,
}

/// Keys that secrets in the store are sealed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSeal {
    /// The key that secrets are sealed with.
    pub key: SealKeySource,
    /// Keys before it, which still open what was sealed with them.
    pub old_keys: Vec<SealKeySource>,
}

/// Source of a key that secrets are sealed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealKeySource {
    /// The text of the key, from the environment.
    Text(Secret),
    /// A file that has only the key.
    File(PathBuf),
}

impl StoreSeal {
    /// Returns the files that have keys.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let keys = std::iter::once(&self.key).chain(&self.old_keys);
        keys.filter_map(|key| match key {
            SealKeySource::File(path) => Some(path.as_path()),
            SealKeySource::Text(_) => None,
        })
    }
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

/// Owner of a client that does not exist. As long as it has no other one, no request sees the client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbsentOwner {
    /// The client.
    pub client: ClientName,
    /// Member of the client that names the owner: `virtual_keys` or `teams`.
    pub member: &'static str,
    /// The owner, as the client names it.
    pub owner: String,
}

impl AbsentOwner {
    pub(super) fn key(client: &ClientName, owner: &str) -> Self {
        Self { client: client.clone(), member: "virtual_keys", owner: owner.to_owned() }
    }

    pub(super) fn team(client: &ClientName, owner: &str) -> Self {
        Self { client: client.clone(), member: "teams", owner: owner.to_owned() }
    }
}

impl fmt::Display for AbsentOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, member, owner } = self;
        let kind = if *member == "teams" { "team" } else { "virtual key" };
        write!(
            f,
            "`{member}` of the client {client} names the {kind} {owner:?}, which does not exist"
        )
    }
}

/// Source of a client's tools.
#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each client, and none is moved often"
)]
pub enum Source {
    /// An MCP server.
    Upstream(airlock_mcp_client::Settings),
    /// A plugin.
    Plugin(Box<plugin::Settings>),
}

impl Config {
    /// Returns the layout of the virtual files of code mode.
    pub fn layout(&self) -> Layout {
        let scripted = self.clients.iter().filter(|client| client.policy.code_mode);
        scripted.fold(Layout::from(self.binding_level), |layout, client| {
            layout.with(client.name.clone(), client.binding_level.unwrap_or(self.binding_level))
        })
    }

    /// Returns the settings of the plugin with this name.
    pub fn plugin(&self, name: &ClientName) -> Option<&plugin::Settings> {
        self.plugins().find_map(|(own, plugin)| (own == name).then_some(plugin))
    }

    /// Returns the name and the settings of each plugin.
    pub(super) fn plugins(&self) -> impl Iterator<Item = (&ClientName, &plugin::Settings)> {
        self.clients.iter().filter_map(|client| match &client.source {
            Source::Plugin(plugin) => Some((&client.name, &**plugin)),
            Source::Upstream(_) => None,
        })
    }

    /// Returns the files of private keys: that of the listener, and those of the gateway's certificates for
    /// servers and providers.
    fn private_keys(&self) -> impl Iterator<Item = &Path> {
        let listener = self.server.tls.as_ref().map(|tls| tls.key.as_path());
        let servers = self.clients.iter().filter_map(|client| match &client.source {
            Source::Upstream(upstream) => upstream.transport.http()?.identity.as_ref()?.key.file(),
            Source::Plugin(_) => None,
        });
        let providers = self.providers.iter().filter_map(|provider| match &provider.kind {
            model::Kind::Service(service) => service.identity.as_ref()?.key.file(),
            model::Kind::Scripted { .. } => None,
        });
        let replicas = self.server.replica_tls.identity.as_ref().and_then(|own| own.key.file());
        listener.into_iter().chain(servers).chain(providers).chain(replicas)
    }

    /// Returns the files by which servers and providers are trusted, and those of the gateway's certificates
    /// for them.
    fn outbound_certificates(&self) -> impl Iterator<Item = &Path> {
        let servers = self.clients.iter().filter_map(|client| match &client.source {
            Source::Upstream(upstream) => upstream.transport.http(),
            Source::Plugin(_) => None,
        });
        let servers =
            servers.flat_map(|http| trust_files(&http.authorities, http.identity.as_ref()));
        let providers = self.providers.iter().filter_map(|provider| match &provider.kind {
            model::Kind::Service(service) => Some(service),
            model::Kind::Scripted { .. } => None,
        });
        let providers = providers.flat_map(|service| {
            service.ca.iter().chain(service.identity.as_ref().map(|own| &own.certificate))
        });
        let replicas = &self.server.replica_tls;
        let replicas = trust_files(&replicas.authorities, replicas.identity.as_ref());
        servers.chain(providers).chain(replicas).map(PathBuf::as_path)
    }

    /// Returns the directory of the audit log, which may have its key, and the files of its keys and checkpoints.
    fn audit_files(&self) -> impl Iterator<Item = &Path> {
        self.records.audit.iter().flat_map(|audit| {
            let keys = audit.key.iter().chain(&audit.old_key).filter_map(|key| match key {
                SigningKeySource::File(path) => Some(path.as_path()),
                SigningKeySource::Text(_) => None,
            });
            let published = audit.publish.iter().filter_map(|place| match place {
                CheckpointPlace::File(path) => Some(path.as_path()),
                CheckpointPlace::Url { .. } => None,
            });
            std::iter::once(audit.directory.as_path()).chain(keys).chain(published)
        })
    }

    /// Returns the files that no plugin may write or read: the configuration file at `path`, and
    /// files that it names.
    pub fn own_files(&self, path: &Path) -> OffLimits {
        let components = self.plugins().filter_map(|(_, plugin)| plugin.component.file());
        let components = components.map(Path::to_owned);
        let sources = self.plugins().flat_map(|(_, plugin)| plugin.grant.secret.values());
        let secrets = sources.filter_map(|secret| match &secret.source {
            secret::SecretSource::File(path) => Some(path.clone()),
            secret::SecretSource::Env(_) => None,
        });
        let tls = self.server.tls.as_ref();
        OffLimits {
            unwritable: [path.to_owned()]
                .into_iter()
                .chain(self.lock.clone())
                .chain(components)
                .chain(self.guards.iter().map(|guard| guard.component.clone()))
                .chain(self.server.management.socket.clone())
                .chain(tls.into_iter().flat_map(TlsSettings::files).map(Path::to_owned))
                .chain(self.outbound_certificates().map(Path::to_owned))
                .collect(),
            unreadable: self
                .store
                .path()
                .into_iter()
                .chain(self.store_seal.iter().flat_map(StoreSeal::files))
                .map(Path::to_owned)
                .chain(self.server.management.socket.as_deref().map(socket::token_path))
                .chain(secrets)
                .chain(self.private_keys().map(Path::to_owned))
                .chain(self.audit_files().map(Path::to_owned))
                .collect(),
        }
    }
}

/// Returns the files of authorities and of a certificate.
fn trust_files<'c>(
    authorities: &'c Authorities,
    identity: Option<&'c IdentitySource>,
) -> impl Iterator<Item = &'c PathBuf> {
    let authorities = match authorities {
        Authorities::File(path) => Some(path),
        Authorities::System | Authorities::Pem(_) => None,
    };
    authorities.into_iter().chain(identity.map(|own| &own.certificate))
}
