//! Tests across a process or sandbox boundary, with real processes. One file a subject.

mod cli;
mod code_mode;
mod contract;
mod documents;
mod door;
mod embed;
mod executor;
mod files;
mod golden;
mod hostile;
mod languages;
mod notes;
mod openai_client;
mod plain;
mod plugin_cli;
mod plugin_dev;
mod plugins;
mod real_servers;
mod samples;
mod serve;
mod streams;
mod tidy;
mod upstreams;
mod walks;
mod wasi;
