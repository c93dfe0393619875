//! Plugins that are embedded in the binary, so that the demo needs no other files. `build.rs` compiles them from source.

macro_rules! guest {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm"))
    };
}

/// Counts and searches text.
pub(crate) const TEXT: &[u8] = guest!("text");
/// Reads and writes granted directories.
pub(crate) const FILES: &[u8] = guest!("files");
/// Misbehaves on purpose.
pub(crate) const UNRULY: &[u8] = guest!("unruly");
