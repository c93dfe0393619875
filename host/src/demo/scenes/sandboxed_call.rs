//! Scene 1: a model calls a tool, a WebAssembly plugin returns the result, and the model continues.

use super::{Scene, calls, content, cost, user};
use crate::demo::{script::COUNT_QUESTION, stage::Stage};

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    scene.tell("user", COUNT_QUESTION);
    let reply = stage.chat(&[user(COUNT_QUESTION)]).await?;
    for call in calls(&reply) {
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
    scene.tell("model", content(&reply));
    scene.check(reply.status == 200, || format!("HTTP {}: {}", reply.status, reply.body));
    scene.check(content(&reply).contains("words: 9\n"), || {
        "the answer should say 9 words".to_owned()
    });
    scene.check(calls(&reply).len() == 1, || {
        format!("one call was expected, there were {}", calls(&reply).len())
    });
    scene.fact("calls", calls(&reply).to_vec());
    scene.fact("answer", content(&reply));
    scene.fact("duration_ms", super::milliseconds(reply.elapsed));
    Ok(())
}
