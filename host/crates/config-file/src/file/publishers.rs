//! `plugins`, as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// Signatures of plugins.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Plugins {
    /// Publishers whose signatures count: a name of your choice, and the public key, which is the second line
    /// of the file `minisign.pub`.
    pub publishers: BTreeMap<String, String>,
    /// True to install, accept and load only components with a signature of one of `publishers`.
    pub require_signature: bool,
}
