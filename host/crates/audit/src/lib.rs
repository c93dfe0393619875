//! A log that a third party can check.
//!
//! - [`AuditLog`] writes the log of one gateway: [`line`](line()) makes an event, and a batch of events is
//!   durable when [`AuditLog::append`] returns
//! - `tree` is the Merkle tree over the lines, [`Checkpoint`] its signed root, [`SigningKey`] and
//!   [`PublicKey`] the keys
//! - [`Publication`] is a place where checkpoints are published, and where the gateway cannot change them
//! - [`verify`] checks a log, [`prove`] makes proofs for parties that do not have the log, [`export`] writes it in
//!   formats of other programs
//!
//! `docs/audit.md` describes the format, completely enough to write a verifier from it.
//!
//! This crate defines only the events of the log itself. `airlock-records` makes the events of calls, decisions and
//! changes.

mod checkpoint;
mod error;
mod event;
pub mod export;
mod files;
mod key;
mod log;
mod notes;
pub mod prove;
mod publish;
pub mod read;
mod rotation;
mod start;
#[cfg(test)]
mod testing;
mod tree;
pub mod verify;

pub use self::{
    checkpoint::{BadCheckpoint, Checkpoint},
    error::AuditError,
    event::line,
    files::MAX_EVENT_BYTES,
    key::{BadKeyFile, BadPublicKey, BadSigningKey, PublicKey, SigningKey},
    log::{AuditLog, AuditSettings},
    publish::Publication,
};
