//! The gateway inside a program that serves HTTP itself, with axum.
//!
//! `cargo run -p airlock --example axum` serves the program and the gateway at one address, asks both and stops.

use std::net::SocketAddr;

use airlock::{Gateway, NativeTool, PeerAddress, config::Config, tool::ToolOutput};
use axum::{
    Router,
    extract::{ConnectInfo, Request},
    middleware::map_request,
    routing::get,
};
use serde_json::json;
use tokio::{net::TcpListener, sync::oneshot};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse("{}", "embedded", &|_| None)?;
    let schema = json!({"type": "object", "properties": {}});
    let greet = NativeTool::new("greet", "Greets.", schema, |_, _| async {
        Ok(ToolOutput::text("Hello from the gateway!"))
    });
    let gateway = Gateway::builder(config).register_tool(greet)?.start().await?;
    // The gateway gets the requests that no route of the program takes.
    let app = Router::new()
        .route("/hello", get(|| async { "Hello from the program!" }))
        .fallback_service(gateway.service())
        .layer(map_request(with_peer));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async { drop(stopped.await) });
    let serving = tokio::spawn(server.into_future());

    let client = airlock::tls::client().build()?;
    println!("{}", client.get(format!("{url}/hello")).send().await?.text().await?);
    let call = json!({"function": {"name": "internal-greet", "arguments": "{}"}});
    let call = client.post(format!("{url}/v1/mcp/tool/execute")).json(&call);
    println!("{}", call.send().await?.text().await?);

    // The program takes no further requests, and then the gateway stops.
    drop((client, stop));
    serving.await??;
    gateway.stop().await;
    Ok(())
}

/// Tells the gateway the address of the client, which only the server of the program knows.
async fn with_peer(ConnectInfo(peer): ConnectInfo<SocketAddr>, mut request: Request) -> Request {
    request.extensions_mut().insert(PeerAddress(peer.ip()));
    request
}
