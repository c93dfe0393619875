//! WASI of a plugin: it has what the operator granted, random numbers, and nothing else.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use airlock_tests::{Client, Gateway, Setup, guests};
use serde_json::{Value, json};

fn escape() -> Client {
    Client::wasm("escape", guests::ESCAPE)
}

async fn gateway(client: Client) -> Gateway {
    Setup::new().client(client).serve_connected().await
}

async fn answer(gateway: &Gateway, tool: &str, arguments: Value) -> String {
    gateway.execute(&format!("escape-{tool}"), &arguments).await.content()
}

/// Text of a result without content.
const NOTHING: &str = "The tool ran and returned nothing.";

#[tokio::test]
async fn a_plugin_starts_without_environment_arguments_input_and_files() {
    let found = answer(&gateway(escape()).await, "surroundings", json!({})).await;
    assert_eq!(
        found,
        r#"environment 0, arguments 0, input Ok(0) "", root Err(NotFound), directory Ok("/")"#
    );
}

#[tokio::test]
async fn network_access_fails_without_a_trap() {
    assert_eq!(answer(&gateway(escape()).await, "network", json!({})).await, NOTHING);
}

#[tokio::test]
async fn every_call_starts_at_the_same_time_unless_clocks_are_granted() {
    let without = gateway(escape()).await;
    let one = answer(&without, "time", json!({})).await;
    let other = answer(&without, "time", json!({})).await;
    assert_eq!(one, other);
    assert!(one.starts_with("946684800"), "{one} is not the beginning of the year 2000");
    let with = gateway(escape().set("/wasm_config/grants/clocks", true)).await;
    let real = answer(&with, "time", json!({})).await;
    let now = UNIX_EPOCH
        + Duration::from_nanos(
            real.split(' ').next().and_then(|first| first.parse().ok()).expect("a number"),
        );
    assert!(
        SystemTime::now().duration_since(now).expect("it is past") < Duration::from_mins(1),
        "{real}"
    );
}

#[tokio::test]
async fn every_call_draws_other_random_numbers_without_any_grant() {
    let gateway = gateway(escape()).await;
    let mut numbers = BTreeSet::new();
    for _ in 0..4 {
        numbers.insert(answer(&gateway, "numbers", json!({})).await);
    }
    assert_eq!(numbers.len(), 4);
}

#[tokio::test]
async fn a_sleep_ends_by_either_clock_and_at_the_deadline_of_its_call() {
    for granted in [false, true] {
        let client = escape().set("/wasm_config/grants/clocks", granted).limit("deadline", "2s");
        let gateway = gateway(client).await;
        let began = Instant::now();
        let slept: u64 =
            answer(&gateway, "sleep", json!({"milliseconds": 20})).await.parse().expect("a number");
        assert!(slept >= 20 && began.elapsed() >= Duration::from_millis(20), "{slept} ms");
        let late = gateway.execute("escape-sleep", &json!({"milliseconds": 1_000_000})).await;
        assert_eq!(late.code(), "deadline", "{}", late.text);
        gateway.sandbox_is_empty().await;
    }
}

#[tokio::test]
async fn a_flood_of_cheap_host_calls_runs_out_of_fuel() {
    let gateway =
        gateway(escape().trusted().limit("fuel", 100_000_000).limit("cpu_time", "60s")).await;
    assert_eq!(answer(&gateway, "flood_clock", json!({"times": 50_000})).await, "done");
    let flood = gateway.execute("escape-flood_clock", &json!({"times": 100_000_000})).await;
    assert_eq!(flood.code(), "out_of_fuel", "{}", flood.text);
    gateway.sandbox_is_empty().await;
}
