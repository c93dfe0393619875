use std::{
    fs,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture, Either},
};
use http::Method;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::Semaphore;

use super::*;
use crate::{FirstConnection, PluginState, Preview, ServiceSettings};
use airlock_config::Config;
use airlock_core::operator::Role;
use airlock_operator_api::{Management as _, ManagementRequest};
use airlock_plugin::{InspectError, Manifest, Metadata};
use airlock_store::{
    LazyDatabase,
    entries::{EntryChange, EntryChanged, EntryValue},
    kv::Opener,
};

/// Fake gateway that inspects every component, and loads the one that a test says. A component that is the JSON of a
/// manifest has that manifest.
struct FakeGateway {
    /// Taken by each inspection.
    permits: Semaphore,
    inspections: AtomicUsize,
    /// Digest of the component that it says is loaded.
    loaded: Mutex<Option<String>>,
    /// Changes the plugin while it is loaded.
    meddler: OnceLock<Arc<Service>>,
    /// For each applied change, true if it was asked to wait for plugins.
    awaits: Mutex<Vec<bool>>,
}

impl Apply for FakeGateway {
    fn apply(&self, awaits_plugins: bool) -> BoxFuture<'_, Result<(), NotApplied>> {
        self.awaits.lock().push(awaits_plugins);
        async { Ok(()) }.boxed()
    }

    fn connected<'a>(
        &'a self,
        client: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<FirstConnection, NotApplied>> {
        Box::pin(async move {
            if let Some(meddler) = self.meddler.get() {
                let body = json!({"tools_to_execute": []});
                let path = format!("{PLUGINS}/{client}");
                ask(meddler, Method::PUT, &path, body).await.expect("changed");
            }
            Ok(FirstConnection::Ready)
        })
    }

    fn inspect(&self, component: Arc<[u8]>) -> BoxFuture<'_, Result<Metadata, InspectError>> {
        Box::pin(async move {
            self.permits.acquire().await.expect("it is open").forget();
            self.inspections.fetch_add(1, Ordering::Relaxed);
            let manifest = Manifest::parse(&component).ok();
            Ok(Metadata::new(&component, Vec::new(), manifest, Vec::new()))
        })
    }

    fn plugin(&self, _: &str) -> Option<PluginState> {
        let digest = self.loaded.lock().clone();
        Some(PluginState { phase: "connected", reason: None, digest })
    }

    fn preview(&self, _: Value) -> BoxFuture<'_, Result<Preview, NotApplied>> {
        async { Err(NotApplied("it is a fake".to_owned())) }.boxed()
    }
}

const PLUGINS: &str = "/api/plugins";

/// A management API with a fake gateway.
struct Desk {
    service: Arc<Service>,
    gateway: Arc<FakeGateway>,
    directory: TempDir,
}

impl Desk {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("airlock.json"), "{}").expect("a file");
        let gateway = Arc::new(FakeGateway {
            permits: Semaphore::new(1_000),
            inspections: AtomicUsize::new(0),
            loaded: Mutex::default(),
            meddler: OnceLock::new(),
            awaits: Mutex::default(),
        });
        let service = service(&directory, Some(gateway.clone()));
        Self { service, gateway, directory }
    }

    /// Starts the API of another gateway on the same store.
    fn restarted(self) -> Self {
        let service = service(&self.directory, Some(self.gateway.clone()));
        Self { service, ..self }
    }

    async fn upload(&self, name: &str, component: &[u8]) -> Value {
        let request = ManagementRequest {
            query: format!("name={name}"),
            component: Some(component.to_vec()),
            ..request(Method::POST, PLUGINS, Value::Null)
        };
        self.service.answer(Some(&admin()), request).await.expect("uploaded")
    }

    async fn accept(&self, name: &str, body: Value) -> Result<Value, ManagementRefusal> {
        ask(&self.service, Method::POST, &format!("{PLUGINS}/{name}/accept"), body).await
    }

    async fn show(&self, name: &str) -> Result<Value, ManagementRefusal> {
        ask(&self.service, Method::GET, &format!("{PLUGINS}/{name}"), Value::Null).await
    }

    /// Makes the gateway say that it has loaded a component, and no other.
    fn load(&self, digest: &Value) {
        *self.gateway.loaded.lock() = digest.as_str().map(str::to_owned);
    }

    fn inspections(&self) -> usize {
        self.gateway.inspections.load(Ordering::Relaxed)
    }
}

fn service(directory: &TempDir, gateway: Option<Arc<FakeGateway>>) -> Arc<Service> {
    let config = Config::load(&directory.path().join("airlock.json")).expect("a configuration");
    let database = LazyDatabase::new(config.store_settings().expect("no key is needed"));
    let gateway = gateway.map(|gateway| gateway as Arc<dyn Apply>);
    Service::new(ServiceSettings::new(&config, database), gateway)
}

fn admin() -> Operator {
    Operator { name: "ann".to_owned(), role: Role::Admin, sees_payloads: false }
}

