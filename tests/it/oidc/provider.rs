//! A real OIDC provider, in its own process.

use std::process::Stdio;

use airlock_tests::{peers, root};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// `oidc-provider` from npm. Dropping it ends its process.
pub(super) struct Provider {
    url: String,
    stdin: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Provider {
    /// Starts the process, which serves once it knows where it redirects to.
    pub(super) async fn start() -> Self {
        let packages = peers::installed("node_modules/oidc-provider").join("..");
        let mut command = Command::new(peers::recent_node());
        command
            .arg(root().join("tests/fixtures/oidc/provider.mjs"))
            .arg(packages)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut process = command.spawn().expect("it can be started");
        let stdin = process.stdin.take().expect("piped above");
        let mut said = BufReader::new(process.stdout.take().expect("piped above")).lines();
        let url = next(&mut said).await;
        Self { url, stdin, said, _process: process }
    }

    /// Makes it serve, and redirect to the gateway at this address.
    pub(super) async fn redirect_to(&mut self, gateway: &str) {
        let line = format!("{gateway}/api/session/callback\n");
        self.stdin.write_all(line.as_bytes()).await.expect("it reads");
        assert_eq!(next(&mut self.said).await, "ready");
    }

    /// Returns `management.oidc` for logins there.
    pub(super) fn settings(&self) -> Value {
        json!({
            "issuer": self.url,
            "client_id": "airlock",
            "client_secret": "secret-of-the-client",
            "scopes": ["openid", "email", "groups"],
            "roles": [
                {"claim": "groups", "values": ["airlock-admins"], "role": "admin", "sees_payloads": true},
                {"claim": "groups", "values": ["airlock-viewers"], "role": "viewer"},
                {"claim": "email", "values": ["ann@example.com"], "role": "admin"},
            ],
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

async fn next(said: &mut Lines<BufReader<ChildStdout>>) -> String {
    said.next_line().await.expect("text").expect("it has not ended")
}
