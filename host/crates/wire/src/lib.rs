//! The wire formats that both ends of MCP share, and the models' streams: no I/O.

pub mod error;
pub mod headers;
pub mod lines;
pub mod message;
pub mod version;
