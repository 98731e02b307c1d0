/* A rate for one type of message: 5 shots a second from each player.
   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o rate.wasm rate.c */
#include "tidegate.h"

enum { SHOT = 3, A_SECOND = 5 };

/* Tidegate keeps this with the session, also over upgrades. */
struct state {
    long long second;
    int shots;
};

TIDEGATE_MESSAGE(int from, int mode, int channel, int id, unsigned char *at, int size, long long session)
{
    struct state s = {0, 0};
    long long second = tidegate_now() / 1000;
    (void)mode, (void)channel, (void)at, (void)size, (void)session;
    if (from != CLIENT || id != SHOT)
        return PASS;
    tidegate_state_read(&s, sizeof s);
    if (s.second != second) {
        s.second = second;
        s.shots = 0;
    }
    s.shots++;
    tidegate_state_write(&s, sizeof s);
    return s.shots > A_SECOND ? DROP : PASS;
}
