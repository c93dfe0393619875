//! Scene 8: two gateways on one store count one limit, and an audit log shows that one byte was changed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::json;

use crate::demo::{
    scene::Scene,
    stage::Stage,
    team::{TOOL, Team},
};
use airlock_audit::verify::{Evidence, verify};

/// Number of gateways.
const GATEWAYS: usize = 2;
/// Calls that the key may make in an hour.
const CALLS: usize = 4;
/// The name of the tool with another byte.
const CHANGED: &str = "desk-totalz";

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    let team = Team::start(stage.directory(), "limit", GATEWAYS).await?;
    let audit_log = team.audit_log().to_owned();
    let played = act(&team, scene).await;
    team.stop().await?;
    played?;
    check_log(&audit_log, scene)
}

async fn act(team: &Team, scene: &mut Scene) -> anyhow::Result<()> {
    team.add_desk().await?;
    let rate_limit = json!({"tool_call_max_limit": CALLS, "tool_call_reset_duration": "1h"});
    let key = team.make_key(0, &rate_limit).await?.value;
    scene.tell("operator", format!("permits ann {CALLS} calls an hour, at both gateways together"));
    // The first call at each gateway waits until the gateway has the key.
    for at in 0..GATEWAYS {
        team.until_status(at, &key, 200).await?;
    }
    for _ in GATEWAYS..CALLS {
        let reply = team.execute(0, &key).await?;
        scene.check(reply.status == 200, || format!("the call was refused: {}", reply.body));
    }
    scene.tell("ann", format!("calls {TOOL} once at gateway 2, and {} times at 1", CALLS - 1));
    let refused = team.execute(1, &key).await?;
    let error = &refused.body["error"];
    scene.tell("gateway 2", error["message"].as_str().unwrap_or("does not refuse the next call"));
    scene.check(refused.status == 429 && error["code"] == "limit_reached", || {
        format!("expected 429 `limit_reached`, found {}: {}", refused.status, refused.body)
    });
    Ok(())
}

/// Checks the log of a gateway that has ended, and a copy with another byte.
fn check_log(log: &Path, scene: &mut Scene) -> anyhow::Result<()> {
    let report = verify(log, &Evidence::default())?;
    scene.tell("auditor", format!("checks the {} lines of the log of gateway 1", report.size));
    scene.fact("log_lines", report.size);
    scene.check(report.findings.is_empty(), || format!("it is not valid: {:?}", report.findings));
    let changed = changed_copy(log).context("cannot copy the audit log")?;
    let found = verify(&changed, &Evidence::default())?.findings;
    scene.check(!found.is_empty(), || "the changed byte was not found".to_owned());
    if let Some(finding) = found.first() {
        scene.tell("auditor", format!("checks a copy with another byte: {finding}"));
    }
    Ok(())
}

/// Copies a log, with another byte in the first line about a call.
fn changed_copy(log: &Path) -> std::io::Result<PathBuf> {
    let copy = log.with_extension("changed");
    fs::create_dir(&copy)?;
    fs::copy(log.join("checkpoints"), copy.join("checkpoints"))?;
    let lines = fs::read_to_string(log.join("log.jsonl"))?;
    fs::write(copy.join("log.jsonl"), lines.replacen(TOOL, CHANGED, 1))?;
    Ok(copy)
}
