//! Turns the configuration file into the settings of each crate.
//!
//! Only this crate and `config-file`, which defines the file as it is written, know its format and read the environment.
//! Neither starts anything. A file passes through these steps:
//!
//! | module | purpose |
//! |---|---|
//! | `load` | the steps, in order |
//! | `address` | the addresses of a running gateway, without the rest of its settings |
//! | `resolve` | `file` → [`Config`], one function a section |
//! | `config`, `place` | the settings of all crates; the place of their file, and the files beside it |
//! | `effect` | when a change of each key takes effect in a running gateway |
//! | `merge` | the file and the entries of the store → [`Config`] |
//! | `redact` | an element without its secrets |
//! | `effective` | settings with their defaults |
//! | `vault` | the secrets of the embedding program's vaults, to which values refer |
//! | `stored` | the components in the store that an element names |
//! | `files` | checks that the files and the tools that the configuration names exist, and that its plugins can be loaded |
//! | `callable` | checks names of tools in the lists of plugins and keys |
//! | `fingerprint` | compares two readings without keeping their values |
//! | `store_key` | the keys that secrets in the store are sealed with |
//! | `schema` | the JSON Schema of the file |
//! | `unmatched` | finds names in the rules about sinks that match nothing |
//!
//! A key has two shapes: a field of a type in `file` of `config-file`, and a field of the settings that a crate takes.
//! A new key touches three files: the type in `file/`, which for a client also has the connection
//! types of each key; the settings of the crate; and the line in `resolve/` that carries one to the
//! other. `unsupported` of `config-file` has the keys of other programs. The schema is generated
//! (`UPDATE_SCHEMA=1 cargo test -p airlock-config schema`).

mod address;
mod callable;
mod config;
mod effect;
mod effective;
mod files;
mod fingerprint;
mod load;
mod merge;
mod place;
mod redact;
mod resolve;
mod schema;
mod store_key;
mod stored;
mod unmatched;
mod vault;

pub use self::{
    config::{AbsentOwner, Client, Config, Disabled, SealKeySource, Source, StoreSeal},
    effect::{Effect, effect, restart_keys},
    fingerprint::Fingerprint,
    load::read_file,
    merge::{
        ConfigSource, Element, LeftOut, LeftOutReason, Loaded, Merged, SETTINGS, check_setting,
    },
    redact::{redacted, restore, written_secrets},
    schema::schema,
    store_key::StoreKeyError,
    stored::StoredComponents,
    vault::{BadVault, VAULT_DEADLINE, Vault, VaultFailure, Vaults},
};
// For the commands of a running gateway, in crates above this one.
#[doc(hidden)]
pub use self::address::GatewayAddress;
// For translations of other programs' configurations, in a crate above this one.
#[doc(hidden)]
pub use self::load::refused_values;
pub use airlock_config_file::{
    environment::environment,
    error::{ConfigError, Problem},
    key_path::KeyPath,
    unsupported::key as unsupported,
    vault_reference::is_vault_reference,
};

#[cfg(test)]
mod tests;
