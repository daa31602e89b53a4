/* many fork|thread MOST: live children or threads until the kernel refuses or MOST is reached, then `held` until stdin ends.
 * many churn COUNT: COUNT children, each born, dead and reaped. many litter COUNT: the same, never waited for.
 * C, because a Python child is slow to make and its thread error hides the errno. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *idle(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

static int one_child(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent) /* it may have ended before the prctl */
			pause();
		_exit(0);
	}
	return pid < 0 ? errno : 0;
}

static int one_thread(void)
{
	pthread_attr_t small;
	pthread_t thread;
	int error;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	error = pthread_create(&thread, &small, idle, NULL);
	pthread_attr_destroy(&small);
	return error;
}

static int one_dead_child(int wait_for_it)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	return wait_for_it && waitpid(pid, NULL, 0) != pid ? errno : 0;
}

int main(int argc, char **argv)
{
	int made = 0, error = 0, most;

	if (argc != 3)
		return 2;
	most = atoi(argv[2]);
	while (made < most && error == 0) {
		if (strcmp(argv[1], "fork") == 0)
			error = one_child();
		else if (strcmp(argv[1], "thread") == 0)
			error = one_thread();
		else
			error = one_dead_child(strcmp(argv[1], "churn") == 0);
		made += error == 0;
	}
	printf("{\"try\": \"%s\", \"errno\": %s, \"value\": %d}\n", argv[1],
	       error == 0 ? "null" : error == EAGAIN ? "\"EAGAIN\"" : "\"other\"", made);
	fflush(stdout);
	if (strcmp(argv[1], "fork") == 0 || strcmp(argv[1], "thread") == 0) {
		char byte;

		while (read(0, &byte, 1) > 0)
			;
	}
	return 0;
}
