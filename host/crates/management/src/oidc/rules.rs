//! The rules of logins: who is an operator, and for how long. They follow the configuration file while the
//! gateway runs.

use serde_json::json;

use crate::token::{self, TokenDigest};
use airlock_core::operator::Role;
use airlock_identity::{IdClaims, LoginSettings};
use airlock_operator_api::{OidcRole, OidcSettings};
use airlock_store::operator_session::SessionRules;

/// The rules that hold at present.
#[derive(Debug)]
pub(super) struct LoginRules {
    pub(super) settings: OidcSettings,
    /// The sessions that are valid.
    pub(super) sessions: SessionRules,
}

impl LoginRules {
    pub(super) fn new(settings: OidcSettings) -> Self {
        let sessions = SessionRules { policy: policy(&settings), idle: settings.session_idle };
        Self { settings, sessions }
    }

    /// Returns the rules after a change of the file. The provider stays until the gateway is restarted. Without
    /// it in the file, no person is an operator until then: the roles of another provider or client are not about
    /// the people of this one.
    pub(super) fn followed_by(&self, wanted: Option<&OidcSettings>) -> Self {
        let LoginSettings { issuer, client_id, .. } = &self.settings.login;
        let wanted = wanted.filter(|wanted| {
            wanted.login.issuer == *issuer && wanted.login.client_id == *client_id
        });
        let wanted = match wanted {
            Some(wanted) => wanted.clone(),
            None => OidcSettings { roles: Vec::new(), ..self.settings.clone() },
        };
        Self::new(OidcSettings { login: self.settings.login.clone(), ..wanted })
    }

    /// Returns the first row of the table that matches.
    pub(super) fn role(&self, claims: &IdClaims) -> Option<&OidcRole> {
        self.settings.roles.iter().find(|row| matches(row, claims))
    }

    /// Returns whether a row makes administrators.
    pub(super) fn makes_admins(&self) -> bool {
        self.settings.roles.iter().any(|row| row.role == Role::Admin)
    }
}

fn matches(row: &OidcRole, claims: &IdClaims) -> bool {
    row.values.iter().any(|value| claims.has(&row.claim, value))
}

/// Returns the digest of the settings that the rights of sessions follow from.
fn policy(settings: &OidcSettings) -> TokenDigest {
    let OidcSettings { login, roles, session_idle, session_max } = settings;
    let roles: Vec<_> = roles
        .iter()
        .map(|row| json!([row.claim, row.values, row.role.name(), row.sees_payloads]))
        .collect();
    let settings = json!([
        "sessions of operators",
        login.issuer,
        login.client_id,
        login.scopes,
        roles,
        session_idle.as_millis().to_string(),
        session_max.as_millis().to_string(),
    ]);
    token::digest(&settings.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use airlock_core::secret::Secret;

    use super::*;

    fn settings() -> OidcSettings {
        OidcSettings {
            login: LoginSettings {
                issuer: "https://idp.example.com".to_owned(),
                client_id: "airlock".to_owned(),
                client_secret: None,
                scopes: vec!["openid".to_owned()],
                clock_skew: Duration::ZERO,
            },
            roles: vec![OidcRole {
                claim: "groups".to_owned(),
                values: vec!["staff".to_owned()],
                role: Role::Viewer,
                sees_payloads: false,
            }],
            session_idle: Duration::from_mins(5),
            session_max: Duration::from_mins(10),
        }
    }

    #[test]
    fn sessions_do_not_outlive_the_settings_that_their_rights_follow_from() {
        let changes: [fn(&mut OidcSettings); 10] = [
            |settings| settings.login.issuer.push('/'),
            |settings| settings.login.client_id.push('2'),
            |settings| settings.login.scopes.push("groups".to_owned()),
            |settings| settings.roles.clear(),
            |settings| settings.roles[0].claim.push('2'),
            |settings| settings.roles[0].values.push("other".to_owned()),
            |settings| settings.roles[0].role = Role::Admin,
            |settings| settings.roles[0].sees_payloads = true,
            |settings| settings.session_idle = Duration::from_mins(6),
            |settings| settings.session_max = Duration::from_mins(11),
        ];
        assert_eq!(policy(&settings()), policy(&settings()));
        for alter in changes {
            let mut other = settings();
            alter(&mut other);
            assert_ne!(policy(&other), policy(&settings()), "{other:?}");
        }
        let mut renewed = settings();
        renewed.login.client_secret = Some(Secret::new("hunter2"));
        assert_eq!(policy(&renewed), policy(&settings()), "a new secret ends nothing");
    }

    #[test]
    fn a_change_of_the_file_replaces_the_roles_and_the_times_and_not_the_provider() {
        let rules = LoginRules::new(settings());
        assert!(!rules.makes_admins());
        let mut wanted = settings();
        wanted.login.scopes.push("groups".to_owned());
        let same = rules.followed_by(Some(&wanted));
        assert_eq!(same.sessions, rules.sessions, "it waits for a restart");
        let others: [fn(&mut OidcSettings); 2] = [
            |settings| settings.login.issuer.push_str("/other"),
            |settings| settings.login.client_id.push('2'),
        ];
        for alter in others {
            let mut other = settings();
            alter(&mut other);
            let next = rules.followed_by(Some(&other));
            assert_eq!(next.settings.roles, [], "they are about the people of another provider");
            assert_eq!(next.settings.login, settings().login);
        }
        wanted.roles[0].role = Role::Admin;
        wanted.session_idle = Duration::from_mins(6);
        wanted.session_max = Duration::from_mins(7);
        let next = rules.followed_by(Some(&wanted));
        assert!(next.makes_admins());
        assert_eq!(next.settings.login, settings().login);
        assert_eq!(next.settings.session_max, wanted.session_max);
        assert_eq!(next.sessions.idle, wanted.session_idle);
        assert_ne!(next.sessions.policy, rules.sessions.policy);
        let none = next.followed_by(None);
        assert_eq!(none.settings.roles, []);
        assert_ne!(none.sessions.policy, next.sessions.policy);
    }
}
