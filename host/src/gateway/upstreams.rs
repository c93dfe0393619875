//! Implements the server's [`Upstreams`] trait for the controls of MCP servers.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;

use airlock_config::Disabled;
use airlock_core::tool::ClientName;
use airlock_server::{Distribution, NotDone, Sample, Upstreams};
use airlock_upstream::{self as upstream, Control, ControlError};

/// The operator's control of all MCP servers.
pub(super) struct Controls {
    /// Of the servers that are connected.
    pub(super) active: BTreeMap<ClientName, Control>,
    /// Servers that the configuration disables.
    pub(super) disabled: Vec<Disabled>,
}

impl Controls {
    fn find(&self, client: &str) -> Result<&Control, NotDone> {
        let found = self.active.iter().find(|(name, _)| name.as_str() == client);
        found.map(|(_, control)| control).ok_or_else(|| NotDone::Unknown(client.to_owned()))
    }
}

impl Upstreams for Controls {
    fn reconnect<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<(), NotDone>> {
        Box::pin(async move { self.find(client)?.reconnect().await.map_err(not_done) })
    }

    fn refresh<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<usize, NotDone>> {
        Box::pin(async move { self.find(client)?.refresh().await.map_err(not_done) })
    }

    fn logs(&self, client: &str) -> Option<Vec<String>> {
        self.find(client).ok().map(Control::logs)
    }

    fn samples(&self) -> Vec<Sample> {
        let active = self.active.iter().map(|(client, control)| sample(client, control.sample()));
        let disabled =
            self.disabled.iter().map(|client| sample(&client.name, upstream::Sample::disabled()));
        let mut samples: Vec<_> = active.chain(disabled).collect();
        samples.sort_by(|one, other| one.client.cmp(&other.client));
        samples
    }

    fn disabled(&self) -> Vec<(String, &'static str)> {
        self.disabled
            .iter()
            .map(|client| (client.name.to_string(), client.connection_type))
            .collect()
    }
}

fn not_done(error: ControlError) -> NotDone {
    match error {
        ControlError::InProgress => NotDone::InProgress,
        ControlError::Failed(reason) => NotDone::Failed(reason),
        ControlError::Stopping => NotDone::Stopping,
    }
}

fn sample(client: &ClientName, sample: upstream::Sample) -> Sample {
    let time_in = sample.time_in.into_iter().map(|(phase, time)| (phase.name(), time));
    let calls = sample.calls.into_iter().map(|(tool, outcome, count)| {
        (tool.map(|tool| tool.as_str().to_owned()), outcome.name(), count)
    });
    Sample {
        client: client.to_string(),
        state: sample.phase.name(),
        time_in: time_in.collect(),
        restarts: sample.restarts,
        calls: calls.collect(),
        durations: distribution(sample.durations),
        waits: distribution(sample.waits),
        queued: sample.queued,
        in_flight: sample.in_flight,
    }
}

fn distribution(from: upstream::Distribution) -> Distribution {
    Distribution { buckets: from.buckets, count: from.count, sum: from.sum }
}
