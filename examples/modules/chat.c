/* A chat filter: it hides a word in messages with the ID 1.
   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o chat.wasm chat.c */
#include "tidegate.h"

static const char word[] = "badword";
static const char hidden[] = "a word is hidden";
enum { CHAT = 1, LENGTH = sizeof word - 1 };

static int begins(const unsigned char *at)
{
    for (int i = 0; i < LENGTH; i++)
        if ((at[i] | 0x20) != (unsigned char)word[i]) /* in either case */
            return 0;
    return 1;
}

TIDEGATE_MESSAGE(int from, int mode, int channel, int id, unsigned char *at, int size, long long session)
{
    int found = 0;
    (void)session;
    if (id != CHAT)
        return PASS;
    for (int i = 0; i + LENGTH <= size; i++) {
        if (!begins(at + i))
            continue;
        for (int j = 0; j < LENGTH; j++)
            at[i + j] = '*';
        found = 1;
    }
    if (!found)
        return PASS;
    tidegate_log(hidden, sizeof hidden - 1);
    tidegate_send(from == CLIENT ? SERVER : CLIENT, mode, channel, id, at, size);
    return DROP;
}
