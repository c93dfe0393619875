//! Implements the server's [`Upstreams`] trait for the controls of MCP servers.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;

use crate::{
    server::{Distribution, NotDone, Sample, Upstreams},
    tool::ClientName,
    upstream::{self, Control, ControlError},
};

/// The operator's control of all MCP servers.
pub(super) struct Controls(pub(super) BTreeMap<ClientName, Control>);

impl Controls {
    fn find(&self, client: &str) -> Result<&Control, NotDone> {
        let found = self.0.iter().find(|(name, _)| name.as_str() == client);
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
        self.0.iter().map(|(client, control)| sample(client, control.sample())).collect()
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
