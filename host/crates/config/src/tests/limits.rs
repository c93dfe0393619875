//! Limits and prices.

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use airlock_core::{door::Membership, money::Money};
use airlock_limits::{
    limit::{Limit, Measure, Owner, Period, Scope, Window},
    price::{ModelPrice, TierPrice},
};

const MINUTE: Window = Window::Rolling(Duration::from_mins(1));
const MONTH: Window = Window::Rolling(Duration::from_hours(30 * 24));

/// A file with a key `ann` of a team, with other members of the key.
fn file(members: &Value) -> Value {
    let mut key = json!({"id": "k-1", "name": "ann", "value": SECRET, "team_id": "desk"});
    for (name, value) in members.as_object().expect("members") {
        key[name] = value.clone();
    }
    let mut file = clients(json!([stdio("fs")]));
    file["providers"] = json!({"stub": {"kind": "scripted", "script": "s.json"}});
    file["governance"] = json!({
        "customers": [{"id": "c-1", "name": "acme"}],
        "teams": [{"name": "desk", "customer_id": "acme"}],
        "virtual_keys": [key],
    });
    file
}

/// Returns what each limit of a file is of.
fn limits(file: &Value) -> Vec<(Owner, Scope, Measure, u64, Window)> {
    let limits = good(file).limits.into_iter();
    limits
        .map(|limit| (limit.owner, limit.scope, limit.measure, limit.most, limit.window))
        .collect()
}

fn ann() -> Owner {
    Owner::Key("k-1".to_owned())
}

#[test]
fn budgets_and_rates_of_a_key_become_limits_under_its_identifier() {
    let members = json!({
        "budgets": [
            {"max_limit": 0.25, "reset_duration": "1d"},
            {"max_limit": 50, "reset_duration": "monthly"},
            {"max_limit": 100, "reset_duration": "never"},
        ],
        "rate_limit": {
            "token_max_limit": 1_000, "token_reset_duration": "1m",
            "request_max_limit": 7, "request_reset_duration": "1m",
            "tool_call_max_limit": 3, "tool_call_reset_duration": "1m",
            "argument_byte_max_limit": 4_096, "argument_byte_reset_duration": "1m",
            "max_concurrent": 2,
        },
        "mcp_configs": [{"mcp_client_name": "fs", "tools_to_execute": ["*"],
            "rate_limit": {"tool_call_max_limit": 1, "tool_call_reset_duration": "1m",
                "argument_byte_max_limit": 512, "argument_byte_reset_duration": "1m"}}],
    });
    let day = Window::Rolling(Duration::from_hours(24));
    let fs = Scope::Client("fs".to_owned());
    assert_eq!(
        limits(&file(&members)),
        [
            (ann(), Scope::All, Measure::Cost, 250_000, day),
            (ann(), Scope::All, Measure::Cost, 50_000_000, MONTH),
            (ann(), Scope::All, Measure::Cost, 100_000_000, Window::Never),
            (ann(), Scope::All, Measure::Tokens, 1_000, MINUTE),
            (ann(), Scope::All, Measure::Requests, 7, MINUTE),
            (ann(), Scope::All, Measure::ToolCalls, 3, MINUTE),
            (ann(), Scope::All, Measure::ArgumentBytes, 4_096, MINUTE),
            (ann(), Scope::All, Measure::Concurrency, 2, Window::Never),
            (ann(), fs.clone(), Measure::ToolCalls, 1, MINUTE),
            (ann(), fs, Measure::ArgumentBytes, 512, MINUTE),
        ]
    );
    let old = json!({"budget": {"max_limit": 50, "reset_duration": "1M"}, "budgets": [], "rate_limit": {}});
    assert_eq!(limits(&file(&old)), [(ann(), Scope::All, Measure::Cost, 50_000_000, MONTH)]);
}

