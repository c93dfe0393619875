//! Members of the elements, and which of them are secrets. A test compares them with the types of
//! [`file`](airlock_config_file::file): a new key is missing here until it is added.

/// Form of a value of an element.
#[derive(Debug)]
pub(super) enum Shape {
    /// A scalar or a list of scalars that is shown.
    Shown,
    /// Anything, and it is shown: the plugin's own configuration, whose secrets have a place of their own.
    Any,
    /// Anything, and it is not shown.
    Hidden,
    /// Text that may come from the environment, and is a secret.
    Secret,
    /// The same with a URL, which is a secret only with user name, query or fragment.
    SecretUrl,
    /// The text of such a URL.
    Url,
    /// Digest of a credential, and not shown: by a part of it, a weak one could be guessed.
    Digest,
    /// Source of a secret: `env:NAME` or `file:PATH`. Another text is taken for the secret itself.
    Source,
    /// Variables of a process.
    Variables,
    /// One of them.
    Variable,
    Object(&'static MemberShapes),
    /// A name or an object.
    NameOr(&'static MemberShapes),
    /// An object whose members all have this shape.
    Map(&'static Shape),
    List(&'static Shape),
}

/// Members of an object.
#[derive(Debug)]
pub(super) struct MemberShapes {
    /// Names of those that are [`Shape::Shown`].
    shown: &'static [&'static str],
    others: &'static [(&'static str, Shape)],
}

impl MemberShapes {
    /// Returns the shape of a member; `None` for an unknown one.
    pub(super) fn shape(&self, name: &str) -> Option<&Shape> {
        if self.shown.contains(&name) {
            return Some(&Shape::Shown);
        }
        self.others.iter().find_map(|(other, shape)| (*other == name).then_some(shape))
    }

    const fn shown(shown: &'static [&'static str]) -> Self {
        Self { shown, others: &[] }
    }
}

/// Members of an element of `mcp.client_configs`.
pub(super) static CLIENT: MemberShapes = MemberShapes {
    shown: &[
        "client_id",
        "name",
        "connection_type",
        "allowed_extra_headers",
        "allow_private",
        "auth_type",
        "per_user_header_keys",
        "startup_timeout",
        "connect_timeout",
        "startupTimeout",
        "request_timeout",
        "requestTimeout",
        "tool_execution_timeout",
        "heartbeat_interval",
        "heartbeatInterval",
        "is_ping_available",
        "isPingAvailable",
        "stale_timeout",
        "staleTimeout",
        "lifecycle",
        "idle_timeout",
        "idleTimeout",
        "max_concurrent_calls",
        "maxConcurrentCalls",
        "max_waiting_calls",
        "maxWaitingCalls",
        "tool_sync_interval",
        "toolSyncInterval",
        "prefix",
        "trust",
        "pin",
        "tools_to_execute",
        "tools_to_exclude",
        "tools_to_auto_execute",
        "tools_to_approve_twice",
        "resources_to_read",
        "prompts_to_get",
        "relay_instructions",
        "allow",
        "framing",
        "protocol",
        "is_code_mode_client",
        "code_mode_binding_level",
        "allow_on_all_virtual_keys",
        "virtual_keys",
        "teams",
        "disabled",
    ],
    others: &[
        ("stdio_config", Shape::Object(&STDIO)),
        ("docker_config", Shape::Object(&DOCKER)),
        ("connection_string", Shape::SecretUrl),
        ("connection_strings", Shape::List(&Shape::SecretUrl)),
        ("headers", Shape::Map(&Shape::Secret)),
        ("tls_config", Shape::Object(&TLS)),
        ("oauth_config", Shape::Object(&OAUTH)),
        ("token_exchange", Shape::Object(&TOKEN_EXCHANGE)),
        ("restart", Shape::Object(&RESTART)),
        ("tool_cache", Shape::List(&Shape::Object(&TOOL_CACHE))),
        ("tool_fallbacks", Shape::Map(&Shape::Shown)),
        ("rate_limit", Shape::Object(&CALL_RATE_LIMIT)),
        ("tool_limits", Shape::Map(&Shape::Object(&CALL_RATE_LIMIT))),
        ("tool_pricing", Shape::Map(&Shape::Shown)),
        ("wasm_config", Shape::Object(&WASM)),
    ],
};

