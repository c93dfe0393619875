//! Makes the parts of a gateway follow a configuration.

use std::sync::Weak;

use tracing::info;

use super::{
    super::{limits, serving::MadeSettings, upstreams::ServerChanges, warnings},
    LiveParts, Reloader,
};
use airlock_config::Config;
use airlock_management::RunningSettings;
use airlock_store::OwnerId;

impl Reloader {
    /// Makes the switch, the keys, the settings of requests, the groups and the servers follow a
    /// configuration. The switch comes first if it turns the tools off, and last if it turns them on. A request that
    /// begins between the other steps may combine new keys with old groups and policies. For some changes this
    /// permits more than either configuration, for as long as this function runs; no order of the steps avoids it
    /// for all changes.
    pub(super) fn apply(
        &self,
        config: &mut Config,
        made: Option<MadeSettings>,
        removed: Vec<OwnerId>,
    ) -> ServerChanges {
        let LiveParts { keys, limiter, serving, catalog, upstreams, code_mode, tasks, .. } =
            &self.0.parts;
        if config.tools_off {
            self.switch_tools(true);
        }
        // Before the keys: no request comes with a key whose limits are not in force.
        limits::follow(limiter, config);
        keys.replace(config.keys.clone());
        let required_key = serving.now().settings.require_virtual_key;
        match made {
            Some(made) => serving.take(made),
            // An operator has made the first key meanwhile.
            None if config.server.require_virtual_key => serving.require_key(),
            None => {}
        }
        let now = serving.now();
        config.server = now.settings;
        config.agent = now.agent;
        config.budget = now.budget;
        if required_key && !config.server.require_virtual_key {
            warnings::report_open(config);
        }
        if let Some(management) = self.0.management.get().and_then(Weak::upgrade) {
            management.follow(&config.server.management);
            management.set_running(RunningSettings::new(config));
        }
        code_mode.configure(config, now.runs);
        catalog.set_groups(config.groups.clone());
        upstreams.forget_tenants(removed);
        self.restrict_plugins(config);
        let changes = upstreams.configure(config);
        if !config.tools_off {
            self.switch_tools(false);
        }
        // At the start, plugins are loaded before it.
        let is_first = !self.0.settings_read.is_cancelled();
        if let Some(executor) = code_mode.needed_executor(None).filter(|_| !is_first) {
            // A failure is reported to the script that needs it, which tries again.
            tasks.spawn(async move { executor.load().await });
        }
        changes
    }

    fn switch_tools(&self, is_off: bool) {
        if self.0.parts.catalog.switch_off(is_off) {
            info!(is_off, "the switch of all tools has changed");
            warnings::report_switch(is_off);
        }
    }
}
