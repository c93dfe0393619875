//! The owner of what is stored, and the room that it takes.

pub mod room;

/// Identifier of an owner, to whom stored data belongs: a digest. For any other owner, the data
/// does not exist.
pub type OwnerId = [u8; 32];
