//! SDK for Airlock plugins in Rust. A tool is a function with an attribute.
//!
//! `airlock plugin new words --lang rust` writes a plugin with one tool and its `plugin.toml`. This
//! could be its `src/lib.rs`:
//!
//! ```
//! use airlock_guest::{Error, data, log, plugin, tool};
//!
//! /// Number of times that a word occurs.
//! #[data]
//! struct Count {
//!     /// Occurrences, up to the limit.
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
//!     /// Occurrences after which counting stops.
//!     #[arg(default = 1000, range = 1..=100_000)]
//!     limit: usize,
//! ) -> Result<Count, Error> {
//!     if word.contains(char::is_whitespace) {
//!         return Err(Error::invalid_input("`word` must be one word").with_code("several_words"));
//!     }
//!     let found = text.split_whitespace().filter(|found| *found == word);
//!     let occurrences = found.take(limit).count();
//!     log::info!(occurrences, "counted a word");
//!     Ok(Count { occurrences })
//! }
//!
//! plugin!(count_word);
//!
//! // In `mod tests`: `cargo test` runs a tool without a gateway.
//! # fn main() {
//! # use airlock_guest::{serde_json::json, testing::Host};
//! let host = Host::new();
//! let output = host.call::<count_word>(json!({ "text": "a b a", "word": "a" })).unwrap();
//! assert_eq!(output.structured_content, Some(json!({ "occurrences": 2 })));
//! assert_eq!(host.logs()[0].message, "counted a word");
//! let error = host.call::<count_word>(json!({ "text": "a", "word": "a", "limit": 0 })).unwrap_err();
//! assert_eq!(error.message(), "argument `limit` must be an integer from 1 to 100000, not 0");
//! # }
//! ```
//!
//! | Command | Effect |
//! |---|---|
//! | `airlock plugin new words --lang rust` | writes a crate to start from, with this SDK |
//! | `cargo test` | runs the tools on a [`testing::Host`] |
//! | `airlock plugin dev` | builds and checks the plugin after every change; `--call NAME JSON` calls a tool, `--gateway URL` reloads it |
//! | `airlock plugin build` | builds `words.wasm` with its tools and its `plugin.toml` embedded |
//! | `airlock plugin check` | checks the plugin before it is published |
//! | `airlock plugin install words.wasm` | shows what the plugin requests, and adds it to the gateway |
//!
//! The attribute generates the descriptor (name, description from the doc comments, input and
//! output schema, annotations), parses the arguments and writes the result. Invalid arguments are
//! refused with a message that tells the model what to change.
//!
//! - Most plugins need only [`macro@tool`], [`macro@data`] and [`plugin!`]; [`Tool`] is the trait
//!   that a tool implements.
//! - [`IntoOutput`] lists the types that a tool may return; [`Output`], [`Content`] and
//!   [`Structured`] give full control over the result.
//! - [`ErrorKind`] and [`Error`] are a failure as the model reads it. `?` converts errors of
//!   I/O, JSON, stores and HTTP, and with the feature `anyhow` those of that crate.
//! - [`Context`] is the running call: time left, progress, parts of the result sent early.
//! - [`log`] writes diagnostics; [`tools`] calls other tools behind the same gateway; [`http`]
//!   sends requests.
//! - [`kv`] stores data that outlives a call; [`config`] is the configuration that the operator
//!   wrote for the plugin; [`secrets`] checks that a secret is granted, or reads its value.
//!
//! The features `log` and `tracing` forward the lines of these crates to the host. With the feature
//! `guard`, the module of this name is for components of another kind, which decide about the calls of
//! all tools. The SDK itself uses no files, clock or standard streams on WebAssembly, so a plugin
//! that needs none compiles for `wasm32-unknown-unknown` too, and then imports no WASI. There, the feature `allocator`, which
//! alone is on by default, sets a global allocator: calls that need little memory begin faster. A plugin that sets its own
//! depends on this crate with `default-features = false`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[macro_use]
mod same_variants;
#[macro_use]
mod setters;

#[cfg(any(
    test,
    all(
        feature = "allocator",
        target_family = "wasm",
        target_os = "unknown",
        not(target_feature = "atomics")
    )
))]
mod allocator;
mod arguments;
mod bindings;
pub mod config;
mod content;
mod context;
mod descriptor;
mod error;
#[cfg(feature = "guard")]
pub mod guard;
mod host;
pub mod http;
pub mod kv;
pub mod log;
mod output;
mod plugin;
mod runtime;
mod schema;
pub mod secrets;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod tool;
pub mod tools;
mod wire;

pub use airlock_guest_macros::{data, plugin, tool};
pub use arguments::within;
pub use content::{Block, Content, Contents, Embedded, Link, Media};
pub use context::Context;
pub use descriptor::{Annotations, Descriptor};
pub use error::{Error, ErrorKind};
pub use output::{IntoOutput, Output, Structured};
pub use schemars;
pub use serde;
pub use serde_json;
pub use tool::Tool;

/// Items for the code that the macros generate; not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::arguments::{in_range, is_argument, parse};
    pub use crate::bindings::export;
    pub use crate::descriptor::descriptor;
    pub use crate::output::Fallible;
    pub use crate::plugin::{Entry, Plugin, is_first_of_its_name};
    pub use {schemars, serde};

    /// Path under which the exports that `plugin!` writes find the bindings.
    pub mod bindings {
        pub use crate::bindings::*;
    }

    #[cfg(feature = "guard")]
    pub use crate::guard::bindings::export as export_guard;

    /// Path under which the exports that `guard!` writes find the bindings.
    #[cfg(feature = "guard")]
    pub mod guard {
        pub use crate::guard::bindings::*;
    }
}