#[test]
fn groups_models_clients_and_tools_have_limits_of_their_own() {
    let mut file = file(&json!({}));
    file["governance"]["customers"][0]["budget"] =
        json!({"max_limit": 1, "reset_duration": "1Q", "reset_config": {"quarter_start_month": 4}});
    file["governance"]["customers"][0]["calendar_aligned"] = json!(true);
    file["governance"]["teams"][0]["rate_limit"] = json!({"max_concurrent": 9});
    file["governance"]["model_configs"] = json!([
        {"id": "m-1", "model_name": "*", "provider": "stub",
         "rate_limit": {"request_max_limit": 1, "request_reset_duration": "1m"}},
        {"id": "m-2", "model_name": "large", "scope": "virtual_key", "scope_id": "ann",
         "budgets": [{"max_limit": 1, "reset_duration": "1M"}]},
    ]);
    let client = &mut file["mcp"]["client_configs"][0];
    client["rate_limit"] = json!({"max_concurrent": 5});
    client["tool_limits"] =
        json!({"delete": {"argument_byte_max_limit": 1, "argument_byte_reset_duration": "never"}});
    let provider = Some("stub".to_owned());
    let acme = Owner::Customer("c-1".to_owned());
    let quarter = Window::Calendar(Period::Quarter(4));
    assert_eq!(
        limits(&file),
        [
            (acme, Scope::All, Measure::Cost, 1_000_000, quarter),
            (Owner::Team("desk".to_owned()), Scope::All, Measure::Concurrency, 9, Window::Never),
            (
                Owner::Everyone,
                Scope::Model { provider, model: "*".to_owned() },
                Measure::Requests,
                1,
                MINUTE
            ),
            (
                ann(),
                Scope::Model { provider: None, model: "large".to_owned() },
                Measure::Cost,
                1_000_000,
                MONTH
            ),
            (
                Owner::Everyone,
                Scope::Client("fs".to_owned()),
                Measure::Concurrency,
                5,
                Window::Never
            ),
            (
                Owner::Everyone,
                Scope::Tool("fs-delete".to_owned()),
                Measure::ArgumentBytes,
                1,
                Window::Never
            ),
        ]
    );
}

fn only_limit(file: &Value) -> Limit {
    let mut limits = good(file).limits;
    assert_eq!(limits.len(), 1);
    limits.remove(0)
}

fn budget(most: u64, duration: &str) -> Value {
    json!({"budgets": [{"max_limit": most, "reset_duration": duration}]})
}

#[test]
fn a_count_is_kept_when_the_number_the_calendar_or_the_name_changes_and_no_other_has_it() {
    let first = only_limit(&file(&budget(1, "1d")));
    assert_eq!(first.id.len(), 32);
    let mut aligned = budget(2, "daily");
    aligned["calendar_aligned"] = json!(true);
    aligned["name"] = json!("ann-2");
    assert_eq!(only_limit(&file(&aligned)).id, first.id);
    let mut other = budget(1, "1d");
    other["id"] = json!("k-2");
    for members in [other, budget(1, "1w"), json!({"rate_limit": {"max_concurrent": 1}})] {
        assert_ne!(only_limit(&file(&members)).id, first.id);
    }
}

fn membership(file: &Value) -> Membership {
    let keys = good(file).keys;
    let key = keys.find(SECRET, None, UNIX_EPOCH).expect("the key");
    Membership::clone(key.membership())
}

#[test]
fn a_key_is_a_member_of_its_team_and_of_the_customer_of_that() {
    let mut file = file(&json!({}));
    let expected = Membership {
        key: Some("k-1".to_owned()),
        key_name: Some("ann".to_owned()),
        team: Some("desk".to_owned()),
        customer: Some("c-1".to_owned()),
        environment: None,
    };
    assert_eq!(membership(&file), expected);
    let key = &mut file["governance"]["virtual_keys"][0];
    key["id"] = Value::Null;
    key["team_id"] = Value::Null;
    key["customer_id"] = json!("acme");
    let key = Some("ann".to_owned());
    let unbound = Membership { key, team: None, ..expected };
    assert_eq!(membership(&file), unbound);
    let governance = &mut file["governance"];
    governance["environments"] = json!([{"name": "eu", "clients": []}]);
    governance["virtual_keys"][0]["environment"] = json!("eu");
    let environment = Some("eu".to_owned());
    assert_eq!(membership(&file), Membership { environment, ..unbound });
}

