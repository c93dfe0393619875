//! `airlock plugin store`.

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use airlock_core::{door::Keys, tenant::Tenant, units::Size};
use airlock_store::{
    Database,
    kv::{self, Holder, StoreUsage},
};
use airlock_strings::visible_line;
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile};

/// Length of the part of a scope that names it, in bytes.
const SHOWN_BYTES: usize = 6;

/// Show the key-value stores of plugins, give one to another holder, or delete one
///
/// Each key has a store of its own, unless a grant has `"shared": true`. Without PLUGIN, lists all
/// stores with their holders. With `--to`, gives a store to another holder; with `--delete`, deletes
/// it. A key with another `value` in the configuration is a new holder: `--from` names the old one as
/// the list shows it.
///
/// A holder is `key:NAME`, `anonymous` for the callers without a key, `shared` for all callers,
/// `unassigned` for entries from a version without holders, or `scope:HEX` for a holder that is no
/// key any more.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("change").args(["to", "delete"]),
    after_help = "Examples:\n  airlock plugin store\n  airlock plugin store notes notes --to key:ann\n  airlock plugin store notes notes --from scope:1a2b3c4d5e6f --to key:ann\n  airlock plugin store notes notes --delete"
)]
pub(super) struct StoreArgs {
    /// The plugin's name in the configuration.
    #[arg(requires = "store", requires = "change")]
    plugin: Option<String>,
    /// The store's name.
    store: Option<String>,
    /// Current holder.
    #[arg(long, value_name = "HOLDER", default_value = "unassigned", requires = "change")]
    from: String,
    /// New holder.
    #[arg(long, value_name = "HOLDER", requires = "plugin")]
    to: Option<String>,
    /// Delete the store with its entries.
    #[arg(long, requires = "plugin")]
    delete: bool,
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, stores: [{plugin, store, holder, entries, bytes}]}`.
    #[arg(long, conflicts_with = "plugin")]
    json: bool,
}

pub(super) async fn run(args: &StoreArgs) -> anyhow::Result<CommandOutcome> {
    let config = args.config.load_merged().await?;
    let settings = config.store_settings()?;
    let usage = tokio::task::spawn_blocking(move || kv::usage(&settings)).await??;
    let stores = KeyValueStores { keys: &config.keys, usage };
    let (Some(plugin), Some(store)) = (&args.plugin, &args.store) else {
        return stores.list(args.json);
    };
    let from = stores.parse(&args.from)?;
    // A transfer to no holder deletes the store.
    let to = match &args.to {
        None => Holder::Unassigned,
        Some(to) => {
            let to = stores.parse(to)?;
            ensure!(to != Holder::Unassigned, "--to names no holder; --delete deletes the store");
            ensure!(from != to, "--to names the holder that the store has already");
            to
        }
    };
    let found = stores.find(plugin, store, from)?;
    let database = Database::open(config.store_settings()?).await?;
    let moved = database.transfer_kv(plugin, store, from, to).await?;
    ensure!(moved, "the store {store:?} of {plugin} has changed its holder meanwhile");
    let entries = found.entries;
    output::line(&match to {
        Holder::Unassigned => format!("{plugin}: deleted {store} with {entries} entries"),
        to => {
            format!("{plugin}: {store} with {entries} entries now belongs to {}", stores.name(to))
        }
    })?;
    Ok(CommandOutcome::Success)
}

/// The stores of a database, and the keys that name their holders.
struct KeyValueStores<'k> {
    keys: &'k Keys,
    usage: Vec<StoreUsage>,
}

impl KeyValueStores<'_> {
    fn list(&self, as_json: bool) -> anyhow::Result<CommandOutcome> {
        if as_json {
            let stores: Vec<_> = self.usage.iter().map(|usage| self.document(usage)).collect();
            output::document(&json!({"ok": true, "stores": stores}))?;
        } else if self.usage.is_empty() {
            output::hint("no plugin has stored anything");
        }
        for usage in self.usage.iter().filter(|_| !as_json) {
            let holder = self.name(usage.holder);
            let entries = usage.entries;
            let bytes = Size(usage.bytes);
            let line =
                format!("{}  {}  {holder}  {entries} entries  {bytes}", usage.plugin, usage.name);
            output::line(&visible_line(&line))?;
        }
        Ok(CommandOutcome::Success)
    }

    fn document(&self, usage: &StoreUsage) -> Value {
        json!({
            "plugin": usage.plugin, "store": usage.name, "holder": self.name(usage.holder),
            "entries": usage.entries, "bytes": usage.bytes,
        })
    }

    fn find(&self, plugin: &str, store: &str, holder: Holder) -> anyhow::Result<&StoreUsage> {
        let of_name =
            self.usage.iter().filter(|usage| usage.plugin == plugin && usage.name == store);
        let found = of_name.clone().find(|usage| usage.holder == holder);
        found.with_context(|| {
            let holders: Vec<_> = of_name.map(|usage| self.name(usage.holder)).collect();
            let holders = if holders.is_empty() { "none".to_owned() } else { holders.join(", ") };
            let holder = self.name(holder);
            format!("{holder} has no store {store:?} of {plugin}; its holders are: {holders}; --from names one")
        })
    }

    /// Returns the name of a holder, as `--from` and `--to` take it.
    fn name(&self, holder: Holder) -> String {
        match holder {
            Holder::Everyone => "shared".to_owned(),
            Holder::Unassigned => "unassigned".to_owned(),
            Holder::Tenant(scope) if scope == Tenant::ANONYMOUS.scope() => "anonymous".to_owned(),
            Holder::Tenant(scope) => {
                let key = self.keys.iter().find(|key| key.tenant().scope() == scope);
                key.map_or_else(
                    || format!("scope:{}", hex(&scope)),
                    |key| format!("key:{}", key.name),
                )
            }
        }
    }

    fn parse(&self, text: &str) -> anyhow::Result<Holder> {
        Ok(match text.split_once(':') {
            None if text == "shared" => Holder::Everyone,
            None if text == "unassigned" => Holder::Unassigned,
            None if text == "anonymous" => Holder::Tenant(Tenant::ANONYMOUS.scope()),
            Some(("key", name)) => {
                let key = self
                    .keys
                    .named(name)
                    .with_context(|| format!("no virtual key is named {name:?}"))?;
                Holder::Tenant(key.tenant().scope())
            }
            Some(("scope", _)) => {
                let known = self.usage.iter().map(|usage| usage.holder);
                let found = known.into_iter().find(|holder| self.name(*holder) == text);
                found.with_context(|| format!("no store belongs to {text}"))?
            }
            _ => bail!(
                "found the holder {text:?}, expected key:NAME, anonymous, shared, unassigned or scope:HEX"
            ),
        })
    }
}

/// Returns the first digits of a scope.
fn hex(scope: &[u8; 32]) -> String {
    let digits = scope[..SHOWN_BYTES].iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
