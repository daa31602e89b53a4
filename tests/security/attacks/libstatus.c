/* Preloaded into a setuid program: says which program this is and what it holds, then ends it before main.
 * The loader ignores LD_PRELOAD when an exec gained privileges, so that this speaks at all is evidence too. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

__attribute__((constructor)) static void say_status(void)
{
	char line[512], program[512] = "";
	FILE *status = fopen("/proc/self/status", "r");
	ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

	if (status == NULL || length < 0)
		_exit(3);
	printf("{\"try\": \"setuid exec\", \"errno\": null, \"value\": {\"program\": \"%s\", \"secure\": \"%lu\"", program,
	       getauxval(AT_SECURE));
	while (fgets(line, sizeof line, status) != NULL) {
		char *value = strchr(line, ':');

		if (value == NULL || (strncmp(line, "Cap", 3) != 0 && strncmp(line, "NoNewPrivs", 10) != 0))
			continue;
		*value = 0;
		value[strcspn(value + 1, "\n") + 1] = 0;
		printf(", \"%s\": \"%s\"", line, value + 2);
	}
	printf("}}\n");
	fflush(stdout);
	_exit(0);
}
