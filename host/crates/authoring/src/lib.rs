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
pub mod install;
mod interfaces;
mod language;
mod name;
mod quality;
mod sdk;
mod template;
mod vendored;

pub use self::{
    build::{BuildError, BuildProfile, Finished, Reporter, build},
    check::{Check, CheckOutcome, check},
    component::{Compiled, Component, ComponentError},
    finding::Finding,
    language::{Language, LanguageError},
    name::{BadPluginName, PluginName},
    sdk::{SdkCopy, UpgradeError},
    template::{NewPluginError, Template},
};
