//! The six scenes. Each one acts over HTTP as a client of the gateway, and checks the outcome.

mod approval;
mod hostile;
mod mcp;
mod sandboxed_call;
mod script;
mod stream;

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::stage::{Reply, Stage};

/// Outcome of one scene.
pub(super) struct Scene {
    /// Its name for machines.
    pub(super) name: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// True if every check passed.
    pub(super) ok: bool,
    /// Events in order: the actor and the action.
    pub(super) story: Vec<(&'static str, String)>,
    /// Measured values.
    pub(super) facts: Map<String, Value>,
}

impl Scene {
    fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, ok: true, story: Vec::new(), facts: Map::new() }
    }

    fn tell(&mut self, who: &'static str, what: impl Into<String>) {
        self.story.push((who, what.into()));
    }

    fn fact(&mut self, key: &str, value: impl Into<Value>) {
        self.facts.insert(key.to_owned(), value.into());
    }

    /// Checks a condition. If it does not hold, the scene fails with the message of `otherwise`.
    fn check(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.ok = false;
            self.tell("wrong", otherwise());
        }
    }

    /// Returns the scene as one JSON object.
    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".to_owned(), self.name.into());
        object.insert("title".to_owned(), self.title.into());
        object.insert("ok".to_owned(), self.ok.into());
        object.extend(self.facts.clone());
        object.insert(
            "story".to_owned(),
            self.story.iter().map(|(who, what)| json!({"who": who, "what": what})).collect(),
        );
        object.into()
    }
}

/// Plays all scenes in order. A scene that ends with an error is not ok; the next one is played
/// nevertheless.
pub(super) async fn play(stage: &Stage, mut after_each: impl FnMut(&Scene)) -> Vec<Scene> {
    let mut played = Vec::new();
    let mut keep = |scene: Scene| {
        after_each(&scene);
        played.push(scene);
    };
    let mut scene = Scene::new("sandboxed_call", "A tool call in the sandbox");
    let ended = sandboxed_call::play(stage, &mut scene).await;
    keep(finished(scene, ended));
    let mut scene = Scene::new("script", "One script instead of eighty tool calls");
    let ended = script::play(stage, &mut scene).await;
    keep(finished(scene, ended));
    let mut scene = Scene::new("hostile", "Hostile code, while others are served");
    let ended = hostile::play(stage, &mut scene).await;
    keep(finished(scene, ended));
    let mut scene = Scene::new("approval", "A tool that needs approval");
    let ended = approval::play(stage, &mut scene).await;
    keep(finished(scene, ended));
    let mut scene = Scene::new("stream", "A streamed response, with a tool call in the middle");
    let ended = stream::play(stage, &mut scene).await;
    keep(finished(scene, ended));
    let mut scene = Scene::new("mcp", "An agent over MCP, and a question to its user");
    let ended = mcp::play(stage, &mut scene).await;
    keep(finished(scene, ended));
    played
}

fn finished(mut scene: Scene, ended: anyhow::Result<()>) -> Scene {
    if let Err(error) = ended {
        scene.check(false, || format!("the scene failed: {error:#}"));
    }
    scene
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Returns the content of the model's message in a chat response.
fn content(reply: &Reply) -> &str {
    reply.body["choices"][0]["message"]["content"].as_str().unwrap_or_default()
}

/// Returns the calls that the gateway ran for a chat response.
fn calls(reply: &Reply) -> &[Value] {
    reply.body["airlock"]["calls"].as_array().map_or(&[], Vec::as_slice)
}

/// Formats the cost of a call record: "0.1 ms and 22,660 units of fuel".
fn cost(call: &Value) -> String {
    let time = format!("{:.1} ms", call["duration_ms"].as_f64().unwrap_or_default());
    match call["fuel"].as_u64() {
        Some(fuel) => format!("{time} and {} units of fuel", thousands(fuel)),
        None => time,
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
