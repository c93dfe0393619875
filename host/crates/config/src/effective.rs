//! Settings as they have effect, defaults included, in the form of the configuration file.

use std::time::Duration;

use serde_json::{Value, json};

use super::config::Config;
use airlock_agent::ResultsAsText;
use airlock_core::{door::ToolMode, units::Span};
use airlock_scripts::BindingLevel;

impl Config {
    /// Returns the settings of `mcp.tool_manager_config` that concern the calls of one request.
    pub fn tool_manager(&self) -> Value {
        let Self { agent, budget, .. } = self;
        json!({
            "agent_timeout": shown(agent.timeout),
            "approval": agent.approval.name(),
            "approval_wait": shown(agent.approval_wait),
            "code_mode_binding_level": match self.binding_level {
                BindingLevel::Server => "server",
                BindingLevel::Tool => "tool",
            },
            "code_mode_language": self.script_language.name(),
            "code_mode_search_threshold": self.search_above,
            "code_mode_timeout": shown(budget.script),
            "disable_auto_tool_inject": agent.disable_auto_tool_inject,
            "max_agent_depth": agent.max_depth,
            "max_call_depth": budget.depth,
            "max_nested_calls": budget.nested_calls,
            "max_parallel_tool_calls": agent.parallel_calls,
            "max_tool_calls_per_answer": agent.calls_per_answer,
            "results_as_text": match agent.results_as_text {
                ResultsAsText::Auto => "auto",
                ResultsAsText::Always => "always",
                ResultsAsText::Never => "never",
            },
            "tool_execution_timeout": shown(budget.deadline),
            "tool_mode": agent.tool_mode.map_or("configured", ToolMode::name),
        })
    }
}

fn shown(time: Duration) -> String {
    Span(time).to_string()
}
