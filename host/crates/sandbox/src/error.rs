//! Reasons that a component cannot be used.

use std::path::PathBuf;

use airlock_compile::CompileError;
use airlock_core::tool::{CallError, Cause};

/// Reason that a component cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file does not exist or cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The component cannot be read, or does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The executor of a language of scripts is not part of the build.
    #[error(
        "scripts in {language} need the cargo feature {language:?}, which this build does not have"
    )]
    Language {
        /// Name of the language, and of the feature.
        language: &'static str,
    },
    /// The component imports something that the gateway does not provide.
    #[error("the component imports what this gateway does not provide: {}{}", names.join(", "), instead(names))]
    UnknownImports {
        /// Names of these imports.
        names: Vec<String>,
    },
    /// A guard imports something.
    #[error("a guard imports nothing, and this component imports {}; build it without WASI", names.join(", "))]
    GuardImports {
        /// Names of the first of its imports.
        names: Vec<String>,
    },
    /// The component of a plugin is a guard.
    #[error(
        "the component is a guard: it has no tools, and is configured in `guards`, by its `component`"
    )]
    GuardAsPlugin,
    /// A guard refuses its settings.
    #[error("the guard refuses them: {problem}")]
    GuardSettings {
        /// The problem, as the guard words it.
        problem: String,
    },
    /// A guard failed while it checked its settings.
    #[error("the guard could not check them")]
    GuardSettingsCheck(#[source] CallError),
    /// A guard does not have the hooks that its configuration names, or has none at all.
    #[error("{}", hooks_problem(missing, present))]
    GuardHooks {
        /// Hooks that it does not have.
        missing: Vec<&'static str>,
        /// Hooks that it has.
        present: Vec<&'static str>,
    },
    /// The plugin was built for a version of the contract that this build does not support.
    #[error(
        "the plugin was built for {found} of the contract; this gateway supports {supported}; build the plugin again with \
         the SDK of a supported version"
    )]
    Version {
        /// Version that it exports.
        found: String,
        /// Versions that this build supports.
        supported: String,
    },
    /// The component exports several versions of one range, so that it is not clear which runs.
    #[error(
        "the component exports several versions of {range} of the contract; a component exports one of each"
    )]
    Versions {
        /// The range, such as `0.1`.
        range: &'static str,
    },
    /// The imports or exports of the component differ from those of its world.
    #[error("the component does not fit the world {world}")]
    Contract {
        /// Name of the world.
        world: &'static str,
        /// The missing or different import or export.
        #[source]
        cause: Cause,
    },
    /// The component exports no plugin contract, and its functions cannot be used as tools either.
    #[error("the component exports no usable tools")]
    Plain(#[source] Cause),
    /// The tool descriptors cannot be read.
    #[error("the tool descriptors cannot be read")]
    Descriptors(#[source] Cause),
    /// The call that asks the plugin for its tools failed.
    #[error("the plugin did not describe its tools")]
    Describe(#[source] CallError),
    /// The plugin returned an error when it was asked for its tools.
    #[error("the plugin refused to describe its tools: {0}")]
    RefusedToDescribe(String),
    /// A granted directory does not exist, cannot be used or must not be granted.
    #[error("the granted directory {path} cannot be used: {reason}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Reason for the refusal.
        reason: String,
    },
}

fn hooks_problem(missing: &[&str], present: &[&str]) -> String {
    if present.is_empty() {
        return "the guard has no hooks, so that it is never asked".to_owned();
    }
    format!("the guard has no hook {}; it has {}", missing.join(", "), present.join(", "))
}

/// Returns an addition to the names of unknown imports: what a plugin uses in the place of one that others provide.
fn instead(names: &[String]) -> &'static str {
    if names.iter().any(|name| name.starts_with("wasi:config/")) {
        "; a plugin reads its configuration by airlock:host/config"
    } else {
        ""
    }
}
