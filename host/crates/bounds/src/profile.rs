//! Named ceilings: the maximum rights of a plugin, whatever is requested and granted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limit::GuestLimit;

/// A ceiling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// For unreviewed code: the default limits and no more, HTTPS to public addresses
    /// alone, no secret's value.
    #[default]
    Untrusted,
    /// For code that the operator has read: what the engine can do, private networks and plain HTTP
    /// where granted.
    Trusted,
}

impl Profile {
    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Trusted => "trusted",
        }
    }

    /// Returns whether a plugin may reach private networks or use HTTP without TLS.
    pub fn opens_private_network(self) -> bool {
        self == Self::Trusted
    }

    /// Returns whether a plugin may read the value of a secret.
    pub fn reveals_secrets(self) -> bool {
        self == Self::Trusted
    }

    /// Returns the maximum of a limit.
    pub fn maximum(self, limit: GuestLimit) -> u64 {
        match self {
            Self::Untrusted => limit.default_amount(),
            Self::Trusted => limit.trusted_maximum(),
        }
    }
}
