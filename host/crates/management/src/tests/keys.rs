//! Virtual keys: who may make them and take back their changes, and the credentials that the gateway makes.

use std::{future::pending, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::*;
use crate::{Apply, FirstConnection, NotApplied, PluginState, Preview, ServiceSettings};
use airlock_plugin::{InspectError, Metadata};
use airlock_store::LazyDatabase;

/// Credential of a key of the configuration file.
const IN_FILE: &str = "sk-bf-of-the-configuration-file";

fn with_keys(keys: &Value) -> Value {
    json!({"governance": {"virtual_keys": keys}})
}

async fn revert(desk: &Desk, role: Role, change: usize) -> u16 {
    revert_as(desk, "ann", role, change).await
}

async fn revert_as(desk: &Desk, name: &str, role: Role, change: usize) -> u16 {
    let operator = Operator { name: name.to_owned(), role, sees_payloads: false };
    let path = format!("/api/changes/{change}/revert");
    let request = request(Method::POST, &path, json!({}));
    let answered = desk.service.answer(Some(&operator), request).await;
    answered.map_or_else(|refused| refused.status.as_u16(), |_| 200)
}

#[tokio::test]
async fn an_operator_brings_no_earlier_credential_back() {
    let keys = json!([{"name": "plain", "value": IN_FILE}, {"name": "made"}]);
    let desk = Desk::with(&with_keys(&keys));
    desk.service.make_key_values(|_| {}).await.expect("a value is made");
    assert_eq!(desk.status(Role::Operator, Method::POST, KEYS, json!({"name": "ci"})).await, 200);
    for name in ["ci", "plain", "made"] {
        let path = format!("{KEYS}/{name}/rotate");
        assert_eq!(desk.status(Role::Admin, Method::POST, &path, json!({})).await, 200);
    }
    for change in [3, 4, 5] {
        assert_eq!(revert(&desk, Role::Operator, change).await, 403, "{change}");
    }
    assert_eq!(revert(&desk, Role::Admin, 3).await, 200);
    assert_eq!(revert(&desk, Role::Admin, 4).await, 200);
    assert_eq!(revert(&desk, Role::Admin, 5).await, 409, "a value that was made stays rotated");
    for change in [6, 7] {
        assert_eq!(revert(&desk, Role::Operator, change).await, 403, "{change}");
    }
    for name in ["ci", "plain"] {
        let path = format!("{KEYS}/{name}");
        let change = json!({"description": "changed"});
        assert_eq!(desk.status(Role::Operator, Method::PUT, &path, change).await, 200);
    }
    for change in [8, 9] {
        assert_eq!(revert(&desk, Role::Operator, change).await, 200, "the credential stays");
    }
}

#[tokio::test]
async fn an_operator_brings_back_no_key_that_another_one_has_deleted() {
    let desk = Desk::with(&with_keys(&json!([{"name": "plain", "value": IN_FILE}])));
    assert_eq!(desk.status(Role::Operator, Method::POST, KEYS, json!({"name": "ci"})).await, 200);
    for name in ["ci", "plain"] {
        let path = format!("{KEYS}/{name}");
        for role in [Role::Operator, Role::Admin] {
            assert_eq!(desk.status(role, Method::DELETE, &path, Value::Null).await, 200);
            let deleted = desk.changes().await;
            let refused = revert_as(&desk, "bob", Role::Operator, deleted).await;
            assert_eq!(refused, 403, "{name} {role}");
            let own = revert_as(&desk, "ann", Role::Operator, deleted).await;
            assert_eq!(own, 200, "{name} {role}: it is a mistake that is corrected");
        }
        assert_eq!(desk.status(Role::Admin, Method::DELETE, &path, Value::Null).await, 200);
        let deleted = desk.changes().await;
        assert_eq!(revert_as(&desk, "bob", Role::Admin, deleted).await, 200, "{name}");
    }

    assert_eq!(desk.status(Role::Operator, Method::POST, KEYS, json!({"name": "new"})).await, 200);
    let made = desk.changes().await;
    assert_eq!(revert_as(&desk, "bob", Role::Admin, made).await, 200, "it is removed");
    let removed = desk.changes().await;
    assert_eq!(revert(&desk, Role::Operator, removed).await, 403, "that is a deletion too");
    assert_eq!(revert(&desk, Role::Admin, removed).await, 200);
}

#[tokio::test]
async fn a_change_is_not_reverted_after_later_ones_that_have_led_to_the_same_entry() {
    let desk = Desk::with(&with_keys(&json!([{"name": "plain", "value": IN_FILE}])));
    assert_eq!(desk.status(Role::Operator, Method::POST, KEYS, json!({"name": "ci"})).await, 200);
    for name in ["ci", "plain"] {
        let path = format!("{KEYS}/{name}");
        assert_eq!(desk.status(Role::Operator, Method::DELETE, &path, Value::Null).await, 200);
        let deleted = desk.changes().await;
        assert_eq!(revert(&desk, Role::Operator, deleted).await, 200, "it is the latest one");
        let rotate = format!("{path}/rotate");
        assert_eq!(desk.status(Role::Admin, Method::POST, &rotate, json!({})).await, 200);
        assert_eq!(desk.status(Role::Admin, Method::DELETE, &path, Value::Null).await, 200);
        let found = revert(&desk, Role::Operator, deleted).await;
        assert_eq!(found, 409, "{name}: it would bring the credential before the rotation back");
    }
}

#[tokio::test]
async fn an_operator_makes_no_key_with_a_name_that_has_a_meaning_already() {
    let mut config = with_keys(&json!([{"name": "ann", "value": IN_FILE}]));
    config["mcp_server"] = json!({"approval_rules": [{"virtual_key": "ann", "approval": "never"}]});
    let desk = Desk::with(&config);
    let group = json!({"name": "docs", "tools": [], "virtual_keys": ["dan"]});
    let groups = "/api/mcp/virtual-mcps";
    assert_eq!(desk.status(Role::Admin, Method::POST, groups, group).await, 200);
    let path = format!("{KEYS}/ann");
    assert_eq!(desk.status(Role::Operator, Method::DELETE, &path, Value::Null).await, 200);
    for (name, operator, admin) in [("ann", 403, 200), ("dan", 403, 200), ("eve", 200, 409)] {
        let key = json!({"name": name});
        let found = desk.status(Role::Operator, Method::POST, KEYS, key.clone()).await;
        assert_eq!(found, operator, "{name}");
        assert_eq!(desk.status(Role::Admin, Method::POST, KEYS, key).await, admin, "{name}");
    }
}

#[tokio::test]
async fn the_credential_of_a_key_that_left_the_file_is_revoked() {
    let desk = Desk::with(&with_keys(&json!([{"name": "ann"}])));
    desk.service.make_key_values(|_| {}).await.expect("a value is made");
    write(&desk.directory, &json!({}));
    let path = format!("{KEYS}/ann");
    for expected in [200, 404] {
        let found = desk.status(Role::Operator, Method::DELETE, &path, Value::Null).await;
        assert_eq!(found, expected);
    }
    write(&desk.directory, &with_keys(&json!([{"name": "ann"}])));
    let (shown, mut received) = mpsc::unbounded_channel();
    let making = desk.service.make_key_values(|made| {
        shown.send(made.key.clone()).expect("it is received");
    });
    making.await.expect("another value is made");
    assert_eq!(received.try_recv().as_deref(), Ok("ann"));
}

/// A gateway that never takes a change.
struct Stuck;

impl Apply for Stuck {
    fn apply(&self, _: bool) -> BoxFuture<'_, Result<(), NotApplied>> {
        Box::pin(pending())
    }

    fn connected<'a>(
        &'a self,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<FirstConnection, NotApplied>> {
        Box::pin(pending())
    }

    fn inspect(&self, _: Arc<[u8]>) -> BoxFuture<'_, Result<Metadata, InspectError>> {
        Box::pin(pending())
    }

    fn plugin(&self, _: &str) -> Option<PluginState> {
        None
    }

    fn preview(&self, _: Value) -> BoxFuture<'_, Result<Preview, NotApplied>> {
        Box::pin(pending())
    }
}

