//! Guests that are embedded in the binary, so that it needs no other files. `build.rs` compiles
//! them from source.

macro_rules! guest {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm"))
    };
}

/// Executor of scripts in Starlark.
pub(crate) const STARLARK: &[u8] = guest!("starlark");
/// Executor of scripts in Python.
pub(crate) const PYTHON: &[u8] = guest!("python");
/// Plugin for the demo: counts and searches text.
#[cfg(feature = "cli")]
pub(crate) const TEXT: &[u8] = guest!("text");
/// Plugin for the demo: reads and writes granted directories.
#[cfg(feature = "cli")]
pub(crate) const FILES: &[u8] = guest!("files");
/// Plugin for the demo: misbehaves on purpose.
#[cfg(feature = "cli")]
pub(crate) const UNRULY: &[u8] = guest!("unruly");
