//! Airlock: a hardened gateway between language models and tools.

pub mod agent;
pub mod catalog;
pub mod code_mode;
pub mod config;
pub mod door;
pub mod gateway;
pub mod model;
pub mod sandbox;
pub mod secret;
pub mod server;
pub mod upstream;
