//! What an operator lends to one plugin. Absent is denied.

use std::path::PathBuf;

/// Everything that a plugin may use besides its log and its own call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Directories, each seen by the guest as `/<name>`.
    pub directories: Vec<Directory>,
    /// Tools that it may call, by full name `<client>-<tool>`.
    pub tools: Vec<String>,
}

/// One granted directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Its name in the guest: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The directory on the host.
    pub path: PathBuf,
    /// Whether the guest may change what is in it.
    pub access: Access,
}

/// How a directory is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading alone.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}
