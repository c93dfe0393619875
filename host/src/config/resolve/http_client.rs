//! MCP servers that are reached over HTTP: `connection_string`, `headers`,
//! `allowed_extra_headers`, `tls_config`, `allow_private`.

use std::collections::BTreeSet;

use http::HeaderName;

use super::{
    super::file::{self, TlsConfig},
    Field, upstream,
};
use crate::upstream::{Authorities, ExtraHeaders, HttpSettings, is_reserved_header};

/// Resolves the settings of a server.
pub(super) fn resolve(field: &Field<'_>, client: file::Client) -> Option<HttpSettings> {
    let headers = upstream::headers(
        &field.member("headers"),
        client.headers.unwrap_or_default(),
        &upstream::RESERVED,
    );
    let extra_headers =
        extra_headers(&field.member("allowed_extra_headers"), &client.allowed_extra_headers);
    let authorities = client
        .tls_config
        .map(|tls| authorities(&field.member("tls_config"), tls))
        .unwrap_or_default();
    let field = field.member("connection_string");
    let url = upstream::url(&field, field.required(client.connection_string)?)?;
    Some(HttpSettings {
        url,
        headers,
        extra_headers,
        authorities,
        allow_private: client.allow_private,
    })
}

/// Resolves the headers of callers that are passed on.
fn extra_headers(field: &Field<'_>, names: &[String]) -> ExtraHeaders {
    if names == ["*"] {
        return ExtraHeaders::All;
    }
    let mut checked = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let field = field.element(index);
        match HeaderName::try_from(name.as_str()) {
            _ if name == "*" => {
                field.refuse("\"*\" stands for every header and must be the only entry");
            }
            Err(_) => field.refuse("is not a valid header name"),
            Ok(name) if is_reserved_header(&name) => field.refuse("is set by the transport itself"),
            Ok(name) => {
                if !checked.insert(name.as_str().to_owned()) {
                    field.refuse("is listed twice (case does not count)");
                }
            }
        }
    }
    if checked.is_empty() { ExtraHeaders::None } else { ExtraHeaders::Named(checked) }
}

fn authorities(field: &Field<'_>, tls: TlsConfig) -> Authorities {
    match (tls.ca_cert_pem, tls.ca_file) {
        (Some(_), Some(_)) => {
            field.refuse("has both `ca_cert_pem` and `ca_file`; choose one");
            Authorities::System
        }
        (Some(pem), None) => {
            let pem = field.member("ca_cert_pem").text(pem);
            pem.map(|pem| Authorities::Pem(pem.expose().to_owned())).unwrap_or_default()
        }
        (None, Some(path)) => Authorities::File(field.member("ca_file").path(&path)),
        (None, None) => Authorities::System,
    }
}
