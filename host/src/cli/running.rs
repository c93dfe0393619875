//! The management API of a gateway: through its Unix socket, over HTTP, or, where no gateway needs to
//! run for it, on its store.

use std::{
    fmt::Display,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use http::{HeaderValue, Method, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use serde_json::Value;

use super::credential::{KEY_VARIABLE, OPERATOR_VARIABLE, authorization, operator_authorization};
use airlock_config::{Config, GatewayAddress};
use airlock_core::{
    operator::{Operator, Role},
    tool::ClientName,
};
use airlock_ingress::socket;
use airlock_management::Service;
use airlock_operator_api::{Management as _, ManagementRequest};
use airlock_terminal::{
    connection::{self, GatewayTrust},
    output,
    session::{self, ConfigFile},
};

/// Time for a response. The gateway waits for an operation for at most three minutes.
const TIMEOUT: Duration = Duration::from_secs(200);
/// Time for the gateway to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest response, in bytes. An address that is no gateway must not fill the memory. The list of 1,000 clients with
/// 1,000 tools each has room, with 256 bytes for each tool.
const MAX_BYTES: usize = 256 << 20;

/// Path of the metrics, the only response that is a text.
const METRICS: &str = "/metrics";
/// Elements of a page of a list, as many as a gateway permits.
const LISTED: usize = 1_000;
/// Name, in the log and the record of changes, of those who act with a command on the store.
pub(super) const COMMAND_LINE: &str = "command line";
/// Advice to a user who may not use the socket of a gateway.
const OTHER_USER: &str =
    "run the command as the user of the gateway, or use --url with AIRLOCK_OPERATOR_TOKEN";

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

impl GatewayRefusal {
    /// Returns whether the gateway does not have what was asked for, or does not show it to this sender.
    /// A token that is none is a mistake of its sender.
    fn is_hidden(&self) -> bool {
        matches!(self.status, 401 | 403 | 404 | 405) && self.code != "operator_unknown"
    }

    /// Returns whether the gateway has no element of the name in the request.
    fn is_unknown(&self) -> bool {
        self.status == 404 && self.code == "not_found"
    }
}

/// An element of the settings that a command names.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedElement<'n> {
    /// Kind of the element, such as `virtual key`.
    pub(super) kind: &'static str,
    /// Name, as the user has written it.
    pub(super) name: &'n str,
    /// Command that lists the elements of the kind.
    pub(super) list: &'static str,
}

impl NamedElement<'_> {
    /// Explains that there is none of this name. `option` names the gateway, with a space before it.
    fn unknown(&self, option: &str) -> String {
        let Self { kind, name, list } = self;
        format!("no {kind} is named {name:?}; `{list}{option}` shows those that exist")
    }
}

/// Address of a running gateway.
#[derive(Debug, clap::Args)]
pub(super) struct RunningGateway {
    #[command(flatten)]
    config: ConfigFile,
    /// Address of the running gateway, such as `http://127.0.0.1:8080` or `https://airlock.example.com`. Default:
    /// the gateway of the configuration, through its Unix socket.
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

/// One instance of an MCP server that has several, or all.
#[derive(Debug, clap::Args)]
pub(super) struct NamedInstance {
    /// Only the instance with this number, of a server that has several. Default: all.
    #[arg(long, value_name = "NUMBER")]
    instance: Option<usize>,
}

impl NamedInstance {
    /// Returns the query of a request about it.
    pub(super) fn query(&self) -> String {
        self.instance.map(|number| format!("?instance={number}")).unwrap_or_default()
    }
}

/// A request to the management API.
#[derive(Debug)]
pub(super) struct ApiRequest<'r> {
    pub(super) method: Method,
    pub(super) path: &'r str,
    pub(super) body: Option<Value>,
}

impl<'r> ApiRequest<'r> {
    pub(super) fn get(path: &'r str) -> Self {
        Self { method: Method::GET, path, body: None }
    }

    pub(super) fn post(path: &'r str) -> Self {
        Self { method: Method::POST, path, body: None }
    }

