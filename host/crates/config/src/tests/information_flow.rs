use super::*;
use airlock_core::door::{SinkDecision, SourceSelection};

fn sinks(list: &Value) -> Value {
    json!({"mcp": {"information_flow": {"sinks": list}}})
}

#[test]
fn sinks_have_tools_sources_and_a_decision() {
    let config = good(&sinks(&json!([
        {"tools": ["mail-send", "files-*"], "from": ["web", "caller"], "decision": "deny"},
        {"tools": ["*"], "arguments": ["to", "Message.Body"], "decision": "ask"},
        {"tools": ["*"], "from": ["web", "*"], "decision": "ask"},
    ])));
    let [named, all, both] = &config.sinks.0[..] else { panic!("{:?}", config.sinks) };
    let SourceSelection::Named(sources) = &named.from else { panic!("{named:?}") };
    assert_eq!((sources.to_string().as_str(), named.decision), ("caller, web", SinkDecision::Deny));
    assert_eq!(named.tools.len(), 2);
    assert_eq!((&all.from, all.decision), (&SourceSelection::All, SinkDecision::Ask));
    assert_eq!(both.from, SourceSelection::All);
    let arguments: Vec<_> = all.arguments.iter().map(ToString::to_string).collect();
    assert_eq!(arguments, ["to", "message.body"]);
    assert!(named.arguments.is_empty() && both.arguments.is_empty());
    assert!(good(&json!({})).sinks.0.is_empty());
}

#[test]
fn a_sink_that_is_about_no_call_is_refused() {
    let problems = error(&sinks(&json!([
        {"tools": [], "from": [], "decision": "deny"},
        {"tools": ["mail"], "from": ["a-b"], "decision": "ask"},
    ])));
    let found: Vec<_> = problems.lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(
        found,
        [
            "mcp.information_flow.sinks[0].tools",
            "mcp.information_flow.sinks[0].from",
            "mcp.information_flow.sinks[1].tools[0]",
            "mcp.information_flow.sinks[1].from[0]",
        ]
    );
}

#[test]
fn an_argument_is_a_path_and_a_rule_has_at_most_32() {
    let bad = error(&about(&json!(["to", "message..body", ""])));
    let found: Vec<_> = bad.lines().filter_map(|line| line.split(": ").next()).collect();
    let key = "mcp.information_flow.sinks[0].arguments";
    assert_eq!(found, [format!("{key}[1]"), format!("{key}[2]")]);
    assert_eq!(good(&about(&json!(vec!["to"; 32]))).sinks.0[0].arguments.len(), 32);
    assert!(error(&about(&json!(vec!["to"; 33]))).starts_with(&format!("{key}: 33 arguments")));
}

#[test]
fn there_are_at_most_256_sinks() {
    assert_eq!(good(&many(256)).sinks.0.len(), 256);
    assert!(error(&many(257)).starts_with("mcp.information_flow.sinks: 257 sinks"));
}

fn about(arguments: &Value) -> Value {
    sinks(&json!([{"tools": ["a-b"], "arguments": arguments, "decision": "ask"}]))
}

fn many(count: usize) -> Value {
    sinks(&json!(vec![json!({"tools": ["a-b"], "decision": "deny"}); count]))
}
