"""Results, failures and the host, through the conversions of a component."""

import copy
import json
import logging
import re
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airlock_plugin as sdk
from airlock_plugin import Content, Context, Output, ToolError, _native, config, http, kv, log, plugin, secrets, secrets_reveal, tool, tools
from airlock_plugin._errors import KINDS
from airlock_plugin._wire import content_from_host, content_to_host, error_from_host, error_to_host, output_from_host, output_to_host
from airlock_plugin.testing import Host, Refusal, Reply

PARTS = [
    sdk.text("a", annotations={"audience": ["user"]}, meta={"k": 1}, extra={"x": []}),
    sdk.image(b"\x89PNG", "image/png"),
    sdk.audio(b"RIFF", "audio/wav"),
    sdk.resource_link("file:///a", "a", title="A", description="d", mime_type="text/plain", size=1 << 40, extra={"icons": []}),
    sdk.embedded_resource("file:///b", "text", mime_type="text/plain", resource_meta={"m": 1}, resource_extra={"x": 1}),
    sdk.embedded_resource("file:///c", b"\x00"),
    sdk.other({"type": "chart", "rows": 2}),
]


@dataclass
class Weather:
    celsius: float


def called(function: Any, host: Host | None = None, **arguments: Any) -> Output[Any]:
    """Runs a function as the only tool of a plugin."""
    function.__doc__ = "Does it."
    return (host or Host()).call(plugin(tool(function)), function.__name__, arguments)


class Results(unittest.TestCase):
    def test_every_part_crosses_the_contract_without_loss(self) -> None:
        self.assertEqual([content_from_host(content_to_host(part)) for part in PARTS], PARTS)

    def test_a_failure_crosses_the_contract_without_loss(self) -> None:
        given = ToolError("rate-limited", "wait", code="slow", retry_after_ms=5, content=PARTS, details=[1], meta={"m": 1},
                          extra={"ttl": 7})
        self.assertEqual(vars(error_from_host(error_to_host(given))), vars(given))

    def test_a_result_crosses_the_contract_without_loss(self) -> None:
        given = Output(PARTS, {"a": [1, None]}, {"m": 1}, {"ttl": 7})
        sent = output_to_host(given)
        self.assertEqual((sent.meta, sent.extra), ('{"m": 1}', '{"ttl": 7}'))
        self.assertEqual(output_from_host(sent), given)

    def test_a_dataclass_is_data_with_a_schema_and_a_text(self) -> None:
        def forecast() -> Weather:
            return Weather(4)

        output = called(forecast)
        self.assertEqual((output.structured_content, output.first_text()), ({"celsius": 4}, '{"celsius": 4}'))
        schema = tool(forecast).descriptor.output_schema or {}
        self.assertEqual(schema["properties"], {"celsius": {"type": "number"}})

    def test_other_values_are_text_and_parts_stay_parts(self) -> None:
        def words() -> str:
            return "words"

        def numbers() -> list[int]:
            return [1, 2]

        def parts() -> list[Content]:
            return PARTS

        def nothing() -> None:
            return None

        def both() -> Output[Weather]:
            return Output(["cold", PARTS[1]], Weather(4), {"m": 1})

        self.assertEqual([called(words).first_text(), called(numbers).first_text()], ["words", "[1, 2]"])
        self.assertEqual((called(numbers).structured_content, called(numbers).data()), (sdk.ABSENT, [1, 2]))
        self.assertEqual((called(parts).content, called(nothing).content), (PARTS, []))
        output = called(both)
        self.assertEqual((output.content, output.structured_content, output.meta), ([sdk.text("cold"), PARTS[1]], {"celsius": 4}, {"m": 1}))
        self.assertEqual((tool(both).descriptor.output_schema or {})["required"], ["celsius"])

    def test_data_may_be_any_json_value_and_the_result_of_another_tool_can_be_returned_unchanged(self) -> None:
        def forward() -> Output[Any]:
            return tools.call("other")

        values: list[Any] = [[1], "words", 0, False, None, {}]
        for value in values:
            output = called(forward, Host(tools={"other": lambda arguments: Output([], value)}))
            self.assertEqual((output.structured_content, output.data()), (value, value))

    def test_data_that_is_absent_is_not_null(self) -> None:
        def empty() -> Output[Any]:
            return Output()

        output = called(empty)
        self.assertIs(output.structured_content, sdk.ABSENT)
        self.assertFalse(sdk.ABSENT)
        self.assertIs(copy.deepcopy(output).structured_content, sdk.ABSENT)
        with self.assertRaisesRegex(ToolError, "neither data nor text"):
            output.data()

    def test_data_that_is_no_json_value_is_a_fault_of_the_tool(self) -> None:
        def wrong() -> Output[Any]:
            return Output([], value)

        for value in (object(), float("nan"), {"a": sdk.ABSENT}, {1: 2}):
            with self.assertRaisesRegex(ToolError, "^TypeError: structured_content must be a JSON value: "):
                called(wrong)

    def test_vendor_keys_and_other_members_that_are_no_dict_are_a_fault_of_the_tool(self) -> None:
        def wrong() -> Output[Any]:
            return Output(**{name: value})

        cases: list[tuple[str, Any]] = [("meta", [1]), ("extra", [1]), ("extra", "x"), ("extra", {"n": object()})]
        for name, value in cases:
            with self.assertRaisesRegex(ToolError, f"^TypeError: {name} must be a ") as failed:
                called(wrong)
            self.assertEqual(failed.exception.kind, "internal")

    def test_a_descriptor_has_its_annotations_in_full(self) -> None:
        @tool(read_only=True, annotations_extra={"audience": "staff"}, meta={"m": 1}, extra={"icons": []})
        def ping() -> None:
            """Does it."""

        [descriptor] = plugin(ping)().describe()
        self.assertEqual(descriptor.annotations, _native.types.ToolAnnotations(True, None, None, None, '{"audience": "staff"}'))
        self.assertEqual((descriptor.meta, descriptor.extra), ('{"m": 1}', '{"icons": []}'))
        wrong: Any = [1]
        for name in ("annotations_extra", "meta", "extra"):
            with self.assertRaisesRegex(TypeError, f"^tool f: {name} must be a dict, not list$"):
                tool(name="f", description="Does it.", **{name: wrong})(lambda: None)


