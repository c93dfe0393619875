//! Installs a build into the configuration of a running gateway, and has the gateway reload it.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, bail};
use http::StatusCode;
use serde_json::Value;
use url::Url;

use crate::install;
use airlock_authoring::install::GrantOption;
use airlock_terminal::{
    connection::{self, GatewayTrust},
    output,
    session::ConfigFile,
};

/// Longest wait for a reload, which compiles the component.
const LIMIT: Duration = Duration::from_mins(2);

/// Installs the component and reloads it. The decisions are those of `airlock plugin install
/// --replace`: what is not granted is not installed.
pub(super) async fn reload(
    url: &Url,
    component: &Path,
    config: &ConfigFile,
    grants: &[GrantOption],
) -> anyhow::Result<()> {
    let client = install::update(component, config, grants).await?;
    let url = url.join(&format!("/api/mcp/client/{client}/reload"));
    let url =
        url.context("--gateway: expected the URL of a gateway, such as http://127.0.0.1:8080")?;
    let http = connection::http(&url, GatewayTrust::Authorities)?;
    let http = http.no_proxy().timeout(LIMIT).build().context("no HTTP client")?;
    let response = http.post(url.clone()).send().await;
    let response = response.with_context(|| format!("{url} does not respond"))?;
    let status = response.status();
    let body = response.text().await.context("the gateway's response ended early")?;
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    if status == StatusCode::NOT_FOUND {
        bail!(
            "the gateway has no plugin {client}: its configuration is not the one that --config names here"
        );
    }
    if !status.is_success() {
        bail!("the gateway did not reload {client}: {}", reason(&body, status.as_u16()));
    }
    let state = if body["changed"] == true { "reloaded" } else { "has it already" };
    output::line(&format!("{client}: the gateway {state}"))
}

/// Returns the message of a refusal, or its status.
fn reason(body: &Value, status: u16) -> String {
    let message = body["error"]["message"].as_str().or(body["message"].as_str());
    message.map_or_else(|| format!("status {status}"), |message| output::both_ends(message, 1000))
}
