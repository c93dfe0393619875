//! Identities of files, whatever their names.

/// Identity of a file: the two halves of wasmtime-wasi's metadata hash, which is made from the
/// file's device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity {
    pub(super) lower: u64,
    pub(super) upper: u64,
}
