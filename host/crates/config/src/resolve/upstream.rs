//! MCP servers: their transport, life cycle and bounds.

use std::{sync::Arc, time::Duration};

use super::{
    file_env::FileEnv,
    http_client, process,
    resolved::{Problems, Resolved},
    same_variants::{SameVariants as _, same_variants},
};
use airlock_config_file::{
    file::{self, ConnectionType},
    key_path::KeyPath,
};
use airlock_core::tool::{ClientName, QuestionKind, QuestionKinds};
use airlock_mcp_client::{
    self as mcp_client, Bounds, Connector, Docker, Framing, HttpServer, HttpTransport, Lifecycle,
    Pinning, Protocol, Renewal, Restart, Timeouts,
};

pub(super) fn resolve(
    name: &ClientName,
    client: file::Client,
    env: FileEnv<'_>,
) -> Resolved<Option<mcp_client::Settings>> {
    Resolved::new(|problems| {
        let timeouts = problems.merge(timeouts(&client));
        let lifecycle = problems.merge(lifecycle(&client));
        let protocol: Protocol = client.protocol.unwrap_or_default().same();
        if protocol == Protocol::Modern && client.connection_type == ConnectionType::Sse {
            problems.refuse("protocol", "a server over \"sse\" speaks the legacy era alone");
        }
        let renewal = problems.merge(renewal(&client, lifecycle));
        problems.merge(check_per_user(&client));
        problems.merge(check_instances(&client));
        let sync_interval = client.tool_sync_interval.unwrap_or_default().nonzero();
        let bounds = Bounds {
            running: client.max_concurrent_calls.unwrap_or_default().count() as usize,
            waiting: client.max_waiting_calls.unwrap_or_default().count() as usize,
        };
        let restart = client.restart.as_ref().map(restart).unwrap_or_default();
        let pin = client.pin.unwrap_or_default().same();
        let questions = questions(&client);
        let framing = client.framing.unwrap_or_default().same();
        let mut transports = transports(problems, client, env)?.into_iter();
        Some(mcp_client::Settings {
            name: name.clone(),
            timeouts,
            restart,
            lifecycle,
            bounds,
            sync_interval: sync_interval.map(|interval| interval.get().0),
            pin,
            questions,
            protocol,
            framing,
            renewal,
            transport: transports.next()?,
            others: transports.collect(),
        })
    })
}

/// Refuses several processes of a server that has one for each call.
fn check_instances(client: &file::Client) -> Resolved<()> {
    let stdio = client.stdio_config.as_ref().map(|stdio| stdio.instances);
    let docker = client.docker_config.as_ref().map(|docker| docker.instances);
    Resolved::new(|problems| {
        for (key, instances) in
            [("stdio_config.instances", stdio), ("docker_config.instances", docker)]
        {
            let is_several = instances.is_some_and(|instances| instances.count() > 1);
            if is_several && matches!(client.lifecycle, Some(file::Lifecycle::PerCall)) {
                let message = "belongs to a server whose processes serve several calls: with the `lifecycle` \"per_call\", each call has its own";
                problems.refuse(KeyPath::parse(key), message);
            }
        }
    })
}

/// Refuses what a server does not have that acts for single users.
fn check_per_user(client: &file::Client) -> Resolved<()> {
    Resolved::new(|problems| {
        let Some(auth_type) = client.auth_type.of_users() else { return };
        if client.connection_type == ConnectionType::Sse {
            problems.refuse(
                "auth_type",
                format_args!(
                    "{auth_type:?} belongs to a client whose `connection_type` is \"http\""
                ),
            );
        }
        if client.lifecycle.is_some() {
            problems.refuse(
                "lifecycle",
                format_args!(
                    "with the `auth_type` {auth_type:?}, each user has a connection that is kept while it is used"
                ),
            );
        }
        for (key, is_given) in [
            ("resources_to_read", !client.resources_to_read.is_empty()),
            ("prompts_to_get", !client.prompts_to_get.is_empty()),
        ] {
            if is_given {
                problems.refuse(
                    key,
                    format_args!(
                        "only tools are used for single users: with the `auth_type` {auth_type:?}, resources and prompts are not passed on"
                    ),
                );
            }
        }
    })
}

/// Returns the transports to the instances of a server, at least one.
fn transports(
    problems: &mut Problems,
    client: file::Client,
    env: FileEnv<'_>,
) -> Option<Vec<Arc<dyn Connector>>> {
    match client.connection_type {
        ConnectionType::Stdio => {
            let stdio = problems.required("stdio_config", client.stdio_config)?;
            let instances = stdio.instances.count() as usize;
            let process = problems.take("stdio_config", process::stdio(stdio, env));
            let process: Arc<dyn Connector> = Arc::new(process);
            Some(vec![process; instances])
        }
        ConnectionType::Docker => {
            if let Some(missing) = Docker::missing() {
                problems.refuse("connection_type", missing);
                return None;
            }
            let docker = problems.required("docker_config", client.docker_config)?;
            let instances = docker.instances.count() as usize;
            let docker = problems.take("docker_config", process::docker(docker, env))?;
            let docker: Arc<dyn Connector> = Arc::new(docker);
            Some(vec![docker; instances])
        }
        http => {
            let is_sse = http == ConnectionType::Sse;
            let transport = if is_sse { HttpTransport::Sse } else { HttpTransport::Streamable };
            let servers = problems.merge(http_client::resolve(client, env))?.into_iter();
            let servers = servers.map(|settings| HttpServer { transport, settings });
            Some(servers.map(|server| Arc::new(server) as Arc<dyn Connector>).collect())
        }
    }
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
