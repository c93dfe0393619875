//! Scene 6: an agent uses the gateway as its MCP server, in both eras of the protocol. A tool that
//! needs an approval asks the agent's user.

use anyhow::Context as _;
use serde_json::json;

use crate::demo::{
    scene::Scene,
    stage::{Agent, Stage},
};

const FILE: &str = "agenda.txt";

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    let mut agent = stage.agent();
    let client = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "agent", "version": "1"},
    });
    let opened = agent.ask("initialize", &client).await?;
    let version = opened["protocolVersion"].as_str().unwrap_or_default();
    scene.tell("agent", format!("opens a session at /mcp, in the revision {version}"));
    scene.check(version == "2025-11-25", || format!("the gateway answered {opened}"));
    let listed = agent.ask("tools/list", &json!({})).await?;
    let names: Vec<&str> = listed["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    scene.tell("gateway", format!("lists {} tools: {}", names.len(), names.join(", ")));
    scene.check(names.contains(&"executeToolCode") && names.contains(&"outbox-write_file"), || {
        "the list should have the meta-tools and the tools of plugins".to_owned()
    });
    scene.fact("tools", names.len());
    write_after_approval(stage, &mut agent, scene).await?;
    count_without_session(&agent, scene).await
}

/// Calls a tool that needs an approval. The gateway asks in the middle of the call.
async fn write_after_approval(
    stage: &Stage,
    agent: &mut Agent,
    scene: &mut Scene,
) -> anyhow::Result<()> {
    let arguments = json!({"path": format!("outbox/{FILE}"), "text": "1. The demo\n"});
    scene.tell("agent", "calls outbox-write_file, which is not in `tools_to_auto_execute`");
    let mut asked = String::new();
    let call = json!({"name": "outbox-write_file", "arguments": arguments});
    let file = stage.outbox().join(FILE);
    let written_before = file.clone();
    let result = agent
        .ask_with("tools/call", &call, |method, params| {
            params["message"].as_str().unwrap_or_default().clone_into(&mut asked);
            let is_early = method != "elicitation/create" || written_before.exists();
            json!({"action": if is_early { "decline" } else { "accept" }, "content": {}})
        })
        .await?;
    let question = asked.lines().next().unwrap_or_default();
    scene.tell("gateway", format!("asks the agent's user: {question}"));
    scene.tell("user", "accepts");
    scene.check(asked.contains("outbox-write_file"), || "the user should be asked".to_owned());
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    scene.tell("plugin", text.lines().next().unwrap_or_default());
    scene.check(result["isError"] != true && file.exists(), || {
        format!("the file should be written after the approval: {result}")
    });
    scene.fact("question", asked);
    Ok(())
}

/// Calls a tool in the modern era: one request, complete in itself.
async fn count_without_session(agent: &Agent, scene: &mut Scene) -> anyhow::Result<()> {
    let call = json!({"name": "text-word_count", "arguments": {"text": "no session at all"}});
    let result =
        agent.ask_once("tools/call", &call).await.context("a request without a session")?;
    let counts = &result["structuredContent"];
    scene.tell("agent", "calls text-word_count in the revision 2026-07-28, without a session");
    scene.tell("plugin", counts.to_string());
    scene.check(counts["words"] == 4 && result["resultType"] == "complete", || {
        format!("four words should be counted: {result}")
    });
    scene.fact("counts", counts.clone());
    Ok(())
}
