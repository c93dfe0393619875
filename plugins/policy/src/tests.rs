use airlock_guest::guard::Effects;
use serde_json::{Value, json};

use super::*;

/// Returns a call of a payment, by one rule.
fn payment(rule: &Value) -> Call {
    let arguments = json!({
        "amount": 1200, "rate": 1.5, "to": "Ann@Example.com", "cc": ["a@example.com", "b@example.org"],
        "big": 18_446_744_073_709_551_615_u64, "note": null, "at": {"iban": "DE00"},
    });
    let mut call = Call::new("bank-pay", &arguments).with_settings(&json!({"rules": [rule]}));
    call.key = Some("support".to_owned());
    call.origin = "model".to_owned();
    call.effects = Effects { destructive: Some(true), ..Effects::default() };
    call
}

fn rule(condition: &str) -> Value {
    json!({"name": "r", "if": condition, "then": "deny"})
}

/// Returns the decision of one rule before a call: true if it denies it, and the problem if it cannot be evaluated.
fn decision(condition: &str) -> Result<bool, String> {
    let rule = rule(condition);
    Settings::check(&json!({"rules": [rule]}).to_string()).map_err(|error| error.to_string())?;
    match PolicyGuard::before(&payment(&rule)).expect("a verdict") {
        Verdict::Allow => Ok(false),
        Verdict::Deny { code, reason } if code == FAILED => Err(reason),
        Verdict::Deny { code, .. } if code == "r" => Ok(true),
        other => panic!("{condition}: {other:?}"),
    }
}

