use super::*;

#[test]
fn a_grant_is_read_as_it_is_typed() {
    let parse = |text: &str| text.parse::<GrantOption>();
    assert_eq!(parse("http.api"), Ok(GrantOption::Http("api".into())));
    assert_eq!(parse("http=https://a.example"), Ok(GrantOption::Host("https://a.example".into())));
    let data = |path: &str, may_write| {
        Ok(GrantOption::Files { name: "data".into(), path: path.into(), may_write })
    };
    assert_eq!(parse("files.data=/d"), data("/d", false));
    assert_eq!(parse("files.data=/d:ro"), data("/d", false));
    assert_eq!(parse("files.data=/d=e:rw"), data("/d=e", true));
    assert_eq!(
        parse("secret.t=env:T"),
        Ok(GrantOption::Secret { name: "t".into(), from: "env:T".into() })
    );
    assert_eq!(
        (parse("clocks"), parse("tools")),
        (Ok(GrantOption::Clocks), Ok(GrantOption::Tools))
    );
    for text in [
        "http.api",
        "http=https://a.example",
        "kv.n",
        "files.d=/d:rw",
        "secret.t=file:/s",
        "scratch",
        "slot.forecast=weather-today",
    ] {
        assert_eq!(parse(text).map(|grant| grant.to_string()).as_deref(), Ok(text));
    }
    for bad in [
        "",
        "http",
        "http.",
        "http.api=x",
        "http.=x",
        "kv",
        "files.data",
        "secret.t",
        "clocks.x",
        "random",
        "slot.forecast",
        "slot=weather-today",
        "files.*=/d",
        "effects.sync",
        "all",
    ] {
        assert_eq!(parse(bad), Err(BadGrantOption), "{bad}");
    }
}

#[test]
fn a_grant_replaces_an_older_one_and_keeps_the_rest() {
    let mut grants = json!({
        "http": ["api", {"url": "https://b.example"}],
        "files": {"data": {"path": "old", "access": "read_write", "max_files": 1}, "other": {"path": "o"}},
        "secret": {"t": {"from": "env:OLD", "reveal": true}},
    });
    let object = grants.as_object_mut().expect("an object");
    for grant in [
        "http.api",
        "kv.notes",
        "files.data=/d",
        "secret.t=env:NEW",
        "clocks",
        "slot.forecast=weather-today",
    ] {
        let _ = grant.parse::<GrantOption>().expect("a grant").apply(object, None);
    }
    insta::assert_snapshot!(grants, @r#"{"http":["api",{"url":"https://b.example"}],"files":{"data":{"path":"/d","access":"read_only"},"other":{"path":"o"}},"secret":{"t":{"from":"env:NEW","reveal":true}},"kv":{"notes":{}},"clocks":true,"slot":{"forecast":"weather-today"}}"#);
}

/// Returns requests of every kind, and a second one of some kinds.
fn requests() -> Requests {
    let requests = json!({
        "http": {"api": {"url": "*", "reason": "r"}},
        "secret": {"t": {"reveal": true, "reason": "r"}, "x": {"reveal": true, "reason": "r"}},
        "kv": {
            "notes": {"max_bytes": "1KiB", "reason": "r"},
            "x": {"max_bytes": "1KiB", "reason": "r"},
        },
        "files": {
            "*": {"access": "read_only", "reason": "r"},
            "data": {"access": "read_only", "reason": "r"},
            "x": {"access": "read_write", "reason": "r"},
        },
        "scratch": {"max_bytes": "1KiB", "max_files": 1, "reason": "r"},
        "slot": {"forecast": {"reason": "r"}, "x": {"reason": "r"}},
        "tools": {"call": ["text-count"], "reason": "r"},
        "clocks": {"reason": "r"},
    });
    serde_json::from_value(requests).expect("requests")
}

#[test]
fn a_suggestion_is_the_text_to_type_with_the_parts_to_replace_in_capitals() {
    let requests = requests();
    let suggestions: Vec<_> =
        requests.all().map(|request| suggestion("my-mail", request)).collect();
    insta::assert_snapshot!(suggestions.join("\n"), @r"
        http=https://HOST
        secret.t=env:MY_MAIL_T
        secret.x=env:MY_MAIL_X
        kv.notes
        kv.x
        files.NAME=DIRECTORY
        files.data=DIRECTORY
        files.x=DIRECTORY:rw
        scratch
        slot.forecast=CLIENT-TOOL
        slot.x=CLIENT-TOOL
        tools
        clocks
        ");
    for suggestion in suggestions {
        let grant = suggestion.parse::<GrantOption>().expect("a grant");
        assert_eq!(grant.to_string(), suggestion);
    }
}
