//! A chat filter: it hides a word in messages with the ID 1.
//! rustc --target wasm32-unknown-unknown --crate-type cdylib -C opt-level=2 -o chat.wasm chat.rs

const WORD: &[u8] = b"badword";
const HIDDEN: &str = "a word is hidden";
const CHAT: i32 = 1;

#[link(wasm_import_module = "tidegate_v1")]
unsafe extern "C" {
    fn send(to: i32, mode: i32, channel: i32, id: i32, at: *const u8, size: usize);
    fn log(text: *const u8, size: usize);
}

#[unsafe(no_mangle)]
pub extern "C" fn tidegate_v1_buffer(size: usize) -> *mut u8 {
    vec![0u8; size].leak().as_mut_ptr() // for as long as the module lives
}

#[unsafe(no_mangle)]
pub extern "C" fn tidegate_v1_message(
    from: i32, mode: i32, channel: i32, id: i32, at: *mut u8, size: usize, _session: i64,
) -> i32 {
    if id != CHAT || size < WORD.len() {
        return 0;
    }
    let text = unsafe { std::slice::from_raw_parts_mut(at, size) };
    let mut found = false;
    for i in 0..=size - WORD.len() {
        let part = &mut text[i..i + WORD.len()];
        if part.eq_ignore_ascii_case(WORD) {
            part.fill(b'*');
            found = true;
        }
    }
    if !found {
        return 0;
    }
    unsafe {
        log(HIDDEN.as_ptr(), HIDDEN.len());
        send(1 - from, mode, channel, id, at, size)
    };
    1 // the changed message takes its place
}
