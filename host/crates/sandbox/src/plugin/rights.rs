//! Rights of the calls of each tool of a plugin: the plugin's grants, narrowed to the effects
//! that its manifest declares for the tool. Computed when the plugin is loaded.

use std::{collections::BTreeMap, sync::Arc};

use airlock_core::{door::Origin, log_rate::LogRate, tool::ClientName};
use airlock_egress::{Egress, Outlet};
use airlock_store::Database;

use crate::{Effects, Grants};

/// Rights of every tool of a plugin.
pub(super) struct Rights {
    by_tool: BTreeMap<String, Arc<ToolRights>>,
    /// Rights of the tools that are not in `by_tool`.
    others: Arc<ToolRights>,
}

/// Parts of a plugin that the calls of all its tools have.
#[derive(Clone)]
pub(crate) struct PluginParts {
    pub(crate) client: ClientName,
    /// Rate limit on its log lines.
    pub(crate) log: Arc<LogRate>,
    /// Database that holds its stores.
    pub(crate) database: Option<Database>,
}

/// Rights of the calls of one tool. All that a call needs of its plugin is behind this one reference.
pub(crate) struct ToolRights {
    pub(crate) plugin: PluginParts,
    pub(crate) grants: Arc<Grants>,
    /// Outlet for HTTP requests.
    pub(crate) outlet: Option<Outlet>,
    /// Origin of the calls that the tool makes.
    pub(crate) origin: Origin,
}

impl Rights {
    /// Computes the rights. All tools send through one outlet of `egress`, so that they share the
    /// limits of their plugin.
    pub(super) fn new(plugin: &PluginParts, grants: &Grants, egress: Option<&Egress>) -> Self {
        let outlet = egress.zip(grants.http.as_ref()).map(|(egress, policy)| {
            egress.outlet(plugin.client.as_str(), policy.clone(), grants.credentials.clone())
        });
        let outlet = outlet.as_ref();
        let grants = Arc::new(grants.clone());
        let Some(declared) = grants.declared.clone() else {
            let others = ToolRights::new(plugin, grants, outlet);
            return Self { by_tool: BTreeMap::new(), others };
        };
        // One value for each set of effects: a manifest may list thousands of tools.
        let mut by_effects = BTreeMap::new();
        let by_tool = declared.iter().map(|(tool, effects)| {
            let rights = by_effects
                .entry(effects)
                .or_insert_with(|| ToolRights::narrowed(plugin, &grants, effects, outlet));
            (tool.clone(), rights.clone())
        });
        Self {
            by_tool: by_tool.collect(),
            others: ToolRights::narrowed(plugin, &grants, &Effects::default(), outlet),
        }
    }

    /// Returns the rights of a tool, by the plugin's own name of it.
    pub(super) fn for_tool(&self, tool: &str) -> &Arc<ToolRights> {
        self.by_tool.get(tool).unwrap_or(&self.others)
    }
}

impl ToolRights {
    /// Returns the rights of a plugin without any grant.
    pub(crate) fn denied(client: ClientName, log: Arc<LogRate>) -> Self {
        Self {
            plugin: PluginParts { client, log, database: None },
            grants: Arc::default(),
            outlet: None,
            origin: Origin::Plugin(Arc::default()),
        }
    }

    fn new(plugin: &PluginParts, grants: Arc<Grants>, outlet: Option<&Outlet>) -> Arc<Self> {
        // Without the grant there is no way out, not even one that refuses.
        let policy = outlet.zip(grants.http.as_ref());
        Arc::new(Self {
            plugin: plugin.clone(),
            outlet: policy.map(|(outlet, policy)| outlet.narrowed(policy.clone())),
            origin: Origin::Plugin(Arc::new(grants.tools.tools())),
            grants,
        })
    }

    fn narrowed(
        plugin: &PluginParts,
        grants: &Arc<Grants>,
        effects: &Effects,
        outlet: Option<&Outlet>,
    ) -> Arc<Self> {
        Self::new(plugin, Arc::new(grants.narrowed(effects)), outlet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effect, ToolNames};

    #[test]
    fn a_tool_that_is_not_declared_has_no_rights_and_without_a_manifest_all_have_the_whole_grant() {
        let tools = ToolNames {
            slots: [("s".to_owned(), Some("p-a".to_owned()))].into(),
            ..Default::default()
        };
        let mut grants = Grants { tools, ..Grants::default() };
        let client = ClientName::parse("test").expect("a name");
        let all = Origin::Plugin(Arc::new(["p-a".to_owned()].into()));
        assert_eq!(origin(&client, &grants, "any"), all);
        grants.declared = Some(Arc::new(
            [
                ("a".to_owned(), Effects::from_iter([Effect::CallTools])),
                ("b".to_owned(), Effects::from_iter([Effect::Http])),
            ]
            .into(),
        ));
        assert_eq!(origin(&client, &grants, "a"), all);
        for tool in ["b", "other"] {
            assert_eq!(origin(&client, &grants, tool), Origin::Plugin(Arc::default()), "{tool}");
        }
        grants.declared = Some(Arc::default());
        assert_eq!(origin(&client, &grants, "a"), Origin::Plugin(Arc::default()));
    }

    fn origin(client: &ClientName, grants: &Grants, tool: &str) -> Origin {
        let plugin = PluginParts { client: client.clone(), log: Arc::default(), database: None };
        Rights::new(&plugin, grants, None).for_tool(tool).origin.clone()
    }
}
