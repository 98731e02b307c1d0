// The plainest relay of Tidegate's design in C: one thread, epoll, recvmmsg and sendmmsg, and a connected socket for
// each client. It has no admission, limits, timeouts or counters. Usage: relay LISTEN_PORT SERVER_PORT [KEPT], on
// 127.0.0.1. With KEPT, a new client's socket closes the oldest one of so many.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 64, UP_BATCH = 8, ROUNDS = 4, SIZE = 4096, TABLE = 1 << 16, SLOTS = 128 };

struct session {
	struct sockaddr_in client;
	int fd;
};

static struct session table[TABLE];
static struct session *by_fd[1 << 17];
static struct session *kept[TABLE]; // a ring of the newest sessions
static int door, ep, most, newest;
static struct sockaddr_in server;
static char in[BATCH][SIZE];
static struct sockaddr_in from[BATCH];
static struct iovec in_iov[BATCH], out_iov[BATCH];
static struct mmsghdr in_msg[BATCH], out_msg[BATCH];

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static void keep(struct session *s) {
	if (!most) return;
	struct session **oldest = &kept[newest++ % most];
	if (*oldest) {
		close((*oldest)->fd);
		(*oldest)->fd = -1; // its place in the table stays taken
	}
	*oldest = s;
}

static struct session *find(const struct sockaddr_in *a) {
	uint32_t h = (a->sin_addr.s_addr ^ (uint32_t)a->sin_port << 16) * 2654435761u >> 16;
	for (;; h = (h + 1) % TABLE) {
		struct session *s = &table[h];
		if (!s->fd) {
			keep(s);
			s->client = *a;
			s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
			if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&server, sizeof server)) fail("connect");
			struct epoll_event e = {.events = EPOLLIN, .data.fd = s->fd};
			if (epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &e)) fail("epoll_ctl");
			by_fd[s->fd] = s;
			return s;
		}
		if (s->client.sin_addr.s_addr == a->sin_addr.s_addr && s->client.sin_port == a->sin_port) return s;
	}
}

static int receive(int fd, int n) {
	for (int i = 0; i < n; i++) {
		in_msg[i].msg_hdr.msg_name = &from[i];
		in_msg[i].msg_hdr.msg_namelen = sizeof from[i];
	}
	return recvmmsg(fd, in_msg, n, MSG_DONTWAIT, 0);
}

static void flush(int fd, int n) {
	for (int done = 0, sent; done < n; done += sent)
		if ((sent = sendmmsg(fd, out_msg + done, n - done, MSG_DONTWAIT)) < 1) sent = 1;
}

static void from_clients(void) {
	for (int round = 0; round < ROUNDS; round++) {
		int n = receive(door, BATCH);
		for (int i = 0; i < n;) { // runs of one client go at once
			struct session *s = find(&from[i]);
			int run = 0;
			for (; i < n && find(&from[i]) == s; i++, run++) {
				out_iov[run] = (struct iovec){in[i], in_msg[i].msg_len};
				out_msg[run].msg_hdr.msg_name = 0;
				out_msg[run].msg_hdr.msg_namelen = 0;
			}
			flush(s->fd, run);
		}
		if (n < BATCH) return;
	}
}

static int queued;
static char slots[SLOTS][SIZE];
static struct iovec slot_iov[SLOTS];
static struct mmsghdr slot_msg[SLOTS];

static void flush_door(void) {
	for (int done = 0, sent; done < queued; done += sent) {
		int n = queued - done < BATCH ? queued - done : BATCH;
		if ((sent = sendmmsg(door, slot_msg + done, n, MSG_DONTWAIT)) < 1) sent = 1;
	}
	queued = 0;
}

static void from_server(struct session *s) {
	int n = receive(s->fd, UP_BATCH);
	for (int i = 0; i < n; i++) {
		if (queued == SLOTS) flush_door();
		memcpy(slots[queued], in[i], in_msg[i].msg_len);
		slot_iov[queued] = (struct iovec){slots[queued], in_msg[i].msg_len};
		slot_msg[queued].msg_hdr = (struct msghdr){.msg_name = &s->client, .msg_namelen = sizeof s->client,
							   .msg_iov = &slot_iov[queued], .msg_iovlen = 1};
		queued++;
	}
}

int main(int argc, char **argv) {
	if (argc < 3 || argc > 4) return 2;
	if (argc == 4) most = atoi(argv[3]) % TABLE;
	struct rlimit r;
	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
	server = at;
	server.sin_port = htons(atoi(argv[2]));
	at.sin_addr.s_addr = server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	door = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	int size = 2 << 20;
	setsockopt(door, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	setsockopt(door, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
	if (bind(door, (struct sockaddr *)&at, sizeof at)) fail("bind");
	ep = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN, .data.fd = door}, ready[256];
	if (epoll_ctl(ep, EPOLL_CTL_ADD, door, &e)) fail("epoll_ctl");
	for (int i = 0; i < BATCH; i++) {
		in_iov[i] = (struct iovec){in[i], SIZE};
		in_msg[i].msg_hdr.msg_iov = &in_iov[i];
		in_msg[i].msg_hdr.msg_iovlen = 1;
		out_msg[i].msg_hdr.msg_iov = &out_iov[i];
		out_msg[i].msg_hdr.msg_iovlen = 1;
	}
	for (;;) {
		int n = epoll_wait(ep, ready, 256, -1);
		for (int i = 0; i < n; i++) {
			if (ready[i].data.fd == door)
				from_clients();
			else
				from_server(by_fd[ready[i].data.fd]);
		}
		flush_door();
	}
}
