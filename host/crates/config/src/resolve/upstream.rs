//! MCP servers: their transport, `connection_string` and `headers`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Uri, uri::Scheme};

use super::{
    super::{
        file::{self, ConnectionType},
        values::{EnvText, has_variable_after_scheme},
    },
    Field, http_client, process,
};
use airlock_core::{
    secret::Secret,
    tool::{ClientName, QuestionKind, QuestionKinds},
};
use airlock_mcp_client::{
    Bounds, Connector, Framing, HttpSse, Lifecycle, Pinning, Protocol, Restart, Settings,
    StreamableHttp, Timeouts,
};

/// Headers that the transport itself sets.
pub(super) const RESERVED: [&str; 11] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// Message about a header with a variable after other text, which would be sent as it is written.
const NOT_REPLACED: &str = "the gateway replaces `env.NAME` only if it is the whole value: put the whole value, with the scheme such as `Bearer`, \
     into a variable of its environment and write \"env.NAME\", or write {\"value\": \"…\"} for a text that has `env.NAME` on purpose";

pub(super) fn resolve(
    field: &Field<'_>,
    name: &ClientName,
    client: file::Client,
) -> Option<Settings> {
    let timeouts = timeouts(field, &client);
    let restart = client.restart.as_ref().map(restart).unwrap_or_default();
    let lifecycle = lifecycle(field, &client);
    let bounds = Bounds {
        running: client.max_concurrent_calls.unwrap_or_default().count() as usize,
        waiting: client.max_waiting_calls.unwrap_or_default().count() as usize,
    };
    let sync_interval = client.tool_sync_interval.unwrap_or_default().nonzero();
    let sync_interval = sync_interval.map(|interval| interval.get().0);
    let questions = client.allow.iter().fold(QuestionKinds::NONE, |kinds, allowed| match allowed {
        file::Allowed::Elicitation => {
            kinds.with(QuestionKind::Form, true).with(QuestionKind::Url, true)
        }
        file::Allowed::Sampling => kinds.with(QuestionKind::Sampling, true),
        file::Allowed::Roots => kinds.with(QuestionKind::Roots, true),
    });
    let pin = match client.pin.unwrap_or_default() {
        file::Pin::TrustOnFirstUse => Pinning::TrustOnFirstUse,
        file::Pin::Off => Pinning::Off,
        file::Pin::Strict => Pinning::Strict,
    };
    let protocol = match client.protocol.unwrap_or_default() {
        file::Protocol::Auto => Protocol::Auto,
        file::Protocol::Legacy => Protocol::Legacy,
        file::Protocol::Modern => Protocol::Modern,
    };
    if protocol == Protocol::Modern && client.connection_type == ConnectionType::Sse {
        field.member("protocol").refuse("a server over \"sse\" speaks the legacy era alone");
    }
    let framing = match client.framing.unwrap_or_default() {
        file::Framing::Auto => Framing::Auto,
        file::Framing::Lines => Framing::Lines,
        file::Framing::ContentLength => Framing::ContentLength,
    };
    let transport: Arc<dyn Connector> = match client.connection_type {
        ConnectionType::Stdio => {
            let field = field.member("stdio_config");
            Arc::new(process::stdio(&field, field.required(client.stdio_config)?))
        }
        ConnectionType::Docker => {
            let field = field.member("docker_config");
            Arc::new(process::docker(&field, field.required(client.docker_config)?)?)
        }
        ConnectionType::Sse => Arc::new(HttpSse(http_client::resolve(field, client)?)),
        _ => Arc::new(StreamableHttp(http_client::resolve(field, client)?)),
    };
    let name = name.clone();
    Some(Settings {
        name,
        transport,
        timeouts,
        restart,
        lifecycle,
        bounds,
        sync_interval,
        pin,
        questions,
        protocol,
        framing,
    })
}

