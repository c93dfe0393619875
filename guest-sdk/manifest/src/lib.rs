//! Reads `plugin.toml`, checks it, and converts it to the form that a component embeds: JSON, with
//! the schema of the configuration in place of the name of its file.
//!
//! Both forms are checked by one table of keys, and all faults are reported at once: of the file
//! with line and column, of the embedded form with the path of the key. The macros of the SDK check
//! and embed the file at compile time, `airlock plugin build` checks it before it compiles, and the
//! gateway checks the embedded form of every component. Only the gateway reads sizes, times, URLs
//! and versions; it passes the reader as a [`Read`]. The table `[build]` is for the builder alone
//! and is not embedded.

mod fault;
mod form;
mod key_path;
mod keys;
mod rules;
mod shape;
mod source;

use serde_json::Value;

pub use self::{
    fault::{BadManifest, Fault, Faults, Position},
    form::{Form, Read},
    key_path::{KeyPath, Step},
    keys::{SCHEMA, key_paths},
    source::{FILE, MAX_BYTES, ManifestSource, read},
};

/// Name of the custom section that holds the manifest.
pub const SECTION: &str = "airlock:manifest";

/// Checks a manifest in its embedded form. `read` checks the texts whose form only the gateway
/// knows.
pub fn check(document: &Value, read: Read<'_>) -> Faults {
    let mut faults = Faults::default();
    // The rules compare keys with each other, which takes long if there are very many.
    if shape::check(document, read, &mut faults) {
        rules::check(document, &mut faults);
    }
    faults
}
