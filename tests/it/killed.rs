//! Gateways and their store, which are killed under load: the short run of `make chaos CHAOS=--kills`.

#[path = "../benches/chaos/kills.rs"]
mod kills;

use self::kills::KillEffort;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_effect_is_recorded_once_within_the_limit_although_gateways_and_store_are_killed() {
    let effort = KillEffort {
        seed: 1,
        calls: 300,
        limit: 120,
        callers: 2,
        gateway_kills: 3,
        store_kills: 1,
    };
    let Some(report) = Box::pin(kills::run(effort)).await else { return };
    assert!(report.is_good(), "{report}");
}
