//! Everything that `airlock plugin` does: creates a plugin from a template, builds it, checks it, replaces
//! the copy of the SDK that it carries, and [installs](install) it for an operator.
//!
//! Nothing here parses command-line options. The caller passes a [`Reporter`], which shows progress
//! and the output of compilers. A component is compiled, and asked for its tools, with everything denied;
//! only an installation grants rights, those that its options name.

mod build;
mod check;
mod component;
mod config_schema;
pub mod example;
mod file;
mod finding;
mod guard;
pub mod install;
mod interfaces;
mod language;
mod name;
mod quality;
mod sdk;
mod template;
mod vendored;

pub use self::{
    build::{BuildError, BuildProfile, BuiltComponent, Reporter, build},
    check::{Check, CheckOutcome, check},
    component::{CompiledComponent, Component, ComponentError, Origin, signature_path},
    finding::Finding,
    language::{Language, LanguageError},
    name::{BadPluginName, PluginName},
    sdk::{SdkCopy, UpgradeError},
    template::{NewPluginError, Template},
};

/// Returns the manifest of a plugin `p` with these keys.
#[cfg(test)]
fn manifest_with(keys: &serde_json::Value) -> airlock_plugin::Manifest {
    let mut manifest = serde_json::json!({
        "schema": airlock_plugin::MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1",
    });
    let keys = keys.as_object().expect("an object").clone();
    manifest.as_object_mut().expect("an object").extend(keys);
    airlock_plugin::Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest")
}
