;; A module that does what the first byte of a message says. Make odd.wasm with: wat2wasm odd.wat
(module
  (import "tidegate_v1" "send" (func $send (param i32 i32 i32 i32 i32 i32)))
  (import "tidegate_v1" "now" (func $now (result i64)))
  (import "tidegate_v1" "state_read" (func $read (param i32 i32) (result i32)))
  (import "tidegate_v1" "state_write" (func $write (param i32 i32)))
  (memory (export "memory") 3)
  (global $ended (mut i64) (i64.const 0))
  (global $seen (mut i32) (i32.const 0))
  (func (export "tidegate_v1_buffer") (param $size i32) (result i32) i32.const 4096)
  (func (export "tidegate_v1_ended") (param $session i64)
    (if (i64.eq (local.get $session) (i64.const 666)) (then unreachable))
    (global.set $ended (local.get $session)))
  (func $loop (loop $again (br $again)))
  ;; Calls itself twice: no loop, and no deep stack.
  (func $recurse (param $n i32)
    (if (local.get $n) (then
      (call $recurse (i32.sub (local.get $n) (i32.const 1)))
      (call $recurse (i32.sub (local.get $n) (i32.const 1))))))
  (func $deep (param $n i64) (result i64)
    (i64.add (local.get $n) (call $deep (i64.add (local.get $n) (i64.const 1)))))
  (func $does (param $what i32) (param $byte i32) (result i32) (i32.eq (local.get $what) (local.get $byte)))
  (func (export "tidegate_v1_message")
    (param $from i32) (param $mode i32) (param $channel i32) (param $id i32) (param $at i32) (param $size i32)
    (param $session i64) (result i32)
    (local $what i32) (local $i i32)
    (global.set $seen (i32.add (global.get $seen) (i32.const 1)))
    (if (i32.eqz (local.get $size)) (then (return (i32.const 0))))
    (local.set $what (i32.load8_u (local.get $at)))
    ;; "d" drops.
    (if (call $does (local.get $what) (i32.const 100)) (then (return (i32.const 1))))
    ;; "v" gives an unknown verdict.
    (if (call $does (local.get $what) (i32.const 118)) (then (return (i32.const 2))))
    ;; "l" loops, "r" recurses, "s" has a deep stack, "t" traps.
    (if (call $does (local.get $what) (i32.const 108)) (then (call $loop)))
    (if (call $does (local.get $what) (i32.const 114)) (then (call $recurse (i32.const 60))))
    (if (call $does (local.get $what) (i32.const 115)) (then (drop (call $deep (i64.const 0)))))
    (if (call $does (local.get $what) (i32.const 116)) (then unreachable))
    ;; "c" changes the message: "C" instead, to the other side.
    (if (call $does (local.get $what) (i32.const 99)) (then
      (i32.store8 (local.get $at) (i32.const 67))
      (call $send (i32.eqz (local.get $from)) (local.get $mode) (local.get $channel) (local.get $id)
        (local.get $at) (local.get $size))
      (return (i32.const 1))))
    ;; "a" answers the sender, and passes.
    (if (call $does (local.get $what) (i32.const 97)) (then
      (call $send (local.get $from) (i32.const 3) (i32.const 0) (i32.const 9) (local.get $at) (local.get $size))))
    ;; "o" sends without end, "O" 64 KiB each time.
    (if (call $does (local.get $what) (i32.const 111)) (then
      (loop $again
        (call $send (i32.const 1) (i32.const 0) (i32.const 0) (i32.const -1) (local.get $at) (i32.const 1))
        (br $again))))
    (if (call $does (local.get $what) (i32.const 79)) (then
      (loop $again
        (call $send (i32.const 1) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 65536))
        (br $again))))
    ;; "p" sends memory that it does not have, "P" with a huge size, "m" with an unknown mode.
    (if (call $does (local.get $what) (i32.const 112)) (then
      (call $send (i32.const 1) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const -16) (i32.const 32))))
    (if (call $does (local.get $what) (i32.const 80)) (then
      (call $send (i32.const 1) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const -1))))
    (if (call $does (local.get $what) (i32.const 109)) (then
      (call $send (i32.const 1) (i32.const 77) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 1))))
    ;; "g" grows until it gets no more, and answers how many pages it has.
    (if (call $does (local.get $what) (i32.const 103)) (then
      (loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
      (i32.store (i32.const 0) (memory.size))
      (call $send (local.get $from) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 4))))
    ;; "k" keeps the message with the session, "K" too much, "b" answers what is kept.
    (if (call $does (local.get $what) (i32.const 107)) (then (call $write (local.get $at) (local.get $size))))
    (if (call $does (local.get $what) (i32.const 75)) (then (call $write (i32.const 0) (i32.const 4097))))
    (if (call $does (local.get $what) (i32.const 98)) (then
      (call $send (local.get $from) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 0)
        (call $read (i32.const 0) (i32.const 4096)))))
    ;; "i" answers the messages seen, the time and the last ended session.
    (if (call $does (local.get $what) (i32.const 105)) (then
      (i64.store (i32.const 0) (i64.extend_i32_u (global.get $seen)))
      (i64.store (i32.const 8) (call $now))
      (i64.store (i32.const 16) (global.get $ended))
      (call $send (local.get $from) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 24))))
    ;; "#" reads the whole message, byte by byte.
    (if (call $does (local.get $what) (i32.const 35)) (then
      (loop $again
        (drop (i32.load8_u (i32.add (local.get $at) (local.get $i))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (local.get $size))))))
    i32.const 0))