class Failures(unittest.TestCase):
    def test_the_kinds_are_those_of_the_contract(self) -> None:
        wit = (Path(__file__).resolve().parents[3] / "wit/types/0.1.0/types.wit").read_text()
        [cases] = re.findall(r"enum error-kind \{(.*?)\n    \}", wit, re.DOTALL)
        kinds = re.findall(r"^ +([a-z-]+),$", cases, re.MULTILINE)
        self.assertIn("limit-reached", kinds)
        self.assertEqual(list(KINDS), kinds)
        self.assertEqual([error_to_host(ToolError(kind, "x")).kind.name.lower().replace("_", "-") for kind in kinds], kinds)

    def test_an_error_of_the_host_is_known_by_its_code(self) -> None:
        def failing(arguments: dict[str, Any]) -> str:
            raise ToolError("internal", "x", code="deadline")

        codes: list[str | None] = ["airlock.deadline", "airlock", "deadline", None]
        self.assertEqual([ToolError("internal", "x", code=code).is_from_host for code in codes], [True, False, False, False])
        batch = [tools.Call("slot", {}), tools.Call("unknown", {})]
        found = Host(tools={"slot": failing}).run(lambda: tools.call_batch(batch))
        self.assertEqual([isinstance(error, ToolError) and error.is_from_host for error in found], [False, True])

    def test_an_accident_is_internal_and_its_traceback_is_logged(self) -> None:
        def crash() -> None:
            try:
                raise ValueError("first")
            except ValueError:
                raise KeyError("x")

        host = Host()
        with self.assertRaises(ToolError) as failed:
            called(crash, host)
        self.assertEqual((failed.exception.kind, failed.exception.message), ("internal", "KeyError: 'x'"))
        self.assertRegex(host.logs[0].fields["traceback"], r"(?s)test_plugin\.py\", line \d+, in crash\nKeyError: 'x'\nafter:.*ValueError: first$")

    def test_arguments_that_are_no_object_and_unknown_tools_are_refused(self) -> None:
        def ping(n: float = 0) -> None:
            """Does it."""

        exported = plugin(tool(ping))()
        for name, arguments, kind in [("ping", "[1]", "INVALID_INPUT"), ("ping", '{"n":NaN}', "INVALID_INPUT"),
                                      ("ping", "{", "INVALID_INPUT"), ("pong", "{}", "NOT_FOUND")]:
            with self.assertRaises(_native.Err) as failed:
                exported.invoke(name, arguments, None)
            self.assertEqual(failed.exception.value.kind.name, kind)

    def test_an_error_with_members_that_the_contract_cannot_have_is_refused_where_it_is_made(self) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"retry_after_ms": 1500.5}, "retry_after_ms must be a whole number of 0 or more, not 1500.5"),
            ({"retry_after_ms": -1}, "retry_after_ms must be a whole number of 0 or more, not -1"),
            ({"retry_after_ms": float("nan")}, "retry_after_ms must be a whole number of 0 or more, not nan"),
            ({"retry_after_ms": True}, "retry_after_ms must be a whole number of 0 or more, not True"),
            ({"retry_after_ms": 1 << 64}, "retry_after_ms must be a whole number of 0 or more, not 18446744073709551616"),
            ({"details": float("nan")}, "details must be a JSON value: Out of range float values are not JSON compliant"),
            ({"details": object()}, "details must be a JSON value: object is no JSON value"),
            ({"meta": [1]}, "meta must be a dict"),
            ({"meta": {"n": object()}}, "meta must be a JSON value: object is no JSON value"),
            ({"extra": [1]}, "extra must be a dict, not list"),
            ({"extra": {"n": object()}}, "extra must be a JSON value: object is no JSON value"),
            ({"code": 7}, "code must be a string, not 7"),
            ({"content": "text"}, "content must be a list of parts and strings"),
            ({"content": [5]}, "content must be a list of parts and strings"),
            ({"content": 5}, "content must be a list of parts and strings"),
        ]
        for members, message in cases:
            with self.assertRaises(TypeError) as failed:
                ToolError("internal", "x", **members)
            self.assertTrue(str(failed.exception).startswith(message), str(failed.exception))

    def test_strings_among_the_parts_of_an_error_are_texts(self) -> None:
        def shot() -> None:
            raise ToolError("internal", "x", content=["text", PARTS[1]])

        with self.assertRaises(ToolError) as failed:
            called(shot)
        self.assertEqual(failed.exception.content, [sdk.text("text"), PARTS[1]])

    def test_details_that_are_null_are_not_absent(self) -> None:
        crossed = [error_from_host(error_to_host(error)).details for error in
                   (ToolError("internal", "x"), ToolError("internal", "x", details=None))]
        self.assertEqual(crossed, [sdk.ABSENT, None])

    def test_an_error_that_cannot_be_converted_arrives_with_its_kind_and_message(self) -> None:
        changes: list[tuple[str, Any]] = [
            ("retry_after_ms", 0.5), ("details", float("nan")), ("meta", 5), ("extra", "ttl"), ("content", [5]), ("content", None), ("code", 7),
            ("content", [sdk.image("not bytes", "image/png")]),  # type: ignore[arg-type]
            ("content", [sdk.resource_link("a:b", "b", size=-1)]), ("content", [sdk.text(5)]),  # type: ignore[arg-type]
        ]
        for name, value in changes:
            def fail() -> None:
                error = ToolError("conflict", "changed meanwhile")
                setattr(error, name, value)
                raise error

            host = Host()
            with self.assertRaises(ToolError) as failed:
                called(fail, host)
            error = failed.exception
            self.assertEqual((error.kind, error.message, error.content), ("conflict", "changed meanwhile", []), name)
            self.assertRegex(host.logs[0].message, "only its kind and message")

    def test_an_exception_that_cannot_be_described_is_an_internal_error(self) -> None:
        class Broken(Exception):
            def __str__(self) -> str:
                raise ValueError("no text")

        kindless = ToolError("denied", "no")
        kindless.kind = "missing"  # type: ignore[assignment]
        for thrown, kind, message in [(Broken(), "internal", "Broken"), (kindless, "internal", "no"),
                                      (sdk.HostError("other", "failed"), "internal", "failed"), (SystemExit(3), "internal", "SystemExit: 3"),
                                      (kv.KvError("unknown", "the store failed"), "internal", "the store failed")]:
            def fail() -> None:
                raise thrown

            host, logged = Host(), 0 if type(thrown) is sdk.HostError else 1
            with self.assertRaises(ToolError) as failed:
                called(fail, host)
            self.assertEqual((failed.exception.kind, failed.exception.message), (kind, message))
            self.assertEqual(len(host.logs), logged)

    def test_a_message_that_is_not_unicode_arrives_with_replacements(self) -> None:
        def fail() -> None:
            raise ToolError("not-found", "no file \ud800", code="\ud800", content=["\ud800"], details=["\ud800"])

        with self.assertRaises(ToolError) as failed:
            called(fail)
        error = failed.exception
        self.assertEqual((error.message, error.code, error.content, error.details), ("no file ?", "?", [sdk.text("?")], ["?"]))

    def test_a_message_is_converted_to_a_string(self) -> None:
        error: Any = ToolError("internal", ValueError("no number"))  # type: ignore[arg-type]
        self.assertEqual((error.message, str(error)), ("no number", "no number"))

    def test_a_log_that_fails_does_not_hide_the_error(self) -> None:
        def crash() -> None:
            raise KeyError("x")

        host = Host()
        host.write = log.flush  # type: ignore[method-assign, assignment]
        with self.assertRaisesRegex(ToolError, "KeyError: 'x'"):
            called(crash, host)

    def test_an_unknown_kind_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "there is no kind of failure 'missing'"):
            ToolError("missing", "m")  # type: ignore[arg-type]

    def test_plugin_refuses_what_is_no_tool_and_a_name_that_is_taken(self) -> None:
        def ping() -> None:
            """Does it."""

        with self.assertRaisesRegex(TypeError, "'ping' is no tool; put @tool before the function"):
            plugin(ping)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "two tools with the name 'ping'"):
            plugin(tool(ping), tool(ping))
        with self.assertRaisesRegex(TypeError, "'a b' is not a valid name of a tool"):
            plugin(tool(name="a b")(ping))

    def test_refusals_of_the_host_keep_their_kind(self) -> None:
        def store() -> None:
            kv.open("unknown")

        def conflict() -> None:
            kv.open("notes").set("k", "v", if_version=7)

        def ask() -> None:
            http.get("https://a.example/")

        def limit() -> None:
            http.get("https://b.example/")

        def reveal() -> None:
            secrets_reveal.reveal("token")

        def other_tool() -> None:
            tools.call("slot", {})

        def refuse(request: Any) -> Reply:
            raise Refusal("limit-reached" if "b.example" in request.url else "denied", "no", request_sent=True)

        def failing(arguments: dict[str, Any]) -> str:
            raise ToolError("auth-required", "sign in", code="c", retry_after_ms=9, content=[sdk.text("shot")])

        host = Host(stores=["notes"], http=refuse, tools={"slot": failing})
        for function, kind, code in [
            (store, "internal", "kv_no_such_store"), (conflict, "conflict", "kv_conflict"), (ask, "denied", "http_denied"),
            (limit, "limit-reached", "http_limit_reached"), (reveal, "denied", "secret_denied"), (other_tool, "auth-required", "c"),
        ]:
            with self.assertRaises(ToolError) as failed:
                called(function, host)
            error = failed.exception
            self.assertEqual((error.kind, error.code), (kind, code))
        self.assertEqual((error.retry_after_ms, error.content), (9, [sdk.text("shot")]))
        self.assertEqual(host.logs, [])


