//! Budgets, overrides and resets on a store in a file, with a limiter as a gateway has it.

use std::{fs, sync::Arc, time::Duration};

use futures_util::future::{self, BoxFuture, FutureExt as _};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{Apply, FirstConnection, NotApplied, PluginState, Preview, ServiceSettings};
use airlock_config::Config;
use airlock_core::operator::Role;
use airlock_operator_api::{Management as _, ManagementRequest};
use airlock_plugin::{InspectError, Metadata};
use airlock_store::LazyDatabase;

const KEYS: &str = "/api/governance/virtual-keys";

/// A gateway that has nothing but limits.
struct LimitedGateway {
    limiter: Arc<Limiter>,
}

impl Apply for LimitedGateway {
    fn apply(&self, _: bool) -> BoxFuture<'_, Result<(), NotApplied>> {
        future::ready(Ok(())).boxed()
    }

    fn connected<'a>(
        &'a self,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<FirstConnection, NotApplied>> {
        future::ready(Ok(FirstConnection::Ready)).boxed()
    }

    fn inspect(&self, component: Arc<[u8]>) -> BoxFuture<'_, Result<Metadata, InspectError>> {
        future::ready(Ok(Metadata::new(&component, Vec::new(), None, Vec::new()))).boxed()
    }

    fn plugin(&self, _: &str) -> Option<PluginState> {
        None
    }

    fn limiter(&self) -> Option<&Limiter> {
        Some(&self.limiter)
    }

    fn preview(&self, _: Value) -> BoxFuture<'_, Result<Preview, NotApplied>> {
        future::ready(Err(NotApplied("it is a fake".to_owned()))).boxed()
    }
}

struct Desk {
    service: Arc<Service>,
    limiter: Option<Arc<Limiter>>,
    _directory: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self::with(true)
    }

    /// Creates the API of a gateway, or of a command.
    fn with(has_gateway: bool) -> Self {
        Self::of_file(has_gateway, &json!({}))
    }

    fn of_file(has_gateway: bool, content: &Value) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("airlock.json");
        fs::write(&file, content.to_string()).expect("a file");
        let config = Config::load(&file).expect("a configuration");
        let database = LazyDatabase::new(config.store_settings().expect("no key"));
        let limiter = has_gateway.then(|| Limiter::new(database.clone()));
        let gateway = limiter.clone().map(|limiter| {
            let gateway: Arc<dyn Apply> = Arc::new(LimitedGateway { limiter });
            gateway
        });
        let service = Service::new(ServiceSettings::new(&config, database), gateway);
        Self { service, limiter, _directory: directory }
    }

    async fn ask_as(
        &self,
        role: Role,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Value, ManagementRefusal> {
        let operator = Operator { name: "ann".to_owned(), role, sees_payloads: false };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = ManagementRequest {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            body: Some(body).filter(|body| !body.is_null()),
            component: None,
            setup_token: None,
            session: None,
        };
        let answered = self.service.answer(Some(&operator), request).await;
        self.take_limits().await;
        answered
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Value, ManagementRefusal> {
        self.ask_as(Role::Operator, method, path, body).await
    }

    async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, Value::Null).await.expect("a response")
    }

    async fn status(&self, method: Method, path: &str, body: Value) -> u16 {
        let answered = self.ask(method, path, body).await;
        answered.map_or_else(|refused| refused.status.as_u16(), |_| 200)
    }

    /// Takes the limits, as the gateway does after each change.
    async fn take_limits(&self) {
        let state = self.service.state().await.expect("the elements");
        if let Some(limiter) = &self.limiter {
            limiter.set(&state.merged.config.limits);
        }
    }

    async fn budget(&self, owner: &str) -> Value {
        let listed = self.get(&format!("/api/governance/budgets?search={owner}")).await;
        listed["budgets"][0].clone()
    }
}

fn budget_of(dollars: f64) -> Value {
    json!([{"max_limit": dollars, "reset_duration": "1M"}])
}

