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

/// Method by which the client authenticates itself at a token endpoint (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAuthentication {
    /// It has no secret, and names its identifier in the body.
    None,
    /// In the header `Authorization`.
    Basic,
    /// In the body.
    Post,
}

impl TokenAuthentication {
    /// Returns the name of the method in the store.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    /// Returns the method with this name.
    pub(super) fn find(name: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|method| method.name() == name)
    }
}
