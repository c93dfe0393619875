//! The settings of a verifier.

use std::time::Duration;

use url::Url;

use crate::{endpoint::endpoint, part::ResourcePart, view::ViewRule};

/// Skew of the clocks of issuer and gateway by default.
const CLOCK_SKEW: Duration = Duration::from_mins(1);
/// Maximum skew of the clocks. It extends the life of every token; RFC 7519, section 4.1.4, permits
/// a few minutes.
const MAX_CLOCK_SKEW: Duration = Duration::from_mins(5);
/// Maximum number of entries of each list. Every token, and every login, is compared with all of them.
pub const MAX_ENTRIES: usize = 1000;
/// Maximum bytes of a name or value. Scopes and the name of the gateway are sent in challenges and in
/// metadata.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Settings of a verifier: the issuer, the conditions for a token, and the table of views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierSettings {
    /// Identifier of the authorization server. Tokens have it as `iss`, byte by byte: a slash at
    /// the end makes a difference.
    pub issuer: String,
    /// Identifier of this gateway (RFC 8707, RFC 9728): the URL at which clients reach it.
    pub resource: String,
    /// Name of this gateway, for people.
    pub resource_name: String,
    /// Values of `aud` that mean this gateway. If empty, `resource` is the only one. For issuers
    /// that ignore the resource that a client asks for, such as Entra ID, which sends an
    /// application's identifier. It must not be the identifier of a client of the issuer that
    /// receives ID tokens.
    pub audiences: Vec<String>,
    /// URL of the issuer's keys. If absent, the issuer's metadata (RFC 8414 or OIDC Discovery)
    /// names the URL.
    pub jwks_uri: Option<String>,
    /// Scopes that a token needs, all of them.
    pub scopes: Vec<String>,
    /// Skew of the clocks of issuer and gateway that is tolerated.
    pub clock_skew: Duration,
    /// The table of views. The first matching row decides, and a token without one is refused.
    pub views: Vec<ViewRule>,
    /// APIs that accept tokens. The caller of this crate keeps to it.
    pub apis: TokenApis,
}

/// APIs that accept access tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TokenApis {
    /// MCP, and what belongs to it.
    #[default]
    Mcp,
    /// All APIs for callers, but for approvals.
    All,
}

/// Reason that settings are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct BadSettings {
    /// The field, for example `views[2].claim`.
    pub field: String,
    /// The condition that a valid value meets.
    pub problem: &'static str,
}

/// The URLs of valid settings.
pub(crate) struct Endpoints {
    pub(crate) issuer: Url,
    pub(crate) resource: Url,
    pub(crate) jwks: Option<Url>,
}

impl VerifierSettings {
    /// Creates settings without required scopes, with keys found by discovery.
    pub fn new(
        issuer: impl Into<String>,
        resource: impl Into<String>,
        views: impl IntoIterator<Item = ViewRule>,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            resource: resource.into(),
            resource_name: "Airlock".to_owned(),
            audiences: Vec::new(),
            jwks_uri: None,
            scopes: Vec::new(),
            clock_skew: CLOCK_SKEW,
            views: views.into_iter().collect(),
            apis: TokenApis::default(),
        }
    }

    /// Fails if the settings are incomplete or unsafe. Whether the views exist is the caller's to
    /// check.
    pub fn check(&self) -> Result<(), BadSettings> {
        self.endpoints()?;
        check_text("resource_name", &self.resource_name)?;
        check_list("audiences", &self.audiences, |field, audience| check_text(field, audience))?;
        check_list("scopes", &self.scopes, |field, scope| check_scope(field, scope))?;
        if self.clock_skew > MAX_CLOCK_SKEW {
            return Err(bad("clock_skew", "must be at most 5 minutes"));
        }
        if self.views.is_empty() {
            return Err(bad("views", "must have a row: without one, every token is refused"));
        }
        check_list("views", &self.views, |field, rule| {
            check_text(&format!("{field}.claim"), &rule.claim)?;
            check_text(&format!("{field}.value"), &rule.value)?;
            check_text(&format!("{field}.view"), &rule.view)
        })
    }

    /// Parses the URLs. Fails if one is unsafe.
    pub(crate) fn endpoints(&self) -> Result<Endpoints, BadSettings> {
        Ok(Endpoints {
            issuer: identifier("issuer", &self.issuer)?,
            resource: identifier("resource", &self.resource)?,
            jwks: match self.jwks_uri.as_deref() {
                Some(text) => Some(key_endpoint(text)?),
                None => None,
            },
        })
    }

    /// Returns whether a value of `aud` means this gateway, or the part of it that a request is for. A
    /// list of audiences names all that are meant.
    pub(crate) fn is_audience(&self, audience: &str, part: Option<&ResourcePart>) -> bool {
        if self.audiences.is_empty() {
            audience == self.resource
                || part.is_some_and(|part| audience == self.identifier(Some(part)))
        } else {
            self.audiences.iter().any(|own| own == audience)
        }
    }

    /// Returns the identifier of this gateway, or of a part of it.
    pub(crate) fn identifier(&self, part: Option<&ResourcePart>) -> String {
        match part {
            Some(part) => format!("{}/{}", self.resource.trim_end_matches('/'), part.as_str()),
            None => self.resource.clone(),
        }
    }

    /// Returns the scopes that matter here: those required, and those in the table of views.
    pub(crate) fn known_scopes(&self) -> Vec<String> {
        let by_view = self.views.iter().filter(|rule| rule.is_about_scopes());
        let mut scopes = self.scopes.clone();
        for rule in by_view {
            if !scopes.contains(&rule.value) {
                scopes.push(rule.value.clone());
            }
        }
        scopes
    }
}

/// Parses the URL of an issuer or a resource.
pub(crate) fn identifier(field: &str, text: &str) -> Result<Url, BadSettings> {
    // RFC 8414, section 2, and RFC 9728, section 1.2: neither has a query or a fragment.
    endpoint(text).filter(|url| url.query().is_none()).ok_or_else(|| {
        bad(
            field,
            "must be an https URL (http for localhost only) without user, query and fragment",
        )
    })
}

fn key_endpoint(text: &str) -> Result<Url, BadSettings> {
    // Keys may be behind a query, for example the policy of Azure AD B2C.
    endpoint(text).ok_or_else(|| {
        bad("jwks_uri", "must be an https URL (http for localhost only) without user and fragment")
    })
}

pub(crate) fn check_list<T>(
    field: &str,
    list: &[T],
    check: impl Fn(&str, &T) -> Result<(), BadSettings>,
) -> Result<(), BadSettings> {
    if list.len() > MAX_ENTRIES {
        return Err(bad(field, "must have at most 1000 entries"));
    }
    list.iter().enumerate().try_for_each(|(at, entry)| check(&format!("{field}[{at}]"), entry))
}

pub(crate) fn check_text(field: &str, text: &str) -> Result<(), BadSettings> {
    if text.is_empty() || text.len() > MAX_TEXT_BYTES || text.contains(char::is_control) {
        return Err(bad(field, "must be text of 1 to 1024 bytes without control characters"));
    }
    Ok(())
}

/// Checks a scope token of RFC 6749, section 3.3.
pub(crate) fn check_scope(field: &str, scope: &str) -> Result<(), BadSettings> {
    check_text(field, scope)?;
    if !scope.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\') {
        return Err(bad(field, "must be visible ASCII without space, quote and backslash"));
    }
    Ok(())
}

pub(crate) fn bad(field: &str, problem: &'static str) -> BadSettings {
    BadSettings { field: field.to_owned(), problem }
}
