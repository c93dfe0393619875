//! Log messages of a server: how they are asked for, and read.

use serde_json::Value;

use airlock_core::{
    door::{Log, LogLevel},
    tool::ClientName,
};
use airlock_mcp_client::{Link, LogMessages, Request};
use airlock_strings::{MAX_EXCERPT_BYTES, cut, one_line};

/// Member of `_meta` of a modern request that asks for log messages.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Asks for the log messages that a caller wants: in the modern era by a member of the request, in
/// the legacy era by a level of the whole connection.
pub(super) async fn with_level(link: &Link, request: Request, level: Option<LogLevel>) -> Request {
    let Some(level) = level else { return request.with_logs(LogMessages::Dropped) };
    let request = request.with_logs(LogMessages::Wanted);
    if link.is_modern() {
        return request.with_meta(LOG_LEVEL, Value::from(level.as_str()).to_string());
    }
    link.lower_log_level(level).await;
    request
}

/// Reads `notifications/message`, with the name of the client before that of the logger; `None` if
/// the text is not a log message.
pub(super) fn read(client: Option<&ClientName>, text: &[u8]) -> Option<Log> {
    let mut message: Value = serde_json::from_slice(text).ok()?;
    let params = message.get_mut("params")?;
    let level = LogLevel::find(params.get("level")?.as_str()?)?;
    let client = client.map(ClientName::as_str).unwrap_or_default();
    let logger = match params.get("logger").and_then(Value::as_str) {
        Some(logger) => format!("{client}/{}", cut(one_line(logger), MAX_EXCERPT_BYTES)),
        None => client.to_owned(),
    };
    let data = params.get_mut("data").map(Value::take).unwrap_or_default();
    Some(Log { level, logger, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_message_names_its_client_and_one_without_a_level_is_none() {
        let log = logged(r#"{"level":"warning","logger":"a\nb","data":{"k":[1]}}"#);
        let expected = Log {
            level: LogLevel::Warning,
            logger: "up/a b".into(),
            data: serde_json::json!({"k": [1]}),
        };
        assert_eq!(log, Some(expected));
        let plain = logged(r#"{"level":"info","data":"x"}"#).expect("a message");
        assert_eq!(plain.logger, "up");
        assert!(logged(r#"{"level":"loud","data":1}"#).is_none() && logged("7").is_none());
    }

    fn logged(params: &str) -> Option<Log> {
        let client = ClientName::parse("up").expect("a good name");
        read(Some(&client), format!(r#"{{"params":{params}}}"#).as_bytes())
    }
}