#[tokio::test]
async fn each_owner_has_its_budgets_and_only_they_are_raised() {
    let desk = Desk::new();
    let team = json!({"name": "desk", "budget": {"max_limit": 7, "reset_duration": "weekly"}});
    let _ = desk.ask(Method::POST, "/api/governance/teams", team).await.expect("made");
    let customer = json!({"name": "acme", "budgets": budget_of(9.0)});
    let _ = desk.ask(Method::POST, "/api/governance/customers", customer).await.expect("made");
    let model = json!({"id": "m", "model_name": "*", "budgets": budget_of(5.0)});
    let models = "/api/governance/model-configs";
    let _ = desk.ask(Method::POST, models, model).await.expect("made");
    let key = json!({"name": "ci", "budgets": budget_of(2.5)});
    let _ = desk.ask(Method::POST, KEYS, key).await.expect("made");
    let listed = desk.get("/api/governance/budgets").await;
    assert_eq!(listed["total_count"], 4, "{listed}");

    let of_key = desk.budget("ci").await;
    let of_team = desk.budget("desk").await;
    assert_eq!((&of_key["max_limit"], &of_key["reset_duration"]), (&json!(2.5), &json!("1M")));
    assert_eq!((&of_team["max_limit"], &of_team["reset_duration"]), (&json!(7.0), &json!("1w")));
    let [of_key, of_team] =
        [&of_key, &of_team].map(|budget| budget["id"].as_str().expect("an identifier").to_owned());
    let raise = json!({"amount": 1, "mode": "cycles", "cycles": 2});
    let own = format!("{KEYS}/ci/budgets/{of_key}/override");
    let raised = desk.ask(Method::PUT, &own, raise.clone()).await.expect("raised");
    assert_eq!(raised["effective_max_limit"], json!(3.5));
    assert!(raised["budget"]["override_until"].is_string(), "{raised}");
    let of_desk = format!("/api/governance/teams/desk/budgets/{of_team}/override");
    assert_eq!(desk.status(Method::PUT, &of_desk, raise.clone()).await, 200);
    for path in [
        format!("{KEYS}/ci/budgets/{of_team}/override"),
        format!("{KEYS}/nix/budgets/{of_key}/override"),
        format!("/api/governance/teams/desk/budgets/{of_key}/override"),
    ] {
        assert_eq!(desk.status(Method::PUT, &path, raise.clone()).await, 404, "{path}");
    }
    let as_viewer = desk.ask_as(Role::Viewer, Method::DELETE, &own, Value::Null).await;
    assert_eq!(as_viewer.expect_err("refused").status.as_u16(), 403);
    let cleared = desk.ask(Method::DELETE, &own, Value::Null).await.expect("removed");
    assert_eq!(cleared["effective_max_limit"], json!(2.5));

    let prepaid =
        json!({"name": "prepaid", "budgets": [{"max_limit": 1, "reset_duration": "never"}]});
    let _ = desk.ask(Method::POST, KEYS, prepaid).await.expect("made");
    let budget = desk.budget("prepaid").await;
    let budget = budget["id"].as_str().expect("an identifier");
    let path = format!("{KEYS}/prepaid/budgets/{budget}/override");
    assert_eq!(desk.status(Method::PUT, &path, raise).await, 400, "its window never ends");
    let forever = json!({"amount": 1, "mode": "forever"});
    assert_eq!(desk.status(Method::PUT, &path, forever).await, 200);
}

#[tokio::test]
async fn limits_of_a_key_are_replaced_removed_and_kept() {
    let desk = Desk::new();
    let path = format!("{KEYS}/ci");
    let rates = json!({"request_max_limit": 5, "request_reset_duration": "1m"});
    let key = json!({"name": "ci", "budget": {"max_limit": 1, "reset_duration": "1d"}, "rate_limit": rates});
    let made = desk.ask(Method::POST, KEYS, key).await.expect("made");
    assert_eq!(made["virtual_key"]["budgets"][0]["reset_duration"], "1d");
    let id = desk.budget("ci").await["id"].clone();
    let update =
        json!({"budgets": [{"max_limit": 2, "reset_duration": "daily"}], "calendar_aligned": true});
    let updated = desk.ask(Method::PUT, &path, update).await.expect("updated");
    assert_eq!(updated["virtual_key"]["rate_limit"], rates, "what is not sent stays");
    let budget = desk.budget("ci").await;
    assert_eq!((&budget["id"], &budget["calendar_aligned"]), (&id, &json!(true)));
    // Programs send the whole key back.
    let shown = desk.get(&path).await["virtual_key"].clone();
    let sent = json!({
        "name": "ci", "budgets": shown["budgets"], "rate_limit": shown["rate_limit"],
        "calendar_aligned": shown["calendar_aligned"], "team_id": shown["team_id"],
    });
    assert_eq!(desk.status(Method::PUT, &path, sent).await, 200);
    let none = json!({"budgets": [], "rate_limit": {}});
    assert_eq!(desk.status(Method::PUT, &path, none).await, 200);
    assert_eq!(desk.get("/api/governance/budgets").await["total_count"], 0);
    assert_eq!(desk.get("/api/governance/rate-limits").await["total_count"], 0);
    let bad = json!({"budgets": [{"max_limit": -1, "reset_duration": "1d"}]});
    let refused = desk.ask(Method::PUT, &path, bad).await.expect_err("refused");
    assert!(refused.message.contains("budgets[0].max_limit"), "{}", refused.message);
    for body in [json!({"budgets": 7}), json!({"rate_limit": {"token_max_limit": 1}})] {
        assert_eq!(desk.status(Method::PUT, &path, body).await, 400);
    }
}