class Capabilities(unittest.TestCase):
    def test_the_running_call_reports_and_sends(self) -> None:
        def work(context: Context) -> str:
            context.progress(1, 2, "half")
            context.emit("early")
            log.warn("slow", rows=3)
            return f"{context.id} {context.remaining_ms}"

        host = Host(remaining_ms=50)
        self.assertEqual(called(work, host).content[-1], sdk.text("test 50"))
        self.assertEqual((host.progress, host.parts), ([(1.0, 2.0, "half")], [sdk.text("early")]))
        self.assertEqual((host.logs[0].level, host.logs[0].fields), ("warn", {"rows": "3"}))

    def test_the_content_of_a_result_or_an_error_begins_with_the_parts_that_were_sent_before_it(self) -> None:
        def work(context: Context, fails: bool) -> str:
            context.emit("early")
            if fails:
                raise ToolError("conflict", "x", content=["late"])
            return "late"

        host, both = Host(), [sdk.text("early"), sdk.text("late")]
        self.assertEqual(called(work, host, fails=False).content, both)
        with self.assertRaises(ToolError) as failed:
            called(work, host, fails=True)
        self.assertEqual((failed.exception.content, len(host.parts)), (both, 2))

    def test_a_configuration_is_read_by_member_and_by_type(self) -> None:
        @dataclass
        class Settings:
            rows: int = 100
            unit: str = "C"

        host = Host(config={"rows": 3})
        self.assertEqual(host.run(lambda: (config.get("rows"), config.get("x", 1), config.get_all())), (3, 1, {"rows": 3}))
        self.assertEqual(host.run(lambda: config.load(Settings)), Settings(3, "C"))
        with self.assertRaisesRegex(ToolError, "configuration cannot be used: argument `rows` must be an integer") as failed:
            Host(config={"rows": "x"}).run(lambda: config.load(Settings))
        self.assertEqual(failed.exception.kind, "internal")

    def test_a_member_of_the_configuration_that_is_null_is_none_and_only_an_absent_one_has_the_default(self) -> None:
        host = Host(config={"unit": None})
        self.assertEqual(host.run(lambda: (config.get("unit", "C"), config.get("x", "C"), config.get("x"))), (None, "C", None))

    def test_a_store_compares_and_sets(self) -> None:
        def work() -> None:
            store = kv.open("notes")
            version = store.set("a", "1", if_version=0)
            self.assertEqual((store.get("a"), store.get("b")), (kv.Entry(b"1", version), None))
            self.assertEqual(store.update_json("n", lambda n: (n or 0) + 1), 1)
            self.assertEqual(store.update_json("n", lambda n: (n or 0) + 1), 2)
            self.assertEqual([entry and entry.text() for entry in store.get_many(["n", "x"])], ["2", None])
            self.assertEqual(list(store.keys()), ["a", "n"])
            with self.assertRaises(kv.KvError) as failed:
                store.delete("a", if_version=version + 9)
            self.assertEqual(failed.exception.kind, "conflict")
            self.assertTrue(store.delete("a", if_version=version))
            self.assertFalse(store.delete("a"))

        Host(stores=["notes"]).run(work)

    def test_an_update_runs_again_if_another_call_wrote_in_between(self) -> None:
        def work() -> list[int]:
            store, seen = kv.open("notes"), []

            def change(entry: kv.Entry | None) -> str:
                seen.append(entry.version if entry else 0)
                if len(seen) < 3:
                    store.set("k", "other")
                return "mine"

            store.update("k", change)
            with self.assertRaises(kv.KvError):  # a conflict of `change` itself
                store.update("k", lambda entry: str(store.set("k", "", if_version=999)))
            return [len(seen), store.update("k", lambda entry: "again")]

        self.assertEqual(Host(stores=["notes"]).run(work), [3, 4])

    def test_keys_are_read_page_by_page(self) -> None:
        def work() -> list[str]:
            store = kv.open("notes")
            for number in range(2_500):
                store.set(f"n/{number:04}", b"")
            store.set("o", b"")
            return list(store.keys("n/"))

        keys = Host(stores=["notes"]).run(work)
        self.assertEqual((len(keys), keys[-1]), (2_500, "n/2499"))

    def test_pages_of_keys_and_of_tools_that_are_short_or_empty_do_not_end_a_list(self) -> None:
        pages: dict[str | None, tuple[list[str], str | None]] = {None: (["z"], "p"), "p": ([], "q"), "q": (["a-b", "a-c"], "r"), "r": ([], None)}
        host: Any = Host()
        host.kv_open = lambda name: SimpleNamespace(keys=lambda prefix, cursor, limit: _native.kv.KeyPage(*pages[cursor]))
        host.tools_list = lambda cursor, limit: _native.tools.ToolPage(
            [_native.tools.ToolSummary(name, None, "") for name in pages[cursor][0]], pages[cursor][1])
        self.assertEqual(host.run(lambda: list(kv.open("notes").keys())), ["z", "a-b", "a-c"])
        self.assertEqual(host.run(lambda: [item.name for item in tools.list()]), ["z", "a-b", "a-c"])

    def test_reading_more_entries_than_one_host_call_returns_fails_and_the_message_names_the_bounds(self) -> None:
        def work() -> None:
            store = kv.open("notes")
            names = [f"n/{number}" for number in range(1_001)]
            self.assertEqual(len(store.get_many(names[:1_000])), 1_000)
            for name in names[:9]:
                store.set(name, bytes(1 << 20))
            self.assertEqual(len(store.get_many(names[:8])), 8)
            for refused in (names, names[:9]):
                with self.assertRaisesRegex(kv.KvError, "1 MiB.*the store's quota; one read has at most 1,000 keys, and values of limited size$") as failed:
                    store.get_many(refused)
                self.assertEqual(failed.exception.kind, "too-large")

        Host(stores=["notes"]).run(work)

    def test_an_entry_that_is_larger_than_the_quota_is_too_large_and_one_that_does_not_fit_exceeds_it(self) -> None:
        def work() -> None:
            store = kv.open("notes")

            def refused(key: str, value: str) -> str:
                with self.assertRaises(kv.KvError) as failed:
                    store.set(key, value)
                return failed.exception.kind

            self.assertEqual(refused("k", "123456"), "too-large")
            store.set("k", "12345")
            store.set("k", "54321")
            self.assertEqual(refused("l", ""), "quota-exceeded")
            store.delete("k")
            store.set("l", "")

        Host(stores={"notes": 70}).run(work)

    def test_a_status_that_is_no_success_has_the_kind_that_fits(self) -> None:
        for status, kind in {400: "invalid-input", 401: "auth-required", 409: "conflict", 410: "not-found", 500: "unavailable"}.items():
            with self.assertRaises(ToolError) as failed:
                Host(http=lambda request: Reply(status, "taken")).run(lambda: http.get("https://a.example/").ok())
            error = failed.exception
            self.assertEqual((error.kind, error.code, error.message), (kind, f"http_{status}", f"the server responded with {status}: taken"))

    def test_a_request_is_sent_as_the_contract_has_it(self) -> None:
        def respond(request: Any) -> Reply:
            return Reply(429, "slow\ndown", {"Retry-After": "7"}) if request.method == "GET" else Reply(200, '{"n":1}')

        def work() -> None:
            sent = http.post("https://a.example/b?c=1#d", query={"city": "São Paulo"}, json={"a": [1]}, credentials=["token"],
                             timeout_ms=5, redirects="manual")
            self.assertEqual((sent.json(), sent.final_url), ({"n": 1}, "https://a.example/b?c=1&city=S%C3%A3o%20Paulo#d"))
            with self.assertRaises(ToolError) as failed:
                http.get("https://a.example/").ok()
            error = failed.exception
            self.assertEqual((error.kind, error.code, error.retry_after_ms), ("rate-limited", "http_429", 7000))

        host = Host(http=respond)
        host.run(work)
        first = host.requests[0]
        self.assertEqual(first.url, "https://a.example/b?c=1&city=S%C3%A3o%20Paulo#d")
        self.assertEqual((first.body, first.headers), (b'{"a": [1]}', [("content-type", b"application/json")]))
        self.assertEqual((first.credentials, first.timeout_ms, first.redirects), (["token"], 5, "manual"))

    def test_other_tools_are_called_one_by_one_and_together(self) -> None:
        def double(arguments: dict[str, Any]) -> dict[str, Any]:
            if arguments["n"] < 0:
                raise ToolError("invalid-input", "negative")
            return {"n": arguments["n"] * 2}

        def work() -> None:
            self.assertEqual(tools.call("double", {"n": 2}).data(), {"n": 4})
            one, two = tools.call_batch([tools.Call("double", {"n": 1}), tools.Call("double", {"n": -1})])
            self.assertIsInstance(two, ToolError)
            self.assertEqual(one.data() if isinstance(one, Output) else None, {"n": 2})
            self.assertEqual([item.name for item in tools.list()], ["double"])
            self.assertEqual(tools.describe("double").input_schema, {"type": "object"})
            with self.assertRaises(ToolError) as failed:
                tools.call("unknown")
            self.assertEqual(failed.exception.kind, "not-found")

        Host(tools={"double": double}).run(work)

    def test_slots_are_listed_before_the_tools_by_full_name_and_a_descriptor_has_its_annotations_in_full(self) -> None:
        host: Any = Host(tools=dict.fromkeys(["a-b", "z", "a-a", "y"], lambda arguments: "1"))
        self.assertEqual(host.run(lambda: [item.name for item in tools.list()]), ["y", "z", "a-a", "a-b"])
        page = host.tools_list("z", 1)
        self.assertEqual((page.items[0].name, page.next), ("a-a", "a-a"))
        found = host.tools_describe("z")
        found.annotations = _native.types.ToolAnnotations(True, None, None, None, '{"audience": "staff"}')
        host.tools_describe = lambda name: found
        expected = {"read_only": True, "destructive": None, "idempotent": None, "open_world": None, "extra": {"audience": "staff"}}
        self.assertEqual(host.run(lambda: tools.describe("z").annotations), expected)

    def test_a_secret_exists_or_not_and_is_revealed(self) -> None:
        host = Host(secrets={"token": "s"})
        self.assertEqual(host.run(lambda: (secrets.exists("token"), secrets.exists("x"), secrets_reveal.reveal("token"))),
                         (True, False, b"s"))

    def test_without_a_host_an_interface_says_what_to_use(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "run it by `airlock_plugin.testing.Host`"):
            kv.open("notes")

    def test_printed_text_and_records_of_logging_become_lines(self) -> None:
        host = Host()

        def work() -> None:
            stream = log._Stream()
            print("one\ntwo", end="", file=stream)
            stream.finish()
            logger = logging.getLogger("lib")
            self.addCleanup(logging.setLogRecordFactory, logging.getLogRecordFactory())
            logging.setLogRecordFactory(log._Record)
            logger.propagate, logger.handlers = False, [log._Handler()]
            logger.warning("n=%d", 3)
            logger.warning("n=%(n)d", {"n": 4})
            try:
                raise KeyError("x")
            except KeyError:
                logger.exception("failed")

        host.run(work)
        self.assertEqual([(line.level, line.message) for line in host.logs], [
            ("debug", "one"), ("debug", "two"), ("warn", "n=3"), ("warn", "n=4"),
            ("error", host.logs[-1].message)])
        self.assertRegex(host.logs[-1].message, r"failed\nFile \".*test_plugin.py\", line \d+, in work\nKeyError: 'x'")


