//! Tests of the host functions under a tool's effects.

mod tools;
mod uses;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use airlock_compile::pooled_engine;
use airlock_core::{
    door::{Chain, Origin},
    secret::Secret,
    tenant::Pool,
    tool::{CallError, ClientName, Content, HostCode, ToolName},
};
use airlock_egress::{EgressError, EgressErrorKind, EgressRequest};
use airlock_store::{Database, Settings};
use wasmtime::{AsContextMut as _, component::Resource};

use super::{context, http, kv, kv::KvFailure, secrets, secrets::SecretError};
use crate::{
    DeclaredEffect, Grants, KvStore, Limits,
    plugin::{rights::ToolRights, side::PluginSide},
    run::{
        charge::BASE_FUEL,
        instance, memory,
        state::{Call, Store},
    },
};

/// Runs `body` as a call of a plugin with these grants.
async fn with<T>(
    grants: Grants,
    chain: Option<Chain>,
    database: Option<Database>,
    body: impl AsyncFnOnce(Store<'_, PluginSide>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    with_memory(&memory::budget(1 << 30), grants, chain, database, body).await
}

/// Runs `body` as a call of a plugin in a process with this memory.
async fn with_memory<T>(
    memory: &Pool,
    grants: Grants,
    chain: Option<Chain>,
    database: Option<Database>,
    body: impl AsyncFnOnce(Store<'_, PluginSide>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    let client = ClientName::parse("test").expect("a name");
    let recorder = grants.recorder.as_ref().map(|recorder| recorder.of_call(&client, "run"));
    let mut rights = ToolRights::denied(client.clone(), Arc::default());
    rights.plugin.database = database;
    rights.origin = Origin::Plugin(Arc::new(grants.tools.tools()));
    rights.grants = Arc::new(grants);
    let guest = PluginSide {
        recorder,
        rights: Arc::new(rights),
        ..PluginSide::denied(client.clone(), Arc::default())
    };
    let call = Call { chain, ..guest.call(ToolName::new(&client, "run"), Limits::PLUGIN) };
    let engine = pooled_engine(1, None).expect("an engine");
    instance::run(&engine, memory, call, async |store| body(store.as_context_mut()).await).await
}

/// Returns the grants of a tool with these effects.
fn narrowed(grants: Grants, effects: &[&str]) -> Grants {
    Arc::new(grants).narrowed(
        &effects
            .iter()
            .map(|effect| effect.parse::<DeclaredEffect>().expect("an effect"))
            .collect(),
    )
}

/// Returns the effects that were refused.
fn refused(store: &Store<'_, PluginSide>) -> Vec<String> {
    store.data().running.refused.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_tool_opens_a_store_only_with_an_effect_and_writes_only_with_the_writing_one() {
    let home = tempfile::tempdir().expect("a directory");
    let open = Database::open(Settings::new(home.path().join("airlock.db"))).await;
    let database = open.expect("a database");
    for (effects, expected) in [
        (&[][..], (false, false)),
        (&["http"], (false, false)),
        (&["read_kv"], (true, false)),
        (&["write_kv"], (true, true)),
        (&["write_kv.other"], (false, false)),
        (&["read_kv.notes", "write_kv.other"], (true, false)),
        (&["write_kv.notes"], (true, true)),
    ] {
        let stores = vec![store("notes"), store("other")];
        let grants = narrowed(Grants { stores, ..Grants::default() }, effects);
        let found = with(grants, None, Some(database.clone()), async |mut store| {
            let handle = match kv::open(&mut store, "notes")? {
                Ok(handle) => handle,
                Err(error) => {
                    assert!(matches!(error, KvFailure::Denied), "{error:?}");
                    assert_eq!(refused(&store), missing(effects, "read_kv"));
                    return Ok((false, false));
                }
            };
            let read = kv::get(store.as_context_mut(), again(&handle), "key".to_owned()).await?;
            assert!(read.is_ok(), "{effects:?}: {read:?}");
            let set = set(&mut store, &handle).await?;
            let deleted =
                kv::delete(store.as_context_mut(), again(&handle), "key".to_owned(), None).await?;
            assert_eq!(set.is_ok(), deleted.is_ok(), "{effects:?}");
            if set.is_err() {
                assert_eq!(refused(&store), missing(effects, "write_kv"));
            }
            Ok((true, set.is_ok()))
        });
        assert_eq!(found.await.expect("it ends well"), expected, "{effects:?}");
    }
}

async fn set(
    store: &mut Store<'_, PluginSide>,
    handle: &Resource<kv::OpenStore>,
) -> wasmtime::Result<Result<u64, KvFailure>> {
    let key = "key".to_owned();
    kv::set(store.as_context_mut(), again(handle), key, vec![1], None, None).await
}

fn again<T: 'static>(handle: &Resource<T>) -> Resource<T> {
    Resource::new_borrow(handle.rep())
}

fn store(name: &str) -> KvStore {
    KvStore { name: name.to_owned(), max_bytes: 1 << 20, is_shared: false, is_cache: false }
}

/// Returns the effect on the kind, or that on `notes` if the tool declares it on another store.
fn missing(effects: &[&str], kind: &str) -> Vec<String> {
    let is_on_other = effects.iter().any(|effect| effect.starts_with("write_kv."));
    vec![if is_on_other { format!("{kind}.notes") } else { kind.to_owned() }]
}

#[tokio::test]
async fn a_tool_without_effects_writes_to_a_cache_and_has_not_acted() {
    let home = tempfile::tempdir().expect("a directory");
    let open = Database::open(Settings::new(home.path().join("airlock.db"))).await;
    let database = open.expect("a database");
    for is_cache in [true, false] {
        let name = if is_cache { "cache" } else { "notes" };
        let store =
            KvStore { name: name.to_owned(), max_bytes: 1 << 20, is_shared: false, is_cache };
        let effects: &[&str] = if is_cache { &[] } else { &["write_kv"] };
        let grants = narrowed(Grants { stores: vec![store], ..Grants::default() }, effects);
        let acted = with(grants, None, Some(database.clone()), async |mut store| {
            let handle = kv::open(&mut store, name)?.expect("it is open to the tool");
            let set = set(&mut store, &handle).await?;
            let read = kv::get(store.as_context_mut(), again(&handle), "key".to_owned()).await?;
            assert!(
                set.is_ok()
                    && read.is_ok_and(|entry| entry.is_some())
                    && refused(&store).is_empty()
            );
            Ok(store.data().running.has_acted)
        });
        assert_eq!(acted.await.expect("it ends well"), !is_cache);
    }
}

#[tokio::test]
async fn a_tool_without_the_effect_has_no_secret() {
    let grants = Grants {
        secrets: Arc::new(["token".to_owned(), "other".to_owned()].into()),
        revealed: Arc::new([("token".to_owned(), Secret::new("value"))].into()),
        ..Grants::default()
    };
    assert_eq!(ask(&grants, &["http"]).await, denied("secret"));
    assert_eq!(ask(&grants, &["secret.other"]).await, denied("secret.token"));
    for effects in [["secret"], ["secret.token"]] {
        assert_eq!(ask(&grants, &effects).await, (true, Ok(b"value".to_vec()), Vec::new()));
    }
}

async fn ask(
    grants: &Grants,
    effects: &[&str],
) -> (bool, Result<Vec<u8>, SecretError>, Vec<String>) {
    let asked = with(narrowed(grants.clone(), effects), None, None, async |mut store| {
        let exists = secrets::exists(&mut store, "token")?;
        Ok((exists, secrets::reveal(&mut store, "token")?, refused(&store)))
    });
    asked.await.expect("it ends well")
}

fn denied(missing: &str) -> (bool, Result<Vec<u8>, SecretError>, Vec<String>) {
    (false, Err(SecretError::Denied), vec![missing.to_owned()])
}

#[tokio::test]
async fn a_request_without_the_effect_is_denied_and_the_message_names_it() {
    let grants = Grants { secrets: Arc::new(["token".to_owned()].into()), ..Grants::default() };
    insta::assert_snapshot!(
        denied_request(&grants, &[], None).await,
        @r#"the tool does not declare the effect "http" in plugin.toml"#
    );
    insta::assert_snapshot!(
        denied_request(&grants, &["http"], Some("token")).await,
        @r#"the tool does not declare the effect "secret" in plugin.toml"#
    );
    insta::assert_snapshot!(
        denied_request(&grants, &["http.api", "secret.other"], Some("token")).await,
        @r#"the tool does not declare the effect "secret.token" in plugin.toml"#
    );
    for (effects, credential) in [
        (&["http"][..], None),
        (&["http", "secret"], Some("token")),
        (&["http.api", "secret.token"], Some("token")),
        (&["http", "secret.token"], Some("unknown")),
    ] {
        assert_eq!(
            denied_request(&grants, effects, credential).await,
            EgressError::denied().to_string()
        );
    }
}

async fn denied_request(grants: &Grants, effects: &[&str], credential: Option<&str>) -> String {
    let request = EgressRequest {
        credentials: credential.map(str::to_owned).into_iter().collect(),
        ..EgressRequest::default()
    };
    let grants = narrowed(grants.clone(), effects);
    let sent = with(grants, None, None, async |store| http::send(store, request).await);
    let error = sent.await.expect("it ends well").expect_err("there is no outlet");
    assert_eq!(error.kind, EgressErrorKind::Denied);
    error.to_string()
}

#[tokio::test]
async fn progress_costs_fuel_and_is_no_host_call() {
    let reported = with(Grants::default(), None, None, async |mut store| {
        let before = store.data().meter.debt();
        for _ in 0..5_000 {
            report(&mut store, 100)?;
        }
        let fuel = store.data().meter.debt() - before;
        // All host calls of the limit are left.
        for _ in 0..Limits::PLUGIN.host_calls {
            context::id(&mut store)?;
        }
        assert!(context::id(&mut store).is_err());
        Ok(fuel)
    });
    let ended = reported.await;
    assert!(ended.as_ref().is_ok_and(|fuel| *fuel == 5_000 * 1_100), "{ended:?}");
    let flood = with(Grants::default(), None, None, async |mut store| -> wasmtime::Result<()> {
        loop {
            report(&mut store, 0)?;
        }
    });
    let ended = flood.await;
    assert_eq!(ended.expect_err("it is too much").code(), HostCode::OutOfFuel);
}

fn report(store: &mut Store<'_, PluginSide>, message: usize) -> wasmtime::Result<()> {
    context::progress(store, 1.0, None, Some("x".repeat(message)))
}

#[tokio::test]
async fn emitted_parts_are_kept_in_order_and_take_from_the_room_of_the_result() {
    let limit = Limits::PLUGIN.result_bytes;
    let kept = with(Grants::default(), None, None, async |mut store| {
        for text in ["one", "two"] {
            context::emit(&mut store, 0, move || Ok(Content::text(text))).await?;
        }
        let state = store.data_mut();
        let costs: usize = state.running.emitted.iter().map(Content::cost).sum();
        let fits = state.check_result_bytes(limit - costs).is_ok();
        let texts: Vec<_> =
            state.running.emitted.iter().map(|part| part.as_text().map(str::to_owned)).collect();
        // Ends the guest, so the call fails as a whole.
        let refused = state.check_result_bytes(limit - costs + 1).is_err();
        state.stopped = None;
        Ok((texts, fits, refused))
    });
    let (texts, fits, refused) = kept.await.expect("it ends well");
    assert_eq!(texts, [Some("one".to_owned()), Some("two".to_owned())]);
    assert!(fits && refused);
}

#[tokio::test]
async fn emitted_parts_hold_memory_of_the_process_until_the_call_ends() {
    // One tenant gets seven eighths of it.
    let memory = memory::budget(kib(64));
    // Each call has all of the memory again.
    for _ in 0..2 {
        let held = emitted(&memory, &[kib(25), kib(25)]).await.expect("there is room");
        assert!((kib(50)..kib(56)).contains(&held), "{held}");
        let ended = emitted(&memory, &[kib(25), kib(40)]).await;
        assert_eq!(ended.expect_err("there is no room").code(), HostCode::Busy);
    }
}

fn kib(count: usize) -> usize {
    count << 10
}

async fn emitted(memory: &Pool, parts: &[usize]) -> Result<usize, CallError> {
    let emitted = with_memory(memory, Grants::default(), None, None, async |mut store| {
        for bytes in parts {
            emit_text(&mut store, *bytes).await?;
        }
        Ok(store.data().running.result_memory.amount())
    });
    emitted.await
}

async fn emit_text(store: &mut Store<'_, PluginSide>, bytes: usize) -> wasmtime::Result<()> {
    context::emit(store, 0, move || Ok(Content::text("x".repeat(bytes)))).await
}

#[tokio::test]
async fn json_in_an_emitted_part_is_parsed_only_if_there_is_memory_for_its_tree() {
    assert_eq!(emitted_json(256).await, (true, true, false));
    assert_eq!(emitted_json(1_024).await, (false, false, true));
}

async fn emitted_json(json_bytes: usize) -> (bool, bool, bool) {
    let memory = memory::budget(64 << 10);
    let emitted = with_memory(&memory, Grants::default(), None, None, async |mut store| {
        let is_parsed = Arc::new(AtomicBool::new(false));
        let parsed = is_parsed.clone();
        let sent = context::emit(&mut store, json_bytes, move || {
            parsed.store(true, Ordering::Relaxed);
            Ok(Content::text("parsed"))
        });
        let sent = sent.await;
        let stopped = store.data_mut().stopped.take();
        let is_busy = stopped.is_some_and(|error| error.code() == HostCode::Busy);
        Ok((sent.is_ok(), is_parsed.load(Ordering::Relaxed), is_busy))
    });
    emitted.await.expect("it ends well")
}
