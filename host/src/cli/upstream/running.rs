//! The administrative API of a running gateway.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use http::{HeaderValue, Method, StatusCode, header};
use reqwest::Url;
use serde_json::Value;

use crate::cli::{
    credential::{KEY_VARIABLE, authorization},
    session::ConfigFile,
};
use airlock_core::tool::ClientName;
use airlock_egress::tls;

/// Time for a response. The gateway waits for an operation for at most three minutes.
const TIMEOUT: Duration = Duration::from_secs(200);
/// Time for the gateway to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest response, in bytes. An address that is no gateway must not fill the memory.
const MAX_BYTES: usize = 256 << 20;

/// Refusal of a request by the gateway.
#[derive(Debug, thiserror::Error)]
#[error("the gateway refused the request with status {status}: {message}")]
pub(super) struct GatewayRefusal {
    status: u16,
    /// Stable code of the refusal.
    pub(super) code: String,
    /// Reason, for people.
    pub(super) message: String,
}

/// Address of a running gateway.
#[derive(Debug, clap::Args)]
pub(super) struct RunningGateway {
    #[command(flatten)]
    config: ConfigFile,
    /// Address of the running gateway, such as `http://127.0.0.1:8080`. Default: `server.listen` of
    /// the configuration.
    #[arg(long, value_name = "URL", conflicts_with = "path", value_parser = url)]
    url: Option<Url>,
}

/// One MCP server of a running gateway.
#[derive(Debug, clap::Args)]
pub(super) struct NamedServer {
    /// The client's name in the configuration.
    #[arg(value_name = "NAME", value_parser = ClientName::parse)]
    pub(super) name: ClientName,
    #[command(flatten)]
    pub(super) gateway: RunningGateway,
}

impl RunningGateway {
    /// Sends a GET request. Returns the body.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path).await
    }

    /// Sends a POST request. Returns the body.
    pub(super) async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::POST, path).await
    }

    /// Returns the entries of the MCP servers.
    pub(super) async fn servers(&self) -> anyhow::Result<Vec<Value>> {
        let mut clients = self.get("/api/mcp/clients?limit=1000&tools_limit=1000").await?;
        let Value::Array(mut clients) = clients["clients"].take() else {
            bail!("the gateway's response has no list of clients");
        };
        // The others are plugins. The holder of a key does not see the phase.
        clients.retain(|client| {
            let kind = client["config"]["connection_type"].as_str();
            matches!(kind, Some("stdio" | "docker" | "http" | "sse"))
        });
        Ok(clients)
    }

    /// Sends a request: without a credential first, because the operator needs none, and with the one
    /// of the environment if the gateway requires it.
    async fn send(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let base = self.base()?;
        let refused = match send(&base, &method, path, None).await? {
            Ok(body) => return Ok(body),
            Err(refused) => refused,
        };
        if refused.status != StatusCode::UNAUTHORIZED.as_u16() {
            return Err(refused.into());
        }
        match authorization(&base)? {
            Some(key) => Ok(send(&base, &method, path, Some(key)).await??),
            None => Err(anyhow::Error::from(refused)
                .context(format!("set the environment variable {KEY_VARIABLE} to a virtual key"))),
        }
    }

    fn base(&self) -> anyhow::Result<Url> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let config = self.config.load().context(
            "the address of the gateway is unknown without the configuration; name it with --url",
        )?;
        address(config.server.listen)
    }
}

/// Sends one request. Returns the body, or the refusal. Fails if there is no gateway.
async fn send(
    base: &Url,
    method: &Method,
    path: &str,
    key: Option<HeaderValue>,
) -> anyhow::Result<Result<Value, GatewayRefusal>> {
    let url = base.join(path).context("the address of the gateway is no base of a URL")?;
    let http = tls::client()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .build()?;
    let headers = key.map(|key| (header::AUTHORIZATION, key)).into_iter().collect();
    let request = http.request(method.clone(), url).headers(headers);
    let response = request.send().await.with_context(|| {
            format!("no gateway responds at {base}; start it with `airlock serve`, or name another address with --url")
        })?;
    let status = response.status();
    let body = read(response).await.context("the gateway's response is incomplete")?;
    let body: Value = serde_json::from_slice(&body)
        .with_context(|| format!("the response from {base} is not that of an Airlock gateway"))?;
    if status.is_success() {
        return Ok(Ok(body));
    }
    Ok(Err(GatewayRefusal {
        status: status.as_u16(),
        code: body["error"]["code"].as_str().unwrap_or_default().to_owned(),
        message: body["error"]["message"].as_str().unwrap_or("no reason given").to_owned(),
    }))
}

/// Parses the address of a gateway.
fn url(text: &str) -> Result<Url, String> {
    let parsed = Url::parse(text).ok();
    parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()).ok_or_else(
        || {
            if text.contains("://") || text.is_empty() {
                "expected an http or https URL, such as http://127.0.0.1:8080".to_owned()
            } else {
                format!("expected an http or https URL; write http://{text}")
            }
        },
    )
}

/// Returns the URL of a gateway that listens on an address. Fails if the system chose the port.
fn address(listen: SocketAddr) -> anyhow::Result<Url> {
    ensure!(
        listen.port() != 0,
        "the gateway listens on a port that the system chose; name its address with --url"
    );
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let listen = SocketAddr::new(ip, listen.port());
    Url::parse(&format!("http://{listen}")).context("the address is no URL")
}

async fn read(mut response: reqwest::Response) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await? {
        ensure!(body.len() + part.len() <= MAX_BYTES, "it is larger than {} MiB", MAX_BYTES >> 20);
        body.extend_from_slice(&part);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_scheme_is_refused_with_the_right_one() {
        assert_eq!(url("http://127.0.0.1:1").expect("a URL").as_str(), "http://127.0.0.1:1/");
        for (text, remedy) in [
            ("127.0.0.1:18730", "write http://127.0.0.1:18730"),
            ("localhost:8080", "write http://localhost:8080"),
            ("ftp://host", "such as http://127.0.0.1:8080"),
        ] {
            let refused = url(text).expect_err("no URL of a gateway");
            assert!(refused.ends_with(remedy), "{refused}");
        }
    }

    #[test]
    fn a_gateway_on_all_addresses_is_reached_on_the_loopback_address() {
        for (listen, expected) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/"),
            ("[::]:8080", "http://[::1]:8080/"),
            ("10.1.2.3:80", "http://10.1.2.3/"),
        ] {
            let listen = listen.parse().expect("an address");
            assert_eq!(address(listen).expect("a URL").as_str(), expected);
        }
        assert!(address("127.0.0.1:0".parse().expect("an address")).is_err());
    }
}
