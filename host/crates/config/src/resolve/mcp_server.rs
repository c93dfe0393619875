//! `mcp_server`.

use airlock_identity as identity;

use super::{
    super::{KeyPath, file},
    Field,
};
use airlock_core::door::Keys;
use airlock_mcp_server::{ApprovalMode, ApprovalRule, SessionBounds, Settings};

/// Resolves the section. `max_connections` is that of the server: each stream takes a connection.
pub(super) fn resolve(
    field: &Field<'_>,
    file: &file::McpServer,
    max_connections: usize,
    keys: &Keys,
) -> Settings {
    let total = file.max_sessions.count() as usize;
    let streams = count(file.max_streams, max_connections / 2);
    let sessions = SessionBounds {
        total,
        per_key: count(file.max_sessions_per_key, total / 4),
        streams,
        streams_per_key: count(file.max_streams_per_key, streams / 2),
        idle: file.session_timeout.get().0,
    };
    Settings {
        approval: mode(file.approval),
        approval_rules: rules(field, file, keys),
        approval_wait: file.approval_wait.get().0,
        approval_timeout: file.approval_timeout.get().0,
        sessions,
        sse: file.sse,
    }
}

fn count(value: Option<file::Sessions>, default: usize) -> usize {
    value.map_or(default.max(1), |value| value.count() as usize)
}

fn mode(approval: file::Approval) -> ApprovalMode {
    match approval {
        file::Approval::Elicit => ApprovalMode::Elicit,
        file::Approval::Never => ApprovalMode::Never,
        file::Approval::Client => ApprovalMode::Client,
        file::Approval::AlwaysAllow => ApprovalMode::AlwaysAllow,
    }
}

/// Resolves the rules of approvals. Notes a problem if one has no condition, or names no virtual key.
fn rules(field: &Field<'_>, file: &file::McpServer, keys: &Keys) -> Vec<ApprovalRule> {
    let rules = field.member("approval_rules");
    let resolved = file.approval_rules.iter().enumerate().map(|(index, rule)| {
        let field = rules.element(index);
        if rule.virtual_key.is_none() && rule.client_name.is_none() {
            field.refuse(
                "expected `virtual_key`, `client_name` or both; `approval` is for all clients",
            );
        }
        if let Some(key) = rule.virtual_key.as_deref().filter(|key| keys.named(key).is_none()) {
            field.member("virtual_key").refuse(format_args!(
                "no active key of `governance.virtual_keys` is named {key:?}"
            ));
        }
        ApprovalRule {
            virtual_key: rule.virtual_key.clone(),
            client_name: rule.client_name.clone(),
            approval: mode(rule.approval),
        }
    });
    resolved.collect()
}

/// Resolves the settings of access tokens. Notes a problem if they are unsafe, or if a view names no
/// virtual key.
pub(super) fn oauth(
    field: &Field<'_>,
    file: file::OAuth,
    keys: &Keys,
) -> Option<identity::VerifierSettings> {
    let views = field.member("views");
    for (index, view) in file.views.iter().enumerate() {
        if keys.named(&view.virtual_key).is_none() {
            views.element(index).member("virtual_key").refuse(format_args!(
                "no active key of `governance.virtual_keys` is named {:?}",
                view.virtual_key
            ));
        }
    }
    let rules = file.views.into_iter().map(|view| identity::ViewRule {
        claim: view.claim,
        value: view.value,
        view: view.virtual_key,
    });
    let mut settings = identity::VerifierSettings::new(file.issuer, file.resource, rules);
    if let Some(name) = file.resource_name {
        settings.resource_name = name;
    }
    settings.clock_skew = file.clock_skew.get().0;
    settings.audiences = file.audiences;
    settings.jwks_uri = file.jwks_uri;
    settings.scopes = file.scopes;
    match settings.check() {
        Ok(()) => Some(settings),
        Err(bad) => {
            // Named as in the file, where a view is a virtual key.
            let place = bad.field.replace(".view", ".virtual_key");
            let key = KeyPath::parse(&format!("{}.{place}", field.key));
            Field { key, ..*field }.refuse(bad.problem);
            None
        }
    }
}
