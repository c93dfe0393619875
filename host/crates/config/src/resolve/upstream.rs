//! MCP servers: their transport, `connection_string` and `headers`.

use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc, time::Duration};

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
    units::{SecondsOrSpan, Span},
};
use airlock_mcp_client::{
    Bounds, Framing, HttpSse, Lifecycle, Pinning, Protocol, Restart, Settings, StreamableHttp,
    Timeouts, connector::Connector,
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
    let supervision = supervision(field, &client);
    let questions = client.allow.iter().fold(QuestionKinds::NONE, |kinds, allowed| match allowed {
        file::Allowed::Elicitation => {
            kinds.with(QuestionKind::Form, true).with(QuestionKind::Url, true)
        }
        file::Allowed::Sampling => kinds.with(QuestionKind::Sampling, true),
        file::Allowed::Roots => kinds.with(QuestionKind::Roots, true),
    });
    let pin = match client.pin {
        None | Some(file::Pin::TrustOnFirstUse) => Pinning::TrustOnFirstUse,
        Some(file::Pin::Off) => Pinning::Off,
        Some(file::Pin::Strict) => Pinning::Strict,
    };
    let protocol = match client.protocol {
        None | Some(file::Protocol::Auto) => Protocol::Auto,
        Some(file::Protocol::Legacy) => Protocol::Legacy,
        Some(file::Protocol::Modern) => Protocol::Modern,
    };
    if protocol == Protocol::Modern && client.connection_type == ConnectionType::Sse {
        field.member("protocol").refuse("a server over \"sse\" speaks the legacy era alone");
    }
    let framing = match client.framing {
        None | Some(file::Framing::Auto) => Framing::Auto,
        Some(file::Framing::Lines) => Framing::Lines,
        Some(file::Framing::ContentLength) => Framing::ContentLength,
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
    let Supervision { timeouts, restart, lifecycle, bounds, sync_interval } = supervision;
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

/// Settings that all transports have.
struct Supervision {
    timeouts: Timeouts,
    restart: Restart,
    lifecycle: Lifecycle,
    bounds: Bounds,
    sync_interval: Option<Duration>,
}

fn supervision(field: &Field<'_>, client: &file::Client) -> Supervision {
    let bounds = Bounds::default();
    Supervision {
        timeouts: timeouts(field, client),
        restart: restart(&field.member("restart"), client.restart.as_ref()),
        lifecycle: lifecycle(field, client),
        bounds: Bounds {
            running: calls(
                &field.member("max_concurrent_calls"),
                client.max_concurrent_calls,
                bounds.running,
                1..=1024,
            ),
            waiting: calls(
                &field.member("max_waiting_calls"),
                client.max_waiting_calls,
                bounds.waiting,
                0..=4096,
            ),
        },
        sync_interval: optional(
            &field.member("tool_sync_interval"),
            client.tool_sync_interval,
            None,
            10,
        ),
    }
}

fn calls(
    field: &Field<'_>,
    value: Option<u64>,
    default: usize,
    range: RangeInclusive<u64>,
) -> usize {
    let found = field.within(value, default as u64, range);
    usize::try_from(found).unwrap_or(default)
}

fn timeouts(field: &Field<'_>, client: &file::Client) -> Timeouts {
    let hour = Span::secs(60 * 60);
    let startup = match client.connection_type {
        ConnectionType::Stdio | ConnectionType::Docker => Timeouts::default().startup,
        _ => Duration::from_secs(30),
    };
    let startup = field
        .member("startup_timeout")
        .within(client.startup_timeout, Span(startup), Span::millis(1)..=hour)
        .0;
    let request = client.request_timeout.map(|SecondsOrSpan(limit)| {
        field.member("request_timeout").within(Some(limit), hour, Span::millis(1)..=hour).0
    });
    let heartbeat = field.member("heartbeat_interval");
    let heartbeat =
        optional(&heartbeat, client.heartbeat_interval, Timeouts::default().heartbeat, 1)
            .filter(|_| client.is_ping_available != Some(false));
    let field = field.member("stale_timeout");
    let stale = optional(&field, client.stale_timeout, None, 1);
    if let Some(stale) = stale
        && heartbeat.is_none_or(|heartbeat| stale <= heartbeat)
    {
        field.refuse("must be longer than `heartbeat_interval`: an idle server sends nothing but the answers to checks");
    }
    Timeouts { startup, request, heartbeat, stale }
}

/// Returns a time from `least_secs` to a day; `None` if it is 0.
fn optional(
    field: &Field<'_>,
    value: Option<Span>,
    default: Option<Duration>,
    least_secs: u64,
) -> Option<Duration> {
    match value {
        None => default,
        Some(Span(Duration::ZERO)) => None,
        Some(value) => {
            let range = Span::secs(least_secs)..=Span::days(1);
            Some(field.within(Some(value), Span::days(1), range).0)
        }
    }
}

fn restart(field: &Field<'_>, restart: Option<&file::Restart>) -> Restart {
    let default = Restart::default();
    let Some(restart) = restart else { return default };
    let backoff = time(&field.member("backoff"), restart.backoff, default.backoff);
    Restart {
        max_attempts: restart.max_attempts.filter(|max| *max > 0),
        backoff,
        max_backoff: time(
            &field.member("max_backoff"),
            restart.max_backoff,
            default.max_backoff.max(backoff),
        ),
        stable_after: time(
            &field.member("stable_after"),
            restart.stable_after,
            default.stable_after,
        ),
    }
}

fn time(field: &Field<'_>, value: Option<Span>, default: Duration) -> Duration {
    field.within(value, Span(default), Span::millis(1)..=Span::days(1)).0
}

fn lifecycle(field: &Field<'_>, client: &file::Client) -> Lifecycle {
    let idle = field.member("idle_timeout");
    let is_idle = client.lifecycle == Some(file::Lifecycle::Idle);
    if client.idle_timeout.is_some() && !is_idle {
        idle.refuse("belongs to a client whose `lifecycle` is \"idle\"");
    }
    match client.lifecycle {
        None | Some(file::Lifecycle::Persistent) => Lifecycle::Persistent,
        Some(file::Lifecycle::PerCall) => Lifecycle::PerCall,
        Some(file::Lifecycle::Idle) => Lifecycle::Idle(
            idle.within(client.idle_timeout, Span::secs(300), Span::secs(1)..=Span::days(1)).0,
        ),
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
