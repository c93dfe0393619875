//! SDK for Airlock plugins in Rust. A tool is a function with an attribute.
//!
//! ```
//! use airlock_guest::{Error, plugin, schemars::JsonSchema, serde::Serialize, tool};
//!
//! /// How often a word occurs.
//! #[derive(Serialize, JsonSchema)]
//! #[serde(crate = "airlock_guest::serde")]
//! #[schemars(crate = "airlock_guest::schemars")]
//! struct Count {
//!     /// Occurrences found.
//!     occurrences: usize,
//! }
//!
//! /// Counts how often a word occurs in a text.
//! #[tool(read_only, idempotent, open_world = false)]
//! fn count_word(
//!     /// Text to look in.
//!     text: String,
//!     /// Word to look for.
//!     word: String,
//! ) -> Result<Count, Error> {
//!     let occurrences = text.split_whitespace().filter(|found| *found == word).count();
//!     Ok(Count { occurrences })
//! }
//!
//! plugin!(count_word);
//! # fn main() {}
//! ```
//!
//! A plugin is a `cdylib` built with `cargo build --target wasm32-wasip2 --release`. The attribute
//! generates the descriptor (name, description from the doc comments, input and output schema,
//! annotations), parses the arguments and writes the result. Invalid arguments are refused with a
//! message that tells the model what to change.
//!
//! - Most plugins need only [`macro@tool`] and [`plugin!`]; [`Tool`] is the trait that they
//!   implement.
//! - [`IntoOutput`] lists the types that a tool may return; [`Output`] and [`Structured`] give full
//!   control over the result.
//! - [`Error`] is an error as the model reads it; [`within`] returns one for a number that is out
//!   of range.
//! - [`Context`] is the running call: time left, progress, parts of the result sent early.
//! - [`log`] writes diagnostics; [`tools`] calls other tools behind the same gateway; [`http`]
//!   sends requests.
//! - [`kv`] stores data that outlives a call; [`config`] is the configuration that the operator
//!   wrote for the plugin; [`secrets`] checks that a secret is granted, or reads its value.
//!
//! Everything compiles natively too, without a host behind the imports: a tool is a function that a
//! test can call, with [`Context::detached`] as its context.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod bindings;
pub mod config;
mod content;
mod context;
mod error;
pub mod http;
pub mod kv;
pub mod log;
mod output;
mod plugin;
mod schema;
pub mod secrets;
mod tool;
pub mod tools;
mod wire;

pub use airlock_guest_macros::{plugin, tool};
pub use arguments::within;
pub use content::{Block, Content, Contents, Embedded, Link, Media};
pub use context::Context;
pub use error::{Error, ErrorKind};
pub use output::{IntoOutput, Output, Structured};
pub use schemars;
pub use serde;
pub use serde_json;
pub use tool::{Annotations, Descriptor, Tool};

/// Items for the code that the macros generate; not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::arguments::parse;
    pub use crate::bindings::export;
    pub use crate::output::Fallible;
    pub use crate::plugin::{Entry, Plugin, is_first_of_its_name};
    pub use crate::tool::descriptor;
    pub use {schemars, serde};

    /// Path under which the exports that `plugin!` writes find the bindings.
    pub mod bindings {
        pub use crate::bindings::*;
    }
}