#[tokio::test]
async fn a_value_is_shown_as_soon_as_it_is_stored() {
    let desk = Desk::with(&with_keys(&json!([{"name": "ann"}, {"name": "bob"}])));
    let config = Config::load(&desk.directory.path().join("airlock.json")).expect("it is valid");
    let database = LazyDatabase::new(config.store_settings().expect("no key is needed"));
    let settings = ServiceSettings::new(&config, database);
    let service = Service::new(settings, Some(Arc::new(Stuck)));
    let (shown, mut received) = mpsc::unbounded_channel();
    let making = service.make_key_values(|made| {
        shown.send(made.key.clone()).expect("it is received");
    });
    let receiving = async { [received.recv().await, received.recv().await] };
    tokio::select! {
        keys = receiving => assert_eq!(keys, ["ann", "bob"].map(|key| Some(key.to_owned()))),
        made = making => panic!("the gateway takes no change: {made:?}"),
    }
}

#[tokio::test]
async fn an_entry_that_cannot_be_opened_is_not_one_that_does_not_exist() {
    let desk = Desk::new();
    let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    fs::write(desk.directory.path().join("store.key"), key).expect("a file");
    let mut config = with_keys(&json!([{"name": "ann"}]));
    config["store_key"] = json!({"file": "store.key"});
    write(&desk.directory, &config);
    let sealing = Desk { service: service(&desk.directory), directory: desk.directory };
    sealing.service.make_key_values(|_| {}).await.expect("a value is made");
    let teams = "/api/governance/teams";
    for (path, name) in [(KEYS, "ci"), (teams, "desk")] {
        let body = json!({"name": name});
        assert_eq!(sealing.status(Role::Admin, Method::POST, path, body).await, 200);
    }

    write(&sealing.directory, &with_keys(&json!([{"name": "ann"}, {"name": "bob"}])));
    let plain = Desk { service: service(&sealing.directory), directory: sealing.directory };
    let (shown, mut received) = mpsc::unbounded_channel();
    let making = plain.service.make_key_values(|made| {
        shown.send(made.key.clone()).expect("it is received");
    });
    making.await.expect("a key without a credential keeps no other from having one");
    assert_eq!(received.try_recv().as_deref(), Ok("bob"));
    assert!(received.try_recv().is_err(), "another gateway has made that of the other key");
    for (path, name) in [(KEYS, "ci"), (teams, "desk")] {
        let body = json!({"name": name});
        assert_eq!(
            plain.status(Role::Admin, Method::POST, path, body.clone()).await,
            409,
            "{path}"
        );
        let own = format!("{path}/{name}");
        assert_eq!(plain.status(Role::Admin, Method::PUT, &own, json!({})).await, 409, "{path}");
        for (role, expected) in [(Role::Operator, 409), (Role::Admin, 200), (Role::Admin, 404)] {
            let found = plain.status(role, Method::DELETE, &own, Value::Null).await;
            assert_eq!(found, expected, "{path} {role}");
        }
        assert_eq!(plain.status(Role::Admin, Method::POST, path, body).await, 200, "{path}");
    }
    let path = format!("{KEYS}/ann/rotate");
    assert_eq!(plain.status(Role::Admin, Method::POST, &path, json!({})).await, 200);
}

