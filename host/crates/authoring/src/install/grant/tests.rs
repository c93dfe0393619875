use super::*;

#[test]
fn a_grant_is_read_as_it_is_typed() {
    assert_eq!(parse("http.api"), Ok(GrantOption::Http("api".into())));
    assert_eq!(parse("http=https://10.0.0.1:8443"), Ok(host(&[], false)));
    assert_eq!(parse("http=https://10.0.0.1:8443:private"), Ok(host(&[], true)));
    assert_eq!(parse("http=https://10.0.0.1:8443:GET,POST"), Ok(host(&["GET", "POST"], false)));
    assert_eq!(parse("http=https://10.0.0.1:8443:POST:private"), Ok(host(&["POST"], true)));
    assert_eq!(parse("files.data=/d"), Ok(data("/d", false)));
    assert_eq!(parse("files.data=/d:ro"), Ok(data("/d", false)));
    assert_eq!(parse("files.data=/d=e:rw"), Ok(data("/d=e", true)));
    assert_eq!(
        (parse("secret.t=env:T"), parse("secret.t=env:T:reveal")),
        (Ok(secret(false)), Ok(secret(true)))
    );
    assert_eq!(
        (parse("clocks"), parse("tools")),
        (Ok(GrantOption::Clocks), Ok(GrantOption::Tools))
    );
    for text in [
        "http.api",
        "http=https://a.example",
        "http=https://a.example/v1:GET,POST:private",
        "kv.n",
        "files.d=/d:rw",
        "secret.t=file:/s",
        "secret.t=file:/s:reveal",
        "http=http://127.0.0.1:private",
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
        "http.api=",
        "kv",
        "kv.notes=",
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
        assert!(parse(bad).is_err(), "{bad}");
    }
}

fn parse(text: &str) -> Result<GrantOption, <GrantOption as std::str::FromStr>::Err> {
    text.parse()
}

fn host(methods: &[&str], private: bool) -> GrantOption {
    let url = "https://10.0.0.1:8443".into();
    let methods = methods.iter().map(ToString::to_string);
    GrantOption::Host { url, methods: methods.collect(), private }
}

fn data(path: &str, may_write: bool) -> GrantOption {
    GrantOption::Files { name: "data".into(), path: path.into(), may_write }
}

fn secret(reveal: bool) -> GrantOption {
    GrantOption::Secret { name: "t".into(), from: "env:T".into(), reveal }
}

#[test]
fn a_malformed_grant_is_refused_with_the_form_of_its_kind() {
    let told = [
        "http.api=x",
        "kv",
        "files.data",
        "files.*=/d",
        "secret.t",
        "slot.find",
        "clocks.x",
        "effects.sync",
        "api",
        "http=https://<HOST>",
        "files.<NAME>=/d",
        "files.d=<DIRECTORY>:rw",
        "slot.find=<CLIENT-TOOL>",
    ]
    .map(|text| format!("{text}: {}", parse(text).expect_err("refused")));
    insta::assert_snapshot!(told.join("\n"), @r"
    http.api=x: expected http.NAME, or http=URL for a request that leaves the hosts to you, with its methods as in http=URL:GET,POST
    kv: expected kv.NAME
    files.data: expected files.NAME=PATH, or files.NAME=PATH:rw where it may write
    files.*=/d: expected files.NAME=PATH for each directory, with a name of your choice
    secret.t: expected secret.NAME=env:VARIABLE or secret.NAME=file:PATH
    slot.find: expected slot.NAME=CLIENT-TOOL
    clocks.x: expected the word clocks alone
    effects.sync: expected a request; wider effects of a tool are granted with --regrant effects.TOOL
    api: expected http.NAME, http=URL or http=URL:METHODS, kv.NAME, files.NAME=PATH (and :rw where it may write), secret.NAME=env:VARIABLE, secret.NAME=file:PATH, slot.NAME=CLIENT-TOOL, scratch, clocks or tools
    http=https://<HOST>: write a value of yours in place of <HOST>, such as api.example.com
    files.<NAME>=/d: write a value of yours in place of <NAME>, such as notes
    files.d=<DIRECTORY>:rw: write a value of yours in place of <DIRECTORY>, such as /srv/notes
    slot.find=<CLIENT-TOOL>: write a value of yours in place of <CLIENT-TOOL>, such as web-search
    ");
}

#[test]
fn a_grant_that_is_not_requested_is_described_with_the_requests_that_there_are() {
    let requests = json!({
        "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
        "secret": {
            "read": {"reveal": true, "reason": "r"},
            "sent": {"inject": {"query": "k"}, "audience": ["api"], "reason": "r"},
        },
    });
    let requests = serde_json::from_value(requests).expect("requests");
    let typed = [
        "http.api",
        "http=https://a.example",
        "slot.find=a-b",
        "secret.read=env:R:reveal",
        "secret.sent=env:S",
        "secret.sent=env:S:reveal",
    ];
    let typed = typed.map(|text| text.parse().expect("a grant"));
    insta::assert_snapshot!(GrantOption::unrequested(&typed, &requests).join("\n"), @r#"
    --grant http=https://a.example: the plugin has no request that leaves the host to you (`url = "*"`); its requests are http.api, secret.read, secret.sent
    --grant slot.find=a-b: the plugin does not request it; its requests are http.api, secret.read, secret.sent
    --grant secret.sent: the plugin does not request to read its value; leave out `:reveal`
    "#);
    // A request for any host makes a host of the operator's choice one that is requested.
    assert!(GrantOption::unrequested(&typed[1..2], &self::requests()).is_empty());
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
        "http=https://b.example:POST:private",
        "secret.u=env:U:reveal",
    ] {
        let _ = grant.parse::<GrantOption>().expect("a grant").apply(object, None);
    }
    insta::assert_snapshot!(grants, @r#"{"http":["api",{"url":"https://b.example","methods":["POST"],"private":true}],"files":{"data":{"path":"/d","access":"read_only"},"other":{"path":"o"}},"secret":{"t":{"from":"env:NEW","reveal":true},"u":{"from":"env:U","reveal":true}},"kv":{"notes":{}},"clocks":true,"slot":{"forecast":"weather-today"}}"#);
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
fn a_suggestion_is_the_grant_to_type_and_is_refused_with_a_placeholder_in_it() {
    let requests = requests();
    let suggestions: Vec<_> =
        requests.all().map(|request| GrantOption::suggestion("my-mail", request)).collect();
    let texts: Vec<_> = suggestions.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
        http=https://<HOST>
        secret.t=env:MY_MAIL_T:reveal
        secret.x=env:MY_MAIL_X:reveal
        kv.notes
        kv.x
        files.<NAME>=<DIRECTORY>
        files.data=<DIRECTORY>
        files.x=<DIRECTORY>:rw
        scratch
        slot.forecast=<CLIENT-TOOL>
        slot.x=<CLIENT-TOOL>
        tools
        clocks
        ");
    for suggestion in suggestions {
        let parsed = suggestion.to_string().parse::<GrantOption>();
        assert_eq!(parsed.is_err(), suggestion.is_choice(), "{suggestion}");
        assert!(parsed.is_err() || parsed == Ok(suggestion));
    }
}
