//! Airlock: a hardened gateway between language models and tools.

pub mod agent;
pub mod catalog;
pub mod cli;
pub mod code_mode;
pub mod config;
pub mod demo;
pub mod door;
pub mod gateway;
mod guests;
pub mod model;
mod native;
pub mod sandbox;
pub mod secret;
pub mod server;
pub mod telemetry;
pub mod upstream;

pub use gateway::Gateway;
