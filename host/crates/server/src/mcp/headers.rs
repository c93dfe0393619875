//! Headers that repeat what the body says (2026-07-28, section "Standard headers").
//!
//! Proxies decide by these headers without reading the body, so a request whose headers and body
//! disagree is refused.

use http::{HeaderMap, header::HeaderName};

use airlock_core::door::MAX_ARGUMENT_BYTES;
use airlock_mcp_server::Toolbox;
use airlock_wire::{
    error::RpcError,
    headers::{self, METHOD, NAME, VERSION},
    message::{Params, Request},
    method,
    version::Version,
};

/// Returns the revision that the header names, or that of requests without the header. An unknown
/// revision counts as modern: [`check_version`] then refuses the request. Fails if the header is
/// repeated or is not ASCII.
pub(super) fn version(headers: &HeaderMap) -> Result<Version, RpcError> {
    match single(headers, &VERSION)? {
        None => Ok(Version::UNNAMED),
        Some(name) => match Version::find(name) {
            Some(version) => Ok(version),
            // Refused when it is compared with the body.
            None => Ok(Version::V2026_07_28),
        },
    }
}

/// Fails unless the header names the revision that `_meta` names. A body that names none is refused
/// when it is read.
pub(super) fn check_version(headers: &HeaderMap, params: &Params) -> Result<(), RpcError> {
    let found = single(headers, &VERSION)?;
    match (found, params.version()) {
        (Some(header), Some(body)) if header == body => Ok(()),
        (Some(header), None) if Version::find(header).is_none() => {
            Err(RpcError::unsupported_version(header))
        }
        (_, None) => Ok(()),
        (found, Some(body)) => Err(mismatch(&VERSION, found, &body)),
    }
}

/// Fails unless `Mcp-Method`, `Mcp-Name` and the headers of parameters are those of the request.
pub(super) fn check(
    headers: &HeaderMap,
    request: &Request,
    toolbox: &Toolbox,
) -> Result<(), RpcError> {
    let found = single(headers, &METHOD)?;
    if found != Some(request.method.as_str()) {
        return Err(mismatch(&METHOD, found, &request.method));
    }
    let Some(name) = headers::name(&request.method, &request.params) else { return Ok(()) };
    check_value(headers, &NAME, Some(&name))?;
    if request.method == method::TOOLS_CALL
        && let Some(entry) = toolbox.find(&name)
    {
        let arguments = request.params.get("arguments").unwrap_or("{}");
        // The call itself is refused.
        if arguments.len() > MAX_ARGUMENT_BYTES {
            return Ok(());
        }
        for (header, value) in headers::expected(entry.tool.input_schema.as_str(), arguments) {
            check_value(headers, &header, value.as_deref())?;
        }
    }
    Ok(())
}

/// Fails if there is an `Mcp-Method` that is not that of the request. Before 2026-07-28 it may be
/// absent.
pub(super) fn check_method(headers: &HeaderMap, method: &str) -> Result<(), RpcError> {
    match single(headers, &METHOD)? {
        Some(found) if found != method => Err(mismatch(&METHOD, Some(found), method)),
        _ => Ok(()),
    }
}

/// Fails unless a header has a value, in Base64 or as it is; or is absent, if there is no value.
fn check_value(
    headers: &HeaderMap,
    name: &HeaderName,
    value: Option<&str>,
) -> Result<(), RpcError> {
    let found = single(headers, name)?;
    match (found, value) {
        (None, None) => Ok(()),
        (Some(found), Some(value)) => {
            let decoded = headers::decoded(found).ok_or_else(|| {
                RpcError::header_mismatch(format!("header `{name}` is not valid Base64"))
            })?;
            if decoded == value { Ok(()) } else { Err(mismatch(name, Some(&decoded), value)) }
        }
        (found, value) => Err(mismatch(name, found, value.unwrap_or("no value"))),
    }
}

/// Returns the value of a header; `None` if it is absent. Fails if it is there twice or is not text.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(RpcError::header_mismatch(format!("header `{name}` is there twice")));
    }
    let text = value.to_str();
    text.map(|text| Some(text.trim()))
        .map_err(|_| RpcError::header_mismatch(format!("header `{name}` is not ASCII text")))
}

fn mismatch(name: &HeaderName, found: Option<&str>, body: &str) -> RpcError {
    let found = match found {
        Some(found) => format!("is {:?}", shortened(found)),
        None => "is missing".to_owned(),
    };
    let body = shortened(body);
    RpcError::header_mismatch(format!("header `{name}` {found}, but the body has {body:?}"))
}

fn shortened(text: &str) -> String {
    airlock_strings::cut(text.to_owned(), 128)
}
