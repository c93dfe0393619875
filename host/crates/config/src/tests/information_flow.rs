use super::*;
use airlock_core::{
    door::{SinkDecision, SourceSelection},
    tool::ClientName,
};
use airlock_lock::{FILE_NAME as LOCK_FILE, Lock, LockedTool};

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

#[test]
fn names_that_no_client_has_are_warned_of() {
    let rules = json!([
        {"tools": ["mail-send", "mial-*", "*-sned", "internal-x"], "decision": "deny"},
        {"tools": ["MAIL-*"], "from": ["web", "caller", "wbe", "off"], "arguments": ["any"], "decision": "ask"},
    ]);
    let mut off = stdio("off");
    off["disabled"] = json!(true);
    let mut file = clients(json!([stdio("mail"), stdio("web"), off]));
    file["mcp"]["information_flow"] = json!({"sinks": rules});
    let found = good(&file).unmatched_sinks();
    let found: Vec<_> = found.iter().map(|problem| problem.key.to_string()).collect();
    let sinks = "mcp.information_flow.sinks";
    assert_eq!(found, [format!("{sinks}[0].tools[1]"), format!("{sinks}[1].from")]);
    assert!(good(&clients(json!([stdio("mail")]))).unmatched_sinks().is_empty());
}

#[test]
fn tools_and_arguments_that_accepted_definitions_do_not_have_are_warned_of() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("gateway.json");
    let mut loose = stdio("loose");
    loose["pin"] = json!("off");
    let mut files = stdio("files");
    files["resources_to_read"] = json!(["*"]);
    let mut file = clients(json!([stdio("mail"), stdio("new"), loose, files]));
    file["mcp"]["information_flow"] = json!({"sinks": [
        {"tools": ["mail-send", "mail-sned", "new-x", "loose-x"], "arguments": ["tu"], "decision": "deny"},
        {"tools": ["mail-send"], "arguments": ["to", "tu", "message.body"], "decision": "deny"},
        {"tools": ["files-readResource", "mail-readResource"], "arguments": ["uri", "url"], "decision": "deny"},
    ]});
    std::fs::write(&path, file.to_string()).expect("written");
    let properties = json!({"to": {"type": "string"}, "message": {"type": "string"}});
    let schema = json!({"type": "object", "properties": properties});
    let send = LockedTool {
        name: "send".to_owned(),
        digest: String::new(),
        definition: json!({"name": "send", "inputSchema": schema}).to_string(),
    };
    let mut lock = Lock::default();
    for client in ["mail", "loose", "files"] {
        let client = ClientName::parse(client).expect("a name");
        lock.accept_upstream(&client, vec![send.clone()]);
    }
    lock.save(&home.path().join(LOCK_FILE)).expect("written");
    let config = Config::load(&path).expect("a good configuration");
    let found = config.unmatched_sinks();
    assert!(found.iter().all(|problem| config.warnings().contains(problem)));
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_snapshot!(found.join("\n"), @r#"
    mcp.information_flow.sinks[0].tools[1]: no known tool of the client mail has such a name; they are mail-send
    mcp.information_flow.sinks[1].arguments[1]: no tool of the rule has an argument "tu"; they have message, to
    mcp.information_flow.sinks[1].arguments[2]: no tool of the rule has an argument "message.body"; they have message, to
    mcp.information_flow.sinks[2].tools[1]: no known tool of the client mail has such a name; they are mail-send
    mcp.information_flow.sinks[2].arguments[1]: no tool of the rule has an argument "url"; they have server, uri
    "#);
}

fn about(arguments: &Value) -> Value {
    sinks(&json!([{"tools": ["a-b"], "arguments": arguments, "decision": "ask"}]))
}

fn many(count: usize) -> Value {
    sinks(&json!(vec![json!({"tools": ["a-b"], "decision": "deny"}); count]))
}
