//! Servers that repeat the credentials that they were given.

use airlock_tests::{Gateway, MisbehavingHttp, Setup, misbehaving};
use serde_json::json;

const TOKEN: &str = "s3cr3t-t0ken-0123456789";

/// Checks that neither a reply nor the log contains the token.
fn is_kept(gateway: &Gateway, reply: &str) {
    for (place, text) in [("the reply", reply), ("the log", &gateway.said())] {
        assert!(!text.contains(TOKEN), "{place} has the token: {text}");
    }
}

#[tokio::test]
async fn a_refusal_that_repeats_the_credential_is_redacted_in_log_and_admin_api() {
    for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "500 Oops"] {
        let server = MisbehavingHttp::start([&format!("refuse={status}")]);
        let client =
            server.client("server").set("/headers/authorization", format!("Bearer {TOKEN}"));
        let gateway = Setup::new().client(client).serve().await;
        let shown = gateway.in_state("server", "disconnected").await.to_string();
        assert!(shown.contains(&status[..3]), "{shown}");
        is_kept(&gateway, &shown);
        if !status.starts_with('5') {
            assert!(shown.contains("[secret authorization]"), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_result_that_repeats_the_credential_is_redacted() {
    let server = MisbehavingHttp::start([]);
    let client = server.client("server").set("/headers/x-api-key", TOKEN);
    let gateway = Setup::new().client(client).serve_connected().await;
    for tool in ["server-echo", "server-echo_refused"] {
        let reply = gateway.execute(tool, &json!({})).await;
        assert!(reply.text.contains("[secret x-api-key]"), "{}", reply.text);
        is_kept(&gateway, &reply.text);
    }
}

#[tokio::test]
async fn a_child_that_repeats_its_environment_is_redacted() {
    let client =
        misbehaving("server", []).envs(&[&format!("API_TOKEN={TOKEN}"), "HOME=/home/someone"]);
    let gateway = Setup::new().client(client).serve_connected().await;
    let said = gateway.execute("server-secret", &json!({})).await.content();
    assert!(said.contains("[secret API_TOKEN]") && said.contains("/home/someone"), "{said}");
    is_kept(&gateway, &said);
}
