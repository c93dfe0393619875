//! Gateways on one store, as a team runs them behind a load balancer.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::sleep};

use super::stage::StageReply;
use airlock_config::Config;
use airlock_egress::tls;
use airlock_gateway::{Gateway, GatewayError};

/// Tool of the MCP server that a team can add.
pub(super) const TOOL: &str = "desk-totals";
/// Token of the operator.
const OPERATOR: &str = "alop_operator-of-the-gateways-of-the-demo";
/// Longest time that the scene waits for a change to reach a gateway.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Running gateways on one store.
pub(super) struct Team {
    client: reqwest::Client,
    members: Vec<Member>,
}

/// A virtual key, as the gateway that has made it shows it.
pub(super) struct MadeKey {
    pub(super) id: String,
    pub(super) value: String,
}

struct Member {
    url: String,
    audit_log: PathBuf,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), GatewayError>>,
}

impl Team {
    /// Starts gateways, with one store and an audit log for each. Their files in `directory` begin with `name`.
    pub(super) async fn start(directory: &Path, name: &str, size: usize) -> anyhow::Result<Self> {
        let store = directory.join(format!("{name}.db"));
        let client = tls::client().no_proxy().timeout(Duration::from_mins(1)).build()?;
        let mut members = Vec::new();
        for number in 1..=size {
            let file = directory.join(format!("{name}-{number}.json"));
            let audit_log = directory.join(format!("{name}-{number}-audit"));
            let config = json!({
                "server": {"listen": "127.0.0.1:0"},
                "store": store,
                "management": {
                    "socket": "",
                    "operators": [{"name": "olga", "role": "admin", "token": OPERATOR}],
                },
                "records": {"audit": {"enabled": true, "dir": audit_log}},
            });
            fs::write(&file, config.to_string()).context("cannot write the configuration")?;
            members.push(Member::start(&file, audit_log).await?);
        }
        Ok(Self { client, members })
    }

    /// Returns the directory of the audit log of the first gateway.
    pub(super) fn audit_log(&self) -> &Path {
        &self.members[0].audit_log
    }

    /// Adds the MCP server with [`TOOL`] at the first gateway.
    pub(super) async fn add_desk(&self) -> anyhow::Result<()> {
        let this_program = std::env::current_exe().context("cannot tell where this program is")?;
        let desk = json!({
            "name": "desk", "connection_type": "stdio",
            "stdio_config": {"command": this_program, "args": ["demo-mcp-server"]},
            "tools_to_execute": ["*"],
        });
        self.operate(0, Method::POST, "/api/mcp/client", Some(&desk)).await.map(drop)
    }

    /// Makes the virtual key of ann at one gateway, with this `rate_limit`.
    pub(super) async fn make_key(&self, at: usize, rate_limit: &Value) -> anyhow::Result<MadeKey> {
        let rows = json!([{"mcp_client_name": "desk", "tools_to_execute": ["*"]}]);
        let key = json!({"name": "ann", "mcp_configs": rows, "rate_limit": rate_limit});
        let made =
            self.operate(at, Method::POST, "/api/governance/virtual-keys", Some(&key)).await?;
        let made = &made["virtual_key"];
        let id = made["id"].as_str().context("the key has an identifier")?.to_owned();
        let value = made["value"].as_str().context("the key has a value")?.to_owned();
        Ok(MadeKey { id, value })
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

    /// Runs [`TOOL`] at one gateway with a virtual key.
    pub(super) async fn execute(&self, at: usize, key: &str) -> anyhow::Result<StageReply> {
        let started = Instant::now();
        let call = json!({"id": "demo", "function": {"name": TOOL, "arguments": "{}"}});
        let url = format!("{}/v1/mcp/tool/execute", self.members[at].url);
        let request = self.client.post(url).header("x-bf-vk", key).json(&call);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let body = response.json().await?;
        Ok(StageReply { status, body, elapsed: started.elapsed() })
    }

    /// Runs [`TOOL`] at one gateway, again and again, until the status is this one. Returns the time until
    /// then, and the last response.
    pub(super) async fn until_status(
        &self,
        at: usize,
        key: &str,
        status: u16,
    ) -> anyhow::Result<(Duration, StageReply)> {
        let started = Instant::now();
        loop {
            let reply = self.execute(at, key).await?;
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
    async fn start(file: &Path, audit_log: PathBuf) -> anyhow::Result<Self> {
        let config = Config::load(file)?;
        let listener = TcpListener::bind(config.server.listen).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let gateway = Gateway::builder(config).listener(listener).shutdown(stopped).start().await?;
        Ok(Self { url, audit_log, stop, running: tokio::spawn(gateway.serve()) })
    }
}
