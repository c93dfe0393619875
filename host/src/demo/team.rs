//! Three gateways on one store, as a team runs them behind a load balancer.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::sleep};

use super::stage::Reply;
use crate::gateway::{Gateway, GatewayError};
use airlock_config::Config;
use airlock_egress::tls;

/// Number of gateways.
pub(super) const GATEWAYS: usize = 3;
/// Token of the operator.
const OPERATOR: &str = "alop_operator-of-the-three-gateways-of-the-demo";
/// Longest time that the scene waits for a change to reach a gateway.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Three running gateways.
pub(super) struct Team {
    client: reqwest::Client,
    members: Vec<Member>,
}

struct Member {
    url: String,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), GatewayError>>,
}

impl Team {
    /// Starts the gateways, with a store and a configuration in `directory`.
    pub(super) async fn start(directory: &Path) -> anyhow::Result<Self> {
        let file = directory.join("team.json");
        let config = json!({
            "server": {"listen": "127.0.0.1:0"},
            "store": directory.join("team.db"),
            "management": {
                "socket": "",
                "operators": [{"name": "olga", "role": "admin", "token": OPERATOR}],
            },
        });
        fs::write(&file, config.to_string()).context("cannot write the configuration")?;
        let client = tls::client().no_proxy().timeout(Duration::from_mins(1)).build()?;
        let mut members = Vec::new();
        for _ in 0..GATEWAYS {
            members.push(Member::start(&file).await?);
        }
        Ok(Self { client, members })
    }

    /// Sends a request of the operator to one gateway. Fails if it is refused.
    pub(super) async fn operate(
        &self,
        at: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.members[at].url);
        let request = self.client.request(method, url).bearer_auth(OPERATOR);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let response = request.send().await?;
        let status = response.status();
        let body: Value = response.json().await?;
        if !status.is_success() {
            bail!("{path} was refused with {status}: {body}");
        }
        Ok(body)
    }

    /// Runs one tool at one gateway with a virtual key.
    pub(super) async fn execute(&self, at: usize, key: &str, tool: &str) -> anyhow::Result<Reply> {
        let started = Instant::now();
        let call = json!({"id": "demo", "function": {"name": tool, "arguments": "{}"}});
        let url = format!("{}/v1/mcp/tool/execute", self.members[at].url);
        let request = self.client.post(url).header("x-bf-vk", key).json(&call);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let body = response.json().await?;
        Ok(Reply { status, body, elapsed: started.elapsed() })
    }

    /// Runs a tool at one gateway, again and again, until the status is this one. Returns the time until
    /// then, and the last response.
    pub(super) async fn until_status(
        &self,
        at: usize,
        key: &str,
        tool: &str,
        status: u16,
    ) -> anyhow::Result<(Duration, Reply)> {
        let started = Instant::now();
        loop {
            let reply = self.execute(at, key, tool).await?;
            if reply.status == status {
                return Ok((started.elapsed(), reply));
            }
            if started.elapsed() > PATIENCE {
                bail!("gateway {} answers {} still: {}", at + 1, reply.status, reply.body);
            }
            sleep(LOOK).await;
        }
    }

    /// Stops the gateways and waits for them.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        for Member { stop, running, .. } in self.members {
            let _ = stop.send(());
            running.await??;
        }
        Ok(())
    }
}

impl Member {
    async fn start(file: &Path) -> anyhow::Result<Self> {
        let config = Config::load(file)?;
        let listener = TcpListener::bind(config.server.listen).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let gateway = Gateway::builder(config).listener(listener).shutdown(stopped);
        let gateway = gateway.start().await?;
        Ok(Self { url, stop, running: tokio::spawn(gateway.run()) })
    }
}