#[tokio::test]
async fn a_reset_is_recorded_and_only_elements_with_budgets_have_one() {
    let desk = Desk::new();
    let reset = json!({"reset_budget_usage": true});
    let key = json!({"name": "ci", "budgets": budget_of(1.0)});
    let _ = desk.ask(Method::POST, KEYS, key).await.expect("made");
    assert_eq!(desk.status(Method::PUT, &format!("{KEYS}/ci"), reset.clone()).await, 200);
    let change = desk.get("/api/changes?limit=1").await["changes"][0].clone();
    assert_eq!((&change["action"], &change["kind"]), (&json!("limit.reset"), &json!("limit")));
    assert_eq!(change["name"], desk.budget("ci").await["id"]);
    assert_eq!(change["actor"], "operator \"ann\"");
    let roles = "/api/governance/roles";
    assert_eq!(desk.status(Method::POST, roles, json!({"name": "r"})).await, 200);
    assert_eq!(desk.status(Method::PUT, &format!("{roles}/r"), reset.clone()).await, 400);
    let wrong = json!({"reset_budget_usage": "yes"});
    assert_eq!(desk.status(Method::PUT, &format!("{KEYS}/ci"), wrong).await, 400);
    let command = Desk::with(false);
    let key = json!({"name": "ci", "budgets": budget_of(1.0)});
    let _ = command.ask(Method::POST, KEYS, key).await.expect("made");
    assert_eq!(command.budget("ci").await["current_usage"], Value::Null, "nothing counts here");
    assert_eq!(command.status(Method::PUT, &format!("{KEYS}/ci"), reset).await, 409);
}

#[tokio::test]
async fn a_limit_on_a_model_keeps_what_it_counts_and_lets_its_key_go() {
    let desk = Desk::new();
    let models = "/api/governance/model-configs";
    let _ = desk.ask(Method::POST, KEYS, json!({"name": "ci"})).await.expect("made");
    let config = json!({
        "model_name": "large", "scope": "virtual_key", "scope_id": "ci", "budgets": budget_of(1.0),
    });
    let made = desk.ask(Method::POST, models, config).await.expect("made");
    let id = made["model_config"]["id"].as_str().expect("an identifier").to_owned();
    let budget = desk.budget("ci").await;
    assert_eq!(budget["model_name"], "large", "{budget}");
    let path = format!("{models}/{id}");
    for member in ["model_name", "scope", "scope_id", "provider"] {
        let body = json!({member: "other"});
        assert_eq!(desk.status(Method::PUT, &path, body).await, 400, "{member}");
    }
    let raise = json!({"amount": 1, "mode": "forever"});
    let budget = budget["id"].as_str().expect("an identifier");
    let raised = desk.ask(Method::PUT, &format!("{path}/budgets/{budget}/override"), raise).await;
    assert_eq!(raised.expect("raised")["effective_max_limit"], json!(2.0));
    assert_eq!(desk.status(Method::PUT, &path, json!({"budgets": budget_of(3.0)})).await, 200);
    assert_eq!(desk.status(Method::DELETE, &format!("{KEYS}/ci"), Value::Null).await, 200);
    assert_eq!(desk.get("/api/governance/budgets").await["total_count"], 0);
    assert_eq!(desk.status(Method::DELETE, &path, Value::Null).await, 200);
    let unknown = json!({"model_name": "a", "scope": "virtual_key", "scope_id": "nix"});
    assert_eq!(desk.status(Method::POST, models, unknown).await, 400);
}

#[tokio::test]
async fn a_limit_that_is_removed_and_made_again_begins_anew() {
    let desk = Desk::new();
    let models = "/api/governance/model-configs";
    let model = json!({"id": "m", "model_name": "*", "budgets": budget_of(5.0)});
    for _ in 0..2 {
        let _ = desk.ask(Method::POST, models, model.clone()).await.expect("made");
        let budget = desk.get("/api/governance/budgets").await["budgets"][0].clone();
        assert_eq!(budget["effective_max_limit"], json!(5.0), "nothing is left of the one before");
        let id = budget["id"].as_str().expect("an identifier");
        let raise = json!({"amount": 1, "mode": "forever"});
        let path = format!("{models}/m/budgets/{id}/override");
        assert_eq!(desk.status(Method::PUT, &path, raise).await, 200);
        let path = format!("{models}/m");
        assert_eq!(desk.status(Method::DELETE, &path, Value::Null).await, 200);
    }
}

#[tokio::test]
async fn a_key_whose_credential_was_made_has_its_budgets_under_one_identifier() {
    let key = json!({"name": "ci", "budgets": budget_of(1.0)});
    let desk = Desk::of_file(true, &json!({"governance": {"virtual_keys": [key]}}));
    desk.service.make_key_values(|_| {}).await.expect("a value is made");
    desk.take_limits().await;
    let budget = desk.budget("ci").await;
    assert_eq!(budget["owner_name"], "ci", "{budget}");
    let budget = budget["id"].as_str().expect("an identifier");
    let path = format!("{KEYS}/ci/budgets/{budget}/override");
    let raise = json!({"amount": 1, "mode": "forever"});
    assert_eq!(desk.status(Method::PUT, &path, raise).await, 200);
}
