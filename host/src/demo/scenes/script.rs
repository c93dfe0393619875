//! Scene 2: a model writes one script over two plugins and an MCP server. Only the result of the
//! script goes back to the model.

use std::collections::BTreeMap;

use super::cost::{cost, milliseconds};
use crate::demo::{
    scene::Scene,
    script::NOTES_QUESTION,
    stage::{NESTED_CALLS, NOTES, Stage, note, user},
};

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    let expected: usize = (1..=NOTES).map(|number| note(number).split_whitespace().count()).sum();
    scene.tell("user", NOTES_QUESTION);
    let reply = stage.chat(&[user(NOTES_QUESTION)]).await?;
    let by_tool = reply.calls().iter().fold(BTreeMap::<&str, usize>::new(), |mut counts, call| {
        *counts.entry(call["name"].as_str().unwrap_or_default()).or_default() += 1;
        counts
    });
    let files_read = by_tool.get("files-read_file").copied().unwrap_or(0);
    let texts_counted = by_tool.get("words-word_count").copied().unwrap_or(0);
    let totals_told = by_tool.get("desk-tally").copied().unwrap_or(0);
    scene.tell("model", "writes a script and calls executeToolCode with it");
    scene.tell(
        "operator",
        format!("permits {NESTED_CALLS} calls a script (`max_nested_calls`; the default is 64)"),
    );
    if let Some(run) = reply.calls().first() {
        scene.tell("script", format!("ran in a fresh sandbox of its own: {}", cost(run)));
    }
    scene.tell("script", format!("read {files_read} files through the plugin `files`, read-only"));
    scene.tell("script", format!("counted {texts_counted} texts through the plugin `words`"));
    scene.tell(
        "script",
        format!(
            "told the total to `desk`, an MCP server in a process of its own ({totals_told} call)"
        ),
    );
    scene.tell("model", reply.content());
    scene.check(reply.status == 200, || format!("HTTP {}: {}", reply.status, reply.body));
    scene.check(files_read == NOTES && texts_counted == NOTES && totals_told == 1, || {
        format!("{NOTES} files should have been read and counted, and the total told: {by_tool:?}")
    });
    scene.check(reply.content().contains(&format!("\"total\": {expected}")), || {
        format!("the total should be {expected}, as counted outside the gateway")
    });
    scene.fact("expected_total", expected);
    scene.fact("calls_by_tool", serde_json::to_value(&by_tool)?);
    scene.fact("answer", reply.content());
    scene.fact("duration_ms", milliseconds(reply.elapsed));
    scene.fact("fuel", reply.calls().first().map(|run| run["fuel"].clone()).unwrap_or_default());
    Ok(())
}
