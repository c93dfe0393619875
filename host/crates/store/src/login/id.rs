//! Names of logins.

use airlock_database::owner::OwnerId;
use airlock_strings::from_hex;

/// Names a login.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoginId {
    /// Name of the client.
    pub client: String,
    /// The MCP server, and the settings of the login.
    pub server: String,
    /// Tenant that the login is for; `None` for that of the operator.
    pub holder: Option<OwnerId>,
}

impl LoginId {
    /// Names the operator's login of a client at a server.
    pub fn of_operator(client: impl Into<String>, server: impl Into<String>) -> Self {
        Self { client: client.into(), server: server.into(), holder: None }
    }

    /// Names the login of a holder of the same client at the same server.
    #[must_use]
    pub fn of_holder(self, holder: OwnerId) -> Self {
        Self { holder: Some(holder), ..self }
    }
}

/// Reads a holder in hexadecimal; `None` if it is none.
pub(crate) fn owner(text: &str) -> Option<OwnerId> {
    from_hex(text.as_bytes())
}
