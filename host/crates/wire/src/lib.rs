//! The wire formats that both ends of MCP share, and the event streams of the models' APIs.
//!
//! | module | purpose |
//! |---|---|
//! | [`message`] | reads and writes the messages of a client |
//! | [`envelope`], [`scan`] | the kind and the request of a message that is not read as a whole |
//! | [`id`], [`error`] | identifiers of requests, and errors |
//! | [`method`], [`headers`], [`version`] | methods, headers and revisions of MCP |
//! | [`frames`], [`sse`] | split bytes into messages and into server-sent events |
//! | [`lines`] | stdin and stdout, in threads of their own |
//!
//! Everything but [`lines`] is free of I/O. The decoders bound what they keep, however much they read.

pub mod envelope;
pub mod error;
pub mod frames;
pub mod headers;
pub mod id;
pub mod lines;
pub mod message;
pub mod method;
pub mod scan;
pub mod sse;
pub mod version;
