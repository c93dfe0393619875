//! `airlock demo`: the gateway at work in eight scenes. Needs no installation, no key and no other
//! server.
//!
//! Everything is real except the model, which follows a script. The gateway listens on a port, its
//! plugins are WebAssembly components, its MCP server is a process, and the scenes run over HTTP.

mod agent;
pub(crate) mod mcp_server;
mod scene;
mod scenes;
mod script;
mod stage;
mod team;

use std::io::{IsTerminal as _, Write as _};

use serde_json::{Value, json};

use self::{scene::Scene, stage::Stage};
use airlock_terminal::session::{ExecutorLoad, announce_load};

/// Plays the demo on stdout, as text or as one JSON document. `on_compile` shows that a component is
/// being compiled. Returns whether every scene was ok.
pub(crate) async fn run(
    as_json: bool,
    on_compile: fn(&str) -> Box<dyn Send>,
) -> anyhow::Result<bool> {
    let stage = tokio::select! {
        stage = Stage::set(on_compile) => stage?,
        never = announce_load(ExecutorLoad::Awaited) => match never {},
    };
    if !as_json {
        print_line(&format!(
            "A gateway listens on {}. It has a scripted model, plugins in WebAssembly, and an MCP server.",
            stage.url
        ));
    }
    let mut number = 0;
    let played = scenes::play(&stage, |scene| {
        number += 1;
        if !as_json {
            print_scene(number, scene);
        }
    })
    .await;
    stage.strike().await?;
    let ok = played.iter().all(|scene| scene.ok);
    if as_json {
        let scenes: Vec<Value> = played.iter().map(Scene::to_json).collect();
        print_line(&json!({"scenes": scenes, "ok": ok}).to_string());
    } else {
        print_line(if ok {
            "\nAll eight scenes went as they should."
        } else {
            "\nNot all scenes went as they should."
        });
    }
    Ok(ok)
}

fn print_scene(number: usize, scene: &Scene) {
    let mark = if scene.ok { "ok" } else { "NOT OK" };
    let title = format!("{number}. {}", scene.title);
    print_line(&format!(
        "\n{}  [{mark}]",
        if std::io::stdout().is_terminal() { format!("\x1b[1m{title}\x1b[0m") } else { title }
    ));
    for (who, what) in &scene.story {
        let mut lines = what.lines();
        print_line(&format!("   {who:<10} {}", lines.next().unwrap_or_default()));
        for line in lines {
            print_line(&format!("   {:<10} {line}", ""));
        }
    }
}

fn print_line(line: &str) {
    // A closed pipe is not an error: the reader has ended.
    let _ = writeln!(std::io::stdout(), "{line}");
}
