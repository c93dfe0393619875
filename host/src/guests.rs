//! The guests that are part of the binary, so that it works alone. `build.rs` has them compiled
//! from source.

macro_rules! guest {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm"))
    };
}

/// The script executor behind code mode.
pub(crate) const STARLARK: &[u8] = guest!("starlark");
/// Plugin for the demo: counts and searches text.
pub(crate) const TEXT: &[u8] = guest!("text");
/// Plugin for the demo: reads and writes granted directories.
pub(crate) const FILES: &[u8] = guest!("files");
/// Plugin for the demo: misbehaves.
pub(crate) const UNRULY: &[u8] = guest!("unruly");
