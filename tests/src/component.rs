//! Components whose embedded sections differ from those that their build wrote.

use std::{fs, path::Path, sync::Arc};

use airlock::{
    config::{Config, environment},
    sandbox::{Grants, HostResources, Limits, Sandbox, embed_tools},
    tool::ClientName,
};
use serde_json::{Value, json};

/// Bytes that a component begins with.
const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";

/// Returns a component with its descriptors embedded, as `airlock plugin build` writes it.
pub async fn with_own_tools(component: impl AsRef<Path>) -> Vec<u8> {
    let wasm: Arc<[u8]> = fs::read(component).expect("the component").into();
    // An empty configuration names the cache for compiled code; nothing else in it matters here.
    let settings = Config::parse("{}", "", &environment).expect("a configuration").sandbox;
    let sandbox = Sandbox::new(&settings).expect("an engine");
    let client = ClientName::parse("plugin").expect("a constant that fits");
    let plugin = sandbox.plugin(
        &client,
        wasm.clone(),
        Grants::default(),
        Limits::PLUGIN,
        HostResources::default(),
    );
    let tools = plugin.await.expect("it loads").describe().await.expect("it tells its tools");
    embed_tools(&wasm, &tools).expect("a component")
}

/// Returns a component with edited descriptors; its code is unchanged.
pub async fn with_tools(
    component: impl AsRef<Path>,
    edit: impl FnOnce(&mut Vec<Value>),
) -> Vec<u8> {
    let wasm = with_own_tools(component).await;
    let section = section(&wasm, "airlock:tools").expect("the build embeds the section");
    let mut embedded: Value = serde_json::from_slice(section).expect("the section is JSON");
    edit(embedded["tools"].as_array_mut().expect("a list of tools"));
    with_section(&wasm, "airlock:tools", embedded.to_string().as_bytes())
}

/// Returns a component with a manifest that makes this request.
pub fn with_manifest(component: impl AsRef<Path>, id: &str, request: &Value) -> Vec<u8> {
    let wasm = fs::read(component).expect("the component");
    let manifest = json!({"schema": "airlock.plugin/1", "id": id, "version": "1.2.0", "contract": "0.1", "request": request});
    with_section(&wasm, "airlock:manifest", manifest.to_string().as_bytes())
}

/// Returns a component with this custom section in place of all its sections of that name.
pub fn with_section(wasm: &[u8], name: &str, content: &[u8]) -> Vec<u8> {
    let mut out = HEADER.to_vec();
    out.extend(
        sections(wasm)
            .filter(|section| custom(section).is_none_or(|(found, _)| found != name.as_bytes()))
            .flatten(),
    );
    let mut payload = leb128(name.len());
    payload.extend([name.as_bytes(), content].concat());
    out.push(0);
    out.extend(leb128(payload.len()));
    out.extend(payload);
    out
}

fn section<'a>(wasm: &'a [u8], name: &str) -> Option<&'a [u8]> {
    sections(wasm)
        .filter_map(custom)
        .find(|(found, _)| *found == name.as_bytes())
        .map(|(_, content)| content)
}

/// Iterates over the outermost sections, each with its header.
fn sections(wasm: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = wasm.strip_prefix(HEADER).expect("it is a component");
    std::iter::from_fn(move || {
        let (size, after) = read_leb128(rest.get(1..)?);
        let (section, next) = rest.split_at(rest.len() - after.len() + size);
        rest = next;
        Some(section)
    })
}

/// Returns the name and the content of a custom section; `None` for another section.
fn custom(section: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, payload) = read_leb128(section.strip_prefix(&[0])?);
    let (length, name) = read_leb128(payload);
    Some(name.split_at(length))
}

fn read_leb128(bytes: &[u8]) -> (usize, &[u8]) {
    let last = bytes.iter().position(|byte| byte & 0x80 == 0).expect("a number ends");
    let value =
        bytes[..=last].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    (value, &bytes[last + 1..])
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(u8::try_from(value & 0x7f).expect("seven bits fit eight") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits fit eight"));
    out
}
