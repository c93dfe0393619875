use super::*;

#[tokio::test]
async fn the_key_of_the_audit_log_is_shown_without_a_credential_if_there_is_a_log() {
    let audit_key: AuditKey = Box::new(|| Some("gateway/one+01234567+AQ==".to_owned()));
    let hooks = Hooks { audit_key, ..hooks::hooks(None) };
    let settings = Settings { require_virtual_key: true, ..settings() };
    let gateway = Gateway::with_hooks(settings, fake::scripted(&json!([])), hooks).await;
    let reply = gateway.send(Method::GET, crate::audit_key::PATH, &[], "").await;
    assert_eq!(reply.status().as_u16(), 200);
    assert_eq!(reply.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(reply.text().await.expect("a body"), "gateway/one+01234567+AQ==\n");
    gateway.stop().await;

    let without = Gateway::standard().await;
    assert_eq!(without.get(crate::audit_key::PATH, &[]).await.0, 404);
    without.stop().await;
}
