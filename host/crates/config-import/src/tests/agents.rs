//! Files of desktop agents and editors.

use super::*;

#[test]
fn servers_of_desktop_agents_become_clients_whose_calls_need_an_approval() {
    let imported = imported(&json!({
        "globalShortcut": "Ctrl+Space",
        "mcpServers": {
            "brave-search": {"command": "npx", "args": ["-y", "brave"], "env": {"KEY": "secret", "DEPTH": 3, "HOME": "${env:HOME}"}},
            "remote": {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "${AIRLOCK_UNSET_TOKEN}"}},
            "old": {"type": "sse", "url": "http://localhost:9/sse", "disabled": true, "autoApprove": ["read"], "icon": "x", "odd": 1},
            "empty": {},
        },
    }));
    insta::assert_snapshot!(lines(&imported), @r#"
    no meaning globalShortcut: is a setting of the agent, not a server
    changed mcpServers.brave-search: the client is named "brave_search": names have no other characters than letters, digits and `_`
    changed mcpServers.brave-search.env.HOME: is `HOME=env.HOME` in `stdio_config.envs`
    changed mcpServers.brave-search.env: is `stdio_config.envs`, with the values of `KEY`, `DEPTH` as they were: put credentials into the gateway's environment and write `NAME=env.NAME`
    changed mcpServers.remote.headers.Authorization: is `env.AIRLOCK_UNSET_TOKEN`
    no meaning mcpServers.old.icon: is a setting of the agent
    refused mcpServers.old.odd: is not known; if the server needs it, look for the setting in docs/configuration.md
    refused mcpServers.empty: has neither `command` nor `url`
    taken mcp.client_configs[0]: brave_search
    taken mcp.client_configs[1]: remote
    taken mcp.client_configs[2]: old
    "#);
    assert_eq!(imported.variables, ["AIRLOCK_UNSET_TOKEN"]);
    let clients = json!([
        {"name": "brave_search", "connection_type": "stdio",
         "stdio_config": {"command": "npx", "args": ["-y", "brave"], "envs": ["KEY=secret", "DEPTH=3", "HOME=env.HOME"]},
         "tools_to_execute": ["*"], "tools_to_auto_execute": []},
        {"name": "remote", "connection_type": "http", "connection_string": "https://mcp.example.com/mcp",
         "headers": {"Authorization": "env.AIRLOCK_UNSET_TOKEN"}, "tools_to_execute": ["*"], "tools_to_auto_execute": []},
        {"name": "old", "connection_type": "sse", "connection_string": "http://localhost:9/sse", "disabled": true,
         "tools_to_execute": ["*"], "tools_to_auto_execute": ["read"]},
    ]);
    assert_eq!(imported.file, json!({"mcp": {"client_configs": clients}}), "{:#}", imported.file);
}

#[test]
fn what_an_editor_writes_and_the_gateway_does_not_expand_is_reported() {
    let text = r#"{
        // Comments are usual there.
        "mcp": {"servers": {
            "a-b": {"command": "npx", "args": ["--token", "${input:token}"]},
            "a_b": {"command": {"path": "node", "args": ["a"], "env": {"A": "b"}}},
            "web": {"url": "https://mcp.example.com", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        }},
    }"#;
    let imported = import(text, Path::new("/nowhere")).expect("a configuration");
    let clients = &imported.file["mcp"]["client_configs"];
    assert_eq!(
        (&clients[0]["name"], &clients[1]["name"], &clients[1]["stdio_config"]),
        (
            &json!("a_b"),
            &json!("a_b_2"),
            &json!({"command": "node", "args": ["a"], "envs": ["A=b"]})
        )
    );
    let invalid: Vec<_> =
        imported.lines.iter().filter(|line| line.outcome == SettingOutcome::Invalid).collect();
    let found: Vec<_> =
        invalid.iter().map(|line| (line.key.to_string(), &line.message[..6])).collect();
    assert_eq!(
        found,
        [
            ("mcp.client_configs[0].stdio_config.args[1]".to_owned(), "\"a_b\":"),
            ("mcp.client_configs[2].headers.Authorization".to_owned(), "\"web\":"),
        ]
    );
    let taken = imported.lines.iter().filter(|line| line.outcome == SettingOutcome::Taken);
    let taken: Vec<_> = taken.map(|line| line.message.as_str()).collect();
    assert_eq!(taken, ["a_b_2"], "the others have their lines");
    let text = imported.file.to_string();
    let checked = Config::parse(&text, "airlock.json", &|_: &str| None);
    let refused = checked.expect_err("the same problems");
    let refused: Vec<_> =
        refused.problems().iter().map(|problem| problem.key.to_string()).collect();
    let noted: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
    assert_eq!(refused, noted);
}

