/* Riptide players on a RakNet server that stays as it is. Its chat is the byte 0x87, the length in two bytes with the
   high byte first, and the text. In Riptide it is message 1, with the text. All other messages have the packet byte
   0x90 plus their ID.
   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o unchanged.wasm unchanged.c */
#include "tidegate.h"

enum { CHAT = 1, CHAT_PACKET = 0x87, CHAT_HEAD = 3, OTHERS = 0x90 };

static unsigned char packet[65536 + CHAT_HEAD];

static int to_server(int mode, int id, const unsigned char *at, int size)
{
    int head = 1;
    if (id < 0 || id > 0xff - OTHERS)
        return DROP;
    packet[0] = (unsigned char)(OTHERS + id);
    if (id == CHAT) {
        packet[0] = CHAT_PACKET;
        packet[1] = (unsigned char)(size >> 8);
        packet[2] = (unsigned char)size;
        head = CHAT_HEAD;
        mode = RELIABLE_ORDERED; /* as the server's own clients send it */
    }
    for (int i = 0; i < size; i++)
        packet[head + i] = at[i];
    tidegate_send(SERVER, mode, 0, -1, packet, head + size);
    return DROP; /* the packet takes its place */
}

static int to_client(int mode, const unsigned char *at, int size)
{
    if (size >= CHAT_HEAD && at[0] == CHAT_PACKET && size - CHAT_HEAD == (at[1] << 8 | at[2]))
        tidegate_send(CLIENT, mode, 0, CHAT, at + CHAT_HEAD, size - CHAT_HEAD);
    else if (size >= 1 && at[0] >= OTHERS)
        tidegate_send(CLIENT, mode, 0, at[0] - OTHERS, at + 1, size - 1);
    return DROP;
}

TIDEGATE_MESSAGE(int from, int mode, int channel, int id, unsigned char *at, int size, long long session)
{
    (void)channel, (void)session;
    return from == CLIENT ? to_server(mode, id, at, size) : to_client(mode, at, size);
}
