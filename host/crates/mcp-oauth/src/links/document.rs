//! The document of a link in the store.

use serde::{Deserialize, Serialize};

use super::{super::exchange::AuthorizationRequest, MAX_WRONG_KEYS};
use airlock_core::tenant::TenantIdentity;
use airlock_store::{
    login::{LoginHolder, LoginId, UpstreamLogin},
    login_link::LoginLink,
};
use airlock_strings::hex;

/// The document of a link in the store.
#[derive(Serialize, Deserialize)]
pub(super) struct LinkDocument {
    /// The login that the link is for, which is sealed here: the store's other columns are not.
    bound: LinkTarget,
    pub(super) holder: LinkHolder,
    /// The login, once its user has confirmed it.
    pub(super) started: Option<StartedLogin>,
    /// Number of wrong keys that were entered at the link.
    #[serde(default)]
    wrong_keys: u32,
}

/// The login that a link is for.
#[derive(Serialize, Deserialize)]
struct LinkTarget {
    client: String,
    server: String,
    /// Scope of the tenant, in hexadecimal.
    holder: String,
}

/// The tenant that asked for a link.
#[derive(Serialize, Deserialize)]
pub(super) struct LinkHolder {
    pub(super) key_name: String,
    /// Empty if the virtual key was the credential, and the subject too.
    pub(super) issuer: String,
    pub(super) subject: String,
}

/// A login whose browser is at the authorization server.
#[derive(Serialize, Deserialize)]
pub(super) struct StartedLogin {
    /// Digest of the secret of the browser that confirmed it.
    pub(super) browser: String,
    verifier: String,
    pub(super) redirect: String,
    requires_issuer: bool,
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    authentication: String,
    token_endpoint: String,
    resource: String,
    scopes: String,
}

impl LinkDocument {
    /// Creates the document of a link for the login of this tenant at a server.
    pub(super) fn new(client: &str, server: &str, identity: &TenantIdentity<'_>) -> Self {
        let bound = LinkTarget {
            client: client.to_owned(),
            server: server.to_owned(),
            holder: hex(&identity.scope),
        };
        Self { bound, holder: LinkHolder::from(identity), started: None, wrong_keys: 0 }
    }

    /// Returns the document of a link at which a login has begun.
    pub(super) fn started(self, login: StartedLogin) -> Self {
        Self { started: Some(login), ..self }
    }

    /// Returns the document of a link at which one more wrong key was entered; `None` if it was the last one.
    pub(super) fn count_wrong_key(self) -> Option<Self> {
        let wrong_keys = self.wrong_keys + 1;
        (wrong_keys < MAX_WRONG_KEYS).then_some(Self { wrong_keys, ..self })
    }

    pub(super) fn to_text(&self) -> String {
        // Texts and flags are always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the document of a link. `None` if it is that of another login, or if the link has no holder:
    /// such a link would be for the operator's login.
    pub(super) fn open(link: &LoginLink) -> Option<Self> {
        let document: Self = serde_json::from_str(&link.document).ok()?;
        let LoginId { client, server, holder } = &link.id;
        let bound = &document.bound;
        let is_own = bound.client == *client
            && bound.server == *server
            && holder.is_some_and(|holder| bound.holder == hex(&holder));
        is_own.then_some(document)
    }
}

impl From<&TenantIdentity<'_>> for LinkHolder {
    fn from(identity: &TenantIdentity<'_>) -> Self {
        let user = identity.user;
        Self {
            key_name: identity.key_name.to_owned(),
            issuer: user.map(|user| user.issuer.clone()).unwrap_or_default(),
            subject: user.map(|user| user.subject.clone()).unwrap_or_default(),
        }
    }
}

impl LinkHolder {
    /// Returns the holder of a login with this session.
    pub(super) fn to_holder(&self, session: String) -> LoginHolder {
        LoginHolder {
            session,
            key_name: self.key_name.clone(),
            issuer: self.issuer.clone(),
            subject: self.subject.clone(),
        }
    }
}

impl StartedLogin {
    pub(super) fn new(request: &AuthorizationRequest, browser: String) -> Self {
        let AuthorizationRequest { state: _, verifier, redirect, requires_issuer, login } = request;
        Self {
            browser,
            verifier: verifier.clone(),
            redirect: redirect.clone(),
            requires_issuer: *requires_issuer,
            issuer: login.issuer.clone(),
            client_id: login.client_id.clone(),
            client_secret: login.client_secret.clone(),
            authentication: login.authentication.clone(),
            token_endpoint: login.token_endpoint.clone(),
            resource: login.resource.clone(),
            scopes: login.scopes.clone(),
        }
    }

    /// Returns the request with this state, whose login is for `holder`.
    pub(super) fn into_request(self, state: String, holder: LoginHolder) -> AuthorizationRequest {
        AuthorizationRequest {
            state,
            verifier: self.verifier,
            redirect: self.redirect,
            requires_issuer: self.requires_issuer,
            login: UpstreamLogin {
                holder: Some(holder),
                issuer: self.issuer,
                client_id: self.client_id,
                client_secret: self.client_secret,
                authentication: self.authentication,
                token_endpoint: self.token_endpoint,
                resource: self.resource,
                scopes: self.scopes,
                ..UpstreamLogin::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tenant::Tenant;

    use super::*;

    #[test]
    fn a_document_counts_for_its_own_client_server_and_holder_alone() {
        let ann = Tenant::of_key([1; 32], "ann");
        let id = LoginId::of_operator("up", "server").of_holder(ann.scope());
        let identity = ann.identity().expect("it has one");
        let document = LinkDocument::new("up", "server", &identity).to_text();
        let link = LoginLink { digest: [0; 32], id: id.clone(), document, expires_ms: 0 };
        assert!(LinkDocument::open(&link).is_some());
        for id in [
            LoginId { client: "other".to_owned(), ..id.clone() },
            LoginId { server: "other".to_owned(), ..id.clone() },
            id.clone().of_holder([2; 32]),
            LoginId { holder: None, ..id },
        ] {
            assert!(LinkDocument::open(&LoginLink { id, ..link.clone() }).is_none());
        }
    }
}