class Declared(unittest.TestCase):
    def test_the_first_tool_has_the_schema_of_the_configuration(self) -> None:
        @dataclass
        class Settings:
            rows: int = 5

        @tool
        def first() -> str:
            """Does it."""
            return ""

        described = plugin(first, config=Settings)().describe()
        schema = json.loads(described[0].meta)["airlock/config_schema"]
        self.assertEqual((schema["properties"]["rows"]["type"], schema["additionalProperties"]), ("integer", False))
        with self.assertRaisesRegex(TypeError, "config is no type of an object"):
            plugin(first, config=str)

    @unittest.skipIf(sys.version_info < (3, 11), "this Python reads no TOML")
    def test_what_a_test_declares_must_be_requested_by_plugin_toml(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "plugin.toml").write_text("""
                [request.kv.seen]
                [request.http.api]
                url = "https://*.example.com"
                [request.slot.search]
                [request.tools]
                call = ["web-find"]
            """)
            for declared, table in [({"stores": ["none"]}, "request.kv.none"), ({"secrets": {"token": "x"}}, "request.secret.token"),
                                    ({"config": {"a": 1}}, "config"), ({"tools": {"other": str}}, "request.slot.other"),
                                    ({"tools": {"web-other": str}}, "request.tools")]:
                with self.assertRaisesRegex(ValueError, re.escape(f"write [{table}]")):
                    Host(**declared, manifest=directory)  # type: ignore[arg-type]
            host = Host(stores=["seen"], tools={"search": str, "web-find": str}, http=lambda _: Reply(200, b"ok"), manifest=directory)
            self.assertEqual(host.run(lambda: http.get("https://a.example.com/x").text()), "ok")
            with self.assertRaisesRegex(http.HttpError, re.escape("has no [request.http.NAME] for https://example.org/")):
                host.run(lambda: http.get("https://example.org/"))
            Host(stores=["none"], manifest=None)
