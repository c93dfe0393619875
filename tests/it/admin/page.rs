//! The files of the page.

use airlock_tests::{Gateway, Reply};
use reqwest::{Method, header, redirect::Policy};
use serde_json::json;

use super::setup;

const ASSET: &str = "/admin/assets/vendor/preact.mjs";

async fn status(gateway: &Gateway, path: &str) -> u16 {
    Reply::fetch(gateway.request(Method::GET, path)).await.status
}

#[tokio::test]
async fn a_file_is_served_without_a_credential_under_a_strict_policy() {
    let gateway = setup().serve().await;
    let found = gateway.request(Method::GET, ASSET).send().await.expect("a response");
    assert_eq!(found.status(), 200);
    let headers = found.headers().clone();
    for (name, value) in [
        ("content-type", "text/javascript; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    let policy = headers["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
    assert!(policy.ends_with("require-trusted-types-for 'script'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");

    let known = gateway.request(Method::GET, ASSET).header("if-none-match", &headers["etag"]);
    let known = known.send().await.expect("a response");
    assert_eq!(known.status(), 304);
    assert_eq!(known.bytes().await.expect("a body").len(), 0);
    for path in
        ["/admin/assets/", "/admin/assets/../Cargo.toml", "/admin/nothing", "/administrator"]
    {
        assert_eq!(status(&gateway, path).await, 404, "{path}");
    }
    let methods = Reply::fetch(gateway.request(Method::GET, "/admin/login.json")).await;
    assert_eq!((methods.status, &methods.body), (200, &json!({"identity_provider": false})));
    let posted = Reply::fetch(gateway.request(Method::POST, ASSET)).await;
    assert_eq!((posted.status, posted.code()), (405, "method_not_allowed"));
}

#[tokio::test]
async fn the_page_leads_to_the_approvals_also_from_other_pages() {
    let gateway = setup().serve().await;
    let client = airlock::tls::client().redirect(Policy::none()).no_proxy().build();
    let client = client.expect("a client");
    let request = client.get(format!("{}/admin", gateway.address()));
    let request =
        request.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
    let found = request.send().await.expect("a response");
    assert_eq!(found.status(), 303);
    assert_eq!(found.headers()[header::LOCATION], "/admin/approvals");
    let embedded = client.get(format!("{}{ASSET}", gateway.address()));
    let embedded =
        embedded.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "no-cors");
    assert_eq!(embedded.send().await.expect("a response").status(), 403, "no other page loads it");
}

#[tokio::test]
async fn a_gateway_without_the_page_has_nothing_there() {
    let hidden = setup().set("/management/page", false).serve().await;
    let disabled = setup().set("/management", json!({"disabled": true})).serve().await;
    for gateway in [hidden, disabled] {
        for path in ["/admin", "/admin/login.json", ASSET] {
            assert_eq!(status(&gateway, path).await, 404, "{path}");
        }
    }
}
