//! Scene 4: a tool that needs approval is returned to the caller, who approves the call by running
//! it.

use std::fs;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::cost::milliseconds;
use crate::demo::{
    scene::Scene,
    script::{WRITE_QUESTION, WRITE_TOOL},
    stage::{Stage, user},
};

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    let file = stage.outbox().join("note.txt");
    scene.tell("user", WRITE_QUESTION);
    let asked = stage.chat(&[user(WRITE_QUESTION)]).await?;
    let message = &asked.body["choices"][0]["message"];
    let call = &message["tool_calls"][0];
    let pending = call["function"]["name"].as_str().unwrap_or_default();
    scene.tell("model", format!("calls {pending}, which may not run by itself"));
    scene.tell("gateway", "ran nothing and returned the call as pending");
    scene
        .check(pending == WRITE_TOOL, || format!("{WRITE_TOOL} should be pending: {}", asked.body));
    scene.check(!file.exists(), || "the file must not be there yet".to_owned());

    let arguments =
        call["function"]["arguments"].as_str().context("the pending call has no arguments")?;
    let approved = stage.execute(pending, &serde_json::from_str::<Value>(arguments)?).await?;
    scene.tell("user", "approves: sends the same call to /v1/mcp/tool/execute");
    scene.check(approved.status == 200, || format!("HTTP {}: {}", approved.status, approved.body));
    let written = fs::read_to_string(&file).unwrap_or_default();
    scene.tell(
        "plugin",
        format!(
            "{WRITE_TOOL} wrote {} bytes into the one directory that it was granted",
            written.len()
        ),
    );
    scene.check(written == "see you at eight\n", || format!("the file holds {written:?}"));

    let result =
        json!({"role": "tool", "tool_call_id": call["id"], "content": approved.body["content"]});
    let answered = stage.chat(&[user(WRITE_QUESTION), message.clone(), result]).await?;
    scene.tell("model", answered.content());
    scene.check(answered.status == 200 && answered.content().contains("note.txt"), || {
        format!("the model should have gone on with the result: {}", answered.body)
    });
    scene.fact("pending", pending);
    scene.fact("answer", answered.content());
    scene.fact("duration_ms", milliseconds(asked.elapsed + approved.elapsed + answered.elapsed));
    Ok(())
}
