//! `management.oidc`.

use super::super::{file_env::FileEnv, resolved::Resolved, same_variants::SameVariants as _};
use airlock_config_file::{file, key_path::KeyPath};
use airlock_identity::{LoginSettings, MAX_ENTRIES, MAX_TEXT_BYTES};
use airlock_operator_api::{OidcRole, OidcSettings};

/// Scopes to ask for, unless the file says otherwise.
const SCOPES: [&str; 3] = ["openid", "profile", "email"];

/// Resolves the section. Refuses settings that are unsafe, and rows that match nothing.
pub(super) fn resolve(file: file::Oidc, env: FileEnv<'_>) -> Resolved<Option<OidcSettings>> {
    Resolved::new(|problems| {
        if file.roles.len() > MAX_ENTRIES {
            problems.refuse("roles", format_args!("must have at most {MAX_ENTRIES} rows"));
        }
        let roles = problems.take("roles", roles(file.roles));
        let client_secret = file
            .client_secret
            .and_then(|secret| problems.accept("client_secret", env.text(secret)));
        let scopes = file.scopes.unwrap_or_else(|| SCOPES.map(str::to_owned).into());
        let login = LoginSettings {
            issuer: file.issuer,
            client_id: file.client_id,
            client_secret,
            scopes,
            clock_skew: file.clock_skew.get().0,
        };
        if let Err(bad) = login.check() {
            problems.refuse(KeyPath::parse(&bad.field), bad.problem);
            return None;
        }
        Some(OidcSettings {
            login,
            roles,
            session_idle: file.session_idle.get().0,
            session_max: file.session_max.get().0,
        })
    })
}

fn roles(rows: Vec<file::OidcRole>) -> Resolved<Vec<OidcRole>> {
    Resolved::elements(rows, |problems, row| {
        let expected =
            format!("expected text of 1 to {MAX_TEXT_BYTES} bytes without control characters");
        if !is_text(&row.claim) {
            problems.refuse("claim", format_args!("{expected}"));
        }
        if row.values.is_empty() || row.values.len() > MAX_ENTRIES {
            let found = row.values.len();
            let message = format_args!("has {found} values, expected 1 to {MAX_ENTRIES}");
            problems.refuse("values", message);
        } else if !row.values.iter().all(|value| is_text(value)) {
            problems.refuse("values", format_args!("{expected} for each value"));
        }
        Some(OidcRole {
            claim: row.claim,
            values: row.values,
            role: row.role.same(),
            sees_payloads: row.sees_payloads,
        })
    })
}

fn is_text(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len()) && !text.contains(char::is_control)
}
