/* unblock ROUNDS: a second thread clears O_NONBLOCK again and again, while connects to a listener whose queue is full are
 * done on behalf; whoever does them must not sleep in them. Says how many connects returned. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile int target = -1, over;

static void *clear(void *unused)
{
	(void)unused;
	while (!over)
		fcntl(target, F_SETFL, O_RDWR);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), i, returned = 0;
	pthread_t threads[2];

	if (argc != 2)
		return 2;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 0))
		return 3;
	getsockname(listener, (struct sockaddr *)&address, &size);
	for (i = 0; i < 4; i++)
		connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&address, size);
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, clear, NULL);
	puts("ready");
	fflush(stdout);
	for (i = 0; i < atoi(argv[1]); i++) {
		target = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(target, (struct sockaddr *)&address, size);
		close(target);
		returned++;
	}
	over = 1;
	printf("{\"try\": \"race\", \"errno\": null, \"value\": %d}\n", returned);
	fflush(stdout);
	_exit(0);
}
