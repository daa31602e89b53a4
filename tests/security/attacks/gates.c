/* gates i386|x32: getpid through another system call table of the same kernel. C, because it needs the instruction. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define X32_BIT 0x40000000L

int main(int argc, char **argv)
{
	long answer;

	if (argc != 2)
		return 2;
	if (strcmp(argv[1], "x32") == 0) {
		answer = syscall(X32_BIT | SYS_getpid);
	} else {
#ifdef __x86_64__
		__asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
#else
		return 3;
#endif
	}
	printf("{\"try\": \"%s\", \"errno\": null, \"value\": %ld}\n", argv[1], answer);
	return 0;
}
