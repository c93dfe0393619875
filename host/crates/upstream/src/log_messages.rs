//! Log messages of a server: how they are asked for, and read.

use serde_json::Value;

use airlock_core::{
    door::{Log, LogLevel},
    tool::ClientName,
};
use airlock_json::raw;
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
/// the text, which must be valid JSON, is not a log message.
pub(super) fn read(client: Option<&ClientName>, text: &[u8]) -> Option<Log> {
    let params = raw::member(std::str::from_utf8(text).ok()?, "params")?;
    let level = LogLevel::find(&raw::member(params, "level").and_then(raw::string)?)?;
    let client = client.map(ClientName::as_str).unwrap_or_default();
    let logger = match raw::member(params, "logger").and_then(raw::string) {
        Some(logger) => format!("{client}/{}", cut(one_line(&logger), MAX_EXCERPT_BYTES)),
        None => client.to_owned(),
    };
    let data = raw::on_one_line(raw::member(params, "data").unwrap_or("null"));
    Some(Log { level, logger, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_message_names_its_client_and_one_without_a_level_is_none() {
        let log =
            logged("{\"level\":\"warning\",\"logger\":\"a\\nb\",\"data\":{\"k\":\r\n[1.10]}}");
        let expected = Log {
            level: LogLevel::Warning,
            logger: "up/a b".into(),
            data: r#"{"k":  [1.10]}"#.to_owned(),
        };
        assert_eq!(log, Some(expected));
        let plain = logged(r#"{"level":"info","data":"x"}"#).expect("a message");
        assert_eq!((plain.logger.as_str(), plain.data.as_str()), ("up", "\"x\""));
        assert!(logged(r#"{"level":"loud","data":1}"#).is_none() && logged("7").is_none());
    }

    fn logged(params: &str) -> Option<Log> {
        let client = ClientName::parse("up").expect("a good name");
        read(Some(&client), format!(r#"{{"params":{params}}}"#).as_bytes())
    }
}
