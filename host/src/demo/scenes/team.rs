//! Scene 7: three gateways on one store. What an operator changes at one of them holds at all.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::Method;
use serde_json::json;

use crate::demo::{
    scene::Scene,
    stage::Stage,
    team::{GATEWAYS, Team},
};

const TOOL: &str = "desk-totals";

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    let team = Team::start(stage.directory()).await?;
    scene.tell("gateways", format!("{GATEWAYS} share one store and know no client"));
    let played = act(&team, scene).await;
    team.stop().await?;
    played
}

async fn act(team: &Team, scene: &mut Scene) -> anyhow::Result<()> {
    let this_program = std::env::current_exe().context("cannot tell where this program is")?;
    let desk = json!({
        "name": "desk", "connection_type": "stdio",
        "stdio_config": {"command": this_program, "args": ["demo-mcp-server"]},
        "tools_to_execute": ["*"],
    });
    team.operate(0, Method::POST, "/api/mcp/client", Some(&desk)).await?;
    scene.tell("operator", "adds the MCP server desk at gateway 1");
    let rows = json!([{"mcp_client_name": "desk", "tools_to_execute": ["*"]}]);
    let key = json!({"name": "ann", "mcp_configs": rows});
    let made = team.operate(1, Method::POST, "/api/governance/virtual-keys", Some(&key)).await?;
    let made = &made["virtual_key"];
    let value = made["value"].as_str().context("the key has a value")?;
    let id = made["id"].as_str().context("the key has an identifier")?;
    scene.tell("operator", "makes a virtual key for ann at gateway 2");
    let (elapsed, reply) = team.until_status(2, value, TOOL, 200).await?;
    scene.tell("ann", format!("calls {TOOL} at gateway 3, {} ms later", elapsed.as_millis()));
    scene.check(reply.body["is_error"] != true, || format!("the call failed: {}", reply.body));
    scene.fact("added_ms", milliseconds(elapsed));
    let path = format!("/api/governance/virtual-keys/{id}");
    team.operate(2, Method::DELETE, &path, None).await?;
    scene.tell("operator", "revokes the key at gateway 3");
    let mut slowest = Duration::ZERO;
    for at in 0..GATEWAYS {
        let (elapsed, _) = team.until_status(at, value, TOOL, 401).await?;
        slowest = slowest.max(elapsed);
    }
    scene.tell("ann", format!("is refused at every gateway, {} ms later", slowest.as_millis()));
    scene.fact("revoked_ms", milliseconds(slowest));
    let changes = team.operate(0, Method::GET, "/api/changes", None).await?;
    let recorded = changes["changes"].as_array().map_or(0, Vec::len);
    scene.tell("store", format!("has a record of the {recorded} changes, each with its operator"));
    scene.check(recorded == 3, || format!("there should be three changes: {changes}"));
    Ok(())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
