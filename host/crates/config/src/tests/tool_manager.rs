//! `mcp.tool_manager_config`.

use super::*;
use airlock_core::door::ToolMode;
use airlock_scripts::{BindingLevel, runs::ScriptApproval};

#[test]
fn a_bare_timeout_is_seconds_in_tool_execution_timeout_and_refused_elsewhere() {
    let config = good(&json!({"mcp": {"tool_manager_config": {"tool_execution_timeout": 45}}}));
    assert_eq!(config.budget.deadline.as_secs(), 45);
    assert_snapshot!(
        error(&json!({"server": {"read_timeout": 45}})),
        @r#"server.read_timeout: expected a time with its unit, such as "250ms", "30s" or "10m", found 45"#
    );
    assert_snapshot!(
        error(&json!({"server": {"max_body": "1024"}})),
        @r#"server.max_body: found "1024", expected a size with its unit, such as "64MiB" or "512KiB""#
    );
    let zero = good(
        &json!({"mcp": {"tool_manager_config": {"tool_execution_timeout": "0s", "max_agent_depth": 0}}}),
    );
    assert_eq!(
        (zero.budget.deadline.as_secs(), zero.agent.max_depth),
        (30, 10),
        "zero stands for the default"
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"max_tool_calls_per_answer": 0}}})),
        @"mcp.tool_manager_config.max_tool_calls_per_answer: must be from 1 to 1024, found 0"
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"max_tool_results": "1KiB"}}})),
        @"mcp.tool_manager_config.max_tool_results: must be from 64KiB to 64MiB, found 1KiB"
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"max_inline_result": "1KiB", "max_kept_results": "1MiB", "kept_result_expire_after": "0s"}}})),
        @r"
    mcp.tool_manager_config.max_inline_result: must be from 4KiB to 1MiB, found 1KiB
    mcp.tool_manager_config.max_kept_results: must be from 8MiB to 4GiB, found 1MiB
    mcp.tool_manager_config.kept_result_expire_after: must be from 1s to 1day, found 0s
    "
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"agent_timeout": "25h"}}})),
        @"mcp.tool_manager_config.agent_timeout: must be from 1ms to 1day, found 1day 1h"
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"tool_execution_timeout": "2h"}}})),
        @"mcp.tool_manager_config.tool_execution_timeout: must be from 1ms to 1h, found 2h"
    );
}

#[test]
fn the_mode_of_tools_is_set_by_its_name_and_not_set_by_default() {
    assert_eq!(good(&json!({})).agent.tool_mode, None);
    assert_eq!(good(&in_mode("configured")).agent.tool_mode, None);
    for mode in ToolMode::ALL {
        assert_eq!(good(&in_mode(mode.name())).agent.tool_mode, Some(mode));
    }
    let refused = error(&in_mode("fast"));
    assert!(refused.starts_with("mcp.tool_manager_config.tool_mode: "), "{refused}");
}

#[test]
fn scripts_are_approved_call_by_call_unless_the_key_names_the_manifest() {
    assert_eq!(good(&json!({})).runs.approval, ScriptApproval::Calls);
    assert_eq!(good(&approved_by("manifest")).runs.approval, ScriptApproval::Manifest);
    let refused = error(&approved_by("plan"));
    assert!(refused.starts_with("mcp.tool_manager_config.code_mode_approval: "), "{refused}");
}

fn approved_by(approval: &str) -> Value {
    json!({"mcp": {"tool_manager_config": {"code_mode_approval": approval}}})
}

fn in_mode(mode: &str) -> Value {
    json!({"mcp": {"tool_manager_config": {"tool_mode": mode}}})
}

#[test]
fn the_layout_of_virtual_files_is_set_for_all_clients_and_for_each() {
    let file = json!({"mcp": {
        "tool_manager_config": {"code_mode_binding_level": "tool", "code_mode_search_threshold": 0},
        "client_configs": [scripted("a"), with(scripted("b"), "code_mode_binding_level", json!("server"))],
    }});
    let config = good(&file);
    assert_eq!((config.binding_level, config.search_above), (BindingLevel::Tool, 0));
    let levels: Vec<_> = config.clients.iter().map(|client| client.binding_level).collect();
    assert_eq!(levels, [None, Some(BindingLevel::Server)]);
    assert_eq!(good(&json!({})).search_above, 60);
    assert_eq!(good(&searched_above(100_000)).search_above, 100_000);
    assert_snapshot!(error(&searched_above(100_001)), @"mcp.tool_manager_config.code_mode_search_threshold: must be from 0 to 100000, found 100001");
    assert_snapshot!(
        error(&fs_with("code_mode_binding_level", json!("tool"))),
        @"mcp.client_configs[0].code_mode_binding_level: belongs to a client with `is_code_mode_client`"
    );
}

fn scripted(name: &str) -> Value {
    with(stdio(name), "is_code_mode_client", json!(true))
}

fn searched_above(number: u64) -> Value {
    json!({"mcp": {"tool_manager_config": {"code_mode_search_threshold": number}}})
}
