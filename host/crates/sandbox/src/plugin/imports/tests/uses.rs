//! The record of the grants that a call uses.

use std::collections::BTreeSet;

use serde_json::json;

use super::{super::config, *};
use crate::{ToolNames, Use, UseRecorder};

/// Runs `body` as the call of a tool with these effects, and returns the recorded uses.
async fn uses(
    grants: Grants,
    effects: &[&str],
    database: Option<Database>,
    body: impl AsyncFnOnce(Store<'_, PluginSide>) -> wasmtime::Result<()>,
) -> BTreeSet<Use> {
    let recorder = UseRecorder::default();
    let grants = Grants { recorder: Some(recorder.clone()), ..grants };
    let chain = Some(tools::chain());
    with(narrowed(grants, effects), chain, database, body).await.expect("it ends well");
    recorder.uses(&ClientName::parse("test").expect("a name")).remove("run").unwrap_or_default()
}

fn only<const N: usize>(uses: [Use; N]) -> BTreeSet<Use> {
    uses.into()
}

#[tokio::test]
async fn opening_a_store_is_a_use_for_reading_and_changing_a_key_one_for_writing() {
    let home = tempfile::tempdir().expect("a directory");
    let open = Database::open(Settings::new(home.path().join("airlock.db"))).await;
    let database = Some(open.expect("a database"));
    let stores = vec![store("notes"), store("other")];
    let grants = Grants { stores, ..Grants::default() };
    let read = Use::ReadKv("notes".into());
    let written = Use::WriteKv("notes".into());
    for (effects, change, expected) in [
        (&["write_kv"][..], false, only([read.clone()])),
        (&["write_kv"], true, only([read.clone(), written])),
        (&["read_kv"], true, only([read])),
        (&["write_kv.other"], true, only([])),
    ] {
        let used = uses(grants.clone(), effects, database.clone(), async |mut store| {
            let Ok(handle) = kv::open(&mut store, "notes")? else { return Ok(()) };
            assert!(kv::open(&mut store, "absent")?.is_err());
            if change {
                let key = "key".to_owned();
                drop(kv::delete(store, handle, key, None).await?);
            }
            Ok(())
        });
        assert_eq!(used.await, expected, "{effects:?}");
    }
}

#[tokio::test]
async fn a_secret_is_used_when_it_is_revealed_and_when_the_plugin_learns_that_it_exists() {
    let grants = Grants {
        secrets: Arc::new(["token".to_owned(), "other".to_owned()].into()),
        revealed: Arc::new([("token".to_owned(), Secret::new("value"))].into()),
        ..Grants::default()
    };
    let known = Use::KnownSecret("token".into());
    let revealed = only([known.clone(), Use::RevealedSecret("token".into())]);
    assert_eq!(uses_of_secret(&grants, &["secret"], Some("token")).await, revealed);
    for name in [None, Some("other"), Some("absent")] {
        assert_eq!(
            uses_of_secret(&grants, &["secret"], name).await,
            only([known.clone()]),
            "{name:?}"
        );
    }
    assert_eq!(uses_of_secret(&grants, &["secret.other"], Some("token")).await, only([]));
}

async fn uses_of_secret(grants: &Grants, effects: &[&str], name: Option<&str>) -> BTreeSet<Use> {
    uses(grants.clone(), effects, None, async |mut store| {
        secrets::exists(&mut store, "token")?;
        if let Some(name) = name {
            drop(secrets::reveal(&mut store, name)?);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_tool_is_used_when_it_is_called_or_described_by_a_name_that_is_granted() {
    let names = ToolNames {
        slots: [("one".to_owned(), Some("far-b".to_owned())), ("spare".to_owned(), None)].into(),
        full: ["far-a".to_owned()].into(),
    };
    let grants = Grants { tools: names, ..Grants::default() };
    let slot = Use::Slot("one".into());
    let full = Use::Tool("far-a".into());
    for is_call in [true, false] {
        assert_eq!(
            uses_of_tool(&grants, &["call_tools"], "one", is_call).await,
            only([slot.clone()])
        );
        assert_eq!(
            uses_of_tool(&grants, &["call_tools"], "far-a", is_call).await,
            only([full.clone()])
        );
        for (effects, name) in
            [("call_tools", "spare"), ("call_tools", "far-b"), ("call_tools.one", "far-a")]
        {
            assert_eq!(
                uses_of_tool(&grants, &[effects], name, is_call).await,
                only([]),
                "{effects}: {name}"
            );
        }
    }
    // A list depends on every granted tool, whether it is there or not.
    let all = only([slot, Use::Slot("spare".into()), full]);
    assert_eq!(
        uses(grants, &["call_tools"], None, async |mut store| {
            drop(super::super::tools::list(&mut store, None, 10)?);
            Ok(())
        })
        .await,
        all
    );
}

async fn uses_of_tool(
    grants: &Grants,
    effects: &[&str],
    name: &str,
    is_call: bool,
) -> BTreeSet<Use> {
    uses(grants.clone(), effects, None, async |mut store| {
        if is_call {
            let name = name.to_owned();
            let arguments = String::new();
            let request = super::super::tools::ToolRequest { name, arguments, timeout: None };
            drop(super::super::tools::call(store, request).await?);
        } else {
            drop(super::super::tools::describe(&mut store, name.to_owned())?);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn reading_the_configuration_is_a_use_of_it() {
    let config = json!({"days": 3}).as_object().expect("an object").clone();
    let grants = Grants { config: Arc::new(config), ..Grants::default() };
    let one = uses(grants.clone(), &[], None, async |mut store| {
        config::get(&mut store, "days").map(drop)
    });
    assert_eq!(one.await, only([Use::Config]));
    let all =
        uses(grants.clone(), &[], None, async |mut store| config::get_all(&mut store).map(drop));
    assert_eq!(all.await, only([Use::Config]));
    assert_eq!(uses(grants, &[], None, async |_| Ok(())).await, only([]));
}
