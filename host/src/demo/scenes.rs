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
pub(super) async fn play(stage: &Stage, after_each: impl FnMut(&Scene)) -> Vec<Scene> {
    let mut played = PlayedScenes { scenes: Vec::new(), after_each };
    let mut scene = Scene::new("sandboxed_call", "A tool call in the sandbox");
    played.keep(sandboxed_call::play(stage, &mut scene).await, scene);
    let mut scene = Scene::new("script", "One script instead of eighty tool calls");
    played.keep(script::play(stage, &mut scene).await, scene);
    let mut scene = Scene::new("hostile", "Hostile code, while others are served");
    played.keep(hostile::play(stage, &mut scene).await, scene);
    let mut scene = Scene::new("approval", "A tool that needs approval");
    played.keep(approval::play(stage, &mut scene).await, scene);
    let mut scene = Scene::new("stream", "A streamed response, with a tool call in the middle");
    played.keep(stream::play(stage, &mut scene).await, scene);
    let mut scene = Scene::new("mcp", "An agent over MCP, and a question to its user");
    played.keep(mcp::play(stage, &mut scene).await, scene);
    let mut scene = Scene::new("team", "Three gateways, and a key that is revoked at one");
    played.keep(team::play(stage, &mut scene).await, scene);
    let mut scene = Scene::new("limit", "One limit at two gateways, and a changed audit log");
    played.keep(limit::play(stage, &mut scene).await, scene);
    played.scenes
}

/// The scenes that have ended, in order.
struct PlayedScenes<F> {
    scenes: Vec<Scene>,
    after_each: F,
}

impl<F: FnMut(&Scene)> PlayedScenes<F> {
    fn keep(&mut self, ended: anyhow::Result<()>, mut scene: Scene) {
        if let Err(error) = ended {
            scene.check(false, || format!("the scene failed: {error:#}"));
        }
        (self.after_each)(&scene);
        self.scenes.push(scene);
    }
}
