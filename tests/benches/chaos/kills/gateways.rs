//! The gateways, and their audit logs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use airlock_tests::{Airlock, Gateway, Setup};
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::watch;

use super::{
    callers::{Address, KEY},
    effects::{rights, source},
};

/// Number of gateways.
pub(super) const GATEWAYS: usize = 3;

/// The gateways of one store.
pub(super) struct GatewayGroup {
    members: Vec<RestartedGateway>,
    /// Copies of audit logs, as kills have left them.
    copies: Vec<PathBuf>,
}

/// A gateway that is started again after each kill.
struct RestartedGateway {
    /// `None` while it is killed.
    running: Option<Gateway>,
    address: watch::Sender<Address>,
    /// Directory of its audit log.
    audit: PathBuf,
}

impl GatewayGroup {
    /// Starts the gateways on a store, with their audit logs below `directory`. Their key may call the tool of the
    /// server at `url` as often as `limit` says.
    pub(super) async fn start(store: &str, url: &str, limit: u64, directory: &Path) -> Self {
        let members = (0..GATEWAYS).map(|number| {
            let audit = directory.join(format!("audit-{number}"));
            let setup = setup(store, url, limit, &audit);
            async move {
                let gateway = setup.serve_connected().await;
                let address = watch::Sender::new(Some(gateway.address().to_owned()));
                RestartedGateway { running: Some(gateway), address, audit }
            }
        });
        Self { members: join_all(members).await, copies: Vec::new() }
    }

    /// Returns the address of each gateway, now and after each kill.
    pub(super) fn addresses(&self) -> Vec<watch::Receiver<Address>> {
        self.members.iter().map(|member| member.address.subscribe()).collect()
    }

    /// Kills a gateway, and starts it again.
    pub(super) async fn kill(&mut self, number: usize) {
        let member = &mut self.members[number];
        let gateway = member.running.take().expect("it is started again after each kill");
        let setup = gateway.kill().await;
        member.address.send_replace(None);
        let copy = member.audit.with_extension(format!("killed-{}", self.copies.len()));
        copy_files(&member.audit, &copy);
        self.copies.push(copy);
        let gateway = setup.serve_connected().await;
        member.address.send_replace(Some(gateway.address().to_owned()));
        member.running = Some(gateway);
    }

    /// Stops the gateways as an operator would. Returns their audit logs.
    pub(super) async fn stop(self) -> AuditLogs {
        let mut ended = Vec::new();
        for member in self.members {
            if let Some(gateway) = member.running {
                gateway.terminate();
                gateway.ended().await;
            }
            ended.push(member.audit);
        }
        AuditLogs { ended, copies: self.copies }
    }
}

/// Returns the configuration of a gateway.
fn setup(store: &str, url: &str, limit: u64, audit: &Path) -> Setup {
    let key = json!({
        "name": "killed",
        "value": KEY,
        "mcp_configs": rights(),
        "rate_limit": {"tool_call_max_limit": limit, "tool_call_reset_duration": "1h"},
    });
    Setup::new()
        .set("/store", store)
        .set("/governance/virtual_keys", json!([key]))
        .set("/records/audit/enabled", true)
        .set("/records/audit/dir", audit.display().to_string())
        .set("/records/audit/checkpoint_interval", "1s")
        .set("/records/on_failure", "refuse")
        .client(source(url))
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a new directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// Directories of audit logs.
pub(super) struct AuditLogs {
    /// Those of gateways that have ended.
    pub(super) ended: Vec<PathBuf>,
    copies: Vec<PathBuf>,
}

impl AuditLogs {
    /// Returns the number of all logs.
    pub(super) fn count(&self) -> usize {
        self.copies.len() + self.ended.len()
    }

    /// Verifies all logs. Returns those that are not accepted, each with the first finding.
    pub(super) async fn invalid(&self) -> Vec<String> {
        let mut invalid = Vec::new();
        for log in self.copies.iter().chain(&self.ended) {
            let verified = Airlock::new().arg("audit").arg("verify").arg(log).run().await;
            if verified.code != Some(0) {
                let lines = verified.stdout.lines().chain(verified.stderr.lines());
                let found: String = lines.take(1).collect();
                invalid.push(format!("{} ({found})", log.display()));
            }
        }
        invalid
    }
}
