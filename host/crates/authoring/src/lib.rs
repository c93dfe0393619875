//! Everything that `airlock plugin` does for the authors of plugins: creates a plugin from a template,
//! builds it, checks it, and replaces the copy of the SDK that it carries.
//!
//! Nothing here parses command-line options. The caller passes a [`Reporter`], which shows progress
//! and the output of compilers. Nothing here grants a right: a component is compiled, and asked for
//! its tools with everything denied.

mod build;
mod check;
mod component;
mod config_schema;
pub mod example;
mod finding;
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
