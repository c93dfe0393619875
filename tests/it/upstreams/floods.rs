//! Servers that send more messages than the gateway can process.

use std::time::{Duration, Instant};

use airlock_tests::{Client, Gateway, MisbehavingHttp, Setup, misbehaving, wait};
use serde_json::json;

/// Limit for an HTTP response during a flood, even if every CPU is busy with other tests.
const AT_ONCE: Duration = Duration::from_secs(15);
/// Limit of resident memory: more than a gateway without servers takes, and far less than a flood
/// that is kept in memory.
const MOST_MEMORY: u64 = 400 << 20;

/// Starts two servers that flood and one that does not. Checks that the two are disconnected while
/// `/health` responds all the time, that the third still works, and that SIGTERM ends the gateway.
async fn withstands(flooding: [Client; 2]) {
    let [one, other] = flooding;
    let gateway =
        Setup::new().client(one).client(other).client(misbehaving("good", [])).serve().await;
    gateway.connected("good").await;
    for name in ["one", "other"] {
        given_up(&gateway, name).await;
    }
    let reply = gateway.execute("good-echo", &json!({"text": "here"})).await;
    assert_eq!(reply.content(), "here");
    let peak = gateway.peak_memory();
    assert!(peak < MOST_MEMORY, "{} MiB", peak >> 20);
    let told = Instant::now();
    gateway.terminate();
    gateway.ended().await;
    assert!(told.elapsed() < Duration::from_secs(25), "it took {:?} to stop", told.elapsed());
}

async fn given_up(gateway: &Gateway, name: &str) {
    wait::until(&format!("{name} to be given up"), async || {
        let asked = Instant::now();
        let healthy = gateway.get("/health").await;
        assert!(
            healthy.status == 200 && asked.elapsed() < AT_ONCE,
            "{:?}: {}",
            asked.elapsed(),
            healthy.text
        );
        let client = gateway.client(name).await?;
        let reason = client["last_failure"]["message"].as_str()?;
        assert!(reason.starts_with("it floods the gateway with messages"), "{reason}");
        Some(())
    })
    .await;
}

fn two(modes: [&str; 2]) -> [Client; 2] {
    [misbehaving("one", modes), misbehaving("other", modes)]
}

#[tokio::test]
async fn two_servers_that_flood_with_notifications_are_disconnected() {
    withstands(two(["flood=notifications", "-"])).await;
}

#[tokio::test]
async fn two_servers_that_flood_with_pings_are_disconnected() {
    withstands([
        misbehaving("one", ["flood=pings"]),
        misbehaving("other", ["flood=pings", "deaf"]),
    ])
    .await;
}

#[tokio::test]
async fn two_servers_that_flood_with_requests_for_unsupported_features_are_disconnected() {
    withstands([
        misbehaving("one", ["flood=sampling"]),
        misbehaving("other", ["flood=roots", "deaf"]),
    ])
    .await;
}

#[tokio::test]
async fn two_servers_that_flood_with_changes_and_responses_are_disconnected() {
    withstands([misbehaving("one", ["flood=changes"]), misbehaving("other", ["flood=answers"])])
        .await;
}

#[tokio::test]
async fn two_servers_that_flood_with_invalid_lines_are_disconnected() {
    withstands([misbehaving("one", ["flood=garbage"]), misbehaving("other", ["flood=line"])]).await;
}

#[tokio::test]
async fn two_servers_that_flood_an_event_stream_are_disconnected() {
    let one = MisbehavingHttp::start(["flood=notifications"]);
    let other = MisbehavingHttp::start(["flood=pings"]);
    withstands([one.client("one"), other.client("other")]).await;
}

#[tokio::test]
async fn a_server_is_not_ready_while_it_sends_more_than_is_read() {
    let gateway = Setup::new().client(misbehaving("one", ["flood=notifications"])).serve().await;
    given_up(&gateway, "one").await;
    let client = gateway.client("one").await.expect("the server");
    let history = client["history"].as_array().expect("a history");
    let phases: Vec<_> = history.iter().filter_map(|change| change["phase"].as_str()).collect();
    let at = phases.iter().position(|phase| *phase == "ready").expect("it was ready first");
    assert_eq!(phases[at..at + 3], ["ready", "degraded", "restarting"], "{history:#?}");
    let reason = history[at + 1]["reason"].as_str().expect("a reason");
    assert!(reason.contains("more messages than are read"), "{reason}");
}

#[tokio::test]
async fn a_stream_that_asks_for_an_immediate_reconnect_is_reopened_later() {
    let began = Instant::now();
    let server = MisbehavingHttp::start(["retry"]);
    let gateway = Setup::new().client(server.client("server")).serve_connected().await;
    let opened = wait::until("the stream to be opened again", async || {
        let streams: u64 = gateway
            .execute("server-streams", &json!({}))
            .await
            .content()
            .parse()
            .expect("a number");
        (streams >= 3).then_some(streams)
    })
    .await;
    let seconds = began.elapsed().as_secs();
    assert!(opened <= seconds + 2, "{opened} streams in {seconds} s");
}

#[tokio::test]
async fn a_list_that_changes_all_the_time_is_read_less_often_and_warned_about_once() {
    let gateway = Setup::new().client(misbehaving("server", ["changing"])).serve_connected().await;
    let began = Instant::now();
    wait::until("the list to be read for the eighth time", async || {
        let read: u32 =
            gateway.execute("server-listed", &json!({})).await.content().parse().expect("a number");
        (read >= 8).then_some(())
    })
    .await;
    assert!(began.elapsed() > Duration::from_secs(1), "eight times in {:?}", began.elapsed());
    let said = gateway.until_said("long_error").await;
    assert_eq!(said.matches("long_error").count(), 1, "{said}");
    // Two lines are of each request of the test itself.
    let is_of_test = |line: &&str| {
        line.contains("airlock_server::router: request") || line.contains(": tool call ")
    };
    let of_server: usize = said.lines().filter(|line| !is_of_test(line)).map(str::len).sum();
    assert!(of_server < 16 << 10, "{of_server} bytes of it reached the log");
}

#[tokio::test]
async fn a_result_that_is_small_as_text_and_large_in_memory_fails_its_call_at_once() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let before = gateway.peak_memory();
    let reply = gateway.execute("server-dense", &json!({})).await;
    assert_eq!((reply.status, reply.code()), (400, "result_too_large"), "{}", reply.text);
    let grown = gateway.peak_memory() - before;
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    assert_eq!(gateway.execute("server-echo", &json!({"text": "x"})).await.content(), "x");
}

#[tokio::test]
async fn a_result_over_http_that_is_too_large_fails_its_call_at_once() {
    let server = MisbehavingHttp::start([]);
    let gateway = Setup::new().client(server.client("server")).serve_connected().await;
    let reply = gateway.execute("server-huge", &json!({})).await;
    assert_eq!((reply.status, reply.code()), (400, "result_too_large"), "{}", reply.text);
    let reply = gateway.execute("server-huge_event", &json!({})).await;
    assert!(reply.status >= 400, "5 MiB came through");
    assert_eq!(gateway.execute("server-streams", &json!({})).await.content(), "1");
}
