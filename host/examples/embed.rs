//! A whole gateway inside another program, with a tool of its own.
//!
//! `cargo run -p airlock --example embed` prints the response to one request and stops.

use airlock::{
    Gateway, NativeCall, NativeTool,
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
        .register_tool(NativeTool::new("greet", "Greets a person by name.", schema, greet))?
        .start()
        .await?;
    let running = tokio::spawn(gateway.run());
    let call = json!({"function": {"name": "internal-greet", "arguments": r#"{"name": "Ada"}"#}});
    println!(
        "{}",
        airlock::tls::client().build()?.post(url).json(&call).send().await?.text().await?
    );
    drop(stop);
    Ok(running.await??)
}

async fn greet(call: NativeCall) -> Result<ToolOutput, ToolError> {
    // The schema requires a string.
    match call.arguments()["name"].as_str().unwrap_or_default() {
        "" => Err(ToolError::new(ErrorKind::InvalidInput, "`name` must not be empty")),
        name => Ok(ToolOutput::text(format!("Hello, {name}!"))),
    }
}
