/* busy PORT ROUNDS THREADS HERTZ: every thread connects and closes ROUNDS times, each call done on behalf, while a timer
 * interrupts the process HERTZ times a second. Says how many connects succeeded. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct sockaddr_in address = {.sin_family = AF_INET};
static int rounds, done;

static void tick(int number)
{
	(void)number;
}

static void *dial(void *unused)
{
	(void)unused;
	for (int i = 0; i < rounds; i++) {
		struct linger at_once = {1, 0};
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
			__atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
		close(fd);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[256];
	int n, hertz, i;

	if (argc != 5)
		return 2;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(atoi(argv[1]));
	rounds = atoi(argv[2]);
	n = atoi(argv[3]);
	hertz = atoi(argv[4]);
	if (hertz) {
		struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
		struct itimerval often = {{0, 1000000 / hertz}, {0, 1000000 / hertz}};

		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &often, NULL);
	}
	for (i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, dial, NULL);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("{\"try\": \"busy\", \"errno\": null, \"value\": %d}\n", done);
	return 0;
}
