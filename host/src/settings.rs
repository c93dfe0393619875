//! The types of a [`Config`](crate::config::Config), so that a program can change its fields before it
//! starts a gateway. Each module has the types of one field; `upstream` and `plugin` are those of the
//! two sources in `clients`. The types of the other fields are in [`config`](crate::config),
//! [`door`](crate::door), [`sandbox`](crate::sandbox) and [`compile`](crate::compile).

/// Types of `Config::server`.
pub mod server {
    pub use airlock_core::operator::{NoSuchRole, Operator, Right, Role};
    pub use airlock_identity::LoginSettings;
    pub use airlock_ingress::{BadTls, ClientAuth, TlsSettings, Untimely};
    pub use airlock_mcp_server::{
        ApprovalMode, ApprovalRule, SessionBounds, Settings as McpServerSettings,
    };
    pub use airlock_operator_api::{
        ConfiguredOperator, ManagementSettings, OidcRole, OidcSettings,
    };
    pub use airlock_responses::BuiltinTools;
    pub use airlock_server::{DebugSettings, Settings};
    pub use airlock_store::responses::ResponseBounds;
}

/// Types of `Config::providers`.
pub mod providers {
    pub use airlock_core::secret::Secret;
    pub use airlock_model::{
        Api, Apis, CloudCredential, Hosting, Key, Kind, Retries, Service, Settings, Timeouts,
    };
    pub use airlock_tls::{BadIdentity, Identity, IdentitySource, KeySource};
}

/// Types of an MCP server in `Config::clients`.
pub mod upstream {
    pub use airlock_core::{secret::Secret, tool::QuestionKinds};
    pub use airlock_mcp_client::{
        Bounds, Confinement, Connector, Docker, Framing, HttpServer, HttpTransport, Lifecycle,
        Network, OpenError, Pinning, Place, Process, ProcessLimits, Protocol, Renewal, Restart,
        Settings, Timeouts, UnusableFile,
    };
    pub use airlock_mcp_oauth::{
        ExtraHeaders, HttpSettings, InvalidSettings, Oauth, Secrets, TokenExchange, UserCredentials,
    };
    pub use airlock_tls::{Authorities, IdentitySource, KeySource};
}

/// Types of a plugin in `Config::clients`.
pub mod plugin {
    pub use airlock_core::{
        limit::{GuestLimit, GuestLimitSet},
        profile::Profile,
        secret::{BadSource, SecretSource, SourceError},
    };
    pub use airlock_egress::{BadCredential, BadRule, Injection, Rule};
    pub use airlock_plugin::{
        BadPublisherKey, ComponentSource, FilesGrant, Grant, HttpGrant, KvGrant, PartialQuota,
        PublisherKey, Publishers, SecretGrant, Settings, SignatureError,
    };
}

/// Types of `Config::guards`.
pub mod guards {
    pub use airlock_guards::{BadPattern, Hooks, Scope, Settings, ToolPattern};
}

/// Types of `Config::agent`.
pub mod agent {
    pub use airlock_agent::{ResultsAsText, Settings};
}

/// Type of `Config::results`.
pub mod results {
    pub use airlock_agent::results::Settings;
}

/// Types of `Config::runs` and `Config::binding_level`.
pub mod runs {
    pub use airlock_scripts::{
        BindingLevel,
        runs::{RunSettings, ScriptApproval},
    };
    pub use airlock_store::runs::RunBounds;
}

/// Types of `Config::store`.
pub mod store {
    pub use airlock_store::{Location, LocationError, ServerUrl};
}

/// Types of `Config::limits` and `Config::prices`.
pub mod limits {
    pub use airlock_core::money::Money;
    pub use airlock_limits::{
        Alignment, BadLength,
        limit::{Limit, Measure, Owner, Period, Scope, Window},
        price::{LongPrice, ModelPrice, PriceOverride, PriceTable, TierPrice},
    };
}

/// Types of `Config::telemetry`.
pub mod telemetry {
    pub use airlock_telemetry::settings::{Collector, OtlpSettings, Sampler, TelemetrySettings};
}

/// Types of `Config::records`.
pub mod records {
    pub use airlock_core::secret::Secret;
    pub use airlock_records::{
        AuditPlace, CallLogSettings, CheckpointPlace, OnFailure, RecordSettings, SigningKeySource,
    };
}

/// Types of `Config::oauth`.
pub mod oauth {
    pub use airlock_identity::{BadSettings, TokenApis, VerifierSettings, ViewRule};
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::PathBuf};

    use crate::{
        config::{AbsentOwner, Client, Config, Disabled, Fingerprint, Source, StoreSeal, Vaults},
        door, sandbox,
    };

    /// Names the type of each field. A new field does not compile until its type has a name here.
    #[test]
    fn every_field_of_a_configuration_has_a_type_that_a_program_can_name() {
        let config = Config::parse("{}", "test", &|_| None).expect("a configuration");
        let Config {
            server,
            providers,
            clients,
            tools_off,
            groups,
            disabled,
            agent,
            results,
            budget,
            binding_level,
            runs,
            search_above,
            script_language,
            keys,
            keys_without_value,
            keys_withheld,
            limits,
            prices,
            absent_owners,
            oauth,
            publishers,
            guards,
            sinks,
            store,
            store_seal,
            records,
            telemetry,
            lock,
            file,
            fingerprint,
            vaults,
            sandbox,
        } = config;
        let _: super::server::Settings = server;
        let _: Vec<super::providers::Settings> = providers;
        let _: bool = tools_off;
        let _: Vec<door::ToolGroup> = groups;
        let _: Vec<Disabled> = disabled;
        let _: super::agent::Settings = agent;
        let _: super::results::Settings = results;
        let _: door::Budget = budget;
        let _: super::runs::BindingLevel = binding_level;
        let _: super::runs::RunSettings = runs;
        let _: usize = search_above;
        let _: door::ScriptLanguage = script_language;
        let _: door::Keys = keys;
        let _: [BTreeSet<String>; 2] = [keys_without_value, keys_withheld];
        let _: Vec<super::limits::Limit> = limits;
        let _: super::limits::PriceTable = prices;
        let _: Vec<AbsentOwner> = absent_owners;
        let _: Option<super::oauth::VerifierSettings> = oauth;
        let _: super::plugin::Publishers = publishers;
        let _: Vec<super::guards::Settings> = guards;
        let _: door::SinkRules = sinks;
        let _: super::store::Location = store;
        let _: Option<StoreSeal> = store_seal;
        let _: super::records::RecordSettings = records;
        let _: super::telemetry::TelemetrySettings = telemetry;
        let _: [Option<PathBuf>; 2] = [lock, file];
        let _: Fingerprint = fingerprint;
        let _: Vaults = vaults;
        let _: sandbox::Settings = sandbox;
        let clients: Vec<Client> = clients;
        for client in clients {
            match client.source {
                Source::Upstream(upstream) => drop::<super::upstream::Settings>(upstream),
                Source::Plugin(plugin) => drop::<super::plugin::Settings>(*plugin),
            }
        }
    }
}