#[test]
fn expressions_decide_about_the_values_of_a_call() {
    for (condition, expected) in [
        ("true", true),
        ("arguments.amount > 1000", true),
        ("arguments.amount > 1000.5", true),
        ("arguments.amount * 2 <= 2400", true),
        ("arguments.rate == 1.5 && arguments.rate > 1", true),
        ("arguments.big > 9223372036854775807u", true),
        ("arguments.note == null", true),
        ("!arguments.to.lowerAscii().endsWith('@example.com')", false),
        ("!arguments.to.endsWith('@example.com')", true),
        ("arguments.cc.all(to, to.endsWith('@example.com'))", false),
        ("arguments.cc.exists(to, !to.endsWith('@example.com'))", true),
        ("arguments.cc.filter(to, to.startsWith('a')).size() == 1", true),
        ("size(arguments.cc) > 5", false),
        ("'b@example.org' in arguments.cc", true),
        ("has(arguments.at.iban) && arguments.at['iban'].startsWith('DE')", true),
        ("has(arguments.password)", false),
        ("!has(arguments.password) || arguments.password.size() < 8", true),
        ("tool == 'bank-pay' && client == 'bank'", true),
        ("origin in ['model', 'script'] ? key == 'support' : false", true),
        ("tenant.contains('anonymous')", true),
        ("effects.destructive == true && effects.read_only == null && !effects.trusted", true),
        ("type(arguments.amount) == int && arguments.to.split('@')[1] == 'Example.com'", true),
        ("{'bank-pay': 100}[tool] < arguments.amount", true),
    ] {
        assert_eq!(decision(condition), Ok(expected), "{condition}");
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_denies_the_call_and_is_named() {
    for (condition, problem) in [
        ("arguments.password == ''", r#"there is no member "password""#),
        ("arguments.cc[9] == ''", ""),
        ("arguments.amount > 'x'", ""),
        ("arguments.amount / 0 == 1", "its operands do not fit"),
        ("arguments.amount + 1.5 > 2.0", ""),
        ("arguments.amount", "it is of the type int, and not bool"),
        ("effects.read_only", "it is of the type null, and not bool"),
    ] {
        let reason = decision(condition).expect_err(condition);
        let named = r#"the rule "r" cannot be evaluated: "#;
        assert!(reason.starts_with(named) && reason.contains(problem), "{reason}");
    }
}

#[test]
fn rules_are_evaluated_in_their_order_for_their_tools() {
    let rules = json!({"rules": [
        {"name": "other", "tools": ["mail-*"], "if": "true", "then": "deny"},
        {"name": "later", "when": "after", "if": "true", "then": "deny"},
        {"name": "first", "if": "arguments.n > 1", "then": "ask", "reason": "it is large"},
        {"name": "second", "tools": ["*-PAY"], "if": "arguments.n > 2", "then": "ask", "reason": "it is larger"},
        {"name": "third", "if": "arguments.n > 3", "then": "deny"},
        {"name": "fourth", "if": "1 / 0 == 1", "then": "deny"},
    ]});
    assert_eq!(verdict(&rules, 1, 5), Verdict::Allow);
    assert_eq!(verdict(&rules, 2, 5), Verdict::ask("it is large"));
    assert_eq!(verdict(&rules, 3, 5), Verdict::ask("it is large; it is larger"));
    assert_eq!(verdict(&rules, 4, 6), Verdict::deny("third", r#"the rule "third" applies"#));
    assert!(matches!(verdict(&rules, 1, 6), Verdict::Deny { code, .. } if code == FAILED));
}

/// Returns the verdict of the first rules about a number.
fn verdict(rules: &Value, n: u8, count: usize) -> Verdict {
    let mut rules = rules.clone();
    rules["rules"].as_array_mut().expect("a list").truncate(count);
    let call = Call::new("bank-pay", &json!({"n": n})).with_settings(&rules);
    PolicyGuard::before(&call).expect("a verdict")
}

#[test]
fn rules_after_a_call_see_its_result_or_its_error_and_their_failures_show_nothing_of_it() {
    let success = Outcome::Success(
        json!({"content": [{"type": "text", "text": "a"}], "structuredContent": {"rows": 12}})
            .to_string(),
    );
    let failure =
        Outcome::Failure(json!({"kind": "internal", "message": "secret path"}).to_string());
    for (condition, of_success, of_failure) in [
        ("result != null && result.structuredContent.rows > 10", Some("r"), None),
        ("error != null && error.message.contains('path')", None, Some("r")),
        ("result.structuredContent.rows > 10", Some("r"), Some(FAILED)),
        ("arguments.amount > 1000 && error == null", Some("r"), None),
    ] {
        let mut rule = rule(condition);
        rule["when"] = json!("after");
        let settings = json!({"rules": [rule]}).to_string();
        assert_eq!(Settings::check(&settings), Ok(()), "{condition}");
        for (outcome, expected) in [(&success, of_success), (&failure, of_failure)] {
            match (PolicyGuard::after(&payment(&rule), outcome).expect("a verdict"), expected) {
                (Verdict::Allow, None) => {}
                (Verdict::Deny { code, reason }, Some(expected)) => {
                    assert_eq!(code, expected, "{condition}: {reason}");
                    assert!(
                        reason.starts_with(r#"the rule "r" "#) && !reason.contains(':'),
                        "{reason}"
                    );
                }
                (other, _) => panic!("{condition}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_rule_that_cannot_work_is_an_error_of_the_settings() {
    for (settings, start) in [
        ("{}".to_owned(), "missing field `rules`"),
        (r#"{"rules":[]}"#.to_owned(), "rules: is empty"),
        (changed("if", json!("arguments.x >")), "rules[1].if: "),
        (changed("if", json!("argument.x > 1")), "rules[1].if: there is no value `argument`"),
        (changed("if", json!("result == null")), "rules[1].if: there is no value `result`"),
        (changed("if", json!("tool.matches('a')")), "rules[1].if: there is no function `matches`"),
        (changed("if", json!("[1].exists(x, y == x)")), "rules[1].if: there is no value `y`"),
        (changed("if", json!("A{b: 1} == null")), "rules[1].if: there is no type `A`"),
        (changed("if", json!("[{'a': size(z)}] == []")), "rules[1].if: there is no value `z`"),
        (changed("name", json!("r")), "rules[1].name: another rule"),
        (changed("name", json!("a b")), "rules[1].name: expected 1 to 64"),
        (changed("tools", json!([])), "rules[1].tools: is empty"),
        (changed("tools", json!(["mail"])), "rules[1].tools: \"mail\" is the full name of no tool"),
        (changed("then", json!("allow")), "rules[1].then: unknown variant `allow`"),
        (changed("when", json!("always")), "rules[1].when: unknown variant `always`"),
        (changed("unless", json!("true")), "rules[1].unless: unknown field `unless`"),
    ] {
        let refused = Settings::check(&settings).expect_err(&settings);
        assert!(refused.message().starts_with(start), "{start}\n{refused}");
    }
    let mut asks = rule("true");
    asks["when"] = json!("after");
    asks["then"] = json!("ask");
    let refused = Settings::check(&json!({"rules": [asks]}).to_string()).expect_err("it asks");
    assert!(refused.message().starts_with("rules[0].then: after the call"), "{refused}");
}

/// Returns settings with a good rule, and another one that has a different member.
fn changed(key: &str, value: Value) -> String {
    let mut changed = rule("true");
    changed["name"] = json!("other");
    changed[key] = value;
    json!({"rules": [rule("true"), changed]}).to_string()
}
