//! Scene 1: a model calls a tool, a WebAssembly plugin returns the result, and the model continues.

use super::cost::{cost, milliseconds};
use crate::demo::{
    scene::Scene,
    script::COUNT_QUESTION,
    stage::{Stage, user},
};

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    scene.tell("user", COUNT_QUESTION);
    let reply = stage.chat(&[user(COUNT_QUESTION)]).await?;
    for call in reply.calls() {
        let name = call["name"].as_str().unwrap_or_default();
        scene.tell("model", format!("calls {name}, which its operator lets run by itself"));
        scene.tell(
            "plugin",
            format!(
                "{name} ran in a fresh WebAssembly instance and was thrown away: {}",
                cost(call)
            ),
        );
    }
    scene.tell("model", reply.content());
    scene.check(reply.status == 200, || format!("HTTP {}: {}", reply.status, reply.body));
    scene.check(reply.content().contains("words: 9\n"), || {
        "the answer should say 9 words".to_owned()
    });
    scene.check(reply.calls().len() == 1, || {
        format!("one call was expected, there were {}", reply.calls().len())
    });
    scene.fact("calls", reply.calls().to_vec());
    scene.fact("answer", reply.content());
    scene.fact("duration_ms", milliseconds(reply.elapsed));
    Ok(())
}
