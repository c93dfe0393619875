//! Defaults of the file beside those of the settings that a program makes without a file: they are written twice.

use super::*;
use airlock_mcp_client::{Bounds, Lifecycle, Renewal, Restart, Timeouts};
use airlock_model::{Kind, Retries};

#[test]
fn an_mcp_server_has_the_defaults_of_its_settings() {
    for client in [stdio("fs"), with(stdio("fs"), "restart", json!({}))] {
        let config = good(&clients(json!([client])));
        let Source::Upstream(settings) = &config.clients[0].source else { panic!("a server") };
        assert_eq!(settings.timeouts, Timeouts::default());
        assert_eq!(settings.restart, Restart::default());
        assert_eq!(settings.lifecycle, Lifecycle::default());
        assert_eq!(settings.bounds, Bounds::default());
        assert_eq!(settings.renewal, Renewal::default());
        assert_eq!(settings.sync_interval, None);
    }
}

#[test]
fn the_gateway_as_an_mcp_server_has_the_defaults_of_its_settings() {
    let config = good(&json!({"mcp_server": {}}));
    assert_eq!(config.server.mcp, airlock_mcp_server::Settings::default());
}

#[test]
fn a_provider_has_the_defaults_of_its_settings() {
    let file = json!({"providers": {"openai": {
        "keys": [{"value": "env.GOOD"}], "timeouts": {}, "retries": {},
    }}});
    let config = good(&file);
    let Kind::Service(service) = &config.providers[0].kind else { panic!("a service") };
    assert_eq!(service.timeouts, airlock_model::Timeouts::default());
    assert_eq!(service.retries, Retries::default());
}
