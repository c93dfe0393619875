use std::collections::BTreeMap;

use super::*;
use crate::{
    door::{Admitted, Environment, Filter, Provider, RelayRow, VirtualKey},
    tool::{Allowlist, CallError, Exclusions, Offer, Offers, Policy, ToolOutput, UriList, client},
};

struct Echo;

impl Provider for Echo {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { Err(CallError::cancelled()) })
    }

    fn server(&self) -> Option<&dyn McpServer> {
        Some(self)
    }
}

impl McpServer for Echo {
    fn relay(&self, relay: Relay) -> BoxFuture<'_, Result<String, RelayError>> {
        Box::pin(async move { Ok(format!("{}: {:?}", relay.client(), relay.request())) })
    }

    fn subscribe(&self, _: Relay, _: &Arc<Mailbox>, _: &str) -> Result<Subscription, RelayError> {
        Err(RelayError::TooManySubscriptions { limit: 0 })
    }

    fn forget(&self, _: &str) {}
}

fn policy() -> Policy {
    Policy {
        resources: UriList::parse(&["memo://*"]).expect("a good list"),
        prompts: Allowlist::parse(&["greet"]).expect("a good list"),
        ..Policy::default()
    }
}

fn offers() -> Arc<Offers> {
    Arc::new(Offers {
        resources: list(&["memo://a", "file:///secret"]),
        templates: list(&["memo://{id}", "file:///{path}"]),
        prompts: list(&["greet", "other"]),
        instructions: Some("Be kind.".into()),
    })
}

fn list(keys: &[&str]) -> Vec<Offer> {
    keys.iter().map(|key| Offer::new(key, "{}")).collect()
}

fn view(policy: &Policy, filter: &Filter, key: Option<&VirtualKey>) -> RelayView {
    let name = client("notes");
    let offers = offers();
    let provider: Arc<dyn Provider> = Arc::new(Echo);
    let source = RelaySource {
        client: &name,
        policy,
        offers: &offers,
        provider: Some(&provider),
        is_switched_off: false,
    };
    RelayView::new([source], filter, key)
}

fn keys<'a>(offers: impl Iterator<Item = (&'a ClientName, &'a Offer)>) -> Vec<&'a str> {
    offers.map(|(_, offer)| offer.key()).collect()
}

fn is_admitted(view: &RelayView, request: RelayRequest) -> bool {
    view.admit(&client("notes"), request, Duration::from_secs(1)).is_ok()
}

fn read(uri: &str) -> RelayRequest {
    RelayRequest::Read { uri: uri.into() }
}

fn get(name: &str) -> RelayRequest {
    RelayRequest::Prompt { name: name.into(), arguments: None }
}

fn complete(subject: Subject) -> RelayRequest {
    RelayRequest::Complete { subject, argument: "{}".into(), context: None }
}

#[test]
fn nothing_is_granted_by_default() {
    let view = view(&Policy::default(), &Filter::none(), None);
    assert!(!view.has_resources() && !view.has_prompts());
    assert!(view.resources().next().is_none() && view.instructions().next().is_none());
    assert!(!is_admitted(&view, read("memo://a")) && !is_admitted(&view, get("greet")));
}

#[test]
fn the_operators_lists_decide_what_is_listed_and_what_may_be_used() {
    let view = view(&policy(), &Filter::none(), None);
    assert!(view.has_resources() && view.has_prompts());
    assert!(view.has_resources_of("notes") && !view.has_resources_of("other"));
    assert_eq!(keys(view.resources()), ["memo://a"]);
    assert_eq!(keys(view.templates()), ["memo://{id}"]);
    assert_eq!(keys(view.prompts()), ["greet"]);
    assert!(is_admitted(&view, read("memo://a")) && is_admitted(&view, read("memo://unlisted")));
    assert!(!is_admitted(&view, read("file:///secret")));
    assert!(is_admitted(&view, get("greet")));
    assert!(!is_admitted(&view, get("other")) && !is_admitted(&view, get("unlisted")));
    assert!(is_admitted(&view, complete(Subject::Template("memo://{id}".into()))));
    assert!(!is_admitted(&view, complete(Subject::Template("file:///{path}".into()))));
    assert!(!is_admitted(&view, complete(Subject::Template("memo://{unlisted}".into()))));
    assert!(!is_admitted(&view, complete(Subject::Prompt("other".into()))));
    let other = view.admit(&client("other"), read("memo://a"), Duration::from_secs(1));
    assert!(matches!(other, Err(RelayError::NotFound)));
    assert_eq!(view.owners("memo://a").count(), 1);
    assert_eq!(view.owners("file:///secret").count(), 0);
}

