//! Plugins: their rights, their accepted state, and loading them while the gateway runs.
//!
//! Three documents have three owners. The [`Manifest`] is the author's and is embedded in the
//! component. The [`Grant`] is the operator's and is part of the gateway's configuration. The
//! [`Profile`](airlock_core::profile::Profile) is the ceiling that the operator chose by name. The [`Rights`] of a plugin are
//! request ∩ grant ∩ ceiling. The [`Lock`](airlock_lock::Lock) records the accepted state; of a component in
//! the store, its digest in the configuration does. No model, guest or client can change any of these
//! documents: they are read only from the operator's files, and from the store that operators change.
//!
//! [`Plugins`] loads what these documents permit, and loads it again when a file has changed.

mod component;
mod configure;
mod consent;
mod drift;
mod entries;
mod error;
mod grant;
mod hidden;
mod lines;
mod load;
mod lock_policy;
mod manifest;
mod metadata;
mod plugins;
mod publisher;
mod requested;
mod rights;
mod settings;
mod unassigned;
mod watch;

pub use self::{
    component::{ComponentSource, read_component},
    configure::Reconfigured,
    consent::Consent,
    drift::{Change, Drift, Widening},
    error::{PluginError, Widened},
    grant::{FilesGrant, Grant, HttpGrant, KvGrant, PartialQuota, SecretGrant},
    load::InspectError,
    manifest::{
        BadManifest, FilesAccess, FilesRequest, HttpRequest, InjectRequest, KvRequest, Manifest,
        Request, Requests, SCHEMA as MANIFEST_SCHEMA, SECTION as MANIFEST_SECTION, ScratchRequest,
        SecretRequest, SlotRequest, SwitchRequest, ToolEffects, ToolsRequest,
    },
    metadata::{Metadata, MetadataError},
    plugins::{Plugins, Reloaded, Resources},
    publisher::{BadPublisherKey, MAX_SIGNATURE_BYTES, PublisherKey, Publishers, SignatureError},
    requested::{RequestSummary, requested_limits},
    rights::{LoadRefusal, ReadSecret, Reason, Rights},
    settings::{Configured, Settings},
    unassigned::{StoreError, UnassignedStore},
};
