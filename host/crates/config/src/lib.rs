//! Turns the configuration file into the settings of each crate.
//!
//! Only this crate knows the file's format and reads the environment. It starts nothing. A file
//! passes through these steps:
//!
//! | module | purpose |
//! |---|---|
//! | `load` | the steps, in order |
//! | `json` | text → JSON, more strictly than usual |
//! | `read` | JSON → the types in `file`; the errors name keys and quote no text |
//! | `file` | the file as written: description, range and default of each key |
//! | `resolve` | `file` → [`Config`], one function a section |
//! | `effect` | when a running gateway takes a change of each key |
//! | `merge` | the file and the entries of the store → [`Config`] |
//! | `redact` | an element without its secrets |
//! | `effective` | settings with their defaults |
//! | `stored` | the components in the store that an element names |
//! | `files` | checks that what the configuration names is there |
//! | `import` | the configuration of another program → a file |
//!
//! A key has two shapes: a field of a type in `file`, and a field of the settings that a crate takes.
//! A new key touches three files: the type in `file/`, which for a client also has the connection
//! types of each key; the settings of the crate; and the line in `resolve/` that carries one to the
//! other. `unsupported` has the keys of other programs. The schema is generated
//! (`UPDATE_SCHEMA=1 cargo test -p airlock-config schema`).

mod callable;
mod config;
mod effect;
mod effective;
mod env_text;
mod environment;
mod error;
mod file;
mod files;
mod fingerprint;
mod import;
mod json;
mod key_path;
mod load;
mod merge;
mod read;
mod redact;
mod resolve;
mod schema;
mod skipped;
mod store_key;
mod stored;
mod unsupported;

pub use self::{
    config::{AbsentOwner, Client, Config, Disabled, SealKeySource, Source, StoreSeal},
    effect::{Effect, effect, restart_keys},
    environment::environment,
    error::{ConfigError, Problem},
    fingerprint::Fingerprint,
    import::{Imported, Outcome, SettingReport, import},
    key_path::KeyPath,
    load::read_file,
    merge::{
        ConfigSource, Element, LeftOut, LeftOutReason, Loaded, Merged, SETTINGS, check_setting,
    },
    redact::{redacted, restore, written_secrets},
    schema::schema,
    store_key::StoreKeyError,
    stored::StoredComponents,
    unsupported::key as unsupported,
};

#[cfg(test)]
mod tests;
