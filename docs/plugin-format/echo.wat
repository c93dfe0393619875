;; A plugin of contract 0.1.0 in WebAssembly text, without an SDK: one tool, `echo`, which returns its arguments.
;;
;; The component has three parts:
;;   1. the types of the contract, and the two interfaces that every plugin imports because `invoke` mentions them
;;   2. a core module with the code, in the canonical ABI
;;   3. the exported interface `airlock:plugin/tools@0.1.0`
;;
;; The custom sections `airlock:tools` and `airlock:manifest` are appended to the binary; see ../plugin-format.md.
(component
  ;; ---- 1. Types and imports ----------------------------------------------------------------------------------------

  ;; wit/types/0.1.0/types.wit. Names, types and the order of fields and cases are part of the type: the host compares all
  ;; of them. `json` is a string.
  (type $types-interface (instance
    (type $tool-annotations' (record
      (field "read-only" (option bool))
      (field "destructive" (option bool))
      (field "idempotent" (option bool))
      (field "open-world" (option bool))
      (field "extra" (option string))))
    (export "tool-annotations" (type $tool-annotations (eq $tool-annotations')))

    (type $tool-descriptor' (record
      (field "name" string)
      (field "title" (option string))
      (field "description" string)
      (field "input-schema" string)
      (field "output-schema" (option string))
      (field "annotations" $tool-annotations)
      (field "meta" (option string))
      (field "extra" (option string))))
    (export "tool-descriptor" (type $tool-descriptor (eq $tool-descriptor')))

    (type $media' (record
      (field "data" (list u8))
      (field "mime-type" string)))
    (export "media" (type $media (eq $media')))

    (type $resource-link' (record
      (field "uri" string)
      (field "name" string)
      (field "title" (option string))
      (field "description" (option string))
      (field "mime-type" (option string))
      (field "size" (option u64))))
    (export "resource-link" (type $resource-link (eq $resource-link')))

    (type $resource-contents' (variant
      (case "text" string)
      (case "blob" (list u8))))
    (export "resource-contents" (type $resource-contents (eq $resource-contents')))

    (type $embedded-resource' (record
      (field "uri" string)
      (field "mime-type" (option string))
      (field "contents" $resource-contents)
      (field "meta" (option string))
      (field "extra" (option string))))
    (export "embedded-resource" (type $embedded-resource (eq $embedded-resource')))

    (type $content-block' (variant
      (case "text" string)
      (case "image" $media)
      (case "audio" $media)
      (case "resource-link" $resource-link)
      (case "embedded-resource" $embedded-resource)
      (case "other" string)))
    (export "content-block" (type $content-block (eq $content-block')))

    (type $content' (record
      (field "block" $content-block)
      (field "annotations" (option string))
      (field "meta" (option string))
      (field "extra" (option string))))
    (export "content" (type $content (eq $content')))

    (type $tool-output' (record
      (field "content" (list $content))
      (field "structured-content" (option string))
      (field "meta" (option string))
      (field "extra" (option string))))
    (export "tool-output" (type $tool-output (eq $tool-output')))

    (type $error-kind' (enum
      "invalid-input" "not-found" "conflict" "denied" "auth-required" "rate-limited" "limit-reached" "unavailable"
      "unsupported" "timeout" "cancelled" "too-large" "internal" "other"))
    (export "error-kind" (type $error-kind (eq $error-kind')))

    (type $tool-error' (record
      (field "kind" $error-kind)
      (field "code" (option string))
      (field "message" string)
      (field "retry-after-ms" (option u64))
      (field "content" (list $content))
      (field "details" (option string))
      (field "meta" (option string))
      (field "extra" (option string))))
    (export "tool-error" (type $tool-error (eq $tool-error')))))
  (import "airlock:types/types@0.1.0" (instance $types (type $types-interface)))
  (alias export $types "tool-descriptor" (type $tool-descriptor))
  (alias export $types "tool-output" (type $tool-output))
  (alias export $types "tool-error" (type $tool-error))

  ;; wit/host/0.1.0/host.wit, interface `context`: only the handle that `invoke` takes. A component may import a part of an
  ;; interface. To call its methods, add their types here, and lower them with `canon lower`.
  (import "airlock:host/context@0.1.0" (instance $context
    (export "call-context" (type (sub resource)))))
  (alias export $context "call-context" (type $call-context))
  (core func $drop-call-context (canon resource.drop $call-context))

  ;; ---- 2. The code -------------------------------------------------------------------------------------------------

  ;; Memory of the module, in bytes. Every call gets a fresh instance, so the results have fixed places.
  ;;
  ;;      16   92   the tool-descriptor of `echo`
  ;;     128   12   result of `describe`
  ;;     160   96   result of `invoke`
  ;;     256  120   the content of a successful result
  ;;     512        constant text
  ;;   65536        memory that the host allocates with `realloc`
  (core module $module
    (import "host" "drop-call-context" (func $drop-call-context (param i32)))
    (memory (export "memory") 2)

    (data (i32.const 512) "echo")
    (data (i32.const 528) "Returns its arguments, as text and as structured content.")
    (data (i32.const 592) "{\"type\":\"object\",\"properties\":{}}")
    (data (i32.const 640) "the arguments have more than 1000 bytes; send less")

    ;; The host calls `realloc(0, 0, align, size)` to make room for the name and the arguments of a call. Nothing is ever
    ;; freed: the instance is dropped after the call. The host traps if the returned range is outside of the memory.
    (global $free (mut i32) (i32.const 65536))
    (func (export "realloc")
      (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      ;; The next multiple of `align`, which is a power of two.
      (local.set $at
        (i32.and
          (i32.add (global.get $free) (i32.sub (local.get $align) (i32.const 1)))
          (i32.sub (i32.const 0) (local.get $align))))
      (global.set $free (i32.add (local.get $at) (local.get $size)))
      (block $fits
        (loop $grow
          (br_if $fits (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
          (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
          unreachable))
      (local.get $at))

    ;; Writes a `string`: its address and its length in bytes.
    (func $string (param $to i32) (param $address i32) (param $length i32)
      (i32.store (local.get $to) (local.get $address))
      (i32.store offset=4 (local.get $to) (local.get $length)))

    ;; Writes a `some(string)`: the tag 1, then the string, aligned to 4.
    (func $some-string (param $to i32) (param $address i32) (param $length i32)
      (i32.store8 (local.get $to) (i32.const 1))
      (call $string (i32.add (local.get $to) (i32.const 4)) (local.get $address) (local.get $length)))

    ;; describe: func() -> result<list<tool-descriptor>, string>
    ;;
    ;; Returns the address of the result. Memory is zero at the start, which is `none` for each option that is not written.
    ;; The list must agree with the section `airlock:tools`: `airlock plugin check` compares both.
    (func (export "describe") (result i32)
      (call $string (i32.const 16) (i32.const 512) (i32.const 4))         ;; name
      (call $string (i32.const 36) (i32.const 528) (i32.const 57))        ;; description
      (call $string (i32.const 44) (i32.const 592) (i32.const 33))        ;; input-schema
      (call $some-string (i32.const 52) (i32.const 592) (i32.const 33))   ;; output-schema
      (i32.store8 (i32.const 64) (i32.const 1))                           ;; annotations.read-only: some …
      (i32.store8 (i32.const 65) (i32.const 1))                           ;; … (true)
      (i32.store8 (i32.const 128) (i32.const 0))                          ;; ok
      (i32.store (i32.const 132) (i32.const 16))                          ;; address of the list
      (i32.store (i32.const 136) (i32.const 1))                           ;; length of the list
      (i32.const 128))

    ;; invoke: func(name: string, arguments: json, context: borrow<call-context>) -> result<tool-output, tool-error>
    ;;
    ;; The host has checked `name` against the descriptors, and `arguments` against the input schema.
    (func (export "invoke")
      (param $name i32) (param $name-length i32) (param $arguments i32) (param $arguments-length i32)
      (param $context i32) (result i32)
      ;; A borrowed handle must be dropped before the function returns.
      (call $drop-call-context (local.get $context))
      (if (result i32) (i32.gt_u (local.get $arguments-length) (i32.const 1000))
        (then (call $too-large))
        (else (call $output (local.get $arguments) (local.get $arguments-length)))))

    ;; ok(tool-output), with the text as its only content and as its structured content.
    (func $output (param $address i32) (param $length i32) (result i32)
      ;; content.block: the case `text` has the tag 0. Its payload is aligned to 8, because a `resource-link` has a u64.
      (i32.store8 (i32.const 256) (i32.const 0))
      (call $string (i32.const 264) (local.get $address) (local.get $length))
      (i32.store8 (i32.const 160) (i32.const 0))                                     ;; ok
      (i32.store (i32.const 168) (i32.const 256))                                    ;; address of `content`
      (i32.store (i32.const 172) (i32.const 1))                                      ;; its length
      (call $some-string (i32.const 176) (local.get $address) (local.get $length))   ;; structured-content
      (i32.const 160))

    ;; err(tool-error), with the kind `too-large`, the 12th of the enum.
    (func $too-large (result i32)
      (i32.store8 (i32.const 160) (i32.const 1))                        ;; err
      (i32.store8 (i32.const 168) (i32.const 11))                       ;; kind
      (call $string (i32.const 184) (i32.const 640) (i32.const 50))     ;; message
      (i32.const 160)))

  (core instance $code (instantiate $module
    (with "host" (instance (export "drop-call-context" (func $drop-call-context))))))

  ;; ---- 3. The exported interface -----------------------------------------------------------------------------------

  (func $describe (result (result (list $tool-descriptor) (error string)))
    (canon lift (core func $code "describe") (memory (core memory $code "memory"))))
  (func $invoke (param "name" string) (param "arguments" string) (param "context" (borrow $call-context))
    (result (result $tool-output (error $tool-error)))
    (canon lift (core func $code "invoke") (memory (core memory $code "memory"))
      (realloc (core func $code "realloc"))))
  (instance $tools (export "describe" (func $describe)) (export "invoke" (func $invoke)))
  (export "airlock:plugin/tools@0.1.0" (instance $tools)))
