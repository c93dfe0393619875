//! The client of `rmcp`, the MCP library for Rust.

use std::{process::Stdio, time::Duration};

use anyhow::{Result, ensure};
use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, ProtocolVersion},
    service::{ClientLifecycleMode, ClientServiceExt as _, RunningService},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use rustix::process::Pid;
use tokio::process::Command;

use super::{
    message::{Era, Work},
    process::Process,
    run::{Run, closed_loop},
};

/// A connection of the library.
pub struct Sdk {
    session: RunningService<RoleClient, ()>,
    process: Process,
}

impl Sdk {
    /// Starts a server over stdio, and connects to it.
    pub async fn start(command: Command, era: Era) -> Self {
        let spawned = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn();
        let (transport, _) = spawned.expect("it can be started");
        let id = transport.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let process = Process::new(id.expect("it lives"));
        let session = ().serve_with_lifecycle(transport, lifecycle(era)).await;
        Self { session: session.expect("connected"), process }
    }

    /// Connects to the endpoint `/mcp` of a gateway.
    pub async fn connect(address: &str, process: Process, era: Era) -> Self {
        let http = airlock::tls::client().no_proxy().build().expect("a client");
        let config = StreamableHttpClientTransportConfig::with_uri(format!("{address}/mcp"));
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let session = ().serve_with_lifecycle(transport, lifecycle(era)).await;
        Self { session: session.expect("connected"), process }
    }

    /// Sends requests for some time, with `in_flight` of them at any time.
    pub async fn run(&self, work: Work, in_flight: usize, over: Duration) -> Run {
        let cpu = self.process.cpu();
        let meter = closed_loop(in_flight, over, async || self.one(work).await).await;
        meter.end(|| self.process.cpu().saturating_sub(cpu))
    }

    /// Sends one request. Fails unless it succeeds.
    pub async fn one(&self, work: Work) -> Result<()> {
        let peer = self.session.peer();
        match work {
            Work::Call(tool) => {
                let result = peer.call_tool(CallToolRequestParams::new(tool)).await?;
                ensure!(result.is_error != Some(true), "the tool failed: {result:?}");
            }
            Work::List => drop(peer.list_tools(None).await?),
        }
        Ok(())
    }
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Modern => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
        }
    }
}