fn request(method: Method, path: &str, body: Value) -> ManagementRequest {
    ManagementRequest {
        method,
        path: path.to_owned(),
        query: String::new(),
        body: Some(body).filter(|body| !body.is_null()),
        component: None,
        setup_token: None,
        session: None,
    }
}

async fn ask(
    service: &Service,
    method: Method,
    path: &str,
    body: Value,
) -> Result<Value, ManagementRefusal> {
    service.answer(Some(&admin()), request(method, path, body)).await
}

#[tokio::test]
async fn a_component_is_inspected_once_however_often_it_is_shown() {
    let desk = Desk::new();
    let shown = desk.upload("p", b"one").await;
    let digest = shown["offered"]["digest"].clone();
    for _ in 0..3 {
        assert_eq!(desk.show("p").await.expect("shown")["offered"]["digest"], digest);
    }
    assert_eq!(desk.inspections(), 1);
    let desk = desk.restarted();
    for _ in 0..3 {
        assert_eq!(desk.show("p").await.expect("shown")["offered"]["digest"], digest);
    }
    assert_eq!(desk.inspections(), 2);
    // A change of its members inspects nothing.
    let changed = ask(&desk.service, Method::PUT, "/api/plugins/p", json!({"disabled": true}));
    assert_eq!(changed.await.expect("changed")["offered"], digest);
    assert_eq!(desk.inspections(), 2);
}

#[tokio::test]
async fn those_who_look_at_components_are_bounded_and_delay_no_upload() {
    let desk = Desk::new();
    desk.upload("p", b"one").await;
    let desk = desk.restarted();
    let permits = desk.gateway.permits.forget_permits(1_000);
    let looking: Vec<_> = (0..9).map(|_| Box::pin(desk.show("p"))).collect();
    let mut looking = future::join_all(looking).boxed_local();
    while desk.service.inspections.places() > 0 {
        assert!(looking.as_mut().now_or_never().is_none(), "the inspection has not ended");
        tokio::task::yield_now().await;
    }
    // All of them go on meanwhile: one that stands still may have the turn of the store.
    let refused = match future::select(Box::pin(desk.show("p")), &mut looking).await {
        Either::Left((refused, _)) => refused.expect_err("nine requests look already"),
        Either::Right(_) => panic!("the inspection has not ended"),
    };
    assert_eq!((refused.status.as_u16(), refused.code), (503, "inspections_busy"));
    assert!(refused.retry_after.is_some());
    let mut uploading = desk.upload("q", b"two").boxed_local();
    assert!(uploading.as_mut().now_or_never().is_none(), "it waits for the gateway alone");
    desk.gateway.permits.add_permits(permits);
    for shown in future::join(uploading, looking).await.1 {
        shown.expect("shown");
    }
    assert_eq!(desk.inspections(), 3);
}

#[tokio::test]
async fn an_acceptance_is_reverted_unless_the_gateway_has_loaded_its_component() {
    let desk = Desk::new();
    let one = desk.upload("p", b"one").await["offered"]["digest"].clone();
    desk.load(&one);
    desk.accept("p", json!({"digest": one})).await.expect("accepted");
    let two = desk.upload("p", b"two").await["offered"]["digest"].clone();
    let refused = desk.accept("p", json!({"digest": two})).await.expect_err("the old one runs");
    assert_eq!((refused.status.as_u16(), refused.code), (422, "plugin_not_loaded"));
    let shown = desk.show("p").await.expect("shown");
    assert_eq!((&shown["accepted"]["digest"], &shown["offered"]["digest"]), (&one, &two));
    // The plugin is changed meanwhile, so the acceptance is not reverted.
    desk.gateway.meddler.set(service(&desk.directory, None)).ok().expect("it is not set");
    let refused = desk.accept("p", json!({"digest": two})).await.expect_err("the old one runs");
    assert_eq!(refused.code, "plugin_not_loaded");
    assert!(refused.message.contains("stays accepted"), "{}", refused.message);
    assert!(refused.message.contains("changed after"), "{}", refused.message);
    assert_eq!(desk.show("p").await.expect("shown")["accepted"]["digest"], two);
}