static STDIO: MemberShapes = MemberShapes {
    shown: &["command", "args", "cwd", "network", "max_age", "max_memory", "instances"],
    others: &[
        ("envs", Shape::Variables),
        ("limits", Shape::Object(&PROCESS_LIMITS)),
        ("confine", Shape::Object(&CONFINE)),
    ],
};

static PROCESS_LIMITS: MemberShapes =
    MemberShapes::shown(&["memory", "cpu_time", "open_files", "processes"]);

static CONFINE: MemberShapes = MemberShapes::shown(&["read", "write", "required"]);

static DOCKER: MemberShapes = MemberShapes {
    shown: &[
        "host",
        "image",
        "container",
        "command",
        "workdir",
        "instances",
        "user",
        "network",
        "memory",
        "cpus",
        "pids_limit",
        "read_only",
        "pull",
        "keep",
        "main",
    ],
    others: &[("envs", Shape::Variables), ("mounts", Shape::List(&Shape::Object(&MOUNT)))],
};

static MOUNT: MemberShapes = MemberShapes::shown(&["source", "target", "read_only"]);

// The private key is a path or the name of a variable, and never the key itself.
static TLS: MemberShapes = MemberShapes {
    shown: &["ca_file", "client_certificate", "client_key"],
    others: &[("ca_cert_pem", Shape::Secret)],
};

static TOKEN_EXCHANGE: MemberShapes = MemberShapes {
    shown: &["audience", "scopes", "subject_token_type"],
    others: &[
        ("token_url", Shape::Url),
        ("client_id", Shape::Secret),
        ("client_secret", Shape::Secret),
        ("resource", Shape::Url),
    ],
};

static OAUTH: MemberShapes = MemberShapes {
    shown: &["scopes"],
    others: &[
        ("client_id", Shape::Secret),
        ("client_secret", Shape::Secret),
        ("client_metadata_url", Shape::Url),
        ("issuer", Shape::Url),
        ("authorize_url", Shape::Url),
        ("token_url", Shape::Url),
        ("registration_url", Shape::Url),
    ],
};

static RESTART: MemberShapes = MemberShapes::shown(&[
    "max_attempts",
    "maxAttempts",
    "backoff",
    "max_backoff",
    "maxBackoff",
    "stable_after",
    "stableAfter",
]);

static TOOL_CACHE: MemberShapes = MemberShapes::shown(&["tools", "ttl", "max_bytes", "shared"]);

static WASM: MemberShapes = MemberShapes {
    shown: &["component", "profile"],
    others: &[
        ("stored", Shape::Object(&STORED)),
        ("config", Shape::Any),
        ("descriptions", Shape::Map(&Shape::Shown)),
        ("grants", Shape::Object(&GRANTS)),
        ("limits", Shape::Object(&LIMITS)),
    ],
};

static STORED: MemberShapes = MemberShapes::shown(&["accepted", "offered"]);

static LIMITS: MemberShapes = MemberShapes::shown(&[
    "fuel",
    "cpu_time",
    "deadline",
    "memory",
    "table_elements",
    "handles",
    "copied",
    "host_calls",
    "result",
    "log_lines",
    "log_line",
    "http_requests",
    "http_request",
    "http_response",
    "http_timeout",
    "http_redirects",
]);

static GRANTS: MemberShapes = MemberShapes {
    shown: &["tools", "clocks"],
    others: &[
        ("http", Shape::List(&Shape::NameOr(&HTTP_RULE))),
        ("secret", Shape::Map(&Shape::Object(&SECRET_GRANT))),
        ("kv", Shape::Map(&Shape::Object(&KV_GRANT))),
        ("files", Shape::Map(&Shape::Object(&FILES_GRANT))),
        ("scratch", Shape::Object(&SCRATCH)),
        ("slot", Shape::Map(&Shape::Shown)),
    ],
};

static HTTP_RULE: MemberShapes = MemberShapes::shown(&["url", "methods", "paths", "private"]);

static SECRET_GRANT: MemberShapes = MemberShapes {
    shown: &["reveal"],
    others: &[
        ("from", Shape::Source),
        ("audience", Shape::List(&Shape::NameOr(&HTTP_RULE))),
        ("inject", Shape::Object(&INJECT)),
    ],
};

static INJECT: MemberShapes = MemberShapes::shown(&["header", "prefix", "basic", "query"]);

