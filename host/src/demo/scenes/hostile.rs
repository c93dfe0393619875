//! Scene 3: each kind of hostile code is stopped by its own limit, while another caller is still
//! served.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::{Value, json};

use super::cost::milliseconds;
use crate::demo::{
    scene::Scene,
    script::{self, Hostile},
    stage::{Stage, StageReply},
};

/// Calls of the other caller before the attacks start.
const WARM_UP: usize = 200;

pub(super) async fn play(stage: &Stage, scene: &mut Scene) -> anyhow::Result<()> {
    let before = neighbour(stage, |answered| answered < WARM_UP).await?;
    let over = AtomicBool::new(false);
    let attack = async {
        let mut stopped = Vec::new();
        for hostile in script::hostile() {
            let reply = stage.execute(hostile.tool, &hostile.arguments).await;
            stopped.push((hostile, reply));
        }
        over.store(true, Ordering::Relaxed);
        stopped
    };
    let (stopped, during) =
        tokio::join!(attack, neighbour(stage, |_| !over.load(Ordering::Relaxed)));
    let during = during?;
    let mut attacks = Vec::new();
    for (hostile, reply) in stopped {
        attacks.push(judge(scene, &hostile, &reply?));
    }
    scene.tell(
        "neighbour",
        format!(
            "was answered {} times meanwhile, half of them within {} ms",
            during.answered, during.p50
        ),
    );
    scene
        .check(during.failed == 0, || format!("{} of the neighbour's calls failed", during.failed));
    scene.check(during.answered > 0, || {
        "the neighbour was not answered while others were stopped".to_owned()
    });
    scene.fact("attacks", attacks);
    scene.fact("neighbour_before", before.to_json());
    scene.fact("neighbour_during", during.to_json());
    Ok(())
}

/// Reports the end of an attack, and checks that it is the expected one.
fn judge(scene: &mut Scene, hostile: &Hostile, reply: &StageReply) -> Value {
    let code = [&reply.body["error"], &reply.body["airlock"]["error"]]
        .into_iter()
        .find_map(|error| error["code"].as_str());
    let said = reply.body["error"]["message"]
        .as_str()
        .or(reply.body["content"].as_str())
        .unwrap_or_default();
    let first_line = said
        .lines()
        .rfind(|line| line.starts_with("error: "))
        // Headings end with a colon.
        .or(said.lines().find(|line| !line.is_empty() && !line.ends_with(':')))
        .unwrap_or_default();
    scene.tell(
        "stopped",
        format!("{}: {first_line} ({} ms)", hostile.does, milliseconds(reply.elapsed)),
    );
    let as_it_should = code.is_some_and(|code| hostile.ends_with.contains(&code));
    scene.check(as_it_should, || {
        format!("{} should have ended with {:?}: {}", hostile.does, hostile.ends_with, reply.body)
    });
    json!({"does": hostile.does, "tool": hostile.tool, "code": code, "duration_ms": milliseconds(reply.elapsed)})
}

/// Response times of a caller that only counts words.
struct Neighbour {
    answered: usize,
    failed: usize,
    p50: f64,
    p99: f64,
}

impl Neighbour {
    fn to_json(&self) -> Value {
        json!({"answered": self.answered, "failed": self.failed, "p50_ms": self.p50, "p99_ms": self.p99})
    }
}

/// Calls one tool repeatedly while `go_on` returns true.
async fn neighbour(stage: &Stage, go_on: impl Fn(usize) -> bool) -> anyhow::Result<Neighbour> {
    let mut times: Vec<Duration> = Vec::new();
    let mut failed = 0;
    while go_on(times.len()) {
        let reply = stage.execute("text-word_count", &json!({"text": "good morning"})).await?;
        failed += usize::from(reply.status != 200);
        times.push(reply.elapsed);
    }
    times.sort_unstable();
    let p50 = percentile(&times, 50);
    let p99 = percentile(&times, 99);
    Ok(Neighbour { answered: times.len(), failed, p50, p99 })
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().map_or(0.0, milliseconds)
}