#[test]
fn bad_limits_are_refused_by_their_keys() {
    let budget = json!({"max_limit": 1, "reset_duration": "1d"});
    for (members, expected) in [
        (
            json!({"budgets": [{"max_limit": -1, "reset_duration": "1d"}]}),
            "budgets[0].max_limit: must be from 0 to 1000000000 US dollars, found -1",
        ),
        (
            json!({"budgets": [{"max_limit": 1, "reset_duration": "hourly"}]}),
            "budgets[0].reset_duration: found \"hourly\", expected a number with m, h, d, w, M, Q or Y",
        ),
        (
            json!({"budgets": [{"max_limit": 1, "reset_duration": "30s"}]}),
            "budgets[0].reset_duration: must be from 1m to 1Y, found \"30s\"",
        ),
        (json!({"budgets": [{"max_limit": 1}]}), "budgets[0].reset_duration"),
        (
            json!({"budgets": [budget, {"max_limit": 2, "reset_duration": "24h"}]}),
            "budgets[1].reset_duration: another entry of `budgets` has this length",
        ),
        (json!({"budgets": [budget], "budget": budget}), "budget: is beside `budgets`"),
        (
            json!({"budgets": [{"max_limit": 1, "reset_duration": "2d"}], "calendar_aligned": true}),
            "budgets[0].reset_duration: with `calendar_aligned`, expected 1d, 1w, 1M, 1Q or 1Y",
        ),
        (
            json!({"budgets": [{"max_limit": 1, "reset_duration": "1Q", "reset_config": {"quarter_start_month": 2}}]}),
            "budgets[0].reset_config.quarter_start_month: belongs to the `reset_duration` \"1Q\"",
        ),
        (
            json!({"budgets": [{"max_limit": 1, "reset_duration": "1Q", "reset_config": {"quarter_start_month": 13}}]}),
            "budgets[0].reset_config.quarter_start_month: must be from 1 to 12, found 13",
        ),
        (
            json!({"rate_limit": {"token_max_limit": 1}}),
            "rate_limit.token_reset_duration: is required when token_max_limit is set",
        ),
        (
            json!({"rate_limit": {"request_reset_duration": "1m"}}),
            "rate_limit.request_max_limit: is required when request_reset_duration is set",
        ),
        (
            json!({"rate_limit": {"tool_call_max_limit": 0, "tool_call_reset_duration": "1m"}}),
            "rate_limit.tool_call_max_limit: must be from 1 to 1000000000, found 0",
        ),
        (
            json!({"rate_limit": {"argument_byte_max_limit": 1}}),
            "rate_limit.argument_byte_reset_duration: is required when argument_byte_max_limit is set",
        ),
        (
            json!({"rate_limit": {"argument_byte_max_limit": 0, "argument_byte_reset_duration": "1m"}}),
            "rate_limit.argument_byte_max_limit: must be from 1 to 1000000000000, found 0",
        ),
        (json!({"rate_limit": {"max_concurrent": 0}}), "rate_limit.max_concurrent: must be from 1"),
        (json!({"rate_limit": {"requests": 1}}), "rate_limit.requests"),
        (json!({"rate_limit_id": "r"}), "rate_limit_id: this build does not act on it"),
        (json!({"provider_configs": []}), "provider_configs: this build does not act on it"),
        (
            json!({"mcp_configs": [{"mcp_client_name": "fs", "rate_limit": {"token_max_limit": 1}}]}),
            "mcp_configs[0].rate_limit.token_max_limit",
        ),
    ] {
        let found = error(&file(&members));
        let expected = format!("governance.virtual_keys[0].{expected}");
        assert!(found.contains(&expected), "{members}: {found}");
    }
}

