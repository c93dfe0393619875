use prometheus_client::{encoding::prometheus_text, registry::Registry};
use serde_json::json;

use super::*;
use airlock_catalog::SourceKind;
use airlock_core::tool::Policy;

fn tool(client: &str, name: &str) -> Tool {
    let client = ClientName::parse(client).expect("a good name");
    let full_name = ToolName::new(&client, name);
    let mut tool = Tool::own("any", "", json!({"type": "object"}));
    tool.client = Some(client);
    tool.full_name = full_name;
    tool
}

fn end(metrics: &CallMetrics, tool: &Tool, result: &Result<ToolOutput, CallError>) {
    Box::new(metrics.observe(tool, Permission::Automatic)).end(result);
}

/// Returns the text of a scrape, with the client `up` in the catalog.
fn shown(metrics: &CallMetrics) -> String {
    let catalog = Catalog::new();
    let up = ClientName::parse("up").expect("a good name");
    catalog.add_client(&up, SourceKind::Server("stdio"), Policy::default());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(CallCollector::new(metrics.clone(), catalog)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("text");
    text
}

#[track_caller]
fn assert_has(text: &str, line: &str) {
    assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
}

#[test]
fn a_call_counts_once_as_allowed_or_refused() {
    let metrics = CallMetrics::default();
    let echo = tool("up", "echo");
    end(&metrics, &echo, &Ok(ToolOutput::default()));
    end(&metrics, &echo, &Err(CallError::busy()));
    end(&metrics, &echo, &Err(CallError::busy().not_begun()));
    drop(metrics.observe(&echo, Permission::Person));
    let text = shown(&metrics);
    for line in [
        "airlock_decisions_total{decision=\"allowed\",reason=\"automatic\"} 2",
        "airlock_decisions_total{decision=\"allowed\",reason=\"person\"} 1",
        "airlock_decisions_total{decision=\"asked\",reason=\"needs_approval\"} 0",
        "airlock_decisions_total{decision=\"refused\",reason=\"busy\"} 1",
        "airlock_tool_errors_total{client=\"up\",error_type=\"busy\"} 2",
        "airlock_tool_errors_total{client=\"up\",error_type=\"cancelled\"} 1",
        "gen_ai_execute_tool_duration_seconds_count{client=\"up\",gen_ai_tool_name=\"up-echo\"} 3",
    ] {
        assert_has(&text, line);
    }
}

#[test]
fn a_server_that_renames_its_tools_makes_only_so_many_time_series() {
    let metrics = CallMetrics::default();
    for number in 0..3 * MAX_TOOLS {
        end(&metrics, &tool("up", &number.to_string()), &Ok(ToolOutput::default()));
    }
    let text = shown(&metrics);
    assert_eq!(text.matches("_duration_seconds_count{").count(), MAX_TOOLS + 1, "{text}");
    let other = format!(
        "gen_ai_execute_tool_duration_seconds_count{{client=\"up\",gen_ai_tool_name=\"other\"}} {}",
        2 * MAX_TOOLS
    );
    assert_has(&text, &other);
}

#[test]
fn a_client_that_was_removed_is_not_shown() {
    let metrics = CallMetrics::default();
    end(&metrics, &tool("gone", "echo"), &Ok(ToolOutput::default()));
    end(&metrics, &tool("up", "echo"), &Ok(ToolOutput::default()));
    let text = shown(&metrics);
    assert!(text.contains("client=\"up\"") && !text.contains("client=\"gone\""), "{text}");
    assert_eq!(metrics.0.clients.load().len(), 1);
}