#[tokio::test]
async fn an_accepted_component_that_cannot_be_read_is_shown_and_replaced_with_consent() {
    let desk = Desk::new();
    let component = json!({
        "schema": "airlock.plugin/1", "id": "p", "version": "1.0.0", "contract": "0.1",
        "request": {"clocks": {"reason": "Dates."}},
    });
    let component = component.to_string().into_bytes();
    let two = desk.upload("p", &component).await["offered"]["digest"].clone();
    let offered = ComponentDigest::compute(&component);
    let mut element = {
        let state = desk.service.state().await.expect("read");
        plugin(&state, "p").expect("it is there").1.clone()
    };
    element["wasm_config"]["grants"] = json!({"clocks": true});
    let absent = ComponentDigest::compute(b"absent");
    StoredComponents { accepted: Some(absent), offered: Some(offered) }.write(&mut element);
    let database = desk.service.database().await.expect("a store");
    let revision = database.entries().await.expect("read").revision;
    let change = EntryChange {
        actor: "ann".to_owned(),
        action: "plugin.accept".to_owned(),
        kind: EntryKind::Client,
        name: "p".to_owned(),
        after: Some(EntryValue { replaces: None, document: Some(element.to_string()) }),
        components: vec![offered],
        revision,
    };
    let changed = database.change_entry(change).await.expect("written");
    assert!(matches!(changed, EntryChanged::Done(_)), "{changed:?}");
    let accepted = desk.show("p").await.expect("shown")["accepted"].clone();
    assert_eq!(accepted["digest"], absent.to_string());
    assert!(accepted["problem"].as_str().is_some_and(|problem| problem.contains("upload it")));
    desk.load(&two);
    let refused = desk.accept("p", json!({"digest": two})).await.expect_err("it may be another");
    assert_eq!((refused.status.as_u16(), refused.code), (409, "consent_required"));
    let agreed = json!({"digest": two, "regrant": ["clocks"], "change_id": true});
    let shown = desk.accept("p", agreed).await.expect("accepted");
    assert_eq!(shown["accepted"]["digest"], two);
}

#[tokio::test]
async fn entries_of_an_earlier_plugin_need_consent() {
    let desk = Desk::new();
    let one = desk.upload("p", b"one").await["offered"]["digest"].clone();
    let granted = json!({"digest": one, "grants": {"kv": {"notes": {}}}});
    let database = desk.service.database().await.expect("a store");
    let store = database.kv("p", "notes", Opener::Own([7; 32]), 1_000);
    store.set("key", b"value".to_vec(), None, None).await.expect("written");
    desk.load(&one);
    let refused = desk.accept("p", granted.clone()).await.expect_err("there are entries");
    assert_eq!((refused.status.as_u16(), refused.code), (409, "consent_required"));
    assert!(refused.message.contains("\"notes\" has entries, 1 in all"), "{}", refused.message);
    let mut agreed = granted;
    agreed["change_id"] = true.into();
    let shown = desk.accept("p", agreed).await.expect("accepted");
    let notes = shown["accepted"]["notes"].to_string();
    assert!(!notes.contains("in all"), "they are its own now: {notes}");
    // The next version of it has them without another word.
    let two = desk.upload("p", b"two").await["offered"]["digest"].clone();
    desk.load(&two);
    desk.accept("p", json!({"digest": two})).await.expect("accepted");
}

#[tokio::test]
async fn only_changes_of_clients_wait_for_plugins() {
    let desk = Desk::new();
    let key = json!({"name": "ci"});
    ask(&desk.service, Method::POST, "/api/governance/virtual-keys", key).await.expect("made");
    desk.upload("p", b"one").await;
    assert_eq!(*desk.gateway.awaits.lock(), [false, true]);
}

fn acceptance(digest: &str) -> Acceptance {
    Acceptance { digest: digest.to_owned(), regrant: BTreeSet::new(), change_id: false }
}

#[test]
fn a_name_in_the_query_is_one_of_a_client() {
    assert_eq!(chosen_name("").expect("none"), None);
    let chosen = chosen_name("name=my_text").expect("a name").map(|name| name.to_string());
    assert_eq!(chosen.as_deref(), Some("my_text"));
    for bad in ["name=..%2F..%2Fetc", "name=", "name=a%00", "name=a/b", "names=a", "name=%ff"] {
        assert_eq!(chosen_name(bad).expect_err("refused").status.as_u16(), 400, "{bad}");
    }
}

#[test]
fn only_the_digest_that_waits_is_accepted() {
    let one = ComponentDigest::compute(b"one");
    let two = ComponentDigest::compute(b"two");
    let mut element = json!({"wasm_config": {}});
    let none = offered(&element, &acceptance(&one.to_string())).expect_err("nothing waits");
    assert_eq!(none.status.as_u16(), 409);
    StoredComponents { accepted: Some(one), offered: Some(two) }.write(&mut element);
    assert_eq!(offered(&element, &acceptance(&two.to_string())), Ok(two));
    let other = offered(&element, &acceptance(&one.to_string())).expect_err("another one waits");
    assert_eq!((other.status.as_u16(), other.code), (409, "digest_differs"));
    assert_eq!(offered(&element, &acceptance("two")).expect_err("none").status.as_u16(), 400);
}

#[test]
fn members_of_the_plugin_are_set_and_others_are_refused() {
    let mut element =
        json!({"wasm_config": {"grants": {"clocks": true}, "limits": {"memory": "1MiB"}}});
    let members = json!({"grants": {"kv": {"notes": {}}}, "limits": null});
    let Value::Object(members) = members else { panic!("an object") };
    set_members(&mut element, members).expect("set");
    assert_eq!(element["wasm_config"], json!({"grants": {"kv": {"notes": {}}}}));
    for member in ["component", "stored", "grant"] {
        let members = Map::from_iter([(member.to_owned(), json!("x"))]);
        assert_eq!(set_members(&mut element, members).expect_err(member).status.as_u16(), 400);
    }
}
