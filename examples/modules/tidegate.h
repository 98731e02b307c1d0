/* The interface of Tidegate's modules, version 1: docs/configuration/modules.md */
#ifndef TIDEGATE_H
#define TIDEGATE_H

enum { CLIENT = 0, SERVER = 1 };
enum { PASS = 0, DROP = 1 };
enum { UNRELIABLE, UNRELIABLE_SEQUENCED, RELIABLE, RELIABLE_ORDERED, RELIABLE_SEQUENCED, NOTIFY };

#define TIDEGATE_IMPORT(name) __attribute__((import_module("tidegate_v1"), import_name(name)))
#define TIDEGATE_EXPORT(name) __attribute__((export_name("tidegate_v1_" name)))

TIDEGATE_IMPORT("send") void tidegate_send(int to, int mode, int channel, int id, const void *at, int size);
TIDEGATE_IMPORT("now") long long tidegate_now(void);
TIDEGATE_IMPORT("state_read") int tidegate_state_read(void *at, int room);
TIDEGATE_IMPORT("state_write") void tidegate_state_write(const void *at, int size);
TIDEGATE_IMPORT("log") void tidegate_log(const void *text, int size);

static unsigned char tidegate_room[65536];
TIDEGATE_EXPORT("buffer") void *tidegate_buffer(int size) { return size <= (int)sizeof tidegate_room ? tidegate_room : 0; }

#define TIDEGATE_MESSAGE TIDEGATE_EXPORT("message") int tidegate_message

#endif
