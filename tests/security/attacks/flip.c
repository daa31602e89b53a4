/* flip DIR INSIDE SECRET ROUNDS: one thread points DIR/link now at INSIDE, now at SECRET; the other opens it ROUNDS times,
 * and goes on while the first has not had its turn on a busy machine. Says how often each file was read. The first byte of SECRET is 'S', of INSIDE 'I'. C, because the race must be fast. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 100

static const char *inside, *secret;
static char link_path[4096], next_path[4096];
static volatile int over;

static void *flipper(void *unused)
{
	(void)unused;
	for (int i = 0; !over; i++) {
		unlink(next_path);
		if (symlink(i & 1 ? secret : inside, next_path) == 0)
			rename(next_path, link_path);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int rounds, inside_reads = 0, secret_reads = 0, refused = 0;

	if (argc != 5)
		return 2;
	inside = argv[2];
	secret = argv[3];
	rounds = atoi(argv[4]);
	snprintf(link_path, sizeof link_path, "%s/link", argv[1]);
	snprintf(next_path, sizeof next_path, "%s/next", argv[1]);
	if (symlink(inside, link_path) != 0 || pthread_create(&thread, NULL, flipper, NULL) != 0)
		return 3;
	for (int i = 0; i < rounds || (i < MOST * rounds && !(refused + secret_reads)); i++) {
		char first = 0;
		int fd = open(link_path, O_RDONLY);

		if (fd < 0) {
			refused++;
			continue;
		}
		if (read(fd, &first, 1) == 1) {
			inside_reads += first == 'I';
			secret_reads += first == 'S';
		}
		close(fd);
	}
	over = 1;
	pthread_join(thread, NULL);
	printf("{\"try\": \"race\", \"errno\": null, \"value\": {\"inside\": %d, \"secret\": %d, \"refused\": %d}}\n",
	       inside_reads, secret_reads, refused);
	return 0;
}