fn timeouts(field: &Field<'_>, client: &file::Client) -> Timeouts {
    let startup = match client.connection_type {
        ConnectionType::Stdio | ConnectionType::Docker => Duration::from_mins(2),
        _ => Duration::from_secs(30),
    };
    let heartbeat = client.heartbeat_interval.unwrap_or_default().nonzero();
    let heartbeat = heartbeat.filter(|_| client.is_ping_available.unwrap_or_default().0);
    let heartbeat = heartbeat.map(|interval| interval.get().0);
    let stale = client.stale_timeout.unwrap_or_default().nonzero().map(|limit| limit.get().0);
    if let Some(stale) = stale
        && heartbeat.is_none_or(|heartbeat| stale <= heartbeat)
    {
        field.member("stale_timeout").refuse("must be longer than `heartbeat_interval`: an idle server sends nothing but the answers to checks");
    }
    Timeouts {
        startup: client.startup_timeout.map_or(startup, |limit| limit.get().0),
        request: client.request_timeout.map(|limit| limit.get().0.0),
        heartbeat,
        stale,
    }
}

fn restart(restart: &file::Restart) -> Restart {
    let backoff = restart.backoff.get().0;
    let max_backoff = restart.max_backoff.unwrap_or_default().get().0;
    Restart {
        max_attempts: (restart.max_attempts > 0).then_some(restart.max_attempts),
        backoff,
        // The default is not less than the first delay.
        max_backoff: if restart.max_backoff.is_none() {
            max_backoff.max(backoff)
        } else {
            max_backoff
        },
        stable_after: restart.stable_after.get().0,
    }
}

fn lifecycle(field: &Field<'_>, client: &file::Client) -> Lifecycle {
    let lifecycle = client.lifecycle.unwrap_or_default();
    if client.idle_timeout.is_some() && lifecycle != file::Lifecycle::Idle {
        field.member("idle_timeout").refuse("belongs to a client whose `lifecycle` is \"idle\"");
    }
    match lifecycle {
        file::Lifecycle::Persistent => Lifecycle::Persistent,
        file::Lifecycle::PerCall => Lifecycle::PerCall,
        file::Lifecycle::Idle => Lifecycle::Idle(client.idle_timeout.unwrap_or_default().get().0),
    }
}

/// Returns an HTTP URL. Errors do not quote it, because some services put tokens into their URLs.
pub(super) fn url(field: &Field<'_>, text: EnvText) -> Option<String> {
    let text = field.text(text)?;
    let uri =
        text.expose().parse::<Uri>().ok().filter(|uri| {
            uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS)
        });
    let Some(uri) = uri else {
        field.refuse("expected a URL that starts with http:// or https://");
        return None;
    };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        field
            .refuse("a URL with a user name or password in it would show up in logs; use a header");
        return None;
    }
    Some(text.expose().to_owned())
}

/// Returns headers for every request, except `reserved` ones.
pub(super) fn headers(
    field: &Field<'_>,
    headers: BTreeMap<String, EnvText>,
    reserved: &[&str],
) -> BTreeMap<String, Secret> {
    let mut checked = BTreeMap::new();
    for (name, value) in headers {
        let field = field.member(&name);
        let Ok(header) = name.parse::<HeaderName>() else {
            field.refuse("is not a valid header name");
            continue;
        };
        if reserved.contains(&header.as_str()) {
            field.refuse("is set by the transport itself");
            continue;
        }
        if matches!(&value, EnvText::Written(text) if has_variable_after_scheme(text.expose())) {
            field.refuse(NOT_REPLACED);
            continue;
        }
        let Some(value) = field.text(value) else { continue };
        if HeaderValue::from_str(value.expose()).is_err() {
            field.refuse(
                "the value has a line break or another character that an HTTP header cannot have",
            );
        } else if checked.insert(header.as_str().to_owned(), value).is_some() {
            field.refuse("is listed twice (case does not count)");
        }
    }
    checked
}