static KV_GRANT: MemberShapes = MemberShapes::shown(&["max_bytes", "shared"]);

static FILES_GRANT: MemberShapes =
    MemberShapes::shown(&["path", "access", "max_bytes", "max_files"]);

static SCRATCH: MemberShapes = MemberShapes::shown(&["max_bytes", "max_files"]);

/// Members of an element of `governance.virtual_keys`.
pub(super) static VIRTUAL_KEY: MemberShapes = MemberShapes {
    shown: &[
        "id",
        "name",
        "description",
        "previous_valid_until",
        "expires_at",
        "client_certificate_sha256",
        "is_active",
        "approval",
        "roles",
        "environment",
        "team_id",
        "customer_id",
        "calendar_aligned",
    ],
    others: &[
        ("budgets", Shape::List(&Shape::Object(&BUDGET))),
        ("budget", Shape::Object(&BUDGET)),
        ("rate_limit", Shape::Object(&RATE_LIMIT)),
        ("value", Shape::Secret),
        ("value_sha256", Shape::Digest),
        ("previous_value_sha256", Shape::Digest),
        ("mcp_configs", Shape::List(&Shape::Object(&KEY_ROW))),
    ],
};

static KEY_ROW: MemberShapes = MemberShapes {
    shown: &[
        "mcp_client_name",
        "tools_to_execute",
        "tools_to_exclude",
        "resources_to_read",
        "prompts_to_get",
    ],
    others: &[("rate_limit", Shape::Object(&CALL_RATE_LIMIT))],
};

static BUDGET: MemberShapes = MemberShapes {
    shown: &["max_limit", "reset_duration"],
    others: &[("reset_config", Shape::Object(&RESET_CONFIG))],
};

static RESET_CONFIG: MemberShapes = MemberShapes::shown(&["quarter_start_month"]);

static RATE_LIMIT: MemberShapes = MemberShapes::shown(&[
    "token_max_limit",
    "token_reset_duration",
    "request_max_limit",
    "request_reset_duration",
    "tool_call_max_limit",
    "tool_call_reset_duration",
    "argument_byte_max_limit",
    "argument_byte_reset_duration",
    "max_concurrent",
]);

static CALL_RATE_LIMIT: MemberShapes = MemberShapes::shown(&[
    "tool_call_max_limit",
    "tool_call_reset_duration",
    "argument_byte_max_limit",
    "argument_byte_reset_duration",
    "max_concurrent",
]);

/// Members of owners with limits.
static OWNER_LIMITS: [(&str, Shape); 3] = [
    ("budgets", Shape::List(&Shape::Object(&BUDGET))),
    ("budget", Shape::Object(&BUDGET)),
    ("rate_limit", Shape::Object(&RATE_LIMIT)),
];

/// Members of an element of `governance.teams`.
pub(super) static TEAM: MemberShapes = MemberShapes {
    shown: &["id", "name", "description", "customer_id", "calendar_aligned"],
    others: &OWNER_LIMITS,
};

/// Members of an element of `governance.customers`.
pub(super) static CUSTOMER: MemberShapes = MemberShapes {
    shown: &["id", "name", "description", "calendar_aligned"],
    others: &OWNER_LIMITS,
};

/// Members of an element of `governance.model_configs`.
pub(super) static MODEL_CONFIG: MemberShapes = MemberShapes {
    shown: &["id", "model_name", "provider", "scope", "scope_id", "calendar_aligned"],
    others: &[
        ("budgets", Shape::List(&Shape::Object(&BUDGET))),
        ("rate_limit", Shape::Object(&RATE_LIMIT)),
    ],
};

/// Members of an element of `governance.pricing_overrides`.
pub(super) static PRICING_OVERRIDE: MemberShapes = MemberShapes {
    shown: &["id", "name", "scope_kind", "provider_id", "match_type", "pattern", "request_types"],
    others: &[("patch", Shape::Object(&PRICING_PATCH))],
};

static PRICING_PATCH: MemberShapes = MemberShapes::shown(&[
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "input_cost_per_token_priority",
    "output_cost_per_token_priority",
    "cache_read_input_token_cost_priority",
    "input_cost_per_token_flex",
    "output_cost_per_token_flex",
    "cache_read_input_token_cost_flex",
]);

