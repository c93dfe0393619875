//! The file as written → each module's settings.

use crate::{
    agent,
    catalog::{ClientName, Policy},
    code_mode::BindingLevel,
    door::{Budget, Keys},
    model,
    sandbox::{Grants, Limits},
    server, upstream,
};

/// The configuration, checked, with every module's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// `server`.
    pub server: server::Settings,
    /// `providers`, in the order in which they are written.
    pub providers: Vec<model::Settings>,
    /// `mcp.client_configs`.
    pub clients: Vec<Client>,
    /// `mcp.tool_manager_config`, the loop's part.
    pub agent: agent::Settings,
    /// `mcp.tool_manager_config`, what one call may spend.
    pub budget: Budget,
    /// `mcp.tool_manager_config.code_mode_binding_level`.
    pub binding_level: BindingLevel,
    /// `governance.virtual_keys`.
    pub keys: Keys,
}

/// One configured source of tools.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its name.
    pub name: ClientName,
    /// What its tools may do.
    pub policy: Policy,
    /// Where they come from.
    pub source: Source,
}

/// Where a client's tools come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// An MCP server.
    Upstream(upstream::Settings),
    /// A plugin.
    Wasm(Wasm),
}

/// A plugin as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wasm {
    /// The component.
    pub component: std::path::PathBuf,
    /// What it is lent.
    pub grants: Grants,
    /// What a call may spend.
    pub limits: Limits,
}
