//! The command lines of `docs/bifrost.md`, run as they are there with an address and a token.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio};

use airlock_tests::{Gateway, OPERATOR, Setup, binary, root};
use serde_json::Value;
use tokio::process::Command;

/// Address in the documents.
const ADDRESS: &str = "http://localhost:8080";

/// A command line of the page, and the member of the response that shows its success.
const LINES: [(&str, &str, &str); 5] = [
    (
        r#"curl -X POST http://localhost:8080/api/mcp/client \
  -H "Content-Type: application/json" \
  -d '{
    "name": "filesystem",
    "connection_type": "stdio",
    "stdio_config": {
      "command": "npx",
      "args": ["-y", "@anthropic/mcp-filesystem"]
    },
    "tools_to_execute": ["read_file", "list_directory"]
  }'"#,
        "/message",
        "MCP client connected successfully",
    ),
    (
        r#"curl -X POST http://localhost:8080/api/governance/virtual-keys \
  -H "Content-Type: application/json" \
  -d '{
    "name": "billing",
    "mcp_configs": [
      {"mcp_client_name": "filesystem", "tools_to_execute": ["read_file"]}
    ]
  }'"#,
        "/message",
        "Virtual key created successfully",
    ),
    (
        r#"curl -X PUT http://localhost:8080/api/mcp/client/filesystem \
  -H "Content-Type: application/json" \
  -d '{"name": "filesystem", "tools_to_execute": ["*"]}'"#,
        "/message",
        "MCP client edited successfully",
    ),
    (
        r#"curl -X POST http://localhost:8080/api/governance/teams \
  -H "Content-Type: application/json" \
  -d '{"name": "Platform", "customer_id": null, "budgets": []}'"#,
        "/message",
        "Team created successfully",
    ),
    ("curl http://localhost:8080/api/mcp/clients", "/clients/0/config/name", "filesystem"),
];

/// Runs a line in a shell. Returns the response.
async fn run(gateway: &Gateway, line: &str) -> Value {
    let curl = format!("curl -sS -H 'Authorization: Bearer {OPERATOR}'");
    let line = line.replace(ADDRESS, gateway.address()).replacen("curl", &curl, 1);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(&line).stdin(Stdio::null()).kill_on_drop(true);
    let output = shell.output().await.expect("a shell");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a JSON response")
}

#[tokio::test]
async fn the_command_lines_of_the_page_about_bifrost_work_as_they_are() {
    let page = fs::read_to_string(root().join("docs/bifrost.md")).expect("the page");
    let written = page.matches("\ncurl ").count();
    assert_eq!(written, LINES.len(), "the page has other lines than this table");
    let setup = Setup::new();
    // Stands for the program that downloads the server.
    let server = binary("misbehaving-server");
    let npx = setup.file("bin/npx", format!("#!/bin/sh\nexec '{}'\n", server.display()));
    fs::set_permissions(&npx, fs::Permissions::from_mode(0o755)).expect("it is our file");
    let directory = npx.parent().expect("a directory").display();
    let path = format!("{directory}:{}", std::env::var("PATH").expect("a path"));
    let gateway = setup.serve_with(&[("PATH", &path)]).await;
    for (line, member, expected) in LINES {
        assert!(page.contains(&format!("\n{line}\n")), "the page has not: {line}");
        let response = run(&gateway, line).await;
        assert_eq!(response.pointer(member), Some(&expected.into()), "{line}: {response}");
    }
}
