//! The configuration file as it is written, and how a text is read into its types. The crate `config` interprets the
//! keys and translates them into settings.
//!
//! | module | purpose |
//! |---|---|
//! | `json` | text → JSON, more strictly than usual |
//! | `read` | JSON → the types in `file`; the errors name keys and quote no text |
//! | `file` | the file as written: description, range and default of each key |
//! | `env_text` | text that may come from the environment or from a vault |
//! | `vault_reference` | references to secrets of vaults |
//! | `key_path` | places in the file |
//! | `error` | the problems of a file, for the operator |
//! | `refused` | refused values: a message for people, and typed data by which later steps decide |
//! | `skipped` | values that cannot be read, and the problems of the rest |
//! | `unsupported` | keys of other programs |
//! | `environment` | the process's environment |

pub mod env_text;
pub mod environment;
pub mod error;
pub mod file;
pub mod json;
pub mod key_path;
pub mod read;
pub mod refused;
pub mod skipped;
pub mod unsupported;
pub mod vault_reference;
