//! `mcp_server`.

use airlock_identity as identity;

use super::{
    super::{KeyPath, file},
    Field,
};
use airlock_core::{door::Keys, units::Span};
use airlock_mcp_server::{ApprovalMode, ApprovalRule, SessionBounds, Settings};

/// The most sessions. A session takes some kilobytes.
const MOST: u32 = 1 << 20;

/// Resolves the section. `max_connections` is that of the server: each stream takes a connection.
pub(super) fn resolve(
    field: &Field<'_>,
    file: &file::McpServer,
    max_connections: usize,
    keys: &Keys,
) -> Settings {
    let connections = u32::try_from(max_connections).unwrap_or(MOST);
    let total = count(&field.member("max_sessions"), file.max_sessions, 4_096);
    let streams = count(&field.member("max_streams"), file.max_streams, connections / 2);
    let sessions = SessionBounds {
        total: total as usize,
        per_key: count(&field.member("max_sessions_per_key"), file.max_sessions_per_key, total / 4)
            as usize,
        streams: streams as usize,
        streams_per_key: count(
            &field.member("max_streams_per_key"),
            file.max_streams_per_key,
            streams / 2,
        ) as usize,
        idle: field
            .member("session_timeout")
            .within(file.session_timeout, Span::secs(30 * 60), Span::secs(1)..=Span::days(30))
            .0,
    };
    Settings {
        approval: file.approval.map_or(ApprovalMode::Elicit, mode),
        approval_rules: rules(field, file, keys),
        approval_wait: field
            .member("approval_wait")
            .within(file.approval_wait, Span::secs(45), Span::secs(0)..=Span::days(1))
            .0,
        approval_timeout: field
            .member("approval_timeout")
            .within(file.approval_timeout, Span::secs(5 * 60), Span::secs(1)..=Span::days(1))
            .0,
        sessions,
        sse: file.sse.unwrap_or_default(),
    }
}

fn count(field: &Field<'_>, value: Option<u64>, default: u32) -> u32 {
    field.count(value, default.max(1), 1..=MOST)
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
) -> Option<identity::Settings> {
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
    let mut settings = identity::Settings::new(file.issuer, file.resource, rules);
    if let Some(name) = file.resource_name {
        settings.resource_name = name;
    }
    if let Some(skew) = file.clock_skew {
        settings.clock_skew = skew.0;
    }
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
