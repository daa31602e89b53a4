/* netflip WAY CALL ALLOWED_PORT FORBIDDEN_PORT ROUNDS: CALL is connect, sendto, sendmsg, sendmmsg or bind; while it is
 * decided, WAY changes what it points to, from the allowed address to the forbidden one and back: thread, peer (CLONE_VM
 * process), shared (MAP_SHARED mapping of another process), writev (process_vm_writev), mem (/proc/PID/mem), fd (dup2
 * over the descriptor), header (the msghdr's name pointer). Says how many calls succeeded and failed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
	struct sockaddr_in address, allowed, forbidden;
	struct mmsghdr messages[2];
	struct iovec data;
	volatile int over;
	int target, spare, pair, mem;
};

static struct place *place;
static const char *way;
static pid_t parent;

static void write_there(const struct sockaddr_in *which)
{
	if (!strcmp(way, "writev")) {
		struct iovec here = {(void *)which, sizeof *which}, there = {&place->address, sizeof place->address};

		if (process_vm_writev(parent, &here, 1, &there, 1, 0) < 0)
			sched_yield();
	} else if (!strcmp(way, "mem")) {
		if (pwrite(place->mem, which, sizeof *which, (off_t)(size_t)&place->address) < 0)
			sched_yield();
	} else if (!strcmp(way, "header")) {
		place->messages[0].msg_hdr.msg_name = (void *)which;
	} else if (!strcmp(way, "fd")) {
		dup2(which == &place->allowed ? place->pair : place->spare, place->target);
	} else {
		memcpy(&place->address, which, sizeof *which);
	}
}

static int flip(void *unused)
{
	(void)unused;
	for (int i = 0; !place->over; i++)
		write_there(i & 1 ? &place->forbidden : &place->allowed);
	return 0;
}

static void *flip_thread(void *unused)
{
	flip(unused);
	return NULL;
}

static long try_call(const char *call, int fd)
{
	const void *name = &place->address;

	if (!strcmp(call, "connect"))
		return connect(fd, name, sizeof place->address);
	if (!strcmp(call, "bind"))
		return bind(fd, name, sizeof place->address);
	if (!strcmp(call, "sendto"))
		return sendto(fd, "x", 1, MSG_NOSIGNAL, name, sizeof place->address);
	if (!strcmp(call, "sendmsg"))
		return sendmsg(fd, &place->messages[0].msg_hdr, MSG_NOSIGNAL);
	return sendmmsg(fd, place->messages, 2, MSG_NOSIGNAL);
}

int main(int argc, char **argv)
{
	static char stack[65536];
	int done = 0, refused = 0, last = 0, stream;
	pthread_t thread;
	pid_t child = 0;

	if (argc != 6)
		return 2;
	way = argv[1];
	parent = getpid();
	place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE,
		     (strcmp(way, "shared") ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1, 0);
	place->allowed.sin_family = place->forbidden.sin_family = AF_INET;
	place->allowed.sin_addr.s_addr = place->forbidden.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	place->allowed.sin_port = htons(atoi(argv[3]));
	place->forbidden.sin_port = htons(atoi(argv[4]));
	place->address = place->allowed;
	place->data = (struct iovec){"x", 1};
	for (int i = 0; i < 2; i++) {
		place->messages[i].msg_hdr.msg_name = i ? &place->forbidden : &place->address;
		place->messages[i].msg_hdr.msg_namelen = sizeof place->address;
		place->messages[i].msg_hdr.msg_iov = &place->data;
		place->messages[i].msg_hdr.msg_iovlen = 1;
	}
	stream = !strcmp(argv[2], "connect") || !strcmp(argv[2], "bind");
	place->target = 100;
	place->spare = socket(AF_INET, stream ? SOCK_STREAM : SOCK_DGRAM, 0);
	place->pair = socket(AF_UNIX, stream ? SOCK_STREAM : SOCK_DGRAM, 0);
	place->mem = strcmp(way, "mem") ? -1 : open("/proc/self/mem", O_RDWR);
	if (!strcmp(way, "fd"))
		place->address = place->forbidden;
	if (!strcmp(way, "thread") || !strcmp(way, "fd") || !strcmp(way, "header"))
		pthread_create(&thread, NULL, flip_thread, NULL);
	else if (!strcmp(way, "peer"))
		child = clone(flip, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
	else if ((child = fork()) == 0)
		_exit(flip(NULL));
	for (int i = atoi(argv[5]); i > 0; i--) {
		int fd = strcmp(way, "fd") ? socket(AF_INET, stream ? SOCK_STREAM : SOCK_DGRAM, 0) : place->target;

		/* The supervisor may still hold the socket before this one, which has the same port. */
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
		if (try_call(argv[2], fd) < 0) {
			refused++;
			last = errno;
		} else {
			done++;
		}
		if (strcmp(way, "fd"))
			close(fd);
	}
	place->over = 1;
	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	printf("{\"try\": \"race\", \"errno\": null, \"value\": {\"done\": %d, \"refused\": %d, \"last\": %d}}\n", done,
	       refused, last);
	fflush(stdout);
	_exit(0);
}
