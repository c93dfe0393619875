//! MCP servers: their transport, life cycle and bounds.

use std::{sync::Arc, time::Duration};

use super::{
    file_env::FileEnv,
    http_client, process,
    resolved::{Problems, Resolved},
    same_variants::same_variants,
};
use crate::{
    file::{self, ConnectionType},
    key_path::KeyPath,
};
use airlock_core::tool::{ClientName, QuestionKind, QuestionKinds};
use airlock_mcp_client::{
    self as mcp_client, Bounds, Connector, Framing, HttpServer, HttpTransport, Lifecycle, Pinning,
    Protocol, Renewal, Restart, Timeouts,
};

pub(super) fn resolve(
    name: &ClientName,
    client: file::Client,
    env: FileEnv<'_>,
) -> Resolved<Option<mcp_client::Settings>> {
    Resolved::new(|problems| {
        let timeouts = problems.merge(timeouts(&client));
        let lifecycle = problems.merge(lifecycle(&client));
        let protocol = Protocol::from(client.protocol.unwrap_or_default());
        if protocol == Protocol::Modern && client.connection_type == ConnectionType::Sse {
            problems.refuse("protocol", "a server over \"sse\" speaks the legacy era alone");
        }
        let renewal = problems.merge(renewal(&client, lifecycle));
        problems.merge(check_per_user(&client));
        let sync_interval = client.tool_sync_interval.unwrap_or_default().nonzero();
        Some(mcp_client::Settings {
            name: name.clone(),
            timeouts,
            restart: client.restart.as_ref().map(restart).unwrap_or_default(),
            lifecycle,
            bounds: Bounds {
                running: client.max_concurrent_calls.unwrap_or_default().count() as usize,
                waiting: client.max_waiting_calls.unwrap_or_default().count() as usize,
            },
            sync_interval: sync_interval.map(|interval| interval.get().0),
            pin: client.pin.unwrap_or_default().into(),
            questions: questions(&client),
            protocol,
            framing: client.framing.unwrap_or_default().into(),
            renewal,
            transport: transport(problems, client, env)?,
        })
    })
}

/// Refuses what a server does not have that acts for single users.
fn check_per_user(client: &file::Client) -> Resolved<()> {
    Resolved::new(|problems| {
        if !matches!(client.auth_type, file::AuthType::PerUserOauth) {
            return;
        }
        if client.connection_type == ConnectionType::Sse {
            let message =
                "\"per_user_oauth\" belongs to a client whose `connection_type` is \"http\"";
            problems.refuse("auth_type", message);
        }
        if client.lifecycle.is_some() {
            let message = "with the `auth_type` \"per_user_oauth\", each user has a connection that is kept while it is used";
            problems.refuse("lifecycle", message);
        }
        for (key, is_given) in [
            ("resources_to_read", !client.resources_to_read.is_empty()),
            ("prompts_to_get", !client.prompts_to_get.is_empty()),
        ] {
            if is_given {
                let message = "only tools are used for single users: with the `auth_type` \"per_user_oauth\", resources and prompts are not passed on";
                problems.refuse(key, message);
            }
        }
    })
}

fn transport(
    problems: &mut Problems,
    client: file::Client,
    env: FileEnv<'_>,
) -> Option<Arc<dyn Connector>> {
    let transport: Arc<dyn Connector> = match client.connection_type {
        ConnectionType::Stdio => {
            let stdio = problems.required("stdio_config", client.stdio_config)?;
            Arc::new(problems.take("stdio_config", process::stdio(stdio, env)))
        }
        ConnectionType::Docker => {
            let docker = problems.required("docker_config", client.docker_config)?;
            Arc::new(problems.take("docker_config", process::docker(docker, env))?)
        }
        http => {
            let is_sse = http == ConnectionType::Sse;
            let transport = if is_sse { HttpTransport::Sse } else { HttpTransport::Streamable };
            let settings = problems.merge(http_client::resolve(client, env))?;
            Arc::new(HttpServer { transport, settings })
        }
    };
    Some(transport)
}

fn questions(client: &file::Client) -> QuestionKinds {
    client.allow.iter().fold(QuestionKinds::NONE, |kinds, allowed| match allowed {
        file::Allowed::Elicitation => {
            kinds.with(QuestionKind::Form, true).with(QuestionKind::Url, true)
        }
        file::Allowed::Sampling => kinds.with(QuestionKind::Sampling, true),
        file::Allowed::Roots => kinds.with(QuestionKind::Roots, true),
    })
}

same_variants!(file::Pin => Pinning { Off, TrustOnFirstUse, Strict });
same_variants!(file::Protocol => Protocol { Auto, Legacy, Modern });
same_variants!(file::Framing => Framing { Auto, Lines, ContentLength });

fn timeouts(client: &file::Client) -> Resolved<Timeouts> {
    let startup = match client.connection_type {
        ConnectionType::Stdio | ConnectionType::Docker => Duration::from_mins(2),
        _ => Duration::from_secs(30),
    };
    let heartbeat = client.heartbeat_interval.unwrap_or_default().nonzero();
    let heartbeat = heartbeat.filter(|_| client.is_ping_available.unwrap_or_default().0);
    let heartbeat = heartbeat.map(|interval| interval.get().0);
    let stale = client.stale_timeout.unwrap_or_default().nonzero().map(|limit| limit.get().0);
    Resolved::new(|problems| {
        if let Some(stale) = stale
            && heartbeat.is_none_or(|heartbeat| stale <= heartbeat)
        {
            problems.refuse("stale_timeout", "must be longer than `heartbeat_interval`: an idle server sends nothing but the answers to checks");
        }
        Timeouts {
            startup: client.startup_timeout.map_or(startup, |limit| limit.get().0),
            request: client.request_timeout.map(|limit| limit.get().0.0),
            heartbeat,
            stale,
        }
    })
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

/// Returns when the process is replaced. One process for each call is never old.
fn renewal(client: &file::Client, lifecycle: Lifecycle) -> Resolved<Renewal> {
    Resolved::new(|problems| {
        let Some(stdio) = &client.stdio_config else { return Renewal::default() };
        let keys =
            [("max_age", stdio.max_age.is_some()), ("max_memory", stdio.max_memory.is_some())];
        for (key, _) in keys.into_iter().filter(|(_, is_given)| *is_given) {
            if lifecycle == Lifecycle::PerCall {
                problems.refuse(
                    KeyPath::parse("stdio_config").member(key),
                    "belongs to a client whose `lifecycle` is not \"per_call\": a process of one call ends with it",
                );
            }
        }
        Renewal {
            max_age: stdio.max_age.map(|age| age.get().0),
            max_memory_bytes: stdio.max_memory.map(|size| size.get().0),
            ..Renewal::default()
        }
    })
}

fn lifecycle(client: &file::Client) -> Resolved<Lifecycle> {
    let lifecycle = client.lifecycle.unwrap_or_default();
    Resolved::new(|problems| {
        if client.idle_timeout.is_some() && lifecycle != file::Lifecycle::Idle {
            problems.refuse("idle_timeout", "belongs to a client whose `lifecycle` is \"idle\"");
        }
        match lifecycle {
            file::Lifecycle::Persistent => Lifecycle::Persistent,
            file::Lifecycle::PerCall => Lifecycle::PerCall,
            file::Lifecycle::Idle => {
                Lifecycle::Idle(client.idle_timeout.unwrap_or_default().get().0)
            }
        }
    })
}
