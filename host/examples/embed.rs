//! A whole gateway inside another program, with a tool of its own.
//!
//! `cargo run -p airlock --example embed` prints the response to one request and stops.

use airlock::{
    Gateway,
    config::Config,
    tool::{ErrorKind, ToolError, ToolOutput},
};
use serde_json::json;
use tokio::{net::TcpListener, sync::oneshot};

const CONFIG: &str = r#"{"server": {"listen": "127.0.0.1:0"}}"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse(CONFIG, "embedded", &|_| None)?;
    let listener = TcpListener::bind(config.server.listen).await?;
    let url = format!("http://{}/v1/mcp/tool/execute", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let gateway = Gateway::builder(config)
        .listener(listener)
        .shutdown(async { drop(stopped.await) })
        .register_tool("greet", "Greets someone by name.", schema, async |arguments| {
            let name = arguments.get("name").and_then(|name| name.as_str());
            let name = name.ok_or_else(|| {
                ToolError::new(ErrorKind::InvalidInput, "`name` must be a string")
            })?;
            Ok(ToolOutput::text(format!("Hello, {name}!")))
        })
        .start()
        .await?;
    let running = tokio::spawn(gateway.run());
    let call = json!({"function": {"name": "internal-greet", "arguments": r#"{"name": "Ada"}"#}});
    println!(
        "{}",
        airlock::tls::client().build()?.post(url).json(&call).send().await?.text().await?
    );
    drop(stop);
    running.await?
}
