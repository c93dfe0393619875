//! The golden guard of version 0.1.0 of the contract: it has every hook, makes every verdict, and shows the fields that a
//! gateway passes. `deny`, `ask` and `rewrite` in a text say how it decides.

use airlock_guest::{
    Error,
    guard::{
        Call, Guard, HiddenPart, Hook, ListedTool, ModelExchange, ModelText, Outcome, Verdict,
        parse_settings,
    },
    serde::Deserialize,
    serde_json::{Value, json},
};

/// The word that rewrites replace.
const SECRET: &str = "secret";

/// The address that models do not get.
const ADDRESS: &str = "ann@a.example";

#[derive(Deserialize)]
#[serde(crate = "airlock_guest::serde", deny_unknown_fields)]
struct Settings {
    /// The word that is written in the place of `secret`.
    replacement: String,
}

struct Golden;

impl Guard for Golden {
    const HOOKS: &'static [Hook] =
        &[Hook::Before, Hook::After, Hook::Definition, Hook::BeforeModel, Hook::AfterModel];

    fn check_settings(settings: &str) -> Result<(), Error> {
        parse_settings::<Settings>(settings).map(drop)
    }

    fn before(call: &Call) -> Result<Verdict, Error> {
        let text = &call.arguments;
        if text.contains("before:deny") {
            return Ok(Verdict::deny("before", facts_of_call(call)));
        }
        if text.contains("before:ask") {
            return Ok(Verdict::ask("the arguments ask"));
        }
        decide(text, "before:", &call.settings()?)
    }

    fn after(call: &Call, outcome: &Outcome) -> Result<Verdict, Error> {
        if call.arguments.contains("after:deny") {
            return Ok(Verdict::deny("after", facts_of_outcome(outcome)?));
        }
        if !call.arguments.contains("after:rewrite") {
            return Ok(Verdict::Allow);
        }
        let Settings { replacement } = call.settings()?;
        Ok(Verdict::Rewrite(outcome.text().replace(SECRET, &replacement)))
    }

    fn definition(listed: &ListedTool) -> Result<Verdict, Error> {
        let definition = &listed.definition;
        if definition.contains("definition:deny") {
            return Ok(Verdict::deny("definition", facts_of_tool(listed)?));
        }
        decide(definition, "definition:", &listed.settings()?)
    }

    fn before_model(exchange: &ModelExchange) -> Result<Verdict, Error> {
        if exchange.texts.contains("before_model:deny") {
            return Ok(Verdict::deny("before_model", facts_of_exchange(exchange)));
        }
        if exchange.texts.contains("before_model:rewrite") {
            return rewritten(exchange);
        }
        exchange.hide(address)
    }

    fn after_model(exchange: &ModelExchange) -> Result<Verdict, Error> {
        if exchange.texts.contains("after_model:deny") {
            return Ok(Verdict::deny("after_model", facts_of_exchange(exchange)));
        }
        if exchange.texts.contains("after_model:rewrite") {
            return rewritten(exchange);
        }
        Ok(Verdict::Allow)
    }
}

/// Rewrites a text that says so for this hook, and allows any other.
fn decide(text: &str, hook: &str, settings: &Settings) -> Result<Verdict, Error> {
    let is_rewritten = text.contains(&format!("{hook}rewrite"));
    Ok(if is_rewritten {
        Verdict::Rewrite(text.replace(SECRET, &settings.replacement))
    } else {
        Verdict::Allow
    })
}

fn rewritten(exchange: &ModelExchange) -> Result<Verdict, Error> {
    let Settings { replacement } = exchange.settings()?;
    exchange
        .rewrite(|text| text.text.contains(SECRET).then(|| text.text.replace(SECRET, &replacement)))
}

/// Returns the first address in a text.
fn address(text: &ModelText) -> Vec<HiddenPart> {
    let start = text.text.find(ADDRESS);
    let part = start.map(|start| HiddenPart {
        start,
        end: start + ADDRESS.len(),
        kind: "email".to_owned(),
    });
    part.into_iter().collect()
}

fn facts_of_call(call: &Call) -> String {
    let Call { tool, client, arguments, effects, origin, key, tenant, settings, .. } = call;
    let effects = json!([
        effects.read_only,
        effects.destructive,
        effects.idempotent,
        effects.open_world,
        effects.trusted,
    ]);
    let facts = json!([tool, client, arguments, effects, origin, key, tenant, settings]);
    facts.to_string()
}

fn facts_of_outcome(outcome: &Outcome) -> Result<String, Error> {
    let parsed: Value = outcome.parse()?;
    Ok(match outcome {
        Outcome::Success(_) => format!("success {}", parsed["content"]),
        Outcome::Failure(_) => {
            let members = ["kind", "code", "message"].map(|name| &parsed[name]);
            format!("failure {}", json!(members))
        }
    })
}

fn facts_of_tool(listed: &ListedTool) -> Result<String, Error> {
    let ListedTool { tool, client, trusted, settings, .. } = listed;
    let definition: Value = listed.definition()?;
    let members = ["name", "description", "inputSchema"].map(|name| &definition[name]);
    Ok(json!([tool, client, trusted, settings, members]).to_string())
}

fn facts_of_exchange(exchange: &ModelExchange) -> String {
    let ModelExchange { model, key, tenant, texts, settings, .. } = exchange;
    json!([model, key, tenant, texts, settings]).to_string()
}

airlock_guest::guard!(Golden);
