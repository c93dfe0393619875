//! Plugins written as text, for components that no compiler produces: results with wrong addresses,
//! several memories, destructors that trap. [`Text`] holds the parts that a test writes itself; the
//! rest of a plugin of the contract is here.
//!
//! The component has two core modules. `$lib` owns the memory, its allocator and the result `ok`;
//! the host copies into and out of it. `$guest` contains the misdeed. They are separate because the
//! host's functions need the memory before the guest can import them.

use std::fmt::Write as _;

/// Parts of a plugin that differ between tests. Empty parts are omitted.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Pages of the memory at the start, 64 KiB each.
    pub pages: u32,
    /// Additions to the component, after `$lib`: types, imports, other core instances.
    pub component: &'static str,
    /// Additional exports of the instance that the guest imports as `host`.
    pub host: &'static str,
    /// Imports of the guest in addition to those that every guest has.
    pub imports: &'static str,
    /// Additions to `$lib`, which is instantiated before any resource type exists.
    pub library: &'static str,
    /// Additions to the guest: functions, data, a start function.
    pub items: &'static str,
    /// Instructions that leave the address of a result. They may use the parameters `$name`,
    /// `$name_length`, `$arguments`, `$arguments_length` and `$context`, and the locals `$i` and
    /// `$j`.
    pub run: &'static str,
    /// Additional options of the lifted `invoke`.
    pub lift: &'static str,
    /// Function of `$lib` that allocates memory for the host's copies into `invoke`.
    pub realloc: &'static str,
    /// Descriptors that the component embeds; none if empty.
    pub tools: &'static str,
    /// Instructions that leave the address of the result of `describe`.
    pub describe: &'static str,
}

/// Descriptors of one tool, `run`, with any arguments.
pub const ONE_TOOL: &str = r#"{"schema":"airlock.tools/1","tools":[{"name":"run","description":"Misbehaves.","inputSchema":{"type":"object"}}]}"#;

/// A plugin with one tool, `run`, which returns `ok`.
pub const WELL_BEHAVED: Text = Text {
    pages: 2,
    component: "",
    host: "",
    imports: "",
    library: "",
    items: "",
    run: "(call $ok)",
    lift: "",
    realloc: "realloc",
    tools: ONE_TOOL,
    describe: "unreachable",
};

impl Text {
    /// Creates a plugin whose only tool runs these instructions.
    pub const fn run(run: &'static str) -> Self {
        Self { run, ..WELL_BEHAVED }
    }

