//! `mcp_server`.

use super::{
    key::KnownKeys,
    named_set::{self, Roles},
    resolved::{Problems, Resolved},
    same_variants::{SameVariants as _, same_variants},
};
use airlock_config_file::{
    file,
    key_path::KeyPath,
    refused::{InvalidValue, NamedPart, Referent},
};
use airlock_core::door::roles_view;
use airlock_identity as identity;
use airlock_mcp_server::{self as mcp_server, ApprovalMode, ApprovalRule, SessionBounds};

/// Resolves the section. `max_connections` is that of the server: each stream takes a connection.
pub(super) fn resolve(
    file: &file::McpServer,
    max_connections: usize,
    keys: KnownKeys<'_>,
) -> Resolved<mcp_server::Settings> {
    let total = file.max_sessions.count() as usize;
    let streams = count(file.max_streams, max_connections / 2);
    Resolved::new(|problems| mcp_server::Settings {
        approval: file.approval.same(),
        approval_rules: problems.take("approval_rules", rules(&file.approval_rules, keys)),
        approval_wait: file.approval_wait.get().0,
        approval_timeout: file.approval_timeout.get().0,
        sessions: SessionBounds {
            total,
            per_key: count(file.max_sessions_per_key, total / 4),
            streams,
            streams_per_key: count(file.max_streams_per_key, streams / 2),
            idle: file.session_timeout.get().0,
        },
        sse: file.sse,
    })
}

fn count(value: Option<file::Sessions>, default: usize) -> usize {
    value.map_or(default.max(1), |value| value.count() as usize)
}

same_variants!(file::Approval => ApprovalMode { Never, Elicit, Wait, Client, AlwaysAllow });
same_variants!(file::TokenApis => identity::TokenApis { Mcp, All });

/// Returns the rules of approvals. Refuses one that has no condition, or names no virtual key.
fn rules(rules: &[file::ApprovalRule], keys: KnownKeys<'_>) -> Resolved<Vec<ApprovalRule>> {
    Resolved::elements(rules, |problems, rule| {
        if rule.virtual_key.is_none() && rule.client_name.is_none() {
            problems.refuse_whole(
                "expected `virtual_key`, `client_name` or both; `approval` is for all clients",
            );
        }
        if let Some(key) = &rule.virtual_key {
            problems.accept("virtual_key", check_key(key, keys));
        }
        Some(ApprovalRule {
            virtual_key: rule.virtual_key.clone(),
            client_name: rule.client_name.clone(),
            approval: rule.approval.same(),
        })
    })
}

fn check_key(name: &str, keys: KnownKeys<'_>) -> Result<(), InvalidValue> {
    if keys.has(name) {
        return Ok(());
    }
    Err(InvalidValue::absent(
        Referent::ElementOf(NamedPart::VirtualKeys),
        format_args!("no active key of `governance.virtual_keys` is named {name:?}"),
    ))
}

/// Resolves `oauth`: access tokens. Refuses settings that are unsafe, and a view that does not name
/// either a virtual key or roles.
pub(super) fn oauth(
    file: file::OAuth,
    keys: KnownKeys<'_>,
    roles: &Roles<'_>,
) -> Resolved<Option<identity::VerifierSettings>> {
    Resolved::new(|problems| {
        let views = Resolved::elements(file.views, |problems, row| {
            let view = view(problems, &row, keys, roles)?;
            Some(identity::ViewRule { claim: row.claim, value: row.value, view })
        });
        let views = problems.take("views", views);
        let mut settings = identity::VerifierSettings::new(file.issuer, file.resource, views);
        if let Some(name) = file.resource_name {
            settings.resource_name = name;
        }
        settings.clock_skew = file.clock_skew.get().0;
        settings.apis = file.apis.same();
        settings.audiences = file.audiences;
        settings.jwks_uri = file.jwks_uri;
        settings.scopes = file.scopes;
        if let Err(bad) = settings.check() {
            // Named as in the file, where a view is a virtual key.
            let key = KeyPath::parse(&bad.field.replace(".view", ".virtual_key"));
            problems.refuse(key, bad.problem);
            return None;
        }
        Some(settings)
    })
}

/// Returns the view that a row of the table selects.
fn view(
    problems: &mut Problems,
    row: &file::View,
    keys: KnownKeys<'_>,
    roles: &Roles<'_>,
) -> Option<String> {
    match (&row.virtual_key, &row.roles) {
        (Some(key), None) => {
            problems.accept("virtual_key", check_key(key, keys));
            Some(key.clone())
        }
        (None, Some(names)) => {
            problems.take("roles", named_set::check_roles(names, roles));
            if names.is_empty() {
                problems
                    .refuse("roles", "names no role, so the sender would see nothing; name one");
            }
            Some(roles_view(names))
        }
        (Some(_), Some(_)) => {
            problems.refuse("roles", "is beside `virtual_key`; exactly one of both is needed");
            None
        }
        (None, None) => {
            let message = "is required, unless `roles` is set; exactly one of both is needed";
            problems.refuse("virtual_key", message);
            None
        }
    }
}
