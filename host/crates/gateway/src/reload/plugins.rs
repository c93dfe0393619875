//! Takes the plugins of a configuration, which may have to be compiled. Plugins that it removes, and tools that
//! it takes away, are gone before that: they do not wait for the compilation of another plugin.

use std::sync::atomic::Ordering;

use futures_util::future::join;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::{
    super::upstreams::ServerChanges, LiveParts, Reloader, TakenEntries, configured,
    outcome::KeyChanges, report,
};
use airlock_config::Config;
use airlock_plugin::Reconfigured;

/// Selects whether a change of settings waits until the plugins are loaded. They may have to be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum PluginLoads {
    /// They wait.
    Awaited,
    /// They wait for all other settings, and get an empty outcome. Further settings can be taken meanwhile.
    Detached,
}

/// The turns of configurations to take their plugins, one at a time.
#[derive(Default)]
pub(super) struct PluginTurns {
    /// Number of the configuration that was taken last, some of whose plugins may not be loaded yet.
    latest: watch::Sender<u64>,
    /// Held while the plugins of a configuration are loaded.
    loading: Mutex<()>,
    /// Number of the last configuration whose plugins were taken.
    taken: watch::Sender<u64>,
}

impl PluginTurns {
    /// Begins the turn of a configuration with a higher number than all before. Call it while the settings
    /// are taken.
    pub(super) fn begin(&self, number: u64) -> PluginsTurn<'_> {
        self.latest.send_replace(number);
        PluginsTurn { turns: self, number }
    }
}

/// The turn of one configuration. Dropping it resumes those that wait for its plugins.
pub(super) struct PluginsTurn<'t> {
    turns: &'t PluginTurns,
    number: u64,
}

impl PluginsTurn<'_> {
    /// Waits for the turns before. Returns `None` as soon as a later configuration was taken, whose plugins are
    /// those to load.
    async fn acquire(&self) -> Option<MutexGuard<'_, ()>> {
        let mut latest = self.turns.latest.subscribe();
        tokio::select! {
            biased;
            // The sender is not dropped before.
            _ = latest.wait_for(|latest| *latest > self.number) => None,
            loading = self.turns.loading.lock() => Some(loading),
        }
    }

    /// Waits until the plugins of a later configuration were taken.
    async fn superseded(&self) {
        let mut taken = self.turns.taken.subscribe();
        // The sender is not dropped before.
        let _ = taken.wait_for(|last| *last > self.number).await;
    }
}

impl Drop for PluginsTurn<'_> {
    fn drop(&mut self) {
        self.turns.taken.send_if_modified(|last| {
            let is_later = *last < self.number;
            *last = self.number.max(*last);
            is_later
        });
    }
}

impl Reloader {
    /// Takes away what the configuration does not permit plugins any more.
    pub(super) fn restrict_plugins(&self, config: &Config) {
        let LiveParts { plugins, sandbox, .. } = &self.0.parts;
        let off_limits = config.sandbox.off_limits.clone().union(&self.0.own_files);
        let has_other_limits = sandbox.set_off_limits(off_limits);
        self.0.checks_directories.fetch_or(has_other_limits, Ordering::SeqCst);
        plugins.restrict(configured(config));
    }

    /// Makes the plugins follow the configuration of this turn. If a later one was taken, drops it, and waits
    /// until the plugins of the later one were taken.
    pub(super) async fn apply_plugins(
        &self,
        config: Config,
        turn: &PluginsTurn<'_>,
        mut servers: ServerChanges,
        keys: KeyChanges,
    ) -> TakenEntries {
        let LiveParts { upstreams, plugins, .. } = &self.0.parts;
        let Some(_loading) = turn.acquire().await else {
            self.0.settings_read.cancel();
            // It may be large, and many may wait for one compilation.
            drop(config);
            turn.superseded().await;
            return TakenEntries::new(servers, Reconfigured::default(), keys);
        };
        let is_first = !self.0.settings_read.is_cancelled();
        let has_other_limits = self.0.checks_directories.swap(false, Ordering::SeqCst);
        // What was revoked is gone by now. The first plugins are in the catalog before requests are.
        let (plugins, ()) = join(plugins.configure(configured(&config), has_other_limits), async {
            self.0.settings_read.cancel();
        })
        .await;
        if servers.is_incomplete {
            // A server waited for a plugin with its name to go.
            let taken = self.0.taken.lock().await;
            if taken.number == turn.number {
                servers.extend(upstreams.configure(&config));
            }
        }
        if !is_first {
            report::weaknesses(&config, &servers, &plugins);
        }
        self.report_sinks(config).await;
        TakenEntries::new(servers, plugins, keys)
    }

    /// Logs the names in rules about sinks that nothing has.
    async fn report_sinks(&self, config: Config) {
        // The components of plugins are read, which may be on a file system that does not respond.
        let unmatched = self.0.sink_readings.read(move || config.unmatched_sinks()).await;
        if let Some(unmatched) = unmatched {
            self.0.taken.lock().await.reported.sinks(unmatched);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, pin::pin, time::Duration};

    use futures_util::FutureExt as _;
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::{Gateway, command_line::keys};

    /// Longer than any step of these tests takes.
    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn an_older_configuration_takes_no_plugins_and_waits_for_those_of_a_later_one() {
        let turns = PluginTurns::default();
        let first = turns.begin(1);
        let loading = first.acquire().await.expect("it is the latest one");
        let second = turns.begin(2);
        let mut waiting = pin!(second.acquire());
        assert!(waiting.as_mut().now_or_never().is_none(), "the first one loads plugins");
        let third = turns.begin(3);
        assert!(waiting.await.is_none(), "the third one was taken meanwhile");
        drop(loading);
        drop(first);
        assert!(second.superseded().now_or_never().is_none());
        let loading = third.acquire().await.expect("it is the latest one");
        assert!(second.superseded().now_or_never().is_none());
        drop(loading);
        drop(third);
        assert!(second.superseded().now_or_never().is_some());
    }

    #[tokio::test]
    async fn settings_are_taken_while_the_plugins_of_earlier_ones_are_loaded() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("airlock.json");
        fs::write(&file, "{}").expect("written");
        let config = Config::load(&file).expect("a configuration");
        let gateway = Gateway::builder(config).start().await.expect("it starts");
        let reloader = gateway.reloader().clone();
        let loading = reloader.0.plugin_turns.loading.lock().await;
        let key = json!({"name": "ci", "value": "sk-bf-0123456789abcdef"});
        for listed in [json!([key]), json!([])] {
            let config = json!({"governance": {"virtual_keys": listed}});
            fs::write(&file, config.to_string()).expect("written");
            let taking = timeout(SOON, reloader.try_entries(PluginLoads::Detached)).await;
            taking.expect("it does not wait for the plugins").expect("taken");
            let is_expected = listed.as_array().is_some_and(|keys| !keys.is_empty());
            assert_eq!(keys(&gateway).named("ci").is_some(), is_expected);
        }
        drop(loading);
    }
}
