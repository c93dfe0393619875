//! Settings of the authorization at one server.

use sha2::{Digest as _, Sha256};

use airlock_core::secret::Secret;
use airlock_strings::hex;

/// Settings of the authorization at one server. Whatever is absent is discovered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Oauth {
    /// Identifier of a client that is registered at the authorization server.
    pub client_id: Option<String>,
    /// The secret of this client, if it has one.
    pub client_secret: Option<Secret>,
    /// URL of a document that describes the client, for authorization servers that take it for an
    /// identifier.
    pub client_metadata_url: Option<String>,
    /// Identifier of the authorization server, which must be the discovered one.
    pub issuer: Option<String>,
    /// URL at which the operator logs in.
    pub authorize_url: Option<String>,
    /// URL of the token endpoint.
    pub token_url: Option<String>,
    /// URL at which clients are registered.
    pub registration_url: Option<String>,
    /// Scopes to ask for instead of those that the server names.
    pub scopes: Vec<String>,
}

impl Oauth {
    /// Returns whether the gateway registers its client at the authorization server.
    pub(super) fn registers(&self) -> bool {
        self.client_id.is_none() && self.client_metadata_url.is_none()
    }

    /// Returns a digest of the settings, in hexadecimal; `None` if nothing is set.
    pub(super) fn fingerprint(&self) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let Self {
            client_id,
            client_secret,
            client_metadata_url,
            issuer,
            authorize_url,
            token_url,
            registration_url,
            scopes,
        } = self;
        let secret = client_secret.as_ref().map(|secret| secret.expose().to_owned());
        let urls = [client_metadata_url, issuer, authorize_url, token_url, registration_url];
        let all = (client_id, secret, urls, scopes);
        // The debug form of text is unambiguous.
        let digest = Sha256::digest(format!("{all:?}"));
        Some(hex(&digest[..16]))
    }
}

/// Settings of the exchange of callers' access tokens for tokens of one server (RFC 8693).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenExchange {
    /// URL of the token endpoint.
    pub token_url: String,
    /// Identifier of the client that exchanges the tokens.
    pub client_id: String,
    /// The secret of this client, if it has one.
    pub client_secret: Option<Secret>,
    /// Name of the server at the authorization server.
    pub audience: Option<String>,
    /// URL of the server, as the authorization server knows it.
    pub resource: Option<String>,
    /// Scopes to ask for; those of the client if there are none.
    pub scopes: Vec<String>,
    /// Type of the callers' tokens.
    pub subject_token_type: SubjectTokenType,
}

/// Type of the tokens that are exchanged (RFC 8693, section 3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SubjectTokenType {
    /// Access tokens.
    #[default]
    AccessToken,
    /// JSON Web Tokens.
    Jwt,
}

impl SubjectTokenType {
    /// Returns its identifier.
    pub(super) fn urn(self) -> &'static str {
        match self {
            Self::AccessToken => "urn:ietf:params:oauth:token-type:access_token",
            Self::Jwt => "urn:ietf:params:oauth:token-type:jwt",
        }
    }
}

impl TokenExchange {
    /// Returns a digest of the settings: tokens that were issued with other ones are not used.
    pub(super) fn fingerprint(&self) -> String {
        let Self {
            token_url,
            client_id,
            client_secret,
            audience,
            resource,
            scopes,
            subject_token_type,
        } = self;
        let secret = client_secret.as_ref().map(Secret::expose);
        let all =
            (token_url, client_id, secret, audience, resource, scopes, subject_token_type.urn());
        // The debug form of text is unambiguous.
        hex(&Sha256::digest(format!("{all:?}"))[..16])
    }
}

airlock_strings::named_enum! {
    /// Method by which the client authenticates itself at a token endpoint (RFC 6749, section 2.3.1). The names are those
    /// in the store.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TokenAuthentication {
        /// It has no secret, and names its identifier in the body.
        None = "none",
        /// In the header `Authorization`.
        Basic = "client_secret_basic",
        /// In the body.
        Post = "client_secret_post",
    }
}

impl TokenAuthentication {
    /// Returns the method with this name.
    pub(super) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}
