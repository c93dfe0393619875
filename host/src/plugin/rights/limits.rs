//! Limits of one call: the granted value, else the requested one, and never more than the profile
//! permits.

use std::time::Duration;

use super::Desk;
use crate::{
    egress::Bounds,
    sandbox::Limits,
    units::{Size, Span},
};

impl Desk<'_> {
    #[expect(clippy::too_many_lines, reason = "a table: one entry for each limit")]
    pub(super) fn limits(&mut self) -> Limits {
        let (answer, asked) = (
            self.answer.limits,
            self.request.map(|request| request.limits.clone()).unwrap_or_default(),
        );
        let (default, most) = (Limits::PLUGIN, self.profile().limits());
        let count = |value: u64| value.to_string();
        let size = |bytes: u64| Size(bytes).to_string();
        let time = |nanos: u64| Span(Duration::from_nanos(nanos)).to_string();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let span = |span: Option<Span>| span.map(|span| nanos(span.0));
        let bytes = |size: Option<Size>| size.map(|size| size.0);
        let wide = |value: Option<usize>| value.map(|value| value as u64);
        let usize_of = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let u32_of = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let mut set = |key,
                       answer: Option<u64>,
                       asked: Option<u64>,
                       default: u64,
                       most: u64,
                       show: &dyn Fn(u64) -> String| {
            self.bound(key, answer, asked, default, most, show)
        };
        let l = &answer;
        Limits {
            fuel: set("fuel", l.fuel, asked.fuel, default.fuel, most.fuel, &count),
            cpu: Duration::from_nanos(set(
                "cpu_time",
                l.cpu.map(nanos),
                span(asked.cpu_time),
                nanos(default.cpu),
                nanos(most.cpu),
                &time,
            )),
            // By default a call has the deadline of its caller.
            deadline: Duration::from_nanos(set(
                "deadline",
                l.deadline.map(nanos),
                span(asked.deadline),
                nanos(most.deadline),
                nanos(most.deadline),
                &time,
            )),
            memory_bytes: usize_of(set(
                "memory",
                wide(l.memory_bytes),
                bytes(asked.memory),
                default.memory_bytes as u64,
                most.memory_bytes as u64,
                &size,
            )),
            table_elements: usize_of(set(
                "table_elements",
                wide(l.table_elements),
                None,
                default.table_elements as u64,
                most.table_elements as u64,
                &count,
            )),
            handles: usize_of(set(
                "handles",
                wide(l.handles),
                None,
                default.handles as u64,
                most.handles as u64,
                &count,
            )),
            copied_bytes: usize_of(set(
                "copied",
                wide(l.copied_bytes),
                None,
                default.copied_bytes as u64,
                most.copied_bytes as u64,
                &size,
            )),
            host_calls: u32_of(set(
                "host_calls",
                l.host_calls.map(u64::from),
                asked.host_calls,
                default.host_calls.into(),
                most.host_calls.into(),
                &count,
            )),
            result_bytes: usize_of(set(
                "result",
                wide(l.result_bytes),
                bytes(asked.result),
                default.result_bytes as u64,
                most.result_bytes as u64,
                &size,
            )),
            log_lines: u32_of(set(
                "log_lines",
                l.log_lines.map(u64::from),
                None,
                default.log_lines.into(),
                most.log_lines.into(),
                &count,
            )),
            log_line_bytes: usize_of(set(
                "log_line",
                wide(l.log_line_bytes),
                None,
                default.log_line_bytes as u64,
                most.log_line_bytes as u64,
                &size,
            )),
        }
    }

    pub(super) fn bounds(&mut self) -> Bounds {
        let (answer, asked) = (
            self.answer.limits,
            self.request.map(|request| request.limits.clone()).unwrap_or_default(),
        );
        let (default, most) = (Bounds::PLUGIN, self.profile().bounds());
        let count = |value: u64| value.to_string();
        let size = |bytes: u64| Size(bytes).to_string();
        let time = |millis: u64| Span(Duration::from_millis(millis)).to_string();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let wide = |value: Option<usize>| value.map(|value| value as u64);
        let usize_of = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let u32_of = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let requests = answer.http_requests.map(u64::from);
        let response_asked = asked.http_response.map(|size| size.0);
        Bounds {
            requests: u32_of(self.bound(
                "http_requests",
                requests,
                asked.http_requests,
                default.requests.into(),
                most.requests.into(),
                &count,
            )),
            response_bytes: usize_of(self.bound(
                "http_response",
                wide(answer.http_response_bytes),
                response_asked,
                default.response_bytes as u64,
                most.response_bytes as u64,
                &size,
            )),
            request_bytes: usize_of(self.bound(
                "http_request",
                wide(answer.http_request_bytes),
                None,
                default.request_bytes as u64,
                most.request_bytes as u64,
                &size,
            )),
            timeout: Duration::from_millis(self.bound(
                "http_timeout",
                answer.http_timeout.map(millis),
                None,
                millis(default.timeout),
                millis(most.timeout),
                &time,
            )),
            redirects: u32_of(self.bound(
                "http_redirects",
                answer.http_redirects.map(u64::from),
                None,
                default.redirects.into(),
                most.redirects.into(),
                &count,
            )),
            ..default
        }
    }

    /// Computes one limit: the granted value, else the requested one, else the default. The result
    /// is never above the requested value or the profile's maximum.
    fn bound(
        &mut self,
        key: &str,
        answer: Option<u64>,
        asked: Option<u64>,
        default: u64,
        most: u64,
        show: &dyn Fn(u64) -> String,
    ) -> u64 {
        if let Some(over) = answer.filter(|answer| *answer > most) {
            let profile = self.profile().name();
            self.refusals.push(format!(
                "limits.{key}: found {}, the profile {profile:?} allows at most {}",
                show(over),
                show(most)
            ));
        }
        let value = answer.or(asked).unwrap_or(default).min(most);
        match asked {
            Some(asked) if asked > value => {
                self.notes.push(format!(
                    "limits.{key} is {}, the plugin asks for {}",
                    show(value),
                    show(asked)
                ));
                value
            }
            Some(asked) => value.min(asked),
            None => value,
        }
    }
}