#[tokio::test]
async fn a_change_that_cannot_be_opened_is_listed_and_not_reverted() {
    let desk = Desk::new();
    let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    fs::write(desk.directory.path().join("store.key"), key).expect("a file");
    write(&desk.directory, &json!({"store_key": {"file": "store.key"}}));
    let sealing = Desk { service: service(&desk.directory), directory: desk.directory };
    let body = json!({"name": "ci"});
    assert_eq!(sealing.status(Role::Admin, Method::POST, KEYS, body.clone()).await, 200);
    write(&sealing.directory, &json!({}));
    let plain = Desk { service: service(&sealing.directory), directory: sealing.directory };
    let path = format!("{KEYS}/ci");
    assert_eq!(plain.status(Role::Admin, Method::DELETE, &path, Value::Null).await, 200);
    let listed = plain.ask(Role::Viewer, Method::GET, "/api/changes", Value::Null).await;
    let listed = listed.expect("listed")["changes"].take();
    for (change, action) in [(0, "key.delete"), (1, "key.create")] {
        let change = &listed[change];
        assert_eq!((change["action"].as_str(), &change["before"]), (Some(action), &Value::Null));
        assert!(change["unreadable"].is_string() && change["after"].is_null(), "{change}");
    }
    // It is not known what the last one would bring back.
    for change in [1, 2] {
        assert_eq!(revert(&plain, Role::Admin, change).await, 409, "{change}");
    }
    assert_eq!(plain.status(Role::Admin, Method::POST, KEYS, body).await, 200);
}