    /// Returns the component as text.
    pub fn text(&self) -> String {
        let mut text = format!("(component\n{TYPES}");
        let Self {
            pages,
            component,
            host,
            imports,
            library,
            items,
            run,
            lift,
            realloc,
            tools,
            describe,
        } = self;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "(core module $lib_module (memory (export \"memory\") {pages})\n{LIBRARY}\n{library})\n"
        );
        let _ = write!(
            text,
            "(core instance $lib (instantiate $lib_module))\n{ALIASES}\n{component}\n{LOWERED}\n{host})\n"
        );
        let _ =
            write!(text, "(core module $guest_module\n{IMPORTS}\n{imports}\n{ANSWERS}\n{items}\n");
        let _ = write!(
            text,
            "(func $run {PARAMETERS} (result i32) (local $i i32) (local $j i32)\n{run})\n{INVOKE}\n"
        );
        let _ = write!(
            text,
            "(func (export \"describe\") (result i32)\n{describe}))\n{LIFTED} (realloc (core func $lib \"{realloc}\")) {lift})\n{EXPORTED}\n"
        );
        if !tools.is_empty() {
            let tools = tools.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(text, "(@custom \"airlock:tools\" \"{tools}\")");
        }
        text.push(')');
        text
    }

    /// Returns the component in binary form.
    ///
    /// # Panics
    ///
    /// If the text is not a valid component.
    pub fn component(&self) -> Vec<u8> {
        let text = self.text();
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

/// Types of the contract, named as the component model requires for every type that an export
/// mentions, and the imports from the host.
const TYPES: &str = r#"
(type $types (instance
  (type $annotations_ (record (field "read-only" (option bool)) (field "destructive" (option bool))
    (field "idempotent" (option bool)) (field "open-world" (option bool)) (field "extra" (option string))))
  (export "tool-annotations" (type $annotations (eq $annotations_)))
  (type $descriptor_ (record (field "name" string) (field "title" (option string)) (field "description" string)
    (field "input-schema" string) (field "output-schema" (option string)) (field "annotations" $annotations)
    (field "meta" (option string)) (field "extra" (option string))))
  (export "tool-descriptor" (type $descriptor (eq $descriptor_)))
  (type $media_ (record (field "data" (list u8)) (field "mime-type" string)))
  (export "media" (type $media (eq $media_)))
  (type $link_ (record (field "uri" string) (field "name" string) (field "title" (option string))
    (field "description" (option string)) (field "mime-type" (option string)) (field "size" (option u64))))
  (export "resource-link" (type $link (eq $link_)))
  (type $contents_ (variant (case "text" string) (case "blob" (list u8))))
  (export "resource-contents" (type $contents (eq $contents_)))
  (type $embedded_ (record (field "uri" string) (field "mime-type" (option string)) (field "contents" $contents)
    (field "meta" (option string)) (field "extra" (option string))))
  (export "embedded-resource" (type $embedded (eq $embedded_)))
  (type $block_ (variant (case "text" string) (case "image" $media) (case "audio" $media) (case "resource-link" $link)
    (case "embedded-resource" $embedded) (case "other" string)))
  (export "content-block" (type $block (eq $block_)))
  (type $content_ (record (field "block" $block) (field "annotations" (option string)) (field "meta" (option string))
    (field "extra" (option string))))
  (export "content" (type $content (eq $content_)))
  (type $output_ (record (field "content" (list $content)) (field "structured-content" (option string))
    (field "meta" (option string)) (field "extra" (option string))))
  (export "tool-output" (type $output (eq $output_)))
  (type $kind_ (enum "invalid-input" "not-found" "conflict" "denied" "auth-required" "rate-limited" "limit-reached"
    "unavailable" "unsupported" "timeout" "cancelled" "too-large" "internal" "other"))
  (export "error-kind" (type $kind (eq $kind_)))
  (type $error_ (record (field "kind" $kind) (field "code" (option string)) (field "message" string)
    (field "retry-after-ms" (option u64)) (field "content" (list $content)) (field "details" (option string))
    (field "meta" (option string)) (field "extra" (option string))))
  (export "tool-error" (type $error (eq $error_)))))
(import "airlock:types/types@0.1.0" (instance $types (type $types)))
(alias export $types "content" (type $content))
(alias export $types "tool-descriptor" (type $descriptor))
(alias export $types "tool-output" (type $output))
(alias export $types "tool-error" (type $error))

(type $log_type (instance
  (type $level_ (enum "trace" "debug" "info" "warn" "error"))
  (export "level" (type $level (eq $level_)))
  (type $write (func (param "level" $level) (param "message" string) (param "fields" (list (tuple string string)))))
  (export "write" (func (type $write)))))
(import "airlock:host/log@0.1.0" (instance $log (type $log_type)))

(type $call_type (instance
  (alias outer 1 $content (type $content_))
  (export "content" (type $content (eq $content_)))
  (export "call-context" (type $context (sub resource)))
  (type $remaining (func (param "self" (borrow $context)) (result (option u64))))
  (export "[method]call-context.remaining-ms" (func (type $remaining)))
  (type $progress (func (param "self" (borrow $context)) (param "done" f64) (param "total" (option f64))
    (param "message" (option string))))
  (export "[method]call-context.progress" (func (type $progress)))
  (type $emit (func (param "self" (borrow $context)) (param "part" $content)))
  (export "[method]call-context.emit" (func (type $emit)))))
(import "airlock:host/context@0.1.0" (instance $call (type $call_type)))
(alias export $call "call-context" (type $context))

(type $tools_type (instance
  (alias outer 1 $output (type $output_))
  (export "tool-output" (type $output (eq $output_)))
  (alias outer 1 $error (type $error_))
  (export "tool-error" (type $error (eq $error_)))
  (type $summary_ (record (field "name" string) (field "title" (option string)) (field "description" string)))
  (export "tool-summary" (type $summary (eq $summary_)))
  (type $page_ (record (field "items" (list $summary)) (field "next" (option string))))
  (export "tool-page" (type $page (eq $page_)))
  (type $request_ (record (field "name" string) (field "arguments" string) (field "timeout-ms" (option u64))))
  (export "call-request" (type $request (eq $request_)))
  (type $list (func (param "cursor" (option string)) (param "limit" u32) (result (result $page (error $error)))))
  (export "list" (func (type $list)))
  (type $call (func (param "request" $request) (result (result $output (error $error)))))
  (export "call" (func (type $call)))
  (type $batch (func (param "requests" (list $request)) (result (list (result $output (error $error))))))
  (export "call-batch" (func (type $batch)))))
(import "airlock:host/tools@0.1.0" (instance $tools (type $tools_type)))
"#;

/// An allocator that never frees, from the second page on. The first page has the results and the
/// data of the guest.
const LIBRARY: &str = r#"
  (data (i32.const 0) "ok")
  (global $top (mut i32) (i32.const 65536))
  (func (export "realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $top) (i32.sub (local.get $align) (i32.const 1)))
      (i32.sub (i32.const 0) (local.get $align))))
    (global.set $top (i32.add (local.get $at) (local.get $size)))
    (block $fits
      (loop $grow
        (br_if $fits (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
        (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
        unreachable))
    (local.get $at))"#;

/// Memory and allocator that the host copies with.
const ALIASES: &str = r#"
(alias core export $lib "memory" (core memory $memory))
(alias core export $lib "realloc" (core func $realloc))"#;

/// The host's functions as core functions. The list is left open for more.
const LOWERED: &str = r#"
(core func $write (canon lower (func $log "write") (memory $memory) (realloc $realloc)))
(core func $remaining (canon lower (func $call "[method]call-context.remaining-ms") (memory $memory)))
(core func $progress (canon lower (func $call "[method]call-context.progress") (memory $memory)))
(core func $emit (canon lower (func $call "[method]call-context.emit") (memory $memory)))
(core func $list (canon lower (func $tools "list") (memory $memory) (realloc $realloc)))
(core func $call (canon lower (func $tools "call") (memory $memory) (realloc $realloc)))
(core func $batch (canon lower (func $tools "call-batch") (memory $memory) (realloc $realloc)))
(core func $drop (canon resource.drop $context))
(core instance $host
  (export "write" (func $write)) (export "remaining" (func $remaining)) (export "progress" (func $progress))
  (export "emit" (func $emit)) (export "list" (func $list)) (export "call" (func $call)) (export "batch" (func $batch))
  (export "drop" (func $drop))"#;

/// The same functions as the guest imports them: records and variants are flat, and results of more
/// than one value are written to an address.
const IMPORTS: &str = r#"
  (import "lib" "memory" (memory 1))
  ;; level, message (address, length), fields (address, length)
  (import "host" "write" (func $write (param i32 i32 i32 i32 i32)))
  ;; context, where to put the option
  (import "host" "remaining" (func $remaining (param i32 i32)))
  ;; context, done, total (tag, value), message (tag, address, length)
  (import "host" "progress" (func $progress (param i32 f64 i32 f64 i32 i32 i32)))
  ;; address of the context and, 8 bytes on, the part
  (import "host" "emit" (func $emit_part (param i32)))
  ;; cursor (tag, address, length), limit, where to put the page
  (import "host" "list" (func $list (param i32 i32 i32 i32 i32)))
  ;; name, arguments (address, length), timeout (tag, value), where to put the answer
  (import "host" "call" (func $call (param i32 i32 i32 i32 i32 i64 i32)))
  ;; requests (address, length; 40 bytes each), where to put the answers
  (import "host" "batch" (func $batch (param i32 i32 i32)))
  (import "host" "drop" (func $drop (param i32)))"#;

/// Results: at 64 the `result<tool-output, tool-error>`, at 128 its single part, which has 120 bytes.
const ANSWERS: &str = "
  ;; A good answer of `length` parts at `at`.
  (func $parts (param $at i32) (param $length i32) (result i32)
    (memory.fill (i32.const 64) (i32.const 0) (i32.const 64))
    (i32.store (i32.const 72) (local.get $at))
    (i32.store (i32.const 76) (local.get $length))
    (i32.const 64))
  ;; A good answer of one text.
  (func $text (param $at i32) (param $length i32) (result i32)
    (memory.fill (i32.const 128) (i32.const 0) (i32.const 120))
    (i32.store (i32.const 136) (local.get $at))
    (i32.store (i32.const 140) (local.get $length))
    (call $parts (i32.const 128) (i32.const 1)))
  ;; A good answer of data alone, as JSON text.
  (func $data (param $at i32) (param $length i32) (result i32)
    (drop (call $parts (i32.const 0) (i32.const 0)))
    (i32.store8 (i32.const 80) (i32.const 1))
    (i32.store (i32.const 84) (local.get $at))
    (i32.store (i32.const 88) (local.get $length))
    (i32.const 64))
  ;; Sends a text ahead of the answer.
  (func $emit (param $context i32) (param $at i32) (param $length i32)
    (memory.fill (i32.const 2048) (i32.const 0) (i32.const 128))
    (i32.store (i32.const 2048) (local.get $context))
    (i32.store (i32.const 2064) (local.get $at))
    (i32.store (i32.const 2068) (local.get $length))
    (call $emit_part (i32.const 2048)))
  (func $ok (result i32) (call $text (i32.const 0) (i32.const 2)))";

/// Parameters of `invoke`: two strings and a borrowed handle.
const PARAMETERS: &str = "(param $name i32) (param $name_length i32) (param $arguments i32) (param $arguments_length i32) (param $context i32)";

/// The guest must drop a borrowed handle before it returns.
const INVOKE: &str = r#"
  (func (export "invoke") (param i32 i32 i32 i32 i32) (result i32)
    (call $run (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4))
    (call $drop (local.get 4)))"#;

/// The guest's functions, lifted to the contract. The options of `invoke` are left open for more.
const LIFTED: &str = r#"
(core instance $guest (instantiate $guest_module (with "lib" (instance $lib)) (with "host" (instance $host))))
(type $describe (func (result (result (list $descriptor) (error string)))))
(func $describe (type $describe)
  (canon lift (core func $guest "describe") (memory $memory) (realloc $realloc)))
(type $invoke (func (param "name" string) (param "arguments" string) (param "context" (borrow $context))
  (result (result $output (error $error)))))
(func $invoke (type $invoke)
  (canon lift (core func $guest "invoke") (memory $memory)"#;

/// The exported instance; closes the options of `invoke`.
const EXPORTED: &str = r#")
(instance $plugin (export "describe" (func $describe)) (export "invoke" (func $invoke)))
(export "airlock:plugin/tools@0.1.0" (instance $plugin))"#;