#[test]
fn a_reference_that_a_process_may_expand_is_passed_on_and_reported() {
    let imported = imported(&json!({"mcpServers": {"remote": {
        "command": "npx",
        "args": ["mcp-remote", "https://mcp.example.com", "--header", "Authorization: Bearer ${TOKEN}"],
        "env": {"TOKEN": "secret"},
    }}}));
    let lines = imported.lines.iter().filter(|line| line.message.contains("${NAME}"));
    let outcomes: Vec<_> = lines.map(|line| (line.key.to_string(), line.outcome)).collect();
    assert_eq!(outcomes, [("mcpServers.remote".to_owned(), SettingOutcome::Changed)]);
    let text = imported.file.to_string();
    Config::parse(&text, "airlock.json", &|_: &str| None).expect("it starts");
}

#[test]
fn servers_of_the_projects_of_claude_code_are_taken_once_and_named_apart() {
    let server = json!({"command": "npx", "args": ["a"]});
    let web = json!({"url": "https://mcp.example.com"});
    let file = json!({
        "numStartups": 7,
        "mcpServers": {"git": server, "web": web},
        "projects": {
            "/home/ann/a": {"mcpServers": {"web": web, "git": server, "db": {"command": "db"}}, "history": []},
            "/home/ann/b": {"mcpServers": {"git": {"command": "other"}}},
            "/home/ann/c": {"mcpServers": {}},
        },
    });
    insta::assert_snapshot!(lines(&imported(&file)), @r#"
    no meaning numStartups: is a setting of the agent, not a server
    no meaning projects["/home/ann/a"].mcpServers.web: the same server is in another list
    changed projects["/home/ann/a"].mcpServers.git: the client is named "git_2": another client is named "git"
    changed projects["/home/ann/a"].mcpServers.git: `stdio_config.cwd` is "/home/ann/a", the directory of the project
    changed projects["/home/ann/a"].mcpServers.db: `stdio_config.cwd` is "/home/ann/a", the directory of the project
    changed projects["/home/ann/b"].mcpServers.git: the client is named "git_3": another client is named "git"
    changed projects["/home/ann/b"].mcpServers.git: `stdio_config.cwd` is "/home/ann/b", the directory of the project
    taken mcp.client_configs[0]: git
    taken mcp.client_configs[1]: web
    taken mcp.client_configs[2]: git_2
    taken mcp.client_configs[3]: db
    taken mcp.client_configs[4]: git_3
    "#);
    let alone = imported(&json!({"projects": file["projects"]}));
    assert_eq!((alone.program, alone.is_empty()), ("Claude Code (`projects`)", false));
}

#[test]
fn a_process_of_a_project_of_claude_code_starts_in_the_directory_of_the_project() {
    let files = json!({"command": "npx", "args": ["files", "."]});
    let elsewhere = json!({"command": "server", "cwd": "/srv"});
    let imported = imported(&json!({"projects": {
        "/home/ann/a": {"mcpServers": {
            "files": files,
            "script": {"command": "./bin/script"},
            "elsewhere": elsewhere,
            "below": {"command": "../x", "cwd": "sub"},
        }},
        "/home/ann/b": {"mcpServers": {"files": files, "elsewhere": elsewhere}},
        "not absolute": {"mcpServers": {"other": {"command": "./other"}}},
    }}));
    insta::assert_snapshot!(lines(&imported), @r#"
    changed projects["/home/ann/a"].mcpServers.files: `stdio_config.cwd` is "/home/ann/a", the directory of the project
    changed projects["/home/ann/a"].mcpServers.script.command: is "/home/ann/a/bin/script": a relative command begins in the server's directory
    changed projects["/home/ann/a"].mcpServers.script: `stdio_config.cwd` is "/home/ann/a", the directory of the project
    changed projects["/home/ann/a"].mcpServers.below.command: is "/home/ann/a/sub/../x": a relative command begins in the server's directory
    changed projects["/home/ann/a"].mcpServers.below: `stdio_config.cwd` is "/home/ann/a/sub": "sub" is relative to the directory of the project
    changed projects["/home/ann/b"].mcpServers.files: the client is named "files_2": another client is named "files"
    changed projects["/home/ann/b"].mcpServers.files: `stdio_config.cwd` is "/home/ann/b", the directory of the project
    no meaning projects["/home/ann/b"].mcpServers.elsewhere: the same server is in another list
    taken mcp.client_configs[0]: files
    taken mcp.client_configs[1]: script
    taken mcp.client_configs[2]: elsewhere
    taken mcp.client_configs[3]: below
    taken mcp.client_configs[4]: files_2
    taken mcp.client_configs[5]: other
    "#);
    let clients = imported.file["mcp"]["client_configs"].as_array().expect("clients");
    let started = clients.iter().map(|client| &client["stdio_config"]);
    let started: Vec<_> =
        started.map(|process| (process["command"].as_str(), process["cwd"].as_str())).collect();
    let expected = [
        (Some("npx"), Some("/home/ann/a")),
        (Some("/home/ann/a/bin/script"), Some("/home/ann/a")),
        (Some("server"), Some("/srv")),
        (Some("/home/ann/a/sub/../x"), Some("/home/ann/a/sub")),
        (Some("npx"), Some("/home/ann/b")),
        (Some("./other"), None),
    ];
    assert_eq!(started, expected);
}

#[test]
fn a_value_that_is_one_reference_has_a_line_with_its_form() {
    let imported = imported(&json!({"mcpServers": {
        "a": {"command": "x", "env": {"A": "${B}"}},
        "b": {"url": "${URL}", "headers": {"x-key": "${env:KEY}", "x-plain": "1"}},
    }}));
    let changed = imported.lines.iter().filter(|line| line.outcome == SettingOutcome::Changed);
    let changed: Vec<_> = changed.map(|line| format!("{}: {}", line.key, line.message)).collect();
    assert_eq!(
        changed,
        [
            "mcpServers.a.env.A: is `A=env.B` in `stdio_config.envs`",
            "mcpServers.b.url: is `env.URL`",
            "mcpServers.b.headers.x-key: is `env.KEY`",
        ]
    );
}

#[test]
fn a_server_that_a_project_disables_stays_disabled_and_allowed_tools_have_a_line() {
    let web = json!({"url": "https://mcp.example.com"});
    let imported = imported(&json!({
        "projects": {
            "/home/ann/a": {
                "mcpServers": {"web": web, "db": {"command": "db"}},
                "disabledMcpServers": ["web", "git"],
                "allowedTools": ["mcp__db__query"],
            },
            "/home/ann/b": {"mcpServers": {"web": web}, "disabledMcpServers": [], "allowedTools": []},
        },
        "mcpServers": {"git": {"command": "git"}},
    }));
    insta::assert_snapshot!(lines(&imported), @r#"
    changed projects["/home/ann/a"].mcpServers.web: is `disabled`: the project disables it
    changed projects["/home/ann/a"].mcpServers.db: `stdio_config.cwd` is "/home/ann/a", the directory of the project
    changed projects["/home/ann/b"].mcpServers.web: the client is named "web_2": another client is named "web"
    refused projects["/home/ann/a"].disabledMcpServers[1]: the project has no server "git" of its own, and one of another list stays as it is
    refused projects["/home/ann/a"].allowedTools: each call needs an approval: list the tools of a server that need none in `tools_to_auto_execute` of its client
    taken mcp.client_configs[0]: web
    taken mcp.client_configs[1]: db
    taken mcp.client_configs[2]: web_2
    taken mcp.client_configs[3]: git
    "#);
    let clients = imported.file["mcp"]["client_configs"].as_array().expect("clients");
    let disabled: Vec<_> = clients.iter().map(|client| client["disabled"] == true).collect();
    assert_eq!(disabled, [true, false, false, false]);
}

#[test]
fn a_server_that_its_agent_has_turned_off_stays_disabled_whatever_the_form_of_the_switch() {
    for (switch, is_disabled) in [
        (json!({"disabled": true}), true),
        (json!({"disabled": "true"}), true),
        (json!({"enabled": false}), true),
        (json!({"enabled": "false"}), true),
        (json!({"disabled": false, "enabled": false}), true),
        (json!({"disabled": false}), false),
        (json!({"enabled": true}), false),
        (json!({"enabled": null, "disabled": null}), false),
    ] {
        let mut server = switch.clone();
        server["command"] = "server".into();
        let imported = imported(&json!({"context_servers": {"git": server}}));
        let client = &imported.file["mcp"]["client_configs"][0];
        assert_eq!(client["disabled"] == true, is_disabled, "{switch}");
    }
    let off = imported(&json!({"context_servers": {"git": {"command": "git", "enabled": false}}}));
    insta::assert_snapshot!(lines(&off), @r#"
    changed context_servers.git.enabled: is `disabled` of the client
    taken mcp.client_configs[0]: git
    "#);
}

#[test]
fn tools_that_an_agent_does_not_offer_are_not_offered_and_need_an_approval() {
    let imported = imported(&json!({"mcpServers": {
        "a": {"command": "a", "excludeTools": ["drop"], "disabledTools": ["drop", "wipe"], "alwaysAllow": ["read"]},
        "b": {"command": "b", "includeTools": ["read"], "autoApprove": ["read"]},
        "c": {"command": "c", "disabledTools": "drop"},
    }}));
    insta::assert_snapshot!(lines(&imported), @r#"
    changed mcpServers.a.excludeTools: is `tools_to_exclude`
    changed mcpServers.a.disabledTools: is `tools_to_exclude`
    changed mcpServers.b.includeTools: is `tools_to_execute`
    refused mcpServers.c.disabledTools: expected a list of tools
    taken mcp.client_configs[0]: a
    taken mcp.client_configs[1]: b
    taken mcp.client_configs[2]: c
    "#);
    let clients = &imported.file["mcp"]["client_configs"];
    assert_eq!(clients[0]["tools_to_exclude"], json!(["drop", "wipe"]));
    assert_eq!(clients[0]["tools_to_execute"], json!(["*"]));
    assert_eq!(clients[0]["tools_to_auto_execute"], json!(["read"]));
    assert_eq!(clients[1]["tools_to_execute"], json!(["read"]));
    assert_eq!(clients[1]["tools_to_auto_execute"], json!(["read"]));
}
