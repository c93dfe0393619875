//! Named ceilings: the maximum rights of a plugin, whatever is requested and granted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    egress::Bounds,
    sandbox::{Limits, MAX_MEMORY_BYTES},
};

/// A ceiling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// For code that nobody has read: the default limits and no more, HTTPS to public addresses
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

    /// Returns the maximum limits of a call.
    pub fn limits(self) -> Limits {
        match self {
            // A deadline is bounded by the caller's own deadline, which the operator sets.
            Self::Untrusted => Limits { deadline: LONGEST, ..Limits::PLUGIN },
            Self::Trusted => Limits {
                fuel: 1_000_000_000_000,
                cpu: std::time::Duration::from_mins(5),
                deadline: LONGEST,
                memory_bytes: MAX_MEMORY_BYTES,
                table_elements: Limits::PLUGIN.table_elements,
                handles: 65_536,
                copied_bytes: 256 << 20,
                host_calls: 1_000_000,
                result_bytes: 64 << 20,
                log_lines: 100_000,
                log_line_bytes: 64 << 10,
            },
        }
    }

    /// Returns the maximum HTTP bounds of a call.
    pub fn bounds(self) -> Bounds {
        match self {
            Self::Untrusted => Bounds::PLUGIN,
            Self::Trusted => Bounds {
                requests: 10_000,
                request_bytes: 64 << 20,
                response_bytes: 64 << 20,
                timeout: LONGEST,
                redirects: 20,
                ..Bounds::PLUGIN
            },
        }
    }
}

const LONGEST: std::time::Duration = std::time::Duration::from_hours(1);
