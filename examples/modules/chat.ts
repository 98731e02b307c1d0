// A chat filter: it hides a word in messages with the ID 1.
// npx asc chat.ts --runtime stub --use abort= -O -o chat.wasm

// @ts-ignore: decorator
@external("tidegate_v1", "send")
declare function send(to: i32, mode: i32, channel: i32, id: i32, at: usize, size: i32): void;
// @ts-ignore: decorator
@external("tidegate_v1", "log")
declare function log(text: usize, size: i32): void;

const CHAT: i32 = 1;
const WORD = memory.data<u8>([0x62, 0x61, 0x64, 0x77, 0x6f, 0x72, 0x64]); // "badword"
const LENGTH: i32 = 7;
const HIDDEN = String.UTF8.encode("a word is hidden");

export function tidegate_v1_buffer(size: i32): usize {
  return heap.alloc(size);
}

function begins(at: usize): bool {
  for (let i = 0; i < LENGTH; i++) {
    if ((load<u8>(at + i) | 0x20) != load<u8>(WORD + i)) return false; // in either case
  }
  return true;
}

export function tidegate_v1_message(
  from: i32, mode: i32, channel: i32, id: i32, at: usize, size: i32, session: i64
): i32 {
  if (id != CHAT) return 0;
  let found = false;
  for (let i = 0; i + LENGTH <= size; i++) {
    if (!begins(at + i)) continue;
    memory.fill(at + i, 0x2a, LENGTH);
    found = true;
  }
  if (!found) return 0;
  log(changetype<usize>(HIDDEN), HIDDEN.byteLength);
  send(1 - from, mode, channel, id, at, size);
  return 1; // the changed message takes its place
}
