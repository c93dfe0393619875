//! The demonstration: each of its scenes ends as it says.

use airlock_tests::Airlock;
use serde_json::{Value, json};

#[tokio::test]
async fn every_scene_ends_as_it_says() {
    let run = Airlock::new().arg("demo").arg("--json").run().await.ok();
    assert!(
        !run.stderr.contains("plugin log"),
        "a crash of the hostile plugin is told in its scene: {run}"
    );
    let report = run.json();
    let scenes = report["scenes"].as_array().expect("scenes");
    let failed: Vec<&Value> = scenes.iter().filter(|scene| scene["ok"] != json!(true)).collect();
    assert!(!scenes.is_empty() && failed.is_empty(), "{failed:#?}");
}
