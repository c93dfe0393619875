//! The server as a provider of tools: calls of its tools, and relayed requests.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::{
    relay,
    server::{Retry, Server},
};
use airlock_core::{
    door::{Admitted, Mailbox, McpServer, Provider, Relay, RelayError, Subscription},
    tool::{Answers, CallError, ToolOutput},
};

impl Server {
    async fn run(&self, call: Admitted, answers: Option<Answers>) -> Result<ToolOutput, CallError> {
        let observed = self.metrics().begin(call.tool().name.clone());
        let result = match answers {
            None => self.send(call, Retry::default()).await,
            Some(answers) => self.resume_parked(call, answers).await,
        };
        observed.end(&result);
        result
    }
}

impl Provider for Server {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.run(call, None))
    }

    fn resume(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.run(call, Some(answers)))
    }

    fn server(&self) -> Option<&dyn McpServer> {
        Some(self)
    }

    fn status(&self) -> Map<String, Value> {
        let mut status = self.instances_to_json();
        if let Some(failure) = self.users().and_then(|users| users.failure()) {
            status.insert("users_failure".to_owned(), failure.into());
        }
        let metrics = self.metrics().to_json().map(|(name, value)| (name.to_owned(), value));
        status.extend(metrics);
        status
    }
}

impl McpServer for Server {
    fn relay(&self, request: Relay) -> BoxFuture<'_, Result<String, RelayError>> {
        Box::pin(relay::run(self, request))
    }

    fn subscribe(
        &self,
        request: Relay,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError> {
        relay::watch(self, &request, mailbox, label)
    }

    fn forget(&self, token: &str) {
        self.forget_parked(token);
    }
}
