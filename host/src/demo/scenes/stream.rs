//! Scene 5: the words of the model arrive one by one. In the middle the model calls a tool, and the
//! same stream continues with the next response.

use std::{mem, time::Duration};

use serde_json::Value;

use super::cost::milliseconds;
use crate::demo::{
    scene::Scene,
    script::STREAM_QUESTION,
    stage::{Stage, user},
};

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    scene.tell("user", STREAM_QUESTION);
    let events = stage.stream(&[user(STREAM_QUESTION)]).await?;
    let mut screen = Screen::default();
    for (at, data) in &events {
        screen.show(scene, *at, data);
    }
    screen.end_line(scene);
    let is_complete = events.last().is_some_and(|(_, data)| data == "[DONE]");
    scene.check(is_complete, || "the stream should end with [DONE]".to_owned());
    scene.check(screen.steps == ["text", "call_started", "call_ended", "round", "text"], || {
        format!("a tool should run between two texts: {:?}", screen.steps)
    });
    scene.check(screen.answer.contains("six words"), || {
        format!("the answer should say six words: {}", screen.answer)
    });
    scene.check(screen.first_text < screen.last_text, || {
        "the words should arrive one by one".to_owned()
    });
    scene.fact("answer", screen.answer);
    scene.fact("steps", screen.steps);
    scene.fact("first_text_ms", milliseconds(screen.first_text));
    scene.fact("duration_ms", milliseconds(screen.last_text));
    Ok(())
}

/// The client's terminal.
#[derive(Default)]
struct Screen {
    /// All text so far.
    answer: String,
    /// Text since the last event of a tool.
    line: String,
    /// Times since the request was sent.
    line_began: Duration,
    /// Kinds of events in order, without repetition.
    steps: Vec<String>,
    first_text: Duration,
    last_text: Duration,
}

impl Screen {
    fn show(&mut self, scene: &mut Scene, at: Duration, data: &str) {
        let chunk: Value = serde_json::from_str(data).unwrap_or_default();
        let event = &chunk["airlock"]["event"];
        if let Some(kind) = event["type"].as_str() {
            self.end_line(scene);
            self.step(kind);
            let name = event["name"].as_str().unwrap_or_default();
            match kind {
                "call_started" => scene.tell("gateway", format!("{}  runs {name}", time(at))),
                "call_ended" => {
                    let result = event["result"].as_str().unwrap_or_default();
                    scene.tell("plugin", format!("{}  {name} returned {result}", time(at)));
                }
                _ => {}
            }
        }
        let text = chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
        if !text.is_empty() {
            self.text(at, text);
        }
    }

    fn text(&mut self, at: Duration, text: &str) {
        self.step("text");
        if self.answer.is_empty() {
            self.first_text = at;
        }
        if self.line.is_empty() {
            self.line_began = at;
        }
        self.last_text = at;
        self.answer.push_str(text);
        self.line.push_str(text);
    }

    fn step(&mut self, kind: &str) {
        if self.steps.last().is_none_or(|last| last != kind) {
            self.steps.push(kind.to_owned());
        }
    }

    fn end_line(&mut self, scene: &mut Scene) {
        let line = mem::take(&mut self.line);
        if !line.is_empty() {
            let from = time(self.line_began);
            let to = time(self.last_text);
            scene.tell("model", format!("{from}  {}  (last word at {to})", line.trim()));
        }
    }
}

fn time(at: Duration) -> String {
    format!("{:.2} s", at.as_secs_f64())
}