/// Members of an element of `governance.roles`.
pub(super) static ROLE: MemberShapes = MemberShapes {
    shown: &["name", "description"],
    others: &[("mcp_configs", Shape::List(&Shape::Object(&KEY_ROW)))],
};

/// Members of an element of `governance.environments`.
pub(super) static ENVIRONMENT: MemberShapes =
    MemberShapes::shown(&["name", "description", "clients", "tools_to_exclude"]);

/// Members of an element of `mcp.virtual_mcps`.
pub(super) static VIRTUAL_MCP: MemberShapes = MemberShapes {
    shown: &["name", "endpoint_slug", "description", "enabled", "virtual_keys"],
    others: &[("tools", Shape::List(&Shape::Object(&VIRTUAL_MCP_TOOLS)))],
};

static VIRTUAL_MCP_TOOLS: MemberShapes = MemberShapes::shown(&["mcp_client_name", "tool_names"]);

/// A setting is one value, and has no members.
pub(super) static SETTING: MemberShapes = MemberShapes::shown(&[]);

/// Members of the credential of a virtual key in the store.
pub(super) static KEY_VALUE: MemberShapes = MemberShapes {
    shown: &["id", "previous_valid_until"],
    others: &[("value_sha256", Shape::Digest), ("previous_value_sha256", Shape::Digest)],
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// Compares members with a type of the schema, and those of the types in it. Returns the keys that
    /// have text that may come from the environment.
    fn compare(types: &Value, name: &str, members: &MemberShapes) -> BTreeSet<String> {
        let properties = types[name]["properties"].as_object().expect("an object");
        let mut found = BTreeSet::new();
        for (key, property) in properties {
            let shape = members.shape(key);
            let shape = shape.unwrap_or_else(|| panic!("{name}.{key} has no shape"));
            let text = property.to_string();
            if text.contains(r#""examples":["env.NAME"]"#) {
                found.insert(format!("{name}.{key}"));
                assert!(is_secret(shape), "{name}.{key}: {shape:?}");
            }
            for inner in objects(types, &text) {
                let members = innermost(shape);
                let members = members.unwrap_or_else(|| panic!("{name}.{key}: {shape:?}"));
                found.extend(compare(types, &inner, members));
            }
        }
        found
    }

    fn is_secret(shape: &Shape) -> bool {
        match shape {
            Shape::Secret | Shape::SecretUrl => true,
            Shape::Map(inner) | Shape::List(inner) => is_secret(inner),
            _ => false,
        }
    }

    fn innermost(shape: &Shape) -> Option<&'static MemberShapes> {
        match shape {
            Shape::Object(members) | Shape::NameOr(members) => Some(members),
            Shape::Map(inner) | Shape::List(inner) => innermost(inner),
            _ => None,
        }
    }

    /// Returns the types with properties that a text of a schema refers to.
    fn objects(types: &Value, text: &str) -> Vec<String> {
        let references = text.split("#/$defs/").skip(1).filter_map(|rest| rest.split('"').next());
        let objects = references.filter(|name| types[*name]["properties"].is_object());
        objects.map(str::to_owned).collect()
    }

    #[test]
    fn every_key_of_an_element_has_a_shape_and_every_text_of_the_environment_is_a_secret() {
        let schema = crate::schema();
        let types = &schema["$defs"];
        let of_client = compare(types, "Client", &CLIENT);
        let expected = [
            "Client.connection_string",
            "Client.connection_strings",
            "Client.headers",
            "OAuthConfig.client_id",
            "OAuthConfig.client_secret",
            "TlsConfig.ca_cert_pem",
            "TokenExchangeConfig.client_id",
            "TokenExchangeConfig.client_secret",
        ];
        assert_eq!(of_client, expected.map(str::to_owned).into());
        let of_key = compare(types, "VirtualKey", &VIRTUAL_KEY);
        assert_eq!(of_key, ["VirtualKey.value".to_owned()].into());
        for (name, members) in [
            ("Team", &TEAM),
            ("Customer", &CUSTOMER),
            ("Role", &ROLE),
            ("Environment", &ENVIRONMENT),
            ("VirtualMcp", &VIRTUAL_MCP),
            ("ModelConfig", &MODEL_CONFIG),
            ("PricingOverride", &PRICING_OVERRIDE),
        ] {
            assert_eq!(compare(types, name, members), BTreeSet::new(), "{name}");
        }
    }
}
