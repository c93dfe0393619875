//! The eight scenes. Each one acts over HTTP as a client of the gateway, and checks the outcome.

mod approval;
mod cost;
mod hostile;
mod limit;
mod mcp;
mod sandboxed_call;
mod script;
mod stream;
mod team;

use super::{scene::Scene, stage::Stage};

/// Plays all scenes in order. A scene that ends with an error is not ok; the next one is played
/// nevertheless.
pub(super) async fn play(stage: &Stage, mut after_each: impl FnMut(&Scene)) -> Vec<Scene> {
    let mut played = Vec::new();
    let mut keep = |scene: Scene| {
        after_each(&scene);
        played.push(scene);
    };
    let mut scene = Scene::new("sandboxed_call", "A tool call in the sandbox");
    keep(finished(sandboxed_call::play(stage, &mut scene).await, scene));
    let mut scene = Scene::new("script", "One script instead of eighty tool calls");
    keep(finished(script::play(stage, &mut scene).await, scene));
    let mut scene = Scene::new("hostile", "Hostile code, while others are served");
    keep(finished(hostile::play(stage, &mut scene).await, scene));
    let mut scene = Scene::new("approval", "A tool that needs approval");
    keep(finished(approval::play(stage, &mut scene).await, scene));
    let mut scene = Scene::new("stream", "A streamed response, with a tool call in the middle");
    keep(finished(stream::play(stage, &mut scene).await, scene));
    let mut scene = Scene::new("mcp", "An agent over MCP, and a question to its user");
    keep(finished(mcp::play(stage, &mut scene).await, scene));
    let mut scene = Scene::new("team", "Three gateways, and a key that is revoked at one");
    keep(finished(team::play(stage, &mut scene).await, scene));
    let mut scene = Scene::new("limit", "One limit at two gateways, and a changed audit log");
    keep(finished(limit::play(stage, &mut scene).await, scene));
    played
}

fn finished(ended: anyhow::Result<()>, mut scene: Scene) -> Scene {
    if let Err(error) = ended {
        scene.check(false, || format!("the scene failed: {error:#}"));
    }
    scene
}
