//! Reasons that a plugin is not loaded.

use super::{Change, Drift, LoadRefusal, MetadataError, SignatureError, StoreError};
use airlock_egress as egress;
use airlock_lock::LockError;
use airlock_sandbox::LoadError;
use airlock_store::{self as store, Unavailable, components::ComponentDigest};

/// Reason that a plugin is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The component is unusable.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The metadata of the component cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The plugin needs rights that are not granted, or the grant is invalid.
    #[error(transparent)]
    Refused(#[from] LoadRefusal),
    /// The plugin differs from its accepted state.
    #[error(transparent)]
    Drift(#[from] Drift),
    /// A granted request is wider than that of the plugin in place.
    #[error("{0}")]
    Widened(#[from] Widened),
    /// The accepted state is unknown.
    #[error("the accepted state of the plugin is unknown")]
    Lock(#[from] LockError),
    /// A signature is required, and it was accepted without one.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// None of its tools can be called, so it would be connected without use.
    #[error("none of its tools can be offered: {0}")]
    NoTools(String),
    /// The database for its stores cannot be opened.
    #[error(transparent)]
    Store(#[from] store::OpenError),
    /// Its stores cannot be opened.
    #[error(transparent)]
    Entries(#[from] StoreError),
    /// The store has not the component of this digest.
    #[error("the store does not have the component {0}: upload it again")]
    Absent(ComponentDigest),
    /// The store cannot be used right now.
    #[error("the component cannot be read from the store")]
    Unavailable(#[from] Unavailable),
    /// Outbound requests are not possible.
    #[error(transparent)]
    Egress(#[from] egress::HttpClientError),
    /// No plugin has this name.
    #[error("no plugin is named {0:?}")]
    Unknown(String),
}

/// Granted requests of a new build that are wider than those of the plugin in place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the new build would widen what is granted: {}; if you agree, restart the gateway, or pin all \
     plugins with `airlock plugin accept --all`",
    .0.iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
)]
pub struct Widened(pub Vec<Change>);
