//! A guard for tests: the arguments of a call say how it decides. The word after `before:` is for the hook before the
//! call, that after `after:` for the other one, and that after `definition:` in a definition for the definition. Those after
//! `before_model:` and `after_model:` in the texts of a conversation are for its request and its response. The word after `check:` in the settings says how they are checked:
//! `refuse`, `trap` or `spin`; all others are accepted. The words after `hooks:` are the hooks that it has; without them,
//! it has all.
//!
//! | Word | Decision |
//! |---|---|
//! | `deny` | deny |
//! | `rewrite` | the texts `secret` become `hidden` |
//! | `ask` | ask |
//! | `facts` | deny; the reason has what the guard knows of the call |
//! | `trap`, `spin`, `hoard` | none: it traps, computes without end, or takes memory without end |
//! | `big`, `broken`, `array` | a rewrite that is too large, no JSON, or no object |
//! | `rename` | a rewrite with another name: `note` becomes `sent` |
//! | any other | allow |

use bindings::exports::airlock::guard::hooks::{
    Call, Denial, Guest, Hook, ListedTool, ModelExchange, Outcome, Verdict,
};

#[allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated from wit/guard"
)]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit/guard/0.1.0", world: "guard" });

    // Native linkers do not accept such names.
    #[cfg(target_family = "wasm")]
    export!(Warden with_types_in self);

    #[cfg(target_family = "wasm")]
    use super::Warden;
}

/// The component.
pub struct Warden;

impl Guest for Warden {
    fn check_settings(settings: String) -> Result<Vec<Hook>, String> {
        match word(&settings, "check:") {
            "refuse" => Err("the settings\nsay so".to_owned()),
            "trap" => panic!("as the settings say"),
            "spin" => spin(),
            _ => Ok(hooks(&settings)),
        }
    }

    fn before_call(call: Call) -> Verdict {
        decide(&call, "before:", &call.arguments)
    }

    fn after_call(call: Call, outcome: Outcome) -> Verdict {
        let (Outcome::Success(text) | Outcome::Failure(text)) = &outcome;
        decide(&call, "after:", text)
    }

    fn on_definition(listed: ListedTool) -> Verdict {
        let ListedTool { tool, client, trusted, definition, settings, .. } = listed;
        match word(&definition, "definition:") {
            "facts" => deny(
                "facts",
                &format!("tool={tool} client={client} trusted={trusted} settings={settings}"),
            ),
            word => act(word, &definition),
        }
    }

    fn before_model(exchange: ModelExchange) -> Verdict {
        decide_texts(&exchange, "before_model:")
    }

    fn after_model(exchange: ModelExchange) -> Verdict {
        decide_texts(&exchange, "after_model:")
    }
}

/// Returns the hooks that the settings say.
fn hooks(settings: &str) -> Vec<Hook> {
    match word(settings, "hooks:") {
        "none" => Vec::new(),
        "before" => vec![Hook::Before],
        "definition" => vec![Hook::Definition],
        _ => vec![Hook::Before, Hook::After, Hook::Definition, Hook::BeforeModel, Hook::AfterModel],
    }
}

/// Decides about the texts of a request to a model or of its response by the word after `hook` in them.
fn decide_texts(exchange: &ModelExchange, hook: &str) -> Verdict {
    let ModelExchange { model, key, tenant, texts, settings, .. } = exchange;
    match word(texts, hook) {
        "facts" => {
            let key = key.as_deref().unwrap_or("none");
            deny(
                "facts",
                &format!(
                    "model={model} key={key} tenant={tenant} settings={settings} texts={texts}"
                ),
            )
        }
        word => act(word, texts),
    }
}

/// Decides by the word after `hook` about `text`, which may be rewritten.
fn decide(call: &Call, hook: &str, text: &str) -> Verdict {
    match word(&call.arguments, hook) {
        "facts" => deny("facts", &facts(call)),
        word => act(word, text),
    }
}

/// Makes the decision that a word says about `text`, which may be rewritten.
fn act(word: &str, text: &str) -> Verdict {
    match word {
        "deny" => deny("told", "the call\nsays so"),
        "rewrite" => Verdict::Rewrite(text.replace("secret", "hidden")),
        "ask" => Verdict::Ask("the call says so".to_owned()),
        "trap" => panic!("as the call says"),
        "spin" => spin(),
        "hoard" => hoard(),
        "big" => Verdict::Rewrite(format!("{{\"a\":\"{}\"}}", "x".repeat(2 << 20))),
        "broken" => Verdict::Rewrite("{\"a\":".to_owned()),
        "array" => Verdict::Rewrite("[]".to_owned()),
        "rename" => Verdict::Rewrite(text.replace("note", "sent")),
        _ => Verdict::Allow,
    }
}

/// Returns the letters after a mark in a text; empty if it is not there.
fn word<'t>(text: &'t str, mark: &str) -> &'t str {
    let Some((_, rest)) = text.split_once(mark) else { return "" };
    let end = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
    &rest[..end]
}

fn deny(code: &str, reason: &str) -> Verdict {
    Verdict::Deny(Denial { code: code.to_owned(), reason: reason.to_owned() })
}

fn facts(call: &Call) -> String {
    let Call { tool, client, origin, key, tenant, effects, settings, .. } = call;
    let key = key.as_deref().unwrap_or("none");
    let read_only = effects.read_only;
    format!(
        "tool={tool} client={client} origin={origin} key={key} tenant={tenant} read_only={read_only:?} settings={settings}"
    )
}

/// Each root waits for the one before and takes ten cycles and more for two or three units of fuel, so that no machine is fast
/// enough to use up the most fuel that a guard may have within a second.
fn spin() -> ! {
    let mut value = std::hint::black_box(2.0_f64);
    loop {
        for _ in 0..16 {
            value = (value + 2.0).sqrt();
        }
        value = std::hint::black_box(value);
    }
}

fn hoard() -> ! {
    let mut held = Vec::new();
    loop {
        held.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}
