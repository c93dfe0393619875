//! The plugins of a configuration: the component and the grant of each, and the policy of its tools.

use super::{ComponentSource, Grant};
use airlock_core::tool::{ClientName, Policy};

/// One plugin of the configuration.
#[derive(Debug, Clone)]
pub struct Configured {
    /// Its name in the configuration.
    pub client: ClientName,
    /// Policy of its tools.
    pub policy: Policy,
    /// Its component and its grant.
    pub settings: Settings,
}

/// Settings of one plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The component.
    pub component: ComponentSource,
    /// The operator's grant.
    pub grant: Grant,
}
