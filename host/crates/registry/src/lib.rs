//! Components in registries and at URLs: a client of the OCI distribution protocol, and bounded downloads.
//!
//! A [`Registry`] pulls and pushes the artifact that a [`Reference`] names; [`Downloads`] gets files from
//! URLs. Everything that a server sends is bounded, and everything that has a digest is compared with it.
//! Plain HTTP is permitted only to loopback addresses, unless [`PlainHttp::Anywhere`] is set. Credentials of a registry
//! are sent to it and to the token service that it names, never along a redirect.
//!
//! This crate knows neither plugins nor signatures: a signature is the text of an annotation.

mod challenge;
mod credential;
mod digest;
mod download;
mod error;
mod http;
mod manifest;
mod named_hosts;
mod reference;
mod registry;
mod token;

pub use self::{
    credential::{BadDockerConfig, Credential},
    digest::{BadDigest, Digest},
    download::Downloads,
    error::RegistryError,
    http::PlainHttp,
    reference::{BadReference, Reference, SCHEME},
    registry::{Artifact, PulledArtifact, Registry},
};
