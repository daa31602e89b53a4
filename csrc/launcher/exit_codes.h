/* The exit codes of the command, as in pysandbox/exit_codes.py: a shell's, as env(1) and timeout(1) have them. */
#ifndef PSB_LAUNCHER_EXIT_CODES_H
#define PSB_LAUNCHER_EXIT_CODES_H

#define OUT_OF_TIME 124
#define OUR_FAILURE 125
#define NOT_EXECUTABLE 126
#define NOT_FOUND 127
#define BY_SIGNAL 128 /* and the number of the signal */

#endif