    /// Reads a response to this request. `place` is where it comes from.
    fn answer(
        &self,
        status: StatusCode,
        body: &[u8],
        place: &impl Display,
    ) -> anyhow::Result<GatewayReply> {
        if status.is_success() && self.path == METRICS {
            return Ok(Ok(String::from_utf8_lossy(body).into_owned().into()));
        }
        answer(status, body, place)
    }
}

/// Response of a gateway: the body, or the refusal.
type GatewayReply = Result<Value, GatewayRefusal>;

impl RunningGateway {
    /// Sends a GET request to the running gateway. Returns the body.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(&ApiRequest::get(path)).await
    }

    /// Sends a GET request to the running gateway. Returns the body; `None` if the gateway does not have it, or does
    /// not show it to this operator.
    pub(super) async fn get_shown(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.get(path).await {
            Ok(body) => Ok(Some(body)),
            Err(error) => match error.downcast_ref::<GatewayRefusal>() {
                Some(refusal) if refusal.is_hidden() => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Reads the metrics of the running gateway, in Prometheus' text format; `None` as [`Self::get_shown`].
    pub(super) async fn metrics(&self) -> anyhow::Result<Option<String>> {
        let text = self.get_shown(METRICS).await?;
        Ok(text.and_then(|text| text.as_str().map(str::to_owned)))
    }

    /// Returns the address of the gateway as the user has named it; `None` for that of the configuration.
    pub(super) fn url(&self) -> Option<&Url> {
        self.url.as_ref()
    }

    /// Sends a POST request to the running gateway. Returns the body.
    pub(super) async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.send(&ApiRequest::post(path)).await
    }

    /// Returns the entries of the MCP servers.
    pub(super) async fn servers(&self) -> anyhow::Result<Vec<Value>> {
        servers_of(self.get("/api/mcp/clients?limit=1000&tools_limit=1000").await?)
    }

    /// Returns the entries of the MCP servers without their tools; `None` as [`Self::get_shown`].
    pub(super) async fn servers_shown(&self) -> anyhow::Result<Option<Vec<Value>>> {
        let clients = self.get_shown("/api/mcp/clients?limit=1000&tools_limit=1").await?;
        clients.map(servers_of).transpose()
    }

    /// Changes or shows the settings that operators change while gateways run: through the running gateway, or in its
    /// store if no gateway listens on its socket. Every gateway that uses the store notices the change. Only the store
    /// needs the variables that the configuration names.
    pub(super) async fn manage(&self, request: ApiRequest<'_>) -> anyhow::Result<Value> {
        if let Some(url) = &self.url {
            return over_http(url, GatewayTrust::Authorities, &request).await;
        }
        let address = self.config.gateway_address()?;
        match over_socket(&address, &request).await? {
            Some(answer) => Ok(answer?),
            None => in_store(&self.config.load()?, request).await,
        }
    }

    /// Does the same as [`Self::manage`] with a request about one element. If there is none of this name, the error has the
    /// command that lists them.
    pub(super) async fn manage_named(
        &self,
        request: ApiRequest<'_>,
        named: NamedElement<'_>,
    ) -> anyhow::Result<Value> {
        let managed = self.manage(request).await;
        managed.map_err(|error| {
            let refusal = error.downcast_ref::<GatewayRefusal>();
            if refusal.is_some_and(GatewayRefusal::is_unknown) {
                error.context(named.unknown(&self.option()))
            } else {
                error
            }
        })
    }

    /// Returns the option that names this gateway, with a space before it; empty if that is the default.
    fn option(&self) -> String {
        let url = self.url.as_ref().map(|url| format!(" --url {}", output::quoted(url.as_str())));
        url.unwrap_or_else(|| self.config.option())
    }

    /// Shows a list of the management API as [`Self::manage`] does, with all pages as one. `member` has the
    /// elements.
    pub(super) async fn manage_list(&self, path: &str, member: &str) -> anyhow::Result<Value> {
        let mut all = Vec::new();
        loop {
            let page = format!("{path}?limit={LISTED}&offset={}", all.len());
            let mut listed = self.manage(ApiRequest::get(&page)).await?;
            let Value::Array(elements) = listed[member].take() else {
                bail!("the gateway's response has no list `{member}`");
            };
            let is_last = elements.len() < LISTED;
            all.extend(elements);
            if is_last {
                listed["count"] = all.len().into();
                listed["offset"] = 0.into();
                listed[member] = all.into();
                return Ok(listed);
            }
        }
    }

    /// Sends a request to the running gateway, if it is reached at an address or through its socket. Returns
    /// `None` for a gateway of the configuration that does not listen on its socket.
    pub(super) async fn send_or_absent(
        &self,
        request: &ApiRequest<'_>,
    ) -> anyhow::Result<Option<Value>> {
        if let Some(url) = &self.url {
            return over_http(url, GatewayTrust::Authorities, request).await.map(Some);
        }
        let address = session::of_kept_calls(self.config.gateway_address())?;
        Ok(over_socket(&address, request).await?.transpose()?)
    }

    /// Returns the configuration of the gateway.
    pub(super) fn config(&self) -> &ConfigFile {
        &self.config
    }

    /// Sends a request to the running gateway.
    pub(super) async fn send(&self, request: &ApiRequest<'_>) -> anyhow::Result<Value> {
        if let Some(url) = &self.url {
            return over_http(url, GatewayTrust::Authorities, request).await;
        }
        let address = self.config.gateway_address().context(
            "the address of the gateway is unknown without the configuration; name it with --url",
        )?;
        if let Some(answer) = over_socket(&address, request).await? {
            return Ok(answer?);
        }
        let certificate = address.certificate.as_deref();
        let trust = certificate.map_or(GatewayTrust::Authorities, GatewayTrust::Certificate);
        over_http(&url_of(&address)?, trust, request).await
    }
}

/// Returns the entries of the MCP servers in a list of clients.
fn servers_of(mut clients: Value) -> anyhow::Result<Vec<Value>> {
    let Value::Array(mut clients) = clients["clients"].take() else {
        bail!("the gateway's response has no list of clients");
    };
    // The others are plugins. The holder of a key does not see the phase.
    clients.retain(|client| {
        let kind = client["config"]["connection_type"].as_str();
        matches!(kind, Some("stdio" | "docker" | "http" | "sse" | "embedded"))
    });
    Ok(clients)
}

/// Sends a request through the gateway's Unix socket. Returns `None` if no gateway listens on it.
async fn over_socket(
    address: &GatewayAddress,
    request: &ApiRequest<'_>,
) -> anyhow::Result<Option<GatewayReply>> {
    let Some(path) = address.socket.as_deref() else { return Ok(None) };
    let body = request.body.as_ref().map(Value::to_string);
    let body = body.as_deref().map(str::as_bytes);
    let method = request.method.clone();
    match socket::request(path, method, request.path, body, MAX_BYTES, TIMEOUT).await {
        Ok((status, body)) => Ok(Some(request.answer(status, &body, &path.display())?)),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(error) => Err(unreachable_socket(error)),
    }
}

/// Returns the error of a socket that cannot be used, with what to do if it is another user's.
fn unreachable_socket(error: io::Error) -> anyhow::Error {
    let is_of_other = error.kind() == ErrorKind::PermissionDenied;
    let error = anyhow::Error::from(error);
    if is_of_other { error.context(OTHER_USER) } else { error }
}

/// Sends a request over HTTP: with the token of an operator if the environment has one; else without a
/// credential, and with the one of the environment for callers if the gateway requires it.
async fn over_http(
    base: &Url,
    trust: GatewayTrust<'_>,
    request: &ApiRequest<'_>,
) -> anyhow::Result<Value> {
    let http = connection::http(base, trust)?
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .build()?;
    let operator = operator_authorization(base)?;
    let is_operator = operator.is_some();
    let refused = match send(&http, base, request, operator).await? {
        Ok(body) => return Ok(body),
        Err(refused) => refused,
    };
    if refused.status == StatusCode::UNAUTHORIZED.as_u16() && refused.code == "operator_required" {
        return Err(anyhow::Error::from(refused).context(token_advice(is_operator)));
    }
    if refused.status != StatusCode::UNAUTHORIZED.as_u16() || is_operator {
        return Err(refused.into());
    }
    match authorization(base)? {
        Some(key) => Ok(send(&http, base, request, Some(key)).await??),
        None => Err(anyhow::Error::from(refused)
            .context(format!("set the environment variable {KEY_VARIABLE} to a virtual key"))),
    }
}

/// Returns the advice to a sender that is no operator. `has_token` is true if it has sent the token of the environment.
fn token_advice(has_token: bool) -> String {
    if has_token {
        format!("{OPERATOR_VARIABLE} has no token of an operator of this gateway")
    } else {
        format!("set the environment variable {OPERATOR_VARIABLE} to the token of an operator")
    }
}

/// Answers a request on the store of a configuration, as its administrator: who may write the store may
/// do everything.
async fn in_store(config: &Config, request: ApiRequest<'_>) -> anyhow::Result<Value> {
    let service = Service::of_store(config)?;
    let name = COMMAND_LINE.to_owned();
    let operator = Operator { name, role: Role::Admin, sees_payloads: true };
    let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
    let request = ManagementRequest {
        method: request.method,
        path: path.to_owned(),
        query: query.to_owned(),
        body: request.body,
        component: None,
        setup_token: None,
        session: None,
    };
    let answered = service.answer(Some(&operator), request).await;
    answered.map_err(|refusal| {
        let status = refusal.status.as_u16();
        GatewayRefusal { status, code: refusal.code.to_owned(), message: refusal.message }.into()
    })
}

/// Sends one request. Returns the body, or the refusal. Fails if there is no gateway.
async fn send(
    http: &reqwest::Client,
    base: &Url,
    request: &ApiRequest<'_>,
    key: Option<HeaderValue>,
) -> anyhow::Result<GatewayReply> {
    let url = base
        .join(request.path)
        .context("the address of the gateway cannot be the base of a URL")?;
    let headers = key.map(|key| (header::AUTHORIZATION, key)).into_iter().collect();
    let mut sent = http.request(request.method.clone(), url).headers(headers);
    if let Some(body) = &request.body {
        sent = sent.header(header::CONTENT_TYPE, "application/json").body(body.to_string());
    }
    let response = sent.send().await.with_context(|| {
        format!("no gateway responds at {base}; start it with `airlock serve`, or name another address with --url")
    })?;
    let status = response.status();
    let body = read(response).await.context("the gateway's response is incomplete")?;
    request.answer(status, &body, base)
}

/// Reads a response. `place` is where it comes from.
fn answer(status: StatusCode, body: &[u8], place: &impl Display) -> anyhow::Result<GatewayReply> {
    let body: Value = serde_json::from_slice(body)
        .with_context(|| format!("the response from {place} is not that of an Airlock gateway"))?;
    if status.is_success() {
        return Ok(Ok(body));
    }
    Ok(Err(GatewayRefusal {
        status: status.as_u16(),
        code: body["error"]["code"].as_str().unwrap_or_default().to_owned(),
        message: reason(&body).unwrap_or("no reason given").to_owned(),
    }))
}

/// Returns the reason in a refusal; that of `GET /ready` is a code.
fn reason(body: &Value) -> Option<&str> {
    body["error"]["message"].as_str().or_else(|| body["reason"].as_str())
}

/// Returns a name as one segment of a path.
pub(super) fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
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

/// Returns the URL of the gateway at an address. Fails if the system chose the port.
fn url_of(address: &GatewayAddress) -> anyhow::Result<Url> {
    let listen = address.listen;
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
    let scheme = if address.certificate.is_some() { "https" } else { "http" };
    Url::parse(&format!("{scheme}://{listen}")).context("the address is no URL")
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
mod tests;
