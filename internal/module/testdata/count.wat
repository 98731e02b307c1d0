;; A module for go-raknet's players. It answers each message of theirs with the byte 0xfe, the number of messages that it
;; keeps with the session, and the number that it has seen itself. It logs what follows "L". Make count.wasm with:
;; wat2wasm count.wat
(module
  (import "tidegate_v1" "send" (func $send (param i32 i32 i32 i32 i32 i32)))
  (import "tidegate_v1" "state_read" (func $read (param i32 i32) (result i32)))
  (import "tidegate_v1" "state_write" (func $write (param i32 i32)))
  (import "tidegate_v1" "log" (func $log (param i32 i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "\fe")
  (data (i32.const 16) "ended")
  (global $seen (mut i32) (i32.const 0))
  (func (export "tidegate_v1_buffer") (param $size i32) (result i32) i32.const 1024)
  (func (export "tidegate_v1_ended") (param $session i64) (call $log (i32.const 16) (i32.const 5)))
  (func (export "tidegate_v1_message")
    (param $from i32) (param $mode i32) (param $channel i32) (param $id i32) (param $at i32) (param $size i32)
    (param $session i64) (result i32)
    (if (i32.or (local.get $from) (i32.lt_u (local.get $size) (i32.const 2))) (then (return (i32.const 0))))
    (if (i32.eq (i32.load8_u (i32.add (local.get $at) (i32.const 1))) (i32.const 76)) (then
      (call $log (i32.add (local.get $at) (i32.const 2)) (i32.sub (local.get $size) (i32.const 2)))))
    (global.set $seen (i32.add (global.get $seen) (i32.const 1)))
    (i32.store (i32.const 1) (i32.const 0))
    (drop (call $read (i32.const 1) (i32.const 4)))
    (i32.store (i32.const 1) (i32.add (i32.load (i32.const 1)) (i32.const 1)))
    (call $write (i32.const 1) (i32.const 4))
    (i32.store (i32.const 5) (global.get $seen))
    (call $send (i32.const 0) (i32.const 3) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 9))
    i32.const 1))