#[test]
fn bad_limits_of_other_elements_are_refused_by_their_keys() {
    let calls = json!({"tool_call_max_limit": 1, "tool_call_reset_duration": "1m"});
    let bytes = json!({"argument_byte_max_limit": 1, "argument_byte_reset_duration": "1m"});
    for (pointer, value, expected) in [
        (
            "/governance/roles",
            json!([{"name": "r", "mcp_configs": [{"mcp_client_name": "fs", "rate_limit": calls}]}]),
            "governance.roles[0].mcp_configs[0].rate_limit: belongs to a row of a virtual key",
        ),
        (
            "/governance/model_configs",
            json!([{"id": "m", "model_name": "a", "provider": "gone"}]),
            "governance.model_configs[0].provider: no provider is named \"gone\"; `providers` has \"stub\"",
        ),
        (
            "/governance/model_configs",
            json!([{"id": "m", "model_name": "a", "scope": "virtual_key"}]),
            "governance.model_configs[0].scope_id: is required",
        ),
        (
            "/governance/model_configs",
            json!([{"id": "m", "model_name": "a", "scope_id": "ann"}]),
            "governance.model_configs[0].scope_id: belongs to the `scope` \"virtual_key\"",
        ),
        (
            "/governance/model_configs",
            json!([{"id": "m", "model_name": "a", "scope": "virtual_key", "scope_id": "bob"}]),
            "governance.model_configs[0].scope_id: no key is named \"bob\"; `governance.virtual_keys` has \"ann\"",
        ),
        (
            "/governance/model_configs",
            json!([{"id": "m", "model_name": "a", "scope": "user"}]),
            "governance.model_configs[0].scope",
        ),
        (
            "/governance/model_configs",
            json!([{"id": "m", "model_name": "a"}, {"id": "m", "model_name": "a"}]),
            "governance.model_configs[1].model_name: another element has this model",
        ),
        (
            "/governance/model_configs",
            json!([{"id": "m", "model_name": "a", "rate_limit": calls}]),
            "governance.model_configs[0].rate_limit.tool_call_max_limit: belongs to keys",
        ),
        (
            "/governance/model_configs",
            json!([{"id": "m", "model_name": "a", "rate_limit": bytes}]),
            "governance.model_configs[0].rate_limit.argument_byte_max_limit: belongs to keys",
        ),
        (
            "/governance/budgets",
            json!([{"id": "b"}]),
            "governance.budgets: this build does not act on it: write them at their owners",
        ),
        (
            "/mcp/client_configs/0/rate_limit",
            json!({"request_max_limit": 1}),
            "mcp.client_configs[0].rate_limit.request_max_limit",
        ),
        (
            "/mcp/client_configs/0/tool_limits",
            json!({"*": calls}),
            "mcp.client_configs[0].tool_limits.*: is not the name of a tool",
        ),
        (
            "/mcp/client_configs/0/tool_pricing",
            json!({"read": -0.5}),
            "mcp.client_configs[0].tool_pricing.read: must be from 0",
        ),
    ] {
        let mut file = file(&json!({}));
        let (parent, member) = pointer.rsplit_once('/').expect("a member");
        file.pointer_mut(parent).expect("it exists")[member] = value;
        let found = error(&file);
        // A member that is no identifier is quoted in a key.
        let found = found.replace("[\"*\"]", ".*");
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn two_keys_never_share_an_identifier() {
    for (second, member) in [
        (json!({"id": "k-1", "name": "bob", "value": "sk-bf-hunter2-of-another"}), "[1].id"),
        (json!({"name": "k-1", "value": "sk-bf-hunter2-of-another"}), "[0].id"),
    ] {
        let mut file = file(&json!({}));
        let keys = file["governance"]["virtual_keys"].as_array_mut().expect("keys");
        keys.push(second);
        let found = error(&file);
        assert!(
            found.contains(&format!("governance.virtual_keys{member}: another key")),
            "{found}"
        );
    }
}

#[test]
fn prices_are_those_of_models_by_name_or_beginning_and_of_tools() {
    let mut file = file(&json!({}));
    file["governance"]["pricing_overrides"] = json!([
        {"id": "p-1", "name": "ours", "scope_kind": "provider", "provider_id": "stub", "pattern": "large",
         "request_types": ["chat_completion"],
         "patch": {"input_cost_per_token": 0.000_002_5, "output_cost_per_token": 0.000_01, "cache_read_input_token_cost": 0}},
        {"id": "p-2", "match_type": "wildcard", "pattern": "*", "patch": {"input_cost_per_token": 0.000_001, "output_cost_per_token": 0,
         "input_cost_per_token_priority": 0.000_002, "output_cost_per_token_priority": 0.000_003,
         "input_cost_per_token_flex": 0.000_000_5, "output_cost_per_token_flex": 0, "cache_read_input_token_cost_flex": 0}},
    ]);
    file["mcp"]["client_configs"][0]["tool_pricing"] = json!({"read": 0.005});
    file["mcp"]["client_configs"].as_array_mut().expect("clients").push(with(
        stdio("web"),
        "tool_pricing",
        json!({"*": 1}),
    ));
    let prices = good(&file).prices;
    assert_eq!(
        ["fs-read", "fs-other", "web-any"].map(|tool| prices.call(tool).map(Money::millionths)),
        [Some(5_000), None, Some(1_000_000)]
    );
    let large = ModelPrice::new(2_500_000, 0, 10_000_000);
    assert_eq!(prices.model(Some("stub"), "large"), Some(large));
    let priority = TierPrice { input: 2_000_000, cached_input: 2_000_000, output: 3_000_000 };
    let flex = TierPrice { input: 500_000, cached_input: 0, output: 0 };
    let others = ModelPrice {
        priority: Some(priority),
        flex: Some(flex),
        ..ModelPrice::new(1_000_000, 1_000_000, 0)
    };
    assert_eq!(prices.model(Some("other"), "large"), Some(others));
    for (entry, expected) in [
        (
            json!({"id": "p", "pattern": "a*", "patch": {"input_cost_per_token": 1}}),
            "pattern: found \"a*\"",
        ),
        (
            json!({"id": "p", "pattern": "a", "match_type": "wildcard", "patch": {"input_cost_per_token": 1}}),
            "pattern: found \"a\"",
        ),
        (
            json!({"id": "p", "pattern": "a", "patch": {}}),
            "patch.input_cost_per_token: is required",
        ),
        (
            json!({"id": "p", "pattern": "a", "patch": {"input_cost_per_token": 101}}),
            "patch.input_cost_per_token: must be from 0 to 100 US dollars",
        ),
        (
            json!({"id": "p", "pattern": "a", "patch": {"input_cost_per_token": 1, "output_cost_per_token": 1, "cache_read_input_token_cost_flex": 1}}),
            "patch.input_cost_per_token_flex: is required",
        ),
        (
            json!({"id": "p", "pattern": "a", "patch": {"input_cost_per_image": 1}}),
            "patch.input_cost_per_image",
        ),
        (
            json!({"id": "p", "pattern": "a", "virtual_key_id": "v", "patch": {"input_cost_per_token": 1}}),
            "virtual_key_id: this build does not act on it",
        ),
        (
            json!({"id": "p", "pattern": "a", "scope_kind": "provider", "patch": {"input_cost_per_token": 1}}),
            "provider_id: is required",
        ),
        (
            json!({"id": "p", "pattern": "a", "request_types": ["embedding"], "patch": {"input_cost_per_token": 1}}),
            "request_types[0]",
        ),
        (json!({"id": "", "pattern": "a", "patch": {"input_cost_per_token": 1}}), "id: is empty"),
    ] {
        file["governance"]["pricing_overrides"] = json!([entry]);
        let found = error(&file);
        assert!(found.contains(&format!("governance.pricing_overrides[0].{expected}")), "{found}");
    }
}
