//! The settings in force, as `GET /api/config` shows them.

use serde_json::{Value, json};

use airlock_config::Config;

/// Settings of a gateway that are in force.
#[derive(Debug, Clone)]
pub struct RunningSettings {
    pub(super) client_config: Value,
    pub(super) tool_manager: Value,
}

impl RunningSettings {
    /// Takes them from the configuration that is in force.
    pub fn new(config: &Config) -> Self {
        let Config { agent, budget, server, .. } = config;
        let tool_manager = config.tool_manager();
        let client_config = json!({
            "mcp_agent_depth": agent.max_depth,
            // In seconds.
            "mcp_tool_execution_timeout": budget.deadline.as_secs(),
            "mcp_code_mode_binding_level": tool_manager["code_mode_binding_level"],
            "mcp_disable_auto_tool_inject": agent.disable_auto_tool_inject,
            "enforce_auth_on_inference": server.require_virtual_key,
        });
        Self { client_config, tool_manager }
    }
}
