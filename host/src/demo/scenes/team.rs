//! Scene 7: three gateways on one store. What an operator changes at one of them holds at all.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::demo::{
    scene::Scene,
    stage::Stage,
    team::{TOOL, Team},
};

/// Number of gateways.
const GATEWAYS: usize = 3;

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    let team = Team::start(stage.directory(), "team", GATEWAYS).await?;
    scene.tell("gateways", format!("{GATEWAYS} share one store and know no client"));
    let played = act(&team, scene).await;
    team.stop().await?;
    played
}

async fn act(team: &Team, scene: &mut Scene) -> anyhow::Result<()> {
    team.add_desk().await?;
    scene.tell("operator", "adds the MCP server desk at gateway 1");
    let key = team.make_key(1, &json!({})).await?;
    scene.tell("operator", "makes a virtual key for ann at gateway 2");
    let (elapsed, reply) = team.until_status(2, &key.value, 200).await?;
    scene.tell("ann", format!("calls {TOOL} at gateway 3, {} ms later", elapsed.as_millis()));
    scene.check(reply.body["is_error"] != true, || format!("the call failed: {}", reply.body));
    scene.fact("added_ms", milliseconds(elapsed));
    let path = format!("/api/governance/virtual-keys/{}", key.id);
    team.operate(2, Method::DELETE, &path, None).await?;
    scene.tell("operator", "revokes the key at gateway 3");
    let mut slowest = Duration::ZERO;
    for at in 0..GATEWAYS {
        let (elapsed, _) = team.until_status(at, &key.value, 401).await?;
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