#[test]
fn a_key_without_a_row_for_resources_sees_none_and_its_row_takes_precedence() {
    let rows = BTreeMap::from([(client("notes"), Allowlist::All)]);
    let key = VirtualKey::new("k", "sk-bf-1", rows);
    let open = Policy { allow_on_all_keys: true, relays_instructions: true, ..policy() };
    let hidden = view(&open, &Filter::none(), Some(&key));
    assert!(!hidden.has_resources() && !is_admitted(&hidden, read("memo://a")));
    assert_eq!(hidden.instructions().count(), 1);
    let row = RelayRow {
        resources: UriList::parse(&["memo://a", "file:///secret"]).expect("a good list"),
        prompts: Allowlist::default(),
    };
    let key = key.with_relayed(BTreeMap::from([(client("notes"), row)]));
    let one = view(&open, &Filter::none(), Some(&key));
    assert_eq!((keys(one.resources()), one.has_prompts()), (vec!["memo://a"], false));
    assert!(!is_admitted(&one, read("memo://b")) && !is_admitted(&one, read("file:///secret")));
    let other = VirtualKey::new("o", "sk-bf-2", BTreeMap::new());
    assert!(view(&open, &Filter::none(), Some(&other)).has_resources());
    let closed = view(&policy(), &Filter::none(), Some(&other));
    assert!(!closed.has_resources() && closed.instructions().next().is_none());
}

#[test]
fn instructions_of_a_client_are_not_passed_on_if_all_its_tools_are_excluded() {
    let open = Policy { allow_on_all_keys: true, relays_instructions: true, ..policy() };
    let key = VirtualKey::new("k", "sk-bf-1", BTreeMap::new());
    let none = Filter::none();
    for (names, expected) in [(&["a"][..], 1), (&["*"], 0)] {
        let names = Exclusions::parse(names).expect("a good list");
        let mut narrow = key.clone();
        Arc::make_mut(&mut narrow.grants).excluded.insert(client("notes"), names.clone());
        assert_eq!(view(&open, &none, Some(&narrow)).instructions().count(), expected);
        let mut bound = key.clone();
        let clients = [(client("notes"), names.clone())].into();
        let environment = Environment { name: "eu".to_owned(), clients };
        Arc::make_mut(&mut bound.grants).environment = Some(Arc::new(environment));
        assert_eq!(view(&open, &none, Some(&bound)).instructions().count(), expected);
        let policy = Policy { exclude: names, ..open.clone() };
        assert_eq!(view(&policy, &none, Some(&key)).instructions().count(), expected);
    }
    for (header, expected) in [("notes-a", 1), ("notes-*", 0)] {
        let filter = Filter::none().excluding(Some(header));
        assert_eq!(view(&open, &filter, None).instructions().count(), expected, "{header}");
    }
}

#[test]
fn headers_that_name_single_tools_hide_resources_and_prompts() {
    for (clients, tools, expected) in [
        (Some("notes"), None, true),
        (Some("other"), None, false),
        (None, Some("notes-*"), true),
        (None, Some("notes-read"), false),
        (Some("*"), Some("notes-*,x-y"), true),
    ] {
        let view = view(&policy(), &Filter::parse(clients, tools), None);
        assert_eq!(view.has_resources(), expected, "{clients:?} {tools:?}");
        assert_eq!(is_admitted(&view, read("memo://a")), expected);
    }
}

#[tokio::test]
async fn an_admitted_request_reaches_its_source() {
    let view = view(&policy(), &Filter::none(), None);
    let relay = view.admit(&client("notes"), read("memo://a"), Duration::from_secs(1));
    let relay = relay.expect("admitted");
    let mailbox = Arc::default();
    let again = view.admit(&client("notes"), read("memo://a"), Duration::from_secs(1));
    let subscribed = again.expect("admitted").subscribe(&mailbox, "memo://a");
    assert!(matches!(subscribed, Err(RelayError::TooManySubscriptions { .. })));
    assert_eq!(relay.run().await.expect("an echo"), r#"notes: Read { uri: "memo://a" }"#);
}
