//! The operator's control of the MCP servers, for the administrative API.

use futures_util::future::BoxFuture;

use super::UpstreamServers;
use airlock_server::{NotDone, Upstreams};
use airlock_upstream::{Control, ControlError};

impl UpstreamServers {
    fn control(&self, client: &str) -> Result<Control, NotDone> {
        let server = self.find(client);
        server.map(|server| server.control).ok_or_else(|| NotDone::Unknown(client.to_owned()))
    }
}

impl Upstreams for UpstreamServers {
    fn reconnect<'a>(
        &'a self,
        client: &'a str,
        instance: Option<usize>,
    ) -> BoxFuture<'a, Result<Vec<String>, NotDone>> {
        Box::pin(async move { self.control(client)?.reconnect(instance).await.map_err(not_done) })
    }

    fn refresh<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<usize, NotDone>> {
        Box::pin(async move { self.control(client)?.refresh().await.map_err(not_done) })
    }

    fn logs(&self, client: &str, instance: Option<usize>) -> Result<Vec<String>, NotDone> {
        self.control(client)?.logs(instance).map_err(not_done)
    }

    fn disabled(&self) -> Vec<(String, &'static str)> {
        let present = self.present.lock();
        let disabled = present.disabled.iter();
        disabled.map(|client| (client.name.to_string(), client.connection_type)).collect()
    }
}

fn not_done(error: ControlError) -> NotDone {
    match error {
        ControlError::InProgress => NotDone::InProgress,
        ControlError::Failed(reason) => NotDone::Failed(reason),
        ControlError::NoInstance { .. } => NotDone::NoInstance(error.to_string()),
        ControlError::Stopping => NotDone::Stopping,
    }
}
